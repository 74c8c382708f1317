"""Replies of the Messages API: text, tool calls and signed thinking, whole or as a stream of events."""

from collections.abc import Iterator
from typing import Any

from memory.sandbox.answers import Tool, compose
from memory.sandbox.anthropic_models import signature, thinking_on
from memory.sandbox.wire import made_id, pieces, string_of, to_json, token_count


def reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The message that answers a body `check` let pass."""
    texts = [_text(message) for message in body["messages"] if message["role"] == "user"]
    choice = body.get("tool_choice") or {}
    answer = compose(
        next((text for text in reversed(texts) if text), ""),
        _text(body["messages"][-1]),
        _tools(body) if choice.get("type") != "none" else [],
        forced={"any": "", "tool": string_of(choice, "name")}.get(choice.get("type", "")),
        parallel=not choice.get("disable_parallel_tool_use"),
    )
    content: list[dict[str, Any]] = []
    if thinking_on(body):
        signed = signature(body["model"], answer.reasoning)
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": signed})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    for at, call in enumerate(answer.calls):
        call_id = made_id("toolu_01", raw, f"call {at}", length=22)
        content.append({"type": "tool_use", "id": call_id, "name": call.name, "input": call.arguments})
    return {
        "id": made_id("msg_01", raw, length=22),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": token_count(raw),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": token_count(to_json(content)),
        },
    }


def events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    """The same reply as server-sent events."""
    whole = reply(body, raw)
    opened = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield _event("message_start", message=opened)
    for index, block in enumerate(whole["content"]):
        empty, deltas = _streamed(block)
        yield _event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ended, usage=whole["usage"])
    yield _event("message_stop")


def _streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The block as it is opened, and the deltas that fill it."""
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            sealed = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, sealed]
        case "tool_use":
            text = to_json(block["input"]).decode()
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]
            return {**block, "input": {}}, deltas
        case _:
            return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]


def _event(name: str, **data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json({"type": name, **data}) + b"\n\n"


def _text(message: dict[str, Any]) -> str:
    """The text a message holds itself, without that of tool results."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _tools(body: dict[str, Any]) -> list[Tool]:
    """Tools the caller runs; those of the vendor have no schema."""
    return [Tool(tool["name"], tool["input_schema"]) for tool in body.get("tools") or [] if "input_schema" in tool]
