"""Replies of the chat completions protocol, whole or as its stream of chunks, for OpenAI and for Cerebras."""

from collections.abc import Iterator
from typing import Any

from memory.sandbox import cerebras
from memory.sandbox.answers import Tool, compose
from memory.sandbox.wire import made_id, pieces, string_of, to_json, token_count

_CREATED = 1_764_547_200  # always the same second, so that the same request gets the same bytes


def openai_reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """The completion that answers a body `openai_chat.check` let pass."""
    return _reply(body, raw, shows_reasoning=False)


def openai_events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    return _events(body, openai_reply(body, raw))


def cerebras_reply(body: dict[str, Any], raw: bytes) -> dict[str, Any]:
    """As OpenAI's, with `reasoning` where the model reasons and was not told not to."""
    is_off = body.get("reasoning_effort") == "none" or body.get("disable_reasoning") is True
    return _reply(body, raw, shows_reasoning=cerebras.is_reasoning(body["model"]) and not is_off)


def cerebras_events(body: dict[str, Any], raw: bytes) -> Iterator[bytes]:
    return _events(body, cerebras_reply(body, raw))


def _reply(body: dict[str, Any], raw: bytes, *, shows_reasoning: bool) -> dict[str, Any]:
    messages = body["messages"]
    texts = [_text(message) for message in messages if message["role"] == "user"]
    choice = body.get("tool_choice")
    answer = compose(
        next((text for text in reversed(texts) if text), ""),
        _text(messages[-1]) if messages[-1]["role"] == "user" else "",
        _tools(body) if choice != "none" else [],
        forced=_forced(choice),
        parallel=body.get("parallel_tool_calls") is not False,
    )
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if shows_reasoning:
        message["reasoning"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": made_id("call_", raw, f"call {at}"),
                "type": "function",
                "function": {"name": call.name, "arguments": to_json(call.arguments).decode()},
            }
            for at, call in enumerate(answer.calls)
        ]
    asked, said = token_count(raw), token_count(to_json(message))
    return {
        "id": made_id("chatcmpl-", raw),
        "object": "chat.completion",
        "created": _CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def _events(body: dict[str, Any], whole: dict[str, Any]) -> Iterator[bytes]:
    """The reply as server-sent chunks; the usage comes in a last one when it was asked for."""
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = whole["choices"][0]
    for delta in _deltas(choice["message"]):
        yield _chunk(head, [{"index": 0, "delta": delta, "finish_reason": None}])
    yield _chunk(head, [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
    options = body.get("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        yield _chunk({**head, "usage": whole["usage"]}, [])
    yield b"data: [DONE]\n\n"


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for key in ("reasoning", "content"):
        for piece in pieces(message.get(key) or ""):
            yield {key: piece}
    for index, call in enumerate(message.get("tool_calls", [])):
        opened = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield {"tool_calls": [opened]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _chunk(head: dict[str, Any], choices: list[dict[str, Any]]) -> bytes:
    return b"data: " + to_json({**head, "choices": choices}) + b"\n\n"


def _forced(choice: Any) -> str | None:
    """The name of the tool that must be called, empty for any, None for a free choice."""
    if choice == "required":
        return ""
    return string_of(choice.get("function"), "name") if isinstance(choice, dict) else None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def _tools(body: dict[str, Any]) -> list[Tool]:
    return [
        Tool(tool["function"]["name"], tool["function"].get("parameters") or {}) for tool in body.get("tools") or []
    ]
