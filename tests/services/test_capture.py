"""What the ledger keeps of a call is the agent's choice; keys it keeps of none."""

from typing import Any

import msgspec
import pytest
from django.apps import apps
from django.db import connection

from memory import queries
from memory.errors import InvalidInput, RunFailed
from memory.models import Attempt, Fragment, Provider, Run
from memory.sandbox import Sandbox
from memory.services import agents, runs
from memory.services.ledger import shown_headers
from memory.services.runs import GenerateRequest, generate
from tests.make import add_messages, caller, make_thread, message, streamed, text, tool_call

KEY = "sk-secret-0123456789abcdef"
BLANK = message({"type": "text", "text": ""}, {"type": "text", "text": "said"}, id="blank")


def agent_with(capture: str) -> str:
    values = {"id": "plain", "name": "Plain", "model": "anthropic/claude-sonnet-4-5", "settings": {"max_tokens": 90}}
    return agents.create_agent(caller(), {**values, "capture": capture}).id


def turn(capture: str) -> Attempt:
    """The attempt of a turn in which a rule had something to change."""
    thread = make_thread("u-1", id="t-1")
    call = tool_call("call:1.a", "result", result="packed")
    add_messages(thread, text("before"), message(call, {"type": "text", "text": "It is."}, id="foreign"))
    result = generate(caller(), agent_with(capture), GenerateRequest(messages="the question", thread_id="t-1"))
    return Attempt.objects.get(run_id=result.run_id)


class TestCapture:
    def test_full_keeps_all(self, sandbox: Sandbox) -> None:
        attempt = turn("full")
        found = queries.attempt_bodies(attempt.run_id, 1)
        assert b"the question" in found.sent.content
        assert b"You said" in found.came
        setup = msgspec.json.decode(found.setup)
        assert setup["agent"]["model"] == "anthropic/claude-sonnet-4-5"
        assert msgspec.json.decode(queries.attempts_of(attempt.run_id)[0].changes)

    @pytest.mark.parametrize(("capture", "has_changes"), [("changes", True), ("off", False)])
    def test_less_keeps_size_hash_and_decision(self, sandbox: Sandbox, capture: str, has_changes: bool) -> None:
        attempt = turn(capture)
        (arrived,) = sandbox.requests()
        found = queries.attempt_bodies(attempt.run_id, 1)
        assert (found.sent.content, found.came, found.setup) == (b"", b"", b"")
        assert (found.is_sent_kept, found.is_came_kept) == (False, False)
        assert attempt.request_size == arrived["size_bytes"]
        assert (len(attempt.request_sha256), attempt.response_size > 0) == (64, True)
        assert (attempt.decision, attempt.status) == ("answered", 200)
        assert (attempt.changes != "[]") is has_changes
        assert not Fragment.objects.exists()

    def test_is_full_unless_said_otherwise(self, sandbox: Sandbox) -> None:
        agent = agents.create_agent(caller(), {"name": "A", "model": "anthropic/claude-sonnet-4-5"})
        assert agent.capture == "full"
        assert agents.update_agent(caller(), agent.id, {"capture": "off"}).capture == "off"
        with pytest.raises(InvalidInput, match="full, changes, off"):
            agents.update_agent(caller(), agent.id, {"capture": "some"})

    def test_many_changes_are_shared_between_turns(self, sandbox: Sandbox) -> None:
        thread = make_thread("u-1", id="t-1")
        calls = [message(tool_call(f"call:{i}.a", "result", result="packed"), id=f"m{i}") for i in range(120)]
        add_messages(thread, *(one for i, call in enumerate(calls) for one in (text(f"q{i}"), call)))
        lists = [{"id": "message-history", "options": {"lastMessages": False}}, "provider-history-compat"]
        agent_id = agent_with("full")
        agents.update_agent(caller(), agent_id, {"input_processors": lists})
        seen = []
        for _ in range(2):
            before = sum(len(bytes(data)) for data in Fragment.objects.values_list("data", flat=True))
            made = generate(caller(), agent_id, GenerateRequest(messages="and?", thread_id="t-1"))
            after = sum(len(bytes(data)) for data in Fragment.objects.values_list("data", flat=True))
            seen.append((len(queries.attempts_of(made.run_id)[0].changes), after - before))
        assert seen[1][0] > 30_000
        assert seen[1][1] < 5000 < seen[0][1]


