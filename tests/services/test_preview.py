"""What would be sent, stored beside it, with nothing called and nothing stored."""

from typing import Any

import msgspec
import pytest

from memory.errors import InvalidInput, NotFound
from memory.models import Message, MessageVersion, Run
from memory.sandbox import Sandbox
from memory.services import agents, rules
from memory.services.preview import Preview, preview
from tests.make import add_messages, caller, make_thread, message, text, tool_call

CLAUDE = {"provider": "anthropic", "model": "claude-sonnet-4-5"}


def body(found: Preview) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(found.request.body)
    return decoded


def at(value: Any, pointer: str) -> Any:
    for step in pointer.strip("/").split("/"):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


@pytest.fixture
def thread_id(sandbox: Sandbox) -> str:
    thread = make_thread("user-1")
    add_messages(
        thread,
        text("Where is it?", id="q"),
        message(
            {"type": "reasoning", "reasoning": "look", "details": [{"type": "text", "text": "look"}]},
            tool_call("call:1.a", "result", result="packed"),
            {"type": "text", "text": "Packed."},
            id="a",
        ),
    )
    return thread.id


class TestPreview:
    def test_shows_the_request_and_leaves_no_trace(self, thread_id: str, sandbox: Sandbox) -> None:
        before = list(Message.objects.order_by("seq").values_list("content", flat=True))
        found = preview(caller(), thread_id=thread_id, **CLAUDE)
        assert body(found)["model"] == "claude-sonnet-4-5"
        assert found.request.url.endswith("/anthropic/v1/messages")
        assert found.request.size_bytes == len(found.request.body)
        assert "x-api-key" not in found.request.headers
        assert sandbox.requests() == []
        assert list(Message.objects.order_by("seq").values_list("content", flat=True)) == before
        assert (Run.objects.count(), MessageVersion.objects.count()) == (0, 0)

    def test_places_each_change_in_the_thread_and_in_the_request(self, thread_id: str) -> None:
        found = preview(caller(), thread_id=thread_id, **CLAUDE)
        dropped, renamed = found.changes
        stored = {"messages": list(found.messages)}
        assert dropped.rule == "anthropic-thinking-signature-missing"
        assert (at(stored, dropped.stored or ""))["reasoning"] == "look"
        assert (dropped.sent, dropped.loss) == (None, "reasoning hidden")
        assert renamed.rule == "anthropic-tool-id-charset"
        assert at(stored, renamed.stored or "")["toolInvocation"]["toolCallId"] == renamed.before == "call:1.a"
        assert at(body(found), renamed.sent or "")["id"] == renamed.after == "call_1_a"
        assert at(body(found), renamed.also_sent[0])["tool_use_id"] == "call_1_a"

    @pytest.mark.parametrize("name", ["anthropic-tool-id-charset", "anthropic-thinking-signature-missing"])
    def test_a_rule_switched_off_changes_nothing(self, thread_id: str, name: str) -> None:
        found = preview(caller(), thread_id=thread_id, rules={name: "off"}, **CLAUDE)
        assert name not in {change.rule for change in found.changes}
        rules.switch_rule(caller(), name, "off", provider="anthropic")
        switched = preview(caller(), thread_id=thread_id, **CLAUDE)
        assert switched.request.body == found.request.body

    def test_a_rule_that_reports_leaves_the_request_and_says_what_it_would_do(self, thread_id: str) -> None:
        found = preview(caller(), thread_id=thread_id, rules={"anthropic-tool-id-charset": "report"}, **CLAUDE)
        (finding,) = found.findings
        assert (finding.rule, "call_1_a" in finding.would_do) == ("anthropic-tool-id-charset", True)
        assert "call:1.a" in found.request.body.decode()

    def test_a_family_name_switches_its_rules(self, thread_id: str) -> None:
        family = "anthropic-strip-foreign-reasoning-content"
        found = preview(caller(), thread_id=thread_id, rules={family: "off"}, **CLAUDE)
        assert [change.rule for change in found.changes] == ["anthropic-tool-id-charset"]

    def test_an_agent_brings_its_instructions_tools_and_processors(self, thread_id: str) -> None:
        agent = agents.create_agent(
            caller(),
            {
                "name": "Quiet",
                "model": "anthropic/claude-sonnet-4-5",
                "instructions": "Be brief.",
                "tools": [{"name": "timetable", "parameters": {"type": "object"}}],
                "processors": ["message-history", "tool-call-filter", "provider-history-compat"],
            },
        )
        found = preview(caller(), thread_id=thread_id, agent_id=agent.id, **CLAUDE)
        assert body(found)["system"][0]["text"] == "Be brief."
        assert body(found)["tools"][0]["name"] == "timetable"
        assert "tool_use" not in str(body(found)["messages"])

    def test_takes_messages_that_are_stored_nowhere(self, sandbox: Sandbox) -> None:
        found = preview(caller(), messages=[text("hi"), message({"type": "text", "text": "yo"})], **CLAUDE)
        assert [m["role"] for m in body(found)["messages"]] == ["user", "assistant"]
        assert Message.objects.count() == 0

    def test_takes_a_request_body_of_another_protocol(self, sandbox: Sandbox) -> None:
        call = {"id": "call:1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        request = {
            "model": "gpt-4o",
            "messages": [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call:1", "content": "ok"},
            ],
        }
        found = preview(caller(), imported=("openai-chat", request), **CLAUDE)
        assert body(found)["system"][0]["text"] == "Be kind."
        assert [change.rule for change in found.changes] == ["anthropic-tool-id-charset"]

    @pytest.mark.parametrize(
        ("sources", "code"),
        [
            ({}, "one_source"),
            ({"messages": [], "thread_id": "x"}, "one_source"),
            ({"imported": ("telegram", {})}, "protocol_not_supported"),
        ],
    )
    def test_wants_exactly_one_history(self, sandbox: Sandbox, sources: dict[str, Any], code: str) -> None:
        with pytest.raises(InvalidInput) as raised:
            preview(caller(), **sources, **CLAUDE)
        assert raised.value.code == code

    def test_a_foreign_thread_looks_absent(self, thread_id: str) -> None:
        with pytest.raises(NotFound):
            preview(caller("user-2"), thread_id=thread_id, **CLAUDE)
