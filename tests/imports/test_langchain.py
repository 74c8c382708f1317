"""LangChain's messages in the forms they are written down in."""

from __future__ import annotations

from typing import Any

import pytest

from memory.imports import read
from memory.imports.values import Dump
from memory.messages.convert import to_prompt
from memory.messages.prompt import prompt_to_json

CALL = {"name": "depth", "args": {"at": "quay"}, "id": "call_1", "type": "tool_call"}
TOLD = {"model_provider": "openai", "model_name": "gpt-4o"}
FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("system", {"content": "Be brief."}),
    ("human", {"content": "How deep?", "id": "h1"}),
    ("ai", {"content": "", "id": "run-1", "tool_calls": [CALL], "response_metadata": TOLD}),
    ("tool", {"content": "4.2 m", "tool_call_id": "call_1", "name": "depth", "status": "success"}),
    ("ai", {"content": "4.2 metres.", "id": "run-2", "response_metadata": TOLD}),
]
CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "system": "SystemMessage", "tool": "ToolMessage"}


def dump(value: Any) -> Dump:
    (found,) = read(value)
    assert isinstance(found, Dump)
    assert found.format == "langchain"
    return found


def prompt(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    """What a model would see, without what only storing needs."""
    found = prompt_to_json(to_prompt(dump(list(messages)).messages))
    return [{key: value for key, value in message.items() if key != "id"} for message in found]


def said(kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"content": content, **fields}}


def first_part(kind: str, block: Any, **fields: Any) -> dict[str, Any]:
    part: dict[str, Any] = prompt(said(kind, [block], **fields))[0]["content"][0]
    return part


class TestForms:
    @pytest.mark.parametrize(
        "value",
        [
            [{"type": kind, "data": fields} for kind, fields in FIELDS],
            [
                {
                    "lc": 1,
                    "type": "constructor",
                    "id": ["langchain", "schema", "messages", CLASSES[kind]],
                    "kwargs": fields,
                }
                for kind, fields in FIELDS
            ],
            [{"type": kind, **fields} for kind, fields in FIELDS],
            {"messages": [{"type": kind, "data": fields} for kind, fields in FIELDS]},
            {"values": {"messages": [{"type": kind, **fields} for kind, fields in FIELDS]}, "next": []},
        ],
        ids=["dict", "constructor", "plain", "wrapped", "state"],
    )
    def test_all_mean_the_same(self, value: Any) -> None:
        found = dump(value)
        assert found.system == ["Be brief."]
        assert (found.provider, found.model) == ("openai", "gpt-4o")
        assert [(m["id"], m["role"]) for m in found.messages] == [
            ("h1", "user"),
            ("run-1", "assistant"),
            ("run-2", "assistant"),
        ]
        (part,) = found.messages[1]["content"]["parts"]
        assert part["toolInvocation"] == {
            "state": "result",
            "toolCallId": "call_1",
            "toolName": "depth",
            "args": {"at": "quay"},
            "result": "4.2 m",
        }
        assert found.messages[2]["content"]["metadata"] == {"provider": "openai", "modelId": "gpt-4o"}

    def test_of_a_named_thread_keep_its_name(self) -> None:
        assert dump({"thread_id": "t1", "messages": [said("human", "Hi")]}).thread_id == "import:t1"

    def test_of_an_unknown_kind_are_named(self) -> None:
        found = dump([said("human", "Hi"), {"type": "remove", "data": {"id": "h0", "content": ""}}])
        assert found.left_out == [("h0", "a message of type 'remove'")]


