"""A provider's error, pasted: its class, who knows it, and what a run would do. Nothing is called or changed."""

from typing import Any

import pytest

from memory.models import Agent, MessageVersion, Run
from memory.sandbox import Sandbox
from memory.services import agents
from tests import make
from tests.api.callers import Caller, problem

BUSY = {
    "provider": "anthropic",
    "status": 429,
    "headers": {"Retry-After": "8"},
    "body": {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many requests"}},
}
BAD_ID = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"


@pytest.fixture
def patient(db: None) -> Agent:
    """An agent that tries again."""
    values = {
        "id": "patient",
        "name": "Patient",
        "model": "anthropic/claude-sonnet-4-5",
        "processors": [
            "message-history",
            "provider-history-compat",
            {"id": "stream-error-retry-processor", "options": {"max_retries": 5}},
        ],
        "max_processor_retries": 2,
    }
    return agents.create_agent(make.caller(), values)


class TestExplained:
    def test_say_class_wait_and_that_nobody_asks_for_a_retry(self, caller: Caller) -> None:
        found = caller.post("/errors/explain", BUSY, status=200)
        assert (found["error"]["class"], found["error"]["retry_after_ms"]) == ("rate-limit", 8000)
        assert found["error"]["message"] == "Too many requests"
        assert found["decision"]["retry"] is False
        assert found["decision"]["reason"]

    def test_say_when_an_agent_tries_again_and_that_it_gives_up_in_the_end(
        self, caller: Caller, patient: Agent
    ) -> None:
        decisions = [
            caller.post("/errors/explain", {**BUSY, "agent_id": "patient", "times": times}, status=200)["decision"]
            for times in (1, 2, 3, 9)
        ]
        assert [decision["retry"] for decision in decisions] == [True, True, False, False]
        assert (decisions[0]["delay_ms"], decisions[0]["wanted_ms"]) == (8000, 8000)
        assert decisions[0]["asked_by"] == "stream-error-retry-processor"
        assert "budget" in decisions[2]["reason"]

    def test_name_the_rules_that_know_the_words_and_their_switch(self, caller: Caller) -> None:
        body = {"provider": "anthropic", "status": 400, "body": {"error": {"message": BAD_ID}}}
        rules = caller.post("/errors/explain", body, status=200)["rules"]
        assert rules and all(rule["state"] == "on" for rule in rules)
        name = rules[0]["id"]
        caller.patch(f"/rules/{name}", {"state": "off", "provider": "anthropic"})
        assert caller.post("/errors/explain", body, status=200)["rules"][0] == {**rules[0], "state": "off"}

    def test_show_the_cure_on_a_thread_and_leave_it_alone(self, caller: Caller) -> None:
        thread = make.make_thread("ada")
        make.add_messages(
            thread,
            make.text("When does it leave?"),
            make.message(make.tool_call("call.1", "result", result="09:00"), id="m"),
        )
        caller.patch("/rules/anthropic-tool-id-charset", {"state": "off"})
        body = {"provider": "anthropic", "status": 400, "body": {"error": {"message": BAD_ID}}, "thread_id": thread.id}
        before = caller.get(f"/threads/{thread.id}/messages")
        found = caller.post("/errors/explain", body, status=200)
        assert found["decision"]["retry"] is True
        assert caller.get(f"/threads/{thread.id}/messages") == before
        assert not MessageVersion.objects.exists() and not Run.objects.exists()

    def test_call_nobody(self, caller: Caller, sandbox: Sandbox, patient: Agent) -> None:
        caller.post("/errors/explain", {**BUSY, "agent_id": "patient"}, status=200)
        assert not sandbox.requests()

    def test_do_as_a_run_does(self, caller: Caller, sandbox: Sandbox, patient: Agent) -> None:
        body = {"type": "error", "error": {"type": "overloaded_error"}}
        sandbox.script("anthropic", status=529, body=body, times=9)
        told = {"provider": "anthropic", "status": 529, "body": body}
        caller.send("POST", "/agents/patient/generate", {"messages": "hi", "resource_id": "ada"})
        attempts = caller.get(f"/runs/{Run.objects.get().id}")["attempts"]
        for attempt in attempts:
            pasted = {**told, "agent_id": "patient", "times": attempt["number"]}
            decision = caller.post("/errors/explain", pasted, status=200)["decision"]
            assert decision["retry"] == (attempt["decision"] == "retry")
            assert (decision["reason"], decision["asked_by"]) == (attempt["reason"], attempt["asked_by"])
            assert decision["delay_ms"] == attempt["delay_granted_ms"]

    @pytest.mark.parametrize(
        ("change", "status", "code", "fields"),
        [
            ({"status": 200}, 422, "invalid_input", ["status"]),
            ({"status": 999}, 422, "invalid_input", ["status"]),
            ({"times": 0}, 422, "invalid_input", ["times"]),
            ({"provider": "nobody"}, 422, "invalid_input", ["provider"]),
            ({"agent_id": "nobody"}, 404, "not_found", []),
            ({"thread_id": "foreign"}, 404, "not_found", []),
        ],
    )
    def test_that_can_not_be_are_refused(
        self, outsider: Caller, change: dict[str, Any], status: int, code: str, fields: list[str]
    ) -> None:
        make.make_thread("ada", id="foreign")
        problem(outsider.send("POST", "/errors/explain", {**BUSY, **change}), status, code, *fields)

    @pytest.mark.parametrize("body", ["", "<html>Bad gateway</html>", "\u0000", [1, [2]], {}, {"error": None}])
    @pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini", "bedrock", "cohere", "azure", "other"])
    def test_bear_any_body_of_any_provider(self, caller: Caller, provider: str, body: Any) -> None:
        pasted = {"provider": provider, "status": 502, "body": body}
        assert caller.post("/errors/explain", pasted, status=200)["error"]["class"]
