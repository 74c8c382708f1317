"""Messages of the AI SDK's user interfaces, before and since version 5."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.errors import InvalidInput
from memory.imports import ai_sdk, read
from memory.imports.values import Dump
from memory.messages.convert import to_prompt
from memory.messages.prompt import Output, Reasoning, Text, ToolCall, ToolResult, prompt_to_json
from tests.imports.npm_packages import installed_packages


def dump(value: Any) -> Dump:
    (found,) = read(value)
    assert isinstance(found, Dump)
    assert found.format == "ai-sdk"
    return found


def parts(*given: dict[str, Any], role: str = "assistant") -> list[dict[str, Any]]:
    """The stored parts of a message with these."""
    return dump([{"id": "m", "role": role, "parts": list(given)}]).messages[0]["content"]["parts"]


def tool(state: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-depth", "toolCallId": "c", "state": state, "input": {"at": "quay"}, **fields}


def test_messages_that_the_sdk_itself_kept_come_in_whole() -> None:
    value = json.loads(installed_packages("ai_sdk").run("messages.mjs"))

    user, first, results, last = to_prompt(dump(value).messages).messages

    assert user.text == "How deep? Grüße 🌊"
    thought, said, *calls = first.parts
    assert isinstance(thought, Reasoning) and thought.text == "Two things to ask."
    assert thought.options is not None and thought.options["anthropic"]["signature"] == "c2lnbmVk"
    assert isinstance(said, Text) and said.text == "I'll look."
    assert [(call.id, call.name, call.input) for call in calls if isinstance(call, ToolCall)] == [
        ("toolu_1", "depth", {"at": "quay"}),
        ("toolu_2", "tide", {}),
    ]
    assert [(part.call_id, part.output) for part in results.parts if isinstance(part, ToolResult)] == [
        ("toolu_1", Output("json", {"metres": 4.2})),
        ("toolu_2", Output("error-text", "no gauge")),
    ]
    assert last.text == "4.2 metres."


class TestParts:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (tool("input-streaming"), {"state": "partial-call"}),
            (tool("input-available"), {"state": "call"}),
            (tool("output-available", output={"m": 4}), {"state": "result", "result": {"m": 4}}),
            (tool("output-available", output=None), {"state": "result", "result": None}),
            (tool("output-error", errorText="no gauge"), {"state": "output-error", "errorText": "no gauge"}),
            (
                tool("approval-requested", approval={"id": "a"}),
                {"state": "approval-requested", "approval": {"id": "a"}},
            ),
            (
                tool("output-denied", approval={"id": "a", "approved": False}),
                {"state": "output-denied", "approval": {"id": "a", "approved": False}},
            ),
        ],
    )
    def test_of_a_tool_say_how_far_it_came(self, given: dict[str, Any], expected: dict[str, Any]) -> None:
        (part,) = parts(given)
        known = {"toolCallId": "c", "toolName": "depth", "args": {"at": "quay"}}
        assert part == {"type": "tool-invocation", "toolInvocation": {**known, **expected}}

    def test_of_a_tool_that_is_only_known_later_name_it(self) -> None:
        given = {**tool("input-available"), "type": "dynamic-tool", "toolName": "tide", "providerExecuted": True}
        (part,) = parts({**given, "callProviderMetadata": {"openai": {"itemId": "fc_1"}}})
        assert part["toolInvocation"]["toolName"] == "tide"
        assert part["providerExecuted"] is True
        assert part["providerMetadata"] == {"openai": {"itemId": "fc_1"}}

    def test_of_other_kinds_become_stored_ones(self) -> None:
        signed = {"anthropic": {"signature": "c2ln"}}
        assert parts(
            {"type": "step-start"},
            {"type": "reasoning", "text": "Hm.", "state": "done", "providerMetadata": signed},
            {"type": "text", "text": "Four.", "state": "done"},
            {"type": "file", "mediaType": "image/png", "url": "https://example.invalid/a.png", "filename": "a.png"},
            {"type": "source-url", "sourceId": "s", "url": "https://example.invalid", "title": "T"},
            {"type": "source-document", "sourceId": "d", "mediaType": "application/pdf", "title": "D"},
            {"type": "data-tide", "id": "1", "data": {"m": 4}},
        ) == [
            {"type": "step-start"},
            {
                "type": "reasoning",
                "reasoning": "Hm.",
                "details": [{"type": "text", "text": "Hm.", "signature": "c2ln"}],
                "providerMetadata": signed,
            },
            {"type": "text", "text": "Four."},
            {"type": "file", "mimeType": "image/png", "data": "https://example.invalid/a.png", "filename": "a.png"},
            {
                "type": "source",
                "source": {"sourceType": "url", "id": "s", "url": "https://example.invalid", "title": "T"},
            },
            {"type": "source-document", "sourceId": "d", "mediaType": "application/pdf", "title": "D"},
            {"type": "data-tide", "id": "1", "data": {"m": 4}},
        ]

    def test_of_version_4_stay(self) -> None:
        given = [
            {"type": "reasoning", "reasoning": "Hm.", "details": [{"type": "text", "text": "Hm."}]},
            {
                "type": "tool-invocation",
                "toolInvocation": {"state": "call", "toolCallId": "c", "toolName": "d", "args": {}},
            },
            {"type": "file", "mimeType": "image/png", "data": "aGk="},
            {"type": "source", "source": {"sourceType": "url", "id": "s", "url": "https://example.invalid"}},
        ]
        assert parts(*given) == given


class TestChats:
    def test_are_lists_or_hold_one(self) -> None:
        messages = [
            {"id": "1", "role": "user", "createdAt": "2026-01-01T00:00:01.000Z", "content": "Hi", "parts": []},
            {"id": "2", "role": "assistant", "createdAt": "2026-01-01T00:00:02.000Z", "content": "Ho"},
            {"id": "0", "role": "system", "content": "Be brief.", "parts": [{"type": "text", "text": "Be brief."}]},
        ]
        for value in (messages, {"id": "1", "messages": messages, "trigger": "submit-message"}):
            found = dump(value)
            assert found.thread_id == "import:1"
            assert found.system == ["Be brief."]
            assert [(m["id"], m["role"], m["content"]["content"]) for m in found.messages] == [
                ("1", "user", "Hi"),
                ("2", "assistant", "Ho"),
            ]
            assert found.messages[1]["createdAt"] == "2026-01-01T00:00:02.000Z"

    def test_of_old_clients_keep_their_calls_beside_the_text(self) -> None:
        call = {"state": "result", "toolCallId": "c", "toolName": "depth", "args": {}, "result": 4}
        found = dump([{"id": "1", "role": "assistant", "content": "Four.", "toolInvocations": [call]}])
        roles = [message["role"] for message in prompt_to_json(to_prompt(found.messages))]
        assert roles == ["assistant", "tool", "assistant"]

    def test_have_messages_in_the_order_of_the_list(self) -> None:
        found = dump([{"id": str(n), "role": "user", "parts": [{"type": "text", "text": "x"}]} for n in range(12)])
        assert [message["id"] for message in found.messages] == [str(n) for n in range(12)]

    def test_keep_what_a_client_noted(self) -> None:
        found = dump([{"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}], "metadata": {"a": 1}}])
        assert found.messages[0]["content"]["metadata"] == {"a": 1}

    def test_with_one_id_twice_keep_both_messages(self) -> None:
        one = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}
        assert [message["id"] for message in dump([one, one]).messages] == ["1", "1~2"]

    def test_name_what_can_t_be_stored(self) -> None:
        broken = {
            "id": "2",
            "role": "assistant",
            "parts": [{"type": "tool-depth", "state": "mended", "toolCallId": "c"}],
        }
        found = dump([{"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}, broken])
        assert [name for name, _ in found.left_out] == ["2"]
        assert "state" in found.left_out[0][1]

    def test_without_messages_are_none(self) -> None:
        with pytest.raises(InvalidInput):
            list(ai_sdk.read({"messages": []}))
