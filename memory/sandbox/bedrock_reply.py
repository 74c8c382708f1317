"""Replies of the Converse API: text, tool calls and reasoning, whole or as frames of its event stream."""

from collections.abc import Iterator
from typing import Any

from memory.sandbox.answers import Tool, compose
from memory.sandbox.anthropic_models import signature
from memory.sandbox.bedrock import maker
from memory.sandbox.eventstream import event
from memory.sandbox.wire import made_id, pieces, string_of, to_json, token_count

STREAM_TYPE = "application/vnd.amazon.eventstream"


def reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The answer to a body `check` let pass."""
    messages, config = body["messages"], body.get("toolConfig") or {}
    texts = [_text(message) for message in messages if message["role"] == "user"]
    choice = config.get("toolChoice") or {}
    answer = compose(
        next((text for text in reversed(texts) if text), ""),
        _text(messages[-1]) if messages[-1]["role"] == "user" else "",
        _tools(config),
        forced="" if "any" in choice else string_of(choice["tool"], "name") if "tool" in choice else None,
    )
    content: list[dict[str, Any]] = []
    if thought := _thought(body, answer.reasoning):
        content.append({"reasoningContent": {"reasoningText": thought}})
    if answer.text:
        content.append({"text": answer.text})
    for at, call in enumerate(answer.calls):
        call_id = made_id("tooluse_", raw, f"call {at}", length=22)
        content.append({"toolUse": {"toolUseId": call_id, "name": call.name, "input": call.arguments}})
    asked, said = token_count(raw), token_count(to_json(content))
    return {
        "metrics": {"latencyMs": 1},
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if answer.calls else "end_turn",
        "usage": {"inputTokens": asked, "outputTokens": said, "totalTokens": asked + said},
    }


def events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    """The same reply as frames."""
    whole = reply(body, raw)
    yield _frame("messageStart", role="assistant")
    for index, block in enumerate(whole["output"]["message"]["content"]):
        for kind, value in _streamed(block):
            yield _frame(kind, contentBlockIndex=index, **value)
        yield _frame("contentBlockStop", contentBlockIndex=index)
    yield _frame("messageStop", stopReason=whole["stopReason"])
    yield _frame("metadata", metrics=whole["metrics"], usage=whole["usage"])


def _streamed(block: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The events that make a block: only calls announce themselves."""
    if "toolUse" in block:
        use = block["toolUse"]
        yield "contentBlockStart", {"start": {"toolUse": {"toolUseId": use["toolUseId"], "name": use["name"]}}}
        for piece in pieces(to_json(use["input"]).decode()):
            yield "contentBlockDelta", {"delta": {"toolUse": {"input": piece}}}
    elif "text" in block:
        for piece in pieces(block["text"]):
            yield "contentBlockDelta", {"delta": {"text": piece}}
    else:
        thought = block["reasoningContent"]["reasoningText"]
        for piece in pieces(thought["text"]):
            yield "contentBlockDelta", {"delta": {"reasoningContent": {"text": piece}}}
        if "signature" in thought:
            yield "contentBlockDelta", {"delta": {"reasoningContent": {"signature": thought["signature"]}}}


def _frame(kind: str, **data: Any) -> bytes:
    return event(kind, to_json(data))


def _thought(body: dict[str, Any], text: str) -> dict[str, str] | None:
    """Reasoning where it is asked for: signed by Claude, without a signature by others."""
    fields = body.get("additionalModelRequestFields")
    fields = fields if isinstance(fields, dict) else {}
    if maker(body["modelId"]) == "anthropic":
        is_on = string_of(fields.get("thinking"), "type") in ("enabled", "adaptive")
        return {"text": text, "signature": signature(body["modelId"], text)} if is_on else None
    return {"text": text} if fields.get("reasoning_config") or fields.get("reasoning_effort") else None


def _text(message: dict[str, Any]) -> str:
    """The text a message holds itself, without that of tool results."""
    return "\n".join(block["text"] for block in message["content"] if "text" in block)


def _tools(config: dict[str, Any]) -> list[Tool]:
    specs = (tool["toolSpec"] for tool in config.get("tools") or [] if "toolSpec" in tool)
    return [Tool(spec["name"], spec["inputSchema"]["json"]) for spec in specs]
