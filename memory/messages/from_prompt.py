"""A prompt to stored messages: what an importer and the prompt form of an input go through.

Tool results live inside assistant messages. A result belongs to the nearest earlier unanswered call of its id, never
to an id alone: some hosts use `call_0` again in every turn. Source: the message format's section 7.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from memory.messages.prompt import (
    File,
    Message,
    Options,
    Output,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    holds_raw_block,
)
from memory.messages.stored import StoredMessage, write_json


def from_prompt(prompt: Prompt) -> list[StoredMessage]:
    """Stored messages `{role, content}` (no ids, no times) that `to_prompt` turns into this prompt again.

    System messages are left out: they are no list members. A result that does not directly follow the message of its
    call is stored on its own, marked `mastra.orphanResult`, so that the order stays what it was.
    """
    out: list[StoredMessage] = []
    calls: list[tuple[StoredMessage, dict[str, Any]]] = []
    turn: StoredMessage | None = None  # the assistant message that tool messages right behind it belong to
    for message in prompt.messages:
        match message.role:
            case "system":
                continue
            case "user":
                out.append(_stored("user", [_user_part(part) for part in _without_empty(message.parts)], message))
                turn = None
            case "assistant":
                turn = _stored("assistant", [], message)
                parts: list[dict[str, Any]] = turn["content"]["parts"]
                for part in _without_empty(message.parts):
                    if isinstance(part, ToolResult):
                        _answer(part, turn, turn, calls, parts)
                        continue
                    stored = _assistant_part(part)
                    parts.append(stored)
                    if isinstance(part, ToolCall):
                        calls.append((turn, stored["toolInvocation"]))
                out.append(turn)
            case "tool":
                loose = _stored("assistant", [], message)
                for part in message.parts:
                    if isinstance(part, ToolResult):
                        _answer(part, turn, loose, calls, loose["content"]["parts"])
                if loose["content"]["parts"]:
                    out.append(loose)
    return out


def _stored(role: str, parts: list[dict[str, Any]], message: Message) -> StoredMessage:
    content: dict[str, Any] = {"format": 2, "parts": parts}
    if text := message.text:
        content["content"] = text
    if message.options is not None and message.role != "tool":
        content["providerMetadata"] = message.options
    out: StoredMessage = {"role": role, "content": content}
    if message.id:
        out["id"] = message.id
    return out


def _without_empty(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Without empty texts, unless nothing else is there."""
    kept = tuple(part for part in parts if not (isinstance(part, Text) and not part.text and not holds_raw_block(part)))
    return kept or parts


def _with_metadata(out: dict[str, Any], options: Options | None) -> dict[str, Any]:
    if options is not None:
        out["providerMetadata"] = options
    return out


def _file_part(part: File) -> dict[str, Any]:
    out: dict[str, Any] = {"type": "file", "mimeType": part.media_type, "data": part.data}
    if part.filename is not None:
        out["filename"] = part.filename
    return _with_metadata(out, part.options)


def _user_part(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return _with_metadata({"type": "text", "text": part.text}, part.options)
        case File():
            return _file_part(part)
        case _:
            raise ValueError(f"a user message can't hold {type(part).__name__}")


def _assistant_part(part: Part) -> dict[str, Any]:
    match part:
        case Text():
            return _with_metadata({"type": "text", "text": part.text}, part.options)
        case File():
            return _file_part(part)
        case Reasoning():
            out: dict[str, Any] = {"type": "reasoning", "reasoning": part.text, "details": _details(part)}
            return _with_metadata(out, part.options)
        case ToolCall():
            invocation = {"state": "call", "toolCallId": part.id, "toolName": part.name, "args": part.input}
            out = {"type": "tool-invocation", "toolInvocation": invocation}
            if part.provider_executed is not None:
                out["providerExecuted"] = part.provider_executed
            return _with_metadata(out, part.options)
        case ToolResult():
            raise ValueError("results are stored with their call")


def _details(part: Reasoning) -> list[dict[str, Any]]:
    anthropic = part.options.get("anthropic") if part.options else None
    if isinstance(anthropic, dict):
        if isinstance(anthropic.get("redactedData"), str):
            return [{"type": "redacted", "data": anthropic["redactedData"]}]
        if isinstance(anthropic.get("signature"), str):
            return [{"type": "text", "text": part.text, "signature": anthropic["signature"]}]
    return [{"type": "text", "text": part.text}]


def outcome(output: Output) -> dict[str, Any]:
    """The fields of a tool invocation that hold this output: `state` with `result` or `errorText`."""
    if output.is_error:
        text = output.value if isinstance(output.value, str) else write_json(output.value)
        return {"state": "output-error", "errorText": text}
    value = {"type": "content", "value": output.value} if output.type == "content" else output.value
    # A bare object with a `value` would be unwrapped when it is read back.
    if output.type == "json" and isinstance(value, dict) and "value" in value:
        value = {"type": "json", "value": value}
    return {"state": "result", "result": value}


def _answer(
    part: ToolResult,
    turn: StoredMessage | None,
    holder: StoredMessage,
    calls: list[tuple[StoredMessage, dict[str, Any]]],
    parts: list[dict[str, Any]],
) -> None:
    """Give the result to its call when that stands in `turn`; else add it to `parts` as a part of its own."""
    open_calls = [
        (message, call) for message, call in calls if call["toolCallId"] == part.call_id and call["state"] == "call"
    ]
    for message, call in open_calls:
        if message is turn or message is holder:
            call.update(outcome(part.output))
            if part.options is not None:
                _add_metadata(message, call, part.options)
            return
    args = open_calls[0][1]["args"] if open_calls else ({} if part.input is UNSET else part.input)
    name = part.name or (open_calls[0][1]["toolName"] if open_calls else "unknown_tool")
    invocation = {"toolCallId": part.call_id, "toolName": name, "args": args, **outcome(part.output)}
    invocation = {"state": invocation.pop("state"), **invocation}
    options: dict[str, Any] = dict(part.options or {})
    options["mastra"] = {**options.get("mastra", {}), "orphanResult": True}
    parts.append({"type": "tool-invocation", "toolInvocation": invocation, "providerMetadata": options})


def _add_metadata(message: StoredMessage, call: dict[str, Any], options: Options) -> None:
    for part in message["content"]["parts"]:
        if part.get("toolInvocation") is call:
            old = part.get("providerMetadata") or {}
            part["providerMetadata"] = {**old, **{key: {**old.get(key, {}), **value} for key, value in options.items()}}
