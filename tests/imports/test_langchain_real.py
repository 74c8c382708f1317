"""Messages that LangChain itself wrote down, in each of its forms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory.imports import read
from memory.imports.values import Dump
from memory.messages.convert import to_prompt
from memory.messages.prompt import Output, Reasoning, Text, ToolCall, ToolResult

langchain = pytest.importorskip("langchain_core.messages", reason="langchain-core is not installed")


def conversation() -> list[Any]:
    """A turn with two parallel calls, one of which failed, as chat models of LangChain give it back."""
    told = {"model_provider": "anthropic", "model_name": "claude-sonnet-4-5"}
    calls = [
        {"name": "depth", "args": {"at": "quay"}, "id": "toolu_1"},
        {"name": "tide", "args": {}, "id": "toolu_2"},
    ]
    thought = [
        {"type": "thinking", "thinking": "Two things to ask.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "I'll look."},
        *({"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]} for call in calls),
    ]
    return [
        langchain.SystemMessage("Be brief."),
        langchain.HumanMessage([{"type": "text", "text": "How deep? Grüße 🌊"}], id="h1"),
        langchain.AIMessage(thought, tool_calls=calls, response_metadata=told, id="run-1"),
        langchain.ToolMessage("4.2 m", tool_call_id="toolu_1", name="depth"),
        langchain.ToolMessage("no gauge", tool_call_id="toolu_2", name="tide", status="error"),
        langchain.AIMessage("4.2 metres.", response_metadata=told, usage_metadata=None, id="run-2"),
    ]


def as_dicts(messages: list[Any]) -> Any:
    return langchain.messages_to_dict(messages)


def as_dumps(messages: list[Any]) -> Any:
    from langchain_core.load import dumpd

    return [dumpd(message) for message in messages]


def as_state(messages: list[Any]) -> Any:
    from langchain_core.load import dumpd

    return dumpd({"messages": messages})


@pytest.mark.parametrize("written", [as_dicts, as_dumps, as_state])
def test_written_by_langchain_comes_in_whole(written: Any) -> None:
    value = json.loads(json.dumps(written(conversation())))

    (found,) = read(value)

    assert isinstance(found, Dump) and found.format == "langchain"
    assert list(found.system) == ["Be brief."]
    user, asked, results, answered = to_prompt(found.messages).messages
    assert [part.text for part in user.parts if isinstance(part, Text)] == ["How deep? Grüße 🌊"]
    assert [type(part) for part in asked.parts] == [Reasoning, Text, ToolCall, ToolCall]
    thought, said, *calls = asked.parts
    assert isinstance(thought, Reasoning) and thought.text == "Two things to ask."
    assert thought.options is not None and thought.options["anthropic"]["signature"] == "c2lnbmVk"
    assert isinstance(said, Text) and said.text == "I'll look."
    assert [(call.id, call.name, call.input) for call in calls if isinstance(call, ToolCall)] == [
        ("toolu_1", "depth", {"at": "quay"}),
        ("toolu_2", "tide", {}),
    ]
    outputs = [(part.call_id, part.output) for part in results.parts if isinstance(part, ToolResult)]
    assert outputs == [("toolu_1", Output("text", "4.2 m")), ("toolu_2", Output("error-text", "no gauge"))]
    assert answered.text == "4.2 metres."
    assert asked.origin is not None and (asked.origin.provider, asked.origin.model_id) == (
        "anthropic",
        "claude-sonnet-4-5",
    )


def test_chunks_of_a_stream_come_in_like_the_message_they_make() -> None:
    chunk = langchain.AIMessageChunk
    told = {"model_provider": "openai", "model_name": "gpt-4o"}
    pieces = [
        {"name": "depth", "args": "", "id": "call_1", "index": 0},
        {"name": None, "args": '{"at": "qu', "id": None, "index": 0},
        {"name": None, "args": 'ay"}', "id": None, "index": 0},
    ]
    whole = chunk("I'll ", id="run-1") + chunk("look.", response_metadata=told)
    for piece in pieces:
        whole += chunk("", tool_call_chunks=[piece])

    (found,) = read(json.loads(json.dumps(langchain.messages_to_dict([langchain.HumanMessage("How deep?"), whole]))))

    assert isinstance(found, Dump)
    _, asked, *_ = to_prompt(found.messages).messages
    text, call = asked.parts
    assert isinstance(text, Text) and text.text == "I'll look."
    assert isinstance(call, ToolCall) and (call.id, call.name, call.input) == ("call_1", "depth", {"at": "quay"})
