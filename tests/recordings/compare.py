"""Whether two request bodies mean the same to their provider: both in one plain form, tolerances with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def differences(
    protocol: str, sent: Mapping[str, Any], again: Mapping[str, Any], *, was_stored: bool = False
) -> list[str]:
    """Where two bodies differ in meaning, as `place: one | other`; empty when they mean the same.

    `was_stored`: storing keeps each result with its call, so that of neighbouring assistant turns that were answered
    together each is answered by itself. Results name their calls, and their order says nothing.
    """
    plain = _anthropic if protocol == "anthropic-messages" else _openai_chat
    one, other = plain(sent), plain(again)
    if was_stored and protocol == "anthropic-messages":
        for body in (one, other):
            body["messages"] = _results_behind(body["messages"])
    return _compare(one, other, "")


def _results_behind(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tool steps in a row as one step: all that was said, then all results in the order of their ids."""
    out: list[dict[str, Any]] = []
    for message in messages:
        results = [block for block in message["content"] if block.get("type") == "tool_result"]
        rest = [block for block in message["content"] if block.get("type") != "tool_result"]
        if message["role"] == "user" and results and out:
            out[-1].setdefault("results", []).extend(results)
            message = {**message, "content": rest}
            if not rest:
                continue
        if message["role"] == "assistant" and out and out[-1]["role"] == "assistant":
            out[-1]["content"] = [*out[-1]["content"], *message["content"]]
        else:
            out.append(dict(message))
    for message in out:
        message.get("results", []).sort(key=_result_id)
    return out


def _result_id(block: Mapping[str, Any]) -> tuple[int, str]:
    """Sorts results before the rest, which stays in its order."""
    return (0, block["tool_use_id"]) if block.get("type") == "tool_result" else (1, "")


def _compare(one: Any, other: Any, place: str) -> list[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        return [
            d for key in one.keys() | other.keys() for d in _compare(one.get(key), other.get(key), f"{place}/{key}")
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [d for i, (a, b) in enumerate(zip(one, other, strict=True)) for d in _compare(a, b, f"{place}/{i}")]
    return [] if one == other else [f"{place}: {str(one)[:150]} | {str(other)[:150]}"]


def _without_nulls(value: Any) -> Any:
    """Null means absent in both protocols, but within what a user's own schema or arguments say (left alone)."""
    if isinstance(value, dict):
        own = ("input", "input_schema", "parameters")
        return {key: item if key in own else _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _blocks(content: Any) -> list[Any]:
    """A text as content is documented as short for one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def _anthropic(body: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = _without_nulls(dict(body))
    out.pop("stream", None)  # How the answer travels, not what was asked.
    out["system"] = _blocks(out.get("system"))
    # An empty description describes nothing.
    tools = [
        {key: item for key, item in tool.items() if key != "description" or item} for tool in out.get("tools") or ()
    ]
    out["tools"] = tools
    messages: list[dict[str, Any]] = []
    for message in out["messages"]:
        content = [_anthropic_block(block) for block in _blocks(message["content"])]
        # Neighbouring turns of one role are documented to be combined into one.
        if messages and messages[-1]["role"] == message["role"] != "system":
            messages[-1]["content"].extend(content)
        else:
            messages.append({**message, "content": content})
    out["messages"] = messages
    return out


def _anthropic_block(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "tool_result":
        return block
    # `is_error` is false by default; content that is absent is an empty one.
    content = _blocks(block.get("content"))
    return {**block, "is_error": block.get("is_error", False), "content": [b for b in content if b != _EMPTY]}


_EMPTY = {"type": "text", "text": ""}


def _openai_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = _without_nulls(dict(body))
    # How the answer travels, not what was asked.
    out.pop("stream", None)
    out.pop("stream_options", None)
    # One stop text is short for a list of one.
    if isinstance(out.get("stop"), str):
        out["stop"] = [out["stop"]]
    # No tools, said in two ways; a tool is a function by default, and an empty description describes nothing.
    out["tools"] = [_openai_tool(tool) for tool in out.get("tools") or ()]
    out["messages"] = [_openai_message(message) for message in out["messages"]]
    return out


def _openai_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function")
    if isinstance(function, dict) and not function.get("description"):
        function = {key: value for key, value in function.items() if key != "description"}
    return {"type": "function", **tool, "function": function}


def _openai_message(message: dict[str, Any]) -> dict[str, Any]:
    out = {**message, "content": [part for part in _blocks(message.get("content")) if part != _EMPTY]}
    # No calls, said in two ways.
    if not out.get("tool_calls"):
        out.pop("tool_calls", None)
        return out
    out["tool_calls"] = [_openai_call(call) for call in out["tool_calls"]]
    return out


def _openai_call(call: dict[str, Any]) -> dict[str, Any]:
    """Arguments are JSON in a text: white space within it says nothing. An index only counts the calls of the list."""
    call = {key: value for key, value in call.items() if key != "index"}
    function = call.get("function")
    if not isinstance(function, dict):
        return call
    try:
        arguments = msgspec.json.decode(function["arguments"])
    except msgspec.DecodeError:
        arguments = function["arguments"]
    return {**call, "function": {**function, "arguments": arguments}}
