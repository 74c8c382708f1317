"""Replies of Cohere's chat (v2): text, a plan with tool calls, thinking, whole or as a stream of events."""

from collections.abc import Iterator
from typing import Any

from memory.sandbox.answers import Tool, compose
from memory.sandbox.wire import made_id, pieces, string_of, to_json, token_count


def reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The answer to a body `check` let pass."""
    messages = body["messages"]
    texts = [_text(message) for message in messages if message["role"] == "user"]
    answer = compose(
        next((text for text in reversed(texts) if text), ""),
        _text(messages[-1]) if messages[-1]["role"] == "user" else "",
        _tools(body) if body.get("tool_choice") != "NONE" else [],
        forced="" if body.get("tool_choice") == "REQUIRED" else None,
    )
    message: dict[str, Any] = {"role": "assistant"}
    content: list[dict[str, Any]] = []
    if _is_thinking(body):
        content.append({"type": "thinking", "thinking": answer.reasoning})
    if answer.text:
        content.append({"type": "text", "text": answer.text})
    if content:
        message["content"] = content
    if answer.calls:
        message["tool_plan"] = f"I will use {' and '.join(call.name for call in answer.calls)}."
        message["tool_calls"] = [
            {
                "id": made_id(f"{call.name}_", raw, f"call {at}", length=12),
                "type": "function",
                "function": {"name": call.name, "arguments": to_json(call.arguments).decode()},
            }
            for at, call in enumerate(answer.calls)
        ]
    tokens = {"input_tokens": token_count(raw), "output_tokens": token_count(to_json(message))}
    return {
        "id": made_id("", raw, length=32),
        "message": message,
        "finish_reason": "TOOL_CALL" if answer.calls else "COMPLETE",
        "usage": {"billed_units": tokens, "tokens": tokens, "cached_tokens": 0},
    }


def events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    """The same reply as server-sent events."""
    whole = reply(body, raw)
    message = whole["message"]
    opened = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield _event("message-start", id=whole["id"], delta={"message": opened})
    for piece in pieces(message.get("tool_plan", "")):
        yield _event("tool-plan-delta", delta={"message": {"tool_plan": piece}})
    for index, part in enumerate(message.get("content", [])):
        kind = part["type"]
        yield _event("content-start", index=index, delta={"message": {"content": {"type": kind, kind: ""}}})
        for piece in pieces(part[kind]):
            yield _event("content-delta", index=index, delta={"message": {"content": {kind: piece}}})
        yield _event("content-end", index=index)
    for index, call in enumerate(message.get("tool_calls", [])):
        begun = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield _event("tool-call-start", index=index, delta={"message": {"tool_calls": begun}})
        for piece in pieces(call["function"]["arguments"]):
            delta = {"message": {"tool_calls": {"function": {"arguments": piece}}}}
            yield _event("tool-call-delta", index=index, delta=delta)
        yield _event("tool-call-end", index=index)
    yield _event("message-end", delta={"finish_reason": whole["finish_reason"], "usage": whole["usage"]})


def _event(name: str, **data: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json({"type": name, **data}) + b"\n\n"


def _is_thinking(body: dict[str, Any]) -> bool:
    """Reasoning models think unless told not to."""
    kind = string_of(body.get("thinking"), "type")
    return kind == "enabled" or ("reasoning" in body["model"] and kind != "disabled")


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def _tools(body: dict[str, Any]) -> list[Tool]:
    functions = (tool["function"] for tool in body.get("tools") or [])
    return [Tool(function["name"], function["parameters"]) for function in functions]
