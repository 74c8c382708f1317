"""OpenAI's items, and dumps of its Assistants threads."""

from __future__ import annotations

from typing import Any

import pytest

from memory.imports import read
from memory.imports.values import Dump
from memory.messages.stored import text_of

ITEMS: list[dict[str, Any]] = [
    {"id": "msg_1", "type": "message", "role": "user", "content": [{"type": "input_text", "text": "How deep?"}]},
    {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbA=="},
    {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "depth", "arguments": '{"at":"quay"}'},
    {"id": "fo_1", "type": "function_call_output", "call_id": "call_1", "output": "4.2 m"},
    {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "4.2 metres."}],
    },
]
ASKED, _, CALL, OUTPUT, SAID = ITEMS


def dump(value: Any) -> Dump:
    (found,) = read(value)
    assert isinstance(found, Dump)
    return found


def listed(items: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    return {"object": "list", "data": items, "first_id": items[0]["id"], "last_id": items[-1]["id"], **fields}


class TestItems:
    @pytest.mark.parametrize(
        "value",
        [
            listed(ITEMS),
            listed(ITEMS[::-1]),
            ITEMS,
            {"id": "msg_1", "object": "conversation", "items": listed(ITEMS[::-1])},
        ],
        ids=["oldest first", "newest first", "bare", "conversation"],
    )
    def test_make_one_thread_whatever_their_order(self, value: Any) -> None:
        found = dump(value)
        assert (found.format, found.thread_id) == ("openai-items", "import:msg_1")
        parts = [part for message in found.messages for part in message["content"]["parts"]]
        assert [part["type"] for part in parts] == ["text", "reasoning", "tool-invocation", "text"]
        invocation = parts[2]["toolInvocation"]
        assert (invocation["state"], invocation["args"], invocation["result"]) == ("result", {"at": "quay"}, "4.2 m")
        assert parts[1]["providerMetadata"]["openai"]["reasoningEncryptedContent"] == "c2VhbA=="
        assert found.messages[-1]["content"]["metadata"]["provider"] == "openai"

    @pytest.mark.parametrize(
        "items",
        [[ASKED, SAID], [CALL, OUTPUT], [ASKED, CALL, OUTPUT], [ASKED, ITEMS[1], SAID, ASKED, ITEMS[1], SAID]],
    )
    def test_are_put_in_order_by_what_follows_what(self, items: list[dict[str, Any]]) -> None:
        texts = [text_of(message["content"]) for message in dump(listed(items)).messages]
        assert [text_of(message["content"]) for message in dump(listed(items[::-1])).messages] == texts

    def test_that_more_follow_is_said(self) -> None:
        left_out = dump(listed(ITEMS, has_more=True)).left_out
        assert [why for _, why in left_out] == ["the list says that there are more items than it holds"]

    def test_that_only_refer_are_named(self) -> None:
        found = dump(listed([*ITEMS, {"id": "msg_0", "type": "item_reference"}]))
        assert found.left_out == [("msg_0", "an item is left out: it only refers")]

    def test_of_a_conversation_keep_its_name_and_time(self) -> None:
        about = {"id": "conv_1", "object": "conversation", "created_at": 1767225600, "metadata": {"a": "b"}}
        found = dump({**about, "items": listed(ITEMS)})
        assert (found.thread_id, found.metadata) == ("import:conv_1", {"a": "b"})
        assert found.messages[0]["createdAt"] == "2026-01-01T00:00:00.000Z"


def message(id_: str, role: str, text: str, at: int, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": {"value": text, "annotations": []}}]
    about = {"id": id_, "object": "thread.message", "thread_id": "thread_1", "created_at": at}
    return {**about, "role": role, "content": content, **fields}


def step(id_: str, at: int, *calls: dict[str, Any]) -> dict[str, Any]:
    about = {"id": id_, "object": "thread.run.step", "thread_id": "thread_1", "run_id": "run_1", "created_at": at}
    return {**about, "type": "tool_calls", "step_details": {"type": "tool_calls", "tool_calls": list(calls)}}


def function(output: str | None) -> dict[str, Any]:
    return {
        "id": "call_1",
        "type": "function",
        "function": {"name": "depth", "arguments": '{"at": "quay"}', "output": output},
    }


RUN: dict[str, Any] = {
    "id": "run_1",
    "object": "thread.run",
    "thread_id": "thread_1",
    "created_at": 2,
    "model": "gpt-4o",
    "instructions": "Be brief.",
    "tools": [{"type": "function", "function": {"name": "depth", "parameters": {"type": "object"}}}],
}
ANSWERED = [message("msg_2", "assistant", "4.2 metres.", 4, run_id="run_1"), message("msg_1", "user", "How deep?", 1)]


class TestAssistants:
    def test_threads_hold_messages_and_calls_by_time(self) -> None:
        found = dump(
            {"messages": listed(ANSWERED), "runs": listed([RUN]), "steps": [step("step_1", 3, function("4 m"))]}
        )
        assert (found.format, found.thread_id) == ("openai-assistants", "import:thread_1")
        assert [(m["id"], m["role"]) for m in found.messages] == [
            ("msg_1", "user"),
            ("step_1", "assistant"),
            ("msg_2", "assistant"),
        ]
        invocation = found.messages[1]["content"]["parts"][0]["toolInvocation"]
        assert (invocation["state"], invocation["args"], invocation["result"]) == ("result", {"at": "quay"}, "4 m")
        assert found.messages[2]["content"]["metadata"] == {"provider": "openai", "modelId": "gpt-4o"}
        assert (found.system, found.model) == (["Be brief."], "gpt-4o")
        assert [tool["name"] for tool in found.tools] == ["depth"]

    def test_threads_need_no_runs(self) -> None:
        assert [m["id"] for m in dump(listed(ANSWERED)).messages] == ["msg_1", "msg_2"]

    def test_calls_that_wait_are_open(self) -> None:
        action = {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": [function(None)]}}
        for steps in ([], [step("step_1", 3, function(None))]):
            found = dump({"messages": ANSWERED[1:], "runs": [{**RUN, "required_action": action}], "steps": steps})
            states = [p["toolInvocation"]["state"] for m in found.messages[1:] for p in m["content"]["parts"]]
            assert states == ["call"]

    def test_tools_of_the_provider_hold_what_came_of_them(self) -> None:
        code = {"input": "1 + 1", "outputs": [{"type": "logs", "logs": "2"}]}
        call = {"id": "call_1", "type": "code_interpreter", "code_interpreter": code}
        found = dump({"messages": ANSWERED, "steps": [step("step_1", 3, call)]})
        (part,) = found.messages[1]["content"]["parts"]
        assert part["providerExecuted"] is True
        assert part["toolInvocation"]["args"] == {"input": "1 + 1"}
        assert part["toolInvocation"]["result"] == {"outputs": [{"type": "logs", "logs": "2"}]}

    def test_files_are_named(self) -> None:
        content = [{"type": "image_file", "image_file": {"file_id": "file-1"}}]
        content += [{"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}]
        given = message("msg_1", "user", "", 1, content=content, attachments=[{"file_id": "file-2", "tools": []}])
        parts = dump([given]).messages[0]["content"]["parts"]
        assert parts == [
            {"type": "data-file", "data": {"fileId": "file-1"}},
            {"type": "file", "mimeType": "image/*", "data": "https://example.invalid/a.png"},
            {"type": "data-file", "data": {"fileId": "file-2"}},
        ]

    def test_an_error_of_the_newest_run_is_the_thread_s(self) -> None:
        failed = {**RUN, "last_error": {"code": "rate_limit_exceeded", "message": "Slow down"}}
        assert dump({"messages": ANSWERED, "runs": [failed]}).last_error == "rate_limit_exceeded: Slow down"

    def test_threads_lie_beside_each_other(self) -> None:
        other = message("msg_9", "user", "Else?", 9, thread_id="thread_2")
        found = list(read([*ANSWERED, other]))
        assert [one.thread_id for one in found if isinstance(one, Dump)] == ["import:thread_1", "import:thread_2"]
