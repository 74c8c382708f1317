from typing import Any

import msgspec
import pytest

from memory.models import Agent, Message, Run, Thread
from tests import make
from tests.api.callers import Caller, problem

CLAUDE = {"provider": "anthropic", "model": "claude-sonnet-4-5"}


def foreign_history() -> list[dict[str, Any]]:
    """A turn with a tool id that Claude refuses."""
    call = make.tool_call("call:1.a", "result", result="at noon")
    return [make.text("When?", id="m1"), make.message(call, id="m2"), make.text("And back?", id="m3")]


class TestPreview:
    def test_shows_the_request_and_every_change(self, caller: Caller) -> None:
        thread = make.make_thread()
        make.add_messages(thread, *foreign_history())
        before = list(Message.objects.values())
        made = caller.post("/preview", {"thread_id": thread.id, **CLAUDE}, status=200)
        assert list(made) == ["provider", "model", "protocol", "prompt", "request", "changes", "findings"]
        assert (made["provider"], made["model"], made["protocol"]) == (
            "anthropic",
            "claude-sonnet-4-5",
            "anthropic-messages",
        )
        request = made["request"]
        assert list(request) == ["method", "url", "headers", "body", "size_bytes"]
        assert request["method"] == "POST"
        assert not {name.lower() for name in request["headers"]} & {"x-api-key", "authorization"}
        assert request["size_bytes"] == len(msgspec.json.encode(request["body"]))
        change = next(change for change in made["changes"] if change["rule"].startswith("anthropic-tool-id"))
        assert list(change) == [
            "number",
            "rule",
            "family",
            "severity",
            "stored",
            "sent",
            "message_id",
            "before",
            "after",
            "reason",
            "loss",
        ]
        assert change["message_id"] == "m2"
        assert change["stored"].startswith("/messages/1")
        assert _at(request["body"], change["sent"])["type"] in ("tool_use", "tool_result")
        assert "call:1.a" not in msgspec.json.encode(request["body"]).decode()
        assert list(Message.objects.values()) == before
        assert not Run.objects.exists()

    def test_changes_with_a_rule_for_this_call_only(self, caller: Caller) -> None:
        body = {"messages": foreign_history(), **CLAUDE, "rules": {"anthropic-tool-id-charset": "report"}}
        made = caller.post("/preview", body, status=200)
        assert "anthropic-tool-id-charset" in {finding["rule"] for finding in made["findings"]}
        assert list(made["findings"][0]) == ["rule", "place", "severity", "reason", "would_do"]
        assert "call:1.a" in msgspec.json.encode(made["request"]["body"]).decode()

    def test_takes_a_list_of_messages_in_either_form(self, caller: Caller) -> None:
        stored = caller.post("/preview", {"messages": [make.text("hi", id="m1")], **CLAUDE}, status=200)
        prompt = caller.post("/preview", {"messages": [{"role": "user", "content": "hi"}], **CLAUDE}, status=200)
        assert stored["request"]["body"] == prompt["request"]["body"]
        assert not Thread.objects.exists() and not Message.objects.exists()

    def test_takes_a_providers_own_body(self, caller: Caller) -> None:
        sent = {"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}
        body = {"messages": {"format": "openai-chat", "body": sent}, **CLAUDE}
        made = caller.post("/preview", body, status=200)
        assert made["request"]["body"]["messages"][0]["role"] == "user"
        assert not Message.objects.exists()

    def test_goes_by_an_agent(self, caller: Caller, agent: Agent) -> None:
        Agent.objects.update(instructions="Answer in verse.")
        body = {"messages": [{"role": "user", "content": "hi"}], **CLAUDE, "agent_id": "plain"}
        made = caller.post("/preview", body, status=200)
        assert "Answer in verse." in str(made["request"]["body"]["system"])
        assert made["request"]["body"]["max_tokens"] == 100

    def test_writes_nothing_into_a_key_scoped_to_reading(self, db: None) -> None:
        reader = Caller(make.make_key(scopes=("read",)))
        reader.post("/preview", {"messages": [{"role": "user", "content": "hi"}], **CLAUDE}, status=200)

    @pytest.mark.parametrize(
        ("body", "fields"),
        [
            ({}, ["thread_id", "messages", "format"]),
            ({"thread_id": "t", "messages": []}, ["thread_id", "messages", "format"]),
            ({"messages": {"format": "openai-chat"}}, ["messages.body"]),
            ({"messages": {"format": "telegram", "body": {}}}, ["format"]),
            ({"messages": 5}, ["messages"]),
            ({"messages": [5]}, ["messages[0]"]),
            ({"messages": [{"role": "user", "content": {"parts": 5}}]}, ["messages[0].content.parts"]),
            ({"messages": [{"role": "robot", "content": "hi"}]}, ["messages[0].role"]),
            ({"messages": [], "settings": {"colour": 1}}, ["settings"]),
            ({"messages": [], "rules": {"anthropic-tool-id-charset": "maybe"}}, ["rules[...]"]),
            ({"messages": [], "format": "openai-chat"}, ["body"]),
            ({"messages": [], "format": "openai-chat", "body": {}}, ["thread_id", "messages", "format"]),
        ],
    )
    def test_is_refused_with_the_place(self, caller: Caller, body: Any, fields: list[str]) -> None:
        response = caller.send("POST", "/preview", {**CLAUDE, **body})
        found = msgspec.json.decode(response.content)
        problem(response, 422, found["code"], *fields)

    @pytest.mark.parametrize("missing", ["provider", "model"])
    def test_needs_a_target(self, caller: Caller, missing: str) -> None:
        body = {name: value for name, value in CLAUDE.items() if name != missing}
        problem(caller.send("POST", "/preview", {**body, "messages": []}), 422, "invalid_input", missing)

    @pytest.mark.parametrize(
        "body", [{"thread_id": "absent"}, {"thread_id": "\x00"}, {"messages": [], "agent_id": "no"}]
    )
    def test_finds_nothing_where_nothing_is(self, caller: Caller, body: Any) -> None:
        problem(caller.send("POST", "/preview", {**CLAUDE, **body}), 404, "not_found")

    def test_shows_no_other_resources_thread(self, outsider: Caller) -> None:
        make.make_thread(id="foreign", messages=2)
        foreign = problem(outsider.send("POST", "/preview", {**CLAUDE, "thread_id": "foreign"}), 404, "not_found")
        absent = problem(outsider.send("POST", "/preview", {**CLAUDE, "thread_id": "absent"}), 404, "not_found")
        assert {**foreign, "request_id": ""} == {**absent, "request_id": ""}


def _at(value: Any, pointer: str) -> Any:
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value
