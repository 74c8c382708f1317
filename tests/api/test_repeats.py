"""Requests with an `Idempotency-Key`, sent again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.http import HttpResponse
from django.utils import timezone

from memory.models import Agent, IdempotentAnswer, Message, Run, Thread
from memory.sandbox import Sandbox
from memory.services.idempotency import forget_old_answers
from tests import make
from tests.api.callers import Caller, problem

TURN = {"messages": "Hello!", "thread_id": "t", "resource_id": "ada"}


def send(caller: Caller, path: str, body: Any, key: str = "k-1") -> HttpResponse:
    data = msgspec.json.encode(body)
    return caller.client.generic(
        "POST", f"/api{path}", data, content_type="application/json", headers={"Idempotency-Key": key}
    )


def whole(response: Any) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else response.content


class TestRepeats:
    def test_of_a_create_get_the_first_answer(self, caller: Caller) -> None:
        first, second = (send(caller, "/threads", {"resource_id": "ada"}) for _ in range(2))
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.content == second.content
        assert "Idempotent-Replayed" not in first.headers
        assert second.headers["Idempotent-Replayed"] == "true"
        assert Thread.objects.count() == 1

    def test_of_an_append_append_nothing(self, caller: Caller) -> None:
        thread = make.make_thread("ada")
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        answers = [send(caller, f"/threads/{thread.id}/messages", body).content for _ in range(3)]
        assert len(set(answers)) == 1
        assert Message.objects.count() == 1

    @pytest.mark.parametrize("how", ["generate", "stream", "prepare"])
    def test_of_a_run_run_nothing(
        self, caller: Caller, agent: Agent, sandbox: Sandbox, how: str, transactional_db: None
    ) -> None:
        first = send(caller, "/agents/plain/" + how, TURN)
        told = whole(first)
        second = send(caller, "/agents/plain/" + how, TURN)
        assert first.status_code == second.status_code == 200, told
        assert whole(second) == told
        assert second.headers["Idempotent-Replayed"] == "true"
        assert Run.objects.count() == 1

    def test_with_another_body_or_address_are_refused(self, caller: Caller) -> None:
        assert send(caller, "/threads", {"resource_id": "ada"}).status_code == 201
        for path, body in (("/threads", {"resource_id": "bob"}), ("/agents", {"resource_id": "ada"})):
            problem(send(caller, path, body), 422, "idempotency_mismatch", "Idempotency-Key")
        assert Thread.objects.count() == 1

    def test_while_the_first_is_under_way_are_refused(self, caller: Caller, working: Callable[..., None]) -> None:
        working(timedelta(minutes=1))
        problem(send(caller, "/threads", {"resource_id": "ada"}), 409, "idempotency_running")
        assert not Thread.objects.exists()

    def test_after_the_first_was_lost_do_the_work(self, caller: Caller, working: Callable[..., None]) -> None:
        working(timedelta(minutes=-1))
        assert send(caller, "/threads", {"resource_id": "ada"}).status_code == 201

    @pytest.fixture
    def working(self, caller: Caller) -> Callable[..., None]:
        """Make it look as if the process that answers the first request still works on it."""

        def begin(left: timedelta) -> None:
            send(caller, "/threads", {"resource_id": "ada"})
            Thread.objects.all().delete()
            IdempotentAnswer.objects.update(status=None, held_until=timezone.now() + left)

        return begin

    def test_of_what_was_refused_are_looked_at_afresh(self, caller: Caller) -> None:
        problem(send(caller, "/threads", {"resource_id": ""}), 422, "invalid_input", "resource_id")
        assert send(caller, "/threads", {"resource_id": "ada"}).status_code == 201

    def test_of_a_failed_run_get_its_failure(self, caller: Caller, agent: Agent, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=400, body={"type": "error", "error": {"message": "no"}})
        first, second = (send(caller, "/agents/plain/generate", TURN) for _ in range(2))
        run_id = problem(first, 502, "run_failed")["run_id"]
        assert second.content == first.content
        assert [run.id for run in Run.objects.all()] == [run_id]

    def test_of_somebody_else_are_no_repeats(self, caller: Caller) -> None:
        assert send(caller, "/threads", {"resource_id": "ada"}).status_code == 201
        other = Caller(make.make_key())
        assert "Idempotent-Replayed" not in send(other, "/threads", {"resource_id": "ada"}).headers
        assert Thread.objects.count() == 2

    def test_with_a_new_token_of_the_same_resource_are_repeats(self, caller: Caller) -> None:
        ada = [Caller(caller.post("/tokens", {"resource_id": "ada"})["key"]) for _ in range(2)]
        bob = Caller(caller.post("/tokens", {"resource_id": "bob"})["key"])
        first, second, other = (send(each, "/threads", {}).json() for each in (*ada, bob))
        assert first == second
        assert other["resource_id"] == "bob"

    def test_are_forgotten_after_a_day(self, caller: Caller) -> None:
        send(caller, "/threads", {"resource_id": "ada"})
        IdempotentAnswer.objects.update(created_at=timezone.now() - timedelta(hours=24))
        assert send(caller, "/threads", {"resource_id": "bob"}).status_code == 201
        IdempotentAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
        assert forget_old_answers() == 1

    @pytest.mark.parametrize("key", ["", "x" * 256])
    def test_need_a_key_that_can_be_one(self, caller: Caller, key: str) -> None:
        problem(send(caller, "/threads", {"resource_id": "ada"}, key), 422, "invalid_input", "Idempotency-Key")

    def test_are_told_nothing_without_the_scope_or_a_key(self, caller: Caller, nobody: Caller) -> None:
        send(caller, "/threads", {"resource_id": "ada"})
        problem(send(nobody, "/threads", {"resource_id": "ada"}), 401, "unauthorized")
        reader = Caller(make.make_key(scopes=("read",)))
        problem(send(reader, "/threads", {"resource_id": "ada"}), 403, "forbidden")