class TestStreams:
    def test_keep_what_came(self, sandbox: Sandbox, transactional_db: None) -> None:
        run = streamed(agent_with("full"), messages="hello", thread_id="t-1")
        runs.wait_until_over(run.id)
        came = queries.attempt_bodies(run.id, 1).came
        assert came.startswith(b"event: message_start")
        assert came.rstrip().endswith(b'data: {"type":"message_stop"}')

    def test_keep_what_had_come_before_they_broke(self, sandbox: Sandbox, transactional_db: None) -> None:
        sandbox.script("anthropic", drop="mid")
        run = streamed(agent_with("full"), messages="hello", thread_id="t-1")
        runs.wait_until_over(run.id)
        came = queries.attempt_bodies(run.id, 1)
        assert came.came.startswith(b"event: message_start")
        assert b"message_stop" not in came.came


class TestKeys:
    def test_are_in_no_row_whatever_the_provider_says(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, transactional_db: None
    ) -> None:
        monkeypatch.setenv("LEDGER_TEST_KEY", KEY)
        Provider.objects.filter(id="anthropic").update(
            base_url=f"{sandbox.url}/anthropic/v1",
            key_ref="env:LEDGER_TEST_KEY",
            headers={"x-portkey-secret": KEY, "x-note": f"for {KEY}", "x-team": "blue"},
        )
        agent_id = agent_with("full")
        echo = {"content-type": "application/json", "x-echo": KEY, "authorization": KEY}
        sandbox.script("anthropic", status=400, headers=echo, body={"error": {"message": f"bad key {KEY}"}})
        with pytest.raises(RunFailed):
            generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        sandbox.script("anthropic", headers={"x-echo": KEY}, pieces=7)
        run = streamed(agent_id, messages="hello", thread_id="t-2")
        runs.wait_until_over(run.id)
        headers = Attempt.objects.values_list("request_headers", flat=True)[0]
        assert (headers["x-portkey-secret"], headers["x-note"], headers["x-team"]) == ("[hidden]", "for [key]", "blue")
        assert Run.objects.get(id=run.id).status == "succeeded"
        swept = "".join(every_value())
        assert "hello" in swept
        assert KEY not in swept

    @pytest.mark.parametrize(
        ("name", "is_shown"),
        [
            ("content-type", True),
            ("anthropic-version", True),
            ("x-ratelimit-remaining-tokens", True),
            ("retry-after", True),
            ("Authorization", False),
            ("X-Goog-Api-Key", False),
            ("set-cookie", False),
            ("cf-access-client-secret", False),
            ("helicone-auth", False),
        ],
    )
    def test_headers_are_shown_unless_their_name_says_secret(self, name: str, is_shown: bool) -> None:
        assert (shown_headers({name: "value"})[name] == "value") is is_shown


def every_value() -> list[str]:
    """Every value of every row of the ledger, fragments and bodies unpacked."""
    out = []
    for name in ("run", "runevent", "attempt", "fragment", "message", "thread", "job"):
        table = apps.get_model("memory", name)._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {table}")
            rows: list[tuple[Any, ...]] = cursor.fetchall()
        out += [
            bytes(value).decode("latin-1") if isinstance(value, bytes | memoryview) else str(value)
            for row in rows
            for value in row
        ]
    for run_id in Run.objects.values_list("id", flat=True):
        for found in queries.bodies_of(run_id).values():
            out += [part.decode("latin-1") for part in (found.sent.content, found.came, found.setup)]
    return out
