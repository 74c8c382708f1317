from typing import Any

import msgspec
import pytest
from django.test import Client

from memory.check import check
from memory.messages.names import ModelRef
from memory.models import Agent, Message, Run, Thread
from memory.store import DjangoStorage
from tests import make
from tests.api.callers import Caller, problem

CLAUDE = {"provider": "anthropic", "model": "claude-sonnet-4-5"}
CHARSET = "anthropic-tool-id-charset"


def history(call_id: str = "call:1.a") -> list[dict[str, Any]]:
    """A turn whose tool id Claude refuses unless another one is given."""
    call = make.tool_call(call_id, "result", result="at noon")
    return [make.text("When?", id="m1"), make.message(call, id="m2"), make.text("And back?", id="m3")]


class TestCheck:
    def test_tells_every_fault_of_a_thread(self, caller: Caller) -> None:
        thread = make.make_thread()
        make.add_messages(thread, *history())
        before = list(Message.objects.values())
        found = caller.post("/check", {"thread_id": thread.id, **CLAUDE}, status=200)
        (finding,) = found.pop("findings")
        assert found == {**CLAUDE, "protocol": "anthropic-messages", "breaks": True}
        assert finding.pop("reason")
        assert finding == {
            "rule": CHARSET,
            "family": "",
            "severity": "breaks",
            "loss": "same",
            "message": 2,
            "message_id": "m2",
            "role": "assistant",
            "place": "/1/content/parts/0",
        }
        assert list(Message.objects.values()) == before
        assert not Run.objects.exists()

    def test_says_what_the_command_says(self, caller: Caller) -> None:
        thread = make.make_thread()
        make.add_messages(thread, *history(), make.message(make.tool_call("late", "call"), id="m4"))
        stored = DjangoStorage().load_messages(thread.id, None, last=None)
        told = check(thread.id, stored, ModelRef("mistral", "mistral-large-latest"))
        body = {"thread_id": thread.id, "provider": "mistral", "model": "mistral-large-latest"}
        found = caller.post("/check", body, status=200)["findings"]
        names = ("rule", "severity", "loss", "message", "role", "place", "reason")
        assert [[one[name] for name in names] for one in found] == [
            [getattr(one, name) for name in names] for one in told
        ]
        assert len(found) > 2

    def test_finds_nothing_where_all_is_well(self, caller: Caller) -> None:
        found = caller.post("/check", {"messages": history("call_1"), **CLAUDE}, status=200)
        assert (found["breaks"], found["findings"]) == (False, [])

    @pytest.mark.parametrize(
        "messages",
        [
            history(),
            {
                "format": "openai-chat",
                "body": {
                    "messages": [
                        {"role": "user", "content": "When?"},
                        {
                            "role": "assistant",
                            "tool_calls": [
                                {"id": "a:b", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                            ],
                        },
                        {"role": "tool", "tool_call_id": "a:b", "content": "at noon"},
                    ]
                },
            },
        ],
    )
    def test_takes_messages_in_every_form(self, caller: Caller, messages: Any) -> None:
        found = caller.post("/check", {"messages": messages, **CLAUDE}, status=200)
        assert CHARSET in {one["rule"] for one in found["findings"]}
        assert not Thread.objects.exists() and not Message.objects.exists()

    def test_goes_by_an_agent(self, caller: Caller, agent: Agent) -> None:
        """Its model, its instructions, and its tools: an older Claude wants some declared where the history calls."""
        Agent.objects.update(model="anthropic/claude-3-haiku-20240307", tools=[])
        body = {"messages": history("call_1"), "agent_id": "plain"}
        found = caller.post("/check", body, status=200)
        assert (found["model"], [one["rule"] for one in found["findings"]]) == (
            "claude-3-haiku-20240307",
            ["anthropic-tools-missing"],
        )
        assert (found["findings"][0]["message"], found["findings"][0]["place"]) == (0, "")
        Agent.objects.update(tools=[{"name": "timetable", "parameters": {"type": "object"}}])
        assert caller.post("/check", body, status=200)["findings"] == []

    def test_goes_by_the_tools_that_came_with_a_body(self, caller: Caller) -> None:
        tool = {"name": "timetable", "input_schema": {"type": "object"}}
        use = {"type": "tool_use", "id": "t1", "name": "timetable", "input": {}}
        sent = {
            "messages": [
                {"role": "user", "content": "When?"},
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "at noon"}]},
            ]
        }
        target = {"provider": "anthropic", "model": "claude-3-haiku-20240307"}
        for body, rules in ((sent, ["anthropic-tools-missing"]), ({**sent, "tools": [tool]}, [])):
            given = {"format": "anthropic-messages", "body": body}
            found = caller.post("/check", {"messages": given, **target}, status=200)
            assert [one["rule"] for one in found["findings"]] == rules

    def test_a_named_model_goes_before_the_agents(self, caller: Caller, agent: Agent) -> None:
        found = caller.post("/check", {"messages": history(), "agent_id": "plain", **CLAUDE}, status=200)
        assert found["model"] == "claude-sonnet-4-5"

    def test_is_open_to_a_key_that_may_only_read(self, db: None) -> None:
        reader = Caller(make.make_key(scopes=("read",)))
        reader.post("/check", {"messages": history(), **CLAUDE}, status=200)

    def test_another_resources_thread_looks_absent(self, caller: Caller) -> None:
        thread = make.make_thread(owner="somebody")
        make.add_messages(thread, *history())
        stranger = Caller(make.make_key("somebody-else", scopes=("read",)))
        foreign = problem(stranger.send("POST", "/check", {"thread_id": thread.id, **CLAUDE}), 404, "not_found")
        absent = problem(stranger.send("POST", "/check", {"thread_id": "nothing", **CLAUDE}), 404, "not_found")
        assert foreign["detail"].replace(thread.id, "nothing") == absent["detail"]
        owner = Caller(make.make_key("somebody", scopes=("read",)))
        assert owner.post("/check", {"thread_id": thread.id, **CLAUDE}, status=200)["breaks"] is True

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({**CLAUDE}, ["thread_id", "messages"]),
            ({**CLAUDE, "thread_id": "t", "messages": []}, ["thread_id", "messages"]),
            ({"messages": []}, ["provider"]),
            ({"messages": [], "model": "gpt-4o"}, ["provider"]),
            ({"messages": [], "provider": "openai"}, ["model"]),
            ({"messages": [], "provider": "opnai", "model": "gpt-4o"}, ["provider"]),
            ({**CLAUDE, "messages": {"format": "telegram", "body": {}}}, ["format"]),
            ({**CLAUDE, "messages": [5]}, ["messages[0]"]),
            ({**CLAUDE, "messages": [{"role": "robot", "content": "hi"}]}, ["messages[0].role"]),
            ({**CLAUDE, "messages": [], "colour": 1}, ["colour"]),
        ],
    )
    def test_is_refused_with_the_place(self, caller: Caller, body: Any, fields: list[str]) -> None:
        response = caller.send("POST", "/check", body)
        problem(response, 422, msgspec.json.decode(response.content)["code"], *fields)

    @pytest.mark.parametrize("body", [{"thread_id": "\x00", **CLAUDE}, {"messages": [], "agent_id": "no"}])
    def test_finds_nothing_where_nothing_is(self, caller: Caller, body: Any) -> None:
        problem(caller.send("POST", "/check", body), 404, "not_found")


def test_the_example_in_the_document_is_a_real_one(client: Client, caller: Caller) -> None:
    document = msgspec.json.decode(client.get("/api/openapi.json").content)
    described = document["paths"]["/api/check"]["post"]
    asked = described["requestBody"]["content"]["application/json"]["example"]
    answered = described["responses"]["200"]["content"]["application/json"]["example"]
    make.add_messages(
        make.make_thread(id=asked["thread_id"]), *[{**m, "id": m["id"].replace("m", "m-")} for m in history()]
    )
    assert caller.post("/check", asked, status=200) == answered