class TestBlocks:
    @pytest.mark.parametrize(
        ("block", "expected"),
        [
            ({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}, ("image/png", "aGk=")),
            ({"type": "image_url", "image_url": "https://example.invalid/a"}, ("image/*", "https://example.invalid/a")),
            ({"type": "image", "base64": "aGk=", "mime_type": "image/jpeg"}, ("image/jpeg", "aGk=")),
            (
                {"type": "image", "source_type": "base64", "data": "aGk=", "mime_type": "image/gif"},
                ("image/gif", "aGk="),
            ),
            (
                {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
                ("application/pdf", "aGk="),
            ),
            ({"type": "media", "mime_type": "audio/mp3", "data": "aGk="}, ("audio/mp3", "aGk=")),
            (
                {"type": "file", "url": "https://example.invalid/b", "mime_type": "text/csv"},
                ("text/csv", "https://example.invalid/b"),
            ),
        ],
    )
    def test_of_media_become_files(self, block: dict[str, Any], expected: tuple[str, str]) -> None:
        part = first_part("human", block)
        assert (part["type"], part["mediaType"], part["data"]) == ("file", *expected)

    @pytest.mark.parametrize(
        ("block", "text", "options"),
        [
            ({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, "Hm.", {"anthropic": {"signature": "c2ln"}}),
            ({"type": "redacted_thinking", "data": "c2Vh"}, "", {"anthropic": {"redactedData": "c2Vh"}}),
            ({"type": "reasoning", "reasoning": "Hm."}, "Hm.", None),
            (
                {"type": "reasoning", "id": "rs_1", "summary": [{"text": "Hm."}], "encrypted_content": "c2Vh"},
                "Hm.",
                {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "c2Vh"}},
            ),
            (
                {"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "signature": "c2ln"}},
                "Hm.",
                {"anthropic": {"signature": "c2ln"}},
            ),
        ],
    )
    def test_of_reasoning_keep_their_seal(self, block: dict[str, Any], text: str, options: Any) -> None:
        part = first_part("ai", block)
        assert (part["type"], part["text"], part.get("providerOptions")) == ("reasoning", text, options)

    def test_that_say_a_call_again_are_passed_over(self) -> None:
        use = {"type": "tool_use", "id": "call_1", "name": "depth", "input": {"at": "quay"}}
        found = prompt(said("ai", [{"type": "text", "text": "Look:"}, use], tool_calls=[CALL]))
        assert [part["type"] for part in found[0]["content"]] == ["text", "tool-call"]

    def test_that_nobody_knows_are_kept_for_who_made_them(self) -> None:
        block = {"type": "hologram", "text": "pier"}
        part = first_part("ai", block, response_metadata={"model_provider": "anthropic"})
        assert (part["text"], part["providerOptions"]) == ("pier", {"anthropic": {"block": block}})


class TestCalls:
    def test_that_old_versions_kept_in_openai_s_form_are_read(self) -> None:
        call = {"id": "call_1", "type": "function", "function": {"name": "depth", "arguments": '{"at": "quay"}'}}
        (message,) = prompt(said("ai", "", additional_kwargs={"tool_calls": [call]}))
        (part,) = message["content"]
        assert (part["toolCallId"], part["toolName"], part["input"]) == ("call_1", "depth", {"at": "quay"})

    def test_whose_arguments_are_no_json_keep_them(self) -> None:
        (message,) = prompt(said("ai", "", invalid_tool_calls=[{"id": "c", "name": "depth", "args": '{"at": '}]))
        assert message["content"][0]["input"] == '{"at": '

    def test_that_failed_say_so(self) -> None:
        failed = said("tool", "no gauge", tool_call_id="call_1", status="error")
        found = prompt(said("human", "?"), said("ai", "", tool_calls=[CALL]), failed)
        assert found[2]["content"][0]["output"] == {"type": "error-text", "value": "no gauge"}

    def test_that_gave_a_picture_keep_it(self) -> None:
        picture = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
        result = said("tool", [{"type": "text", "text": "See:"}, picture], tool_call_id="call_1")
        found = prompt(said("human", "?"), said("ai", "", tool_calls=[CALL]), result)
        assert found[2]["content"][0]["output"] == {
            "type": "content",
            "value": [
                {"type": "text", "text": "See:"},
                {"type": "media", "data": "aGk=", "mediaType": "image/png"},
            ],
        }

    def test_reasoning_beside_the_content_comes_first(self) -> None:
        found = prompt(said("ai", "Four.", additional_kwargs={"reasoning_content": "Hm."}))
        assert [part["type"] for part in found[0]["content"]] == ["reasoning", "text"]
