"""Reports about calls made elsewhere, cancelling, and threads that are busy, as callers of the API meet them."""

import json
from typing import Any

import pytest

from memory.models import Agent, Attempt, Run
from memory.sandbox import Sandbox
from tests.api.callers import Caller, answer, problem

OK = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "To Bergen."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}


@pytest.fixture
def run_id(caller: Caller, agent: Agent, sandbox: Sandbox) -> str:
    """A prepared run of thread t."""
    caller.patch("/agents/plain", {"error_processors": ["stream-error-retry-processor"]})
    body = {"messages": "Where to?", "resource_id": "user-1", "thread_id": "t"}
    return str(caller.post("/agents/plain/prepare", body, status=200)["run_id"])


class TestReports:
    def test_of_a_reply_end_the_run(self, caller: Caller, run_id: str) -> None:
        told = caller.post(f"/runs/{run_id}/reply", {"reply": OK, "headers": {"request-id": "req_1"}}, status=200)
        assert (told["status"], told["retry"], told["result"]["text"]) == ("succeeded", False, "To Bergen.")
        assert "request" not in told
        found = caller.get(f"/runs/{run_id}")
        (attempt,) = found["attempts"]
        assert (attempt["decision"], attempt["provider_request_id"], attempt["response"]["body"]) == (
            "answered",
            "req_1",
            OK,
        )
        assert [m["role"] for m in caller.get("/threads/t/messages")["items"]] == ["user", "assistant"]

    def test_of_an_error_say_what_to_send_when(self, caller: Caller, run_id: str) -> None:
        body = {"status": 429, "headers": {"Retry-After": "3"}, "body": "slow down"}
        told = caller.post(f"/runs/{run_id}/error", body, status=200)
        assert (told["retry"], told["delay_ms"], told["attempt"], told["status"]) == (True, 3000, 2, "running")
        assert told["request"]["body"]["messages"][0]["content"][0]["text"] == "Where to?"
        assert "result" not in told
        open_one = caller.get(f"/runs/{run_id}")["attempts"][1]
        assert (open_one["decision"], open_one["finished_at"]) == ("open", None)

    def test_that_fit_no_open_attempt_are_409(self, caller: Caller, run_id: str) -> None:
        found = problem(
            caller.send("POST", f"/runs/{run_id}/reply", {"reply": OK, "attempt": 4}), 409, "no_open_attempt"
        )
        assert "attempt 1 is" in found["detail"]
        caller.post(f"/runs/{run_id}/reply", {"reply": OK}, status=200)
        found = problem(caller.send("POST", f"/runs/{run_id}/error", {"status": 500}), 409, "no_open_attempt")
        assert found["run_id"] == run_id
        assert Attempt.objects.get().decision == "answered"

    @pytest.mark.parametrize(
        ("path", "body", "field"),
        [
            ("reply", {}, "reply"),
            ("reply", {"reply": "text"}, "reply"),
            ("reply", {"reply": OK, "messages": []}, "reply"),
            ("reply", {"messages": [{"role": "user", "content": "hi"}]}, "messages"),
            ("reply", {"reply": OK, "status": 7}, "status"),
            ("error", {"status": "many"}, "status"),
            ("error", {"colour": 1}, "colour"),
        ],
    )
    def test_that_are_none_change_nothing(
        self, caller: Caller, run_id: str, path: str, body: dict[str, Any], field: str
    ) -> None:
        problem(caller.send("POST", f"/runs/{run_id}/{path}", body), 422, "invalid_input", field)
        assert Attempt.objects.get().decision == "open"

    def test_of_a_foreign_run_find_none(self, outsider: Caller, run_id: str) -> None:
        for path in ("reply", "error", "cancel"):
            body = {"reply": OK} if path == "reply" else {}
            problem(outsider.send("POST", f"/runs/{run_id}/{path}", body), 404, "not_found")
        assert Attempt.objects.get().decision == "open"


class TestBusyThread:
    def test_is_409_with_the_run_in_the_way(self, caller: Caller, run_id: str) -> None:
        for path in ("generate", "prepare", "stream"):
            body = {"messages": "And?", "resource_id": "user-1", "thread_id": "t"}
            found = problem(caller.send("POST", f"/agents/plain/{path}", body), 409, "run_active")
            assert found["run_id"] == run_id
        assert Run.objects.count() == 1

    def test_takes_queued_ones_in_the_background(self, caller: Caller, run_id: str) -> None:
        body = {"messages": "And?", "thread_id": "t", "background": True, "when_busy": "queue"}
        response = caller.send("POST", "/agents/plain/generate", body)
        queued = answer(response, 202)
        assert response.headers["Location"] == f"/api/runs/{queued['run_id']}"
        assert caller.get(f"/runs/{queued['run_id']}")["status"] == "queued"

    def test_is_free_again_after_a_cancel(self, caller: Caller, run_id: str, sandbox: Sandbox) -> None:
        assert caller.post(f"/runs/{run_id}/cancel", {}, status=200) == {"run_id": run_id, "status": "cancelled"}
        problem(caller.send("POST", f"/runs/{run_id}/cancel"), 409, "run_over")
        body = {"messages": "And?", "thread_id": "t"}
        assert caller.post("/agents/plain/generate", body, status=200)["status"] == "succeeded"


class TestFallbackModels:
    def test_are_kept_in_order(self, caller: Caller) -> None:
        models = ["openai/gpt-4o", "mistral/mistral-large"]
        made = caller.post("/agents", {"name": "A", "model": "anthropic/claude-sonnet-4-5", "fallback_models": models})
        assert made["fallback_models"] == models
        assert "33 provider calls" in made["worst_case"]

    @pytest.mark.parametrize(
        ("given", "field"),
        [("openai/gpt-4o", "fallback_models"), (["gpt-4o"], "fallback_models[0]"), ([1], "fallback_models[0]")],
    )
    def test_are_models(self, caller: Caller, given: Any, field: str) -> None:
        body = {"name": "A", "model": "anthropic/claude-sonnet-4-5", "fallback_models": given}
        response = caller.send("POST", "/agents", body)
        assert response.status_code == 422
        assert json.loads(response.content)["errors"][0]["field"] == field


def test_an_open_attempt_is_shown_to_operators(caller: Caller, run_id: str, client: Any) -> None:
    from django.contrib.auth.models import User

    client.force_login(User.objects.create_superuser("op"))
    shown = client.get(f"/runs/{run_id}/").content.decode()
    assert "Its caller makes call 1" in shown
    assert "Cancel" in shown
    client.post(f"/runs/{run_id}/cancel/")
    assert Run.objects.get().status == "cancelled"
    assert "It was cancelled." in client.get(f"/runs/{run_id}/").content.decode()
