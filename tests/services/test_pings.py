"""Tests of a connection against the sandbox: what is sent, what the answer says, and that no key is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection as database

from memory.errors import InvalidInput, NotFound, ProviderError
from memory.messages.names import ModelRef
from memory.models import AuditEvent, Job, Provider
from memory.providers.http import Client
from memory.sandbox import Sandbox
from memory.services import jobs
from memory.services.job_kinds import KINDS, connection_test, start_connection_test
from memory.services.pings import Ping, outcome_of, ping
from tests.make import caller

CLAUDE = ModelRef("anthropic", "claude-sonnet-4-5")
SECRET = "sk-very-secret-key"


@pytest.fixture
def own(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """The sandbox as somebody's own connection, with a key and a header."""
    monkeypatch.setenv("PING_KEY", SECRET)
    Provider.objects.filter(id="anthropic").update(
        base_url=f"{sandbox.url}/anthropic/v1", key_ref="env:PING_KEY", headers={"x-team": "the-shop-team"}
    )
    yield sandbox


def pinged(model: ModelRef = CLAUDE) -> Ping:
    with Client() as client:
        return ping(model, client)


def error_of(message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


class TestPing:
    def test_is_one_tiny_call(self, own: Sandbox) -> None:
        found = pinged()
        assert (found.outcome, found.status, found.words) == ("answered", 200, "")
        (seen,) = own.requests("anthropic")
        assert (seen["body"]["max_tokens"], len(seen["body"]["messages"])) == (16, 1)
        assert seen["size_bytes"] < 300

    @pytest.mark.parametrize(
        ("provider", "protocol", "model_id"),
        [
            ("openai", "openai-chat", "gpt-4o"),
            ("openai", "openai-responses", "gpt-5"),
            ("cerebras", "openai-chat", "gpt-oss-120b"),
            ("gemini", "gemini-contents", "gemini-3-flash-preview"),
            ("bedrock", "bedrock-converse", "us.amazon.nova-lite-v1:0"),
            ("cohere", "cohere-v2", "command-a-03-2025"),
            ("mistral", "openai-chat", "mistral-large-latest"),
            ("deepseek", "anthropic-messages", "deepseek-v4-pro"),
        ],
    )
    def test_is_taken_by_every_protocol(self, sandbox: Sandbox, provider: str, protocol: str, model_id: str) -> None:
        Provider.objects.update_or_create(
            id=provider, defaults={"protocol": protocol, "base_url": f"sandbox:{provider}"}
        )
        assert pinged(ModelRef(provider, model_id)).outcome == "answered"

    @pytest.mark.parametrize(
        ("script", "outcome"),
        [
            ({"status": 401}, "key"),
            ({"status": 403}, "key"),
            ({"status": 402, "body": error_of("out of money")}, "account"),
            ({"status": 404, "body": error_of("model: claude")}, "absent"),
            ({"status": 429}, "busy"),
            ({"status": 503}, "failing"),
            ({"status": 400, "body": error_of("no")}, "refused"),
            ({"status": 200, "body": "<html>"}, "unreadable"),
            ({"drop": "before"}, "unreachable"),
        ],
    )
    def test_says_what_is_in_the_way_after_one_call(self, own: Sandbox, script: dict[str, Any], outcome: str) -> None:
        own.script("anthropic", **script)
        found = pinged()
        assert (found.outcome, found.took_s) == (outcome, None)
        assert found.words
        assert len(own.requests("anthropic")) == 1

    def test_is_not_made_without_a_key(self, own: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("PING_KEY")
        assert pinged() == Ping("no call", words="there is no key in env:PING_KEY")
        assert own.requests() == []

    def test_shows_neither_key_nor_header(self, own: Sandbox) -> None:
        own.script("anthropic", status=400, body=error_of(f"{SECRET} of the-shop-team, or sk-ant-api03-another-key"))
        assert pinged().words == "[key] of [key], or [key]"

    def test_knows_a_library_that_is_missing(self) -> None:
        assert outcome_of(ProviderError("install it", error_class="configuration")) == "no call"


class Recorded(Client):
    """Notes whether the database's connection was held while it called."""

    held: bool | None = None

    def stream(self, *args: Any, **more: Any) -> Any:
        self.held = database.connection is not None
        return super().stream(*args, **more)


@pytest.mark.django_db(transaction=True)
def test_holds_no_connection_of_the_database(own: Sandbox) -> None:
    assert Provider.objects.exists() and database.connection is not None
    with Recorded() as client:
        assert ping(CLAUDE, client).outcome == "answered"
        assert client.held is False


class TestJob:
    def test_keeps_what_came_of_it_in_the_place_of_the_last_one(self, own: Sandbox) -> None:
        assert connection_test("anthropic") is None
        for status, outcome in ((401, "key"), (None, "answered")):
            if status:
                own.script("anthropic", status=status)
            job = start_connection_test(caller(), "anthropic", "claude-sonnet-4-5")
            assert (job.status, job.queue, job.made_by) == ("queued", "runs", "tester")
            assert jobs.do_job(job.id, KINDS)
            found = connection_test("anthropic")
            assert found is not None
            assert (found.status, found.result["outcome"]) == ("done", outcome)
        assert Job.objects.count() == 1
        assert [event.detail for event in AuditEvent.objects.filter(action="connection.tested")] == [
            {"model": "anthropic/claude-sonnet-4-5"}
        ] * 2

    def test_that_is_under_way_is_the_one(self, own: Sandbox) -> None:
        first = start_connection_test(caller(), "anthropic", "claude-sonnet-4-5")
        again = start_connection_test(caller(), "anthropic", "claude-opus-4-6")
        assert (again.id, again.arguments) == (first.id, {"model": "anthropic/claude-sonnet-4-5"})
        assert jobs.do_job(first.id, KINDS) and not jobs.do_job(first.id, KINDS)
        assert len(own.requests("anthropic")) == 1

    @pytest.mark.parametrize("model_id", ["", "a b", "x" * 201, "a\nb"])
    def test_needs_a_models_name(self, sandbox: Sandbox, model_id: str) -> None:
        with pytest.raises(InvalidInput, match="as the provider spells it"):
            start_connection_test(caller(), "anthropic", model_id)
        with pytest.raises(NotFound):
            start_connection_test(caller(), "nobody", "x")
        assert not Job.objects.exists()
