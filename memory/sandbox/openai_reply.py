"""Replies of the chat completions protocol, whole or as its stream of chunks, each host in its own manner."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

from msgspec import Struct

from memory.sandbox.answers import Tool, compose
from memory.sandbox.wire import made_id, pieces, string_of, to_json, token_count

_CREATED = 1_764_547_200  # always the same second, so that the same request gets the same bytes


def never(body: dict[str, Any]) -> bool:
    return False


def _common_id(name: str, at: int, raw: bytes) -> str:
    return made_id("call_", raw, f"call {at}")


class Manner(Struct, frozen=True):
    """What a host's replies have of their own.

    `reasoning` is the key its reasoning comes under, `chunks` for a list of content as Mistral's; `reasons` tells
    whether a request gets some. `usage` in a stream: in a chunk of its own `asked` for, in the `last` one with a
    choice, or in one of its own unasked (`always`). `comment` stands before the first chunk.
    """

    reasoning: str = ""
    reasons: Callable[[dict[str, Any]], bool] = never
    call_id: Callable[[str, int, bytes], str] = _common_id
    reply_id: str = "chatcmpl-"
    has_whole_calls: bool = False
    usage: Literal["asked", "last", "always"] = "asked"
    comment: bytes = b""


Reply = Callable[[dict[str, Any], bytes], dict[str, Any]]
Events = Callable[[dict[str, Any], bytes], Iterator[bytes]]


def speaking(manner: Manner) -> tuple[Reply, Events]:
    """The two functions that answer a body the checks let pass: whole, and as a stream."""
    return partial(_reply, manner=manner), partial(_events, manner=manner)


def _reply(body: dict[str, Any], raw: bytes, *, manner: Manner) -> dict[str, Any]:
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
    if manner.reasons(body):
        if manner.reasoning == "chunks":
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": answer.reasoning}]}
            message["content"] = [thought, *([{"type": "text", "text": answer.text}] if answer.text else [])]
        else:
            message[manner.reasoning] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "id": manner.call_id(call.name, at, raw),
                "type": "function",
                "function": {"name": call.name, "arguments": to_json(call.arguments).decode()},
            }
            for at, call in enumerate(answer.calls)
        ]
    asked, said = token_count(raw), token_count(to_json(message))
    return {
        "id": made_id(manner.reply_id, raw),
        "object": "chat.completion",
        "created": _CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if answer.calls else "stop"}],
        "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
    }


def _events(body: dict[str, Any], raw: bytes, *, manner: Manner) -> Iterator[bytes]:
    """The reply as server-sent chunks."""
    whole = _reply(body, raw, manner=manner)
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = whole["choices"][0]
    if manner.comment:
        yield manner.comment
    for delta in _deltas(choice["message"], manner):
        yield _chunk(head, [{"index": 0, "delta": delta, "finish_reason": None}])
    usage = {"usage": whole["usage"]}
    last = usage if manner.usage == "last" else {}
    yield _chunk({**head, **last}, [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}])
    options = body.get("stream_options")
    is_asked = isinstance(options, dict) and bool(options.get("include_usage"))
    if manner.usage == "always" or (manner.usage == "asked" and is_asked):
        yield _chunk({**head, **usage}, [])
    yield b"data: [DONE]\n\n"


def _deltas(message: dict[str, Any], manner: Manner) -> Iterator[dict[str, Any]]:
    content = message["content"]
    yield {"role": "assistant", "content": "" if content else None}
    if isinstance(content, list):
        yield from _chunk_deltas(content)
    for key in (manner.reasoning, "content"):
        value = message.get(key)
        for piece in pieces(value if isinstance(value, str) else ""):
            yield {key: piece}
    calls = [{**call, "index": index} for index, call in enumerate(message.get("tool_calls", []))]
    if manner.has_whole_calls and calls:
        yield {"tool_calls": calls}
        return
    for call in calls:
        yield {"tool_calls": [{**call, "function": {"name": call["function"]["name"], "arguments": ""}}]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]}


def _chunk_deltas(content: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for part in content:
        if part["type"] == "text":
            for piece in pieces(part["text"]):
                yield {"content": piece}
        else:
            for piece in pieces(part["thinking"][0]["text"]):
                yield {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": piece}]}]}


def _chunk(head: dict[str, Any], choices: list[dict[str, Any]]) -> bytes:
    return b"data: " + to_json({**head, "choices": choices}) + b"\n\n"


def _forced(choice: Any) -> str | None:
    """The name of the tool that must be called, empty for any, None for a free choice."""
    if choice in ("required", "any"):
        return ""
    return string_of(choice.get("function"), "name") if isinstance(choice, dict) else None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def _tools(body: dict[str, Any]) -> list[Tool]:
    functions = (tool["function"] for tool in body.get("tools") or [] if tool.get("type", "function") == "function")
    return [Tool(function["name"], function.get("parameters") or {}) for function in functions]
