"""A prompt to stored messages: what an importer and the prompt form of an input go through.

Tool results live inside assistant messages. A result belongs to the nearest earlier unanswered call of its id, never
to an id alone: some hosts use `call_0` again in every turn. Source: the message format's section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET

from memory.messages.halves import write_mended
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
from memory.messages.stored import StoredMessage


def from_prompt(prompt: Prompt) -> list[StoredMessage]:
    """Stored messages `{role, content}` (no ids, no times) that `to_prompt` turns into this prompt again.

    System messages are left out: they are no list members. A result that does not directly follow the message of its
    call is stored on its own, marked `mastra.orphanResult`, so that the order stays what it was. Neighbouring assistant
    messages count as one turn: their results go to their calls.
    """
    return [message for _, message in stored_with_places(prompt)]


def stored_with_places(prompt: Prompt) -> list[tuple[int, StoredMessage]]:
    """As `from_prompt`, each with the index of the prompt message it begins with."""
    out: list[tuple[int, StoredMessage]] = []
    calls = _OpenCalls()
    turn: list[StoredMessage] = []  # the assistant messages that tool messages right behind them belong to
    before = ""
    for place, message in enumerate(prompt.messages):
        match message.role:
            case "system":
                continue
            case "user":
                out.append((place, _stored("user", [_user_part(p) for p in _without_empty(message.parts)], message)))
                turn = []
            case "assistant":
                said = _stored("assistant", [], message)
                turn = [*turn, said] if before == "assistant" else [said]
                parts: list[dict[str, Any]] = said["content"]["parts"]
                for part in _without_empty(message.parts):
                    if isinstance(part, ToolResult):
                        if (lone := calls.answer(part, [said], is_inside=True)) is not None:
                            parts.append({**lone, "providerExecuted": True})
                        continue
                    stored = _assistant_part(part)
                    parts.append(stored)
                    if isinstance(part, ToolCall):
                        calls.add(said, stored)
                out.append((place, said))
            case "tool":
                loose = _stored("assistant", [], message)
                lone_parts: list[dict[str, Any]] = loose["content"]["parts"]
                for part in message.parts:
                    if isinstance(part, ToolResult) and (lone := calls.answer(part, turn)) is not None:
                        lone_parts.append(lone)
                if lone_parts:
                    out.append((place, loose))
        before = message.role
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
        text = output.value if isinstance(output.value, str) else write_mended(output.value)
        return {"state": "output-error", "errorText": text}
    value = {"type": "content", "value": output.value} if output.type == "content" else output.value
    # A bare object with a `value` would be unwrapped when it is read back.
    if output.type == "json" and isinstance(value, dict) and "value" in value:
        value = {"type": "json", "value": value}
    return {"state": "result", "result": value}


class _OpenCalls:
    """Calls without an outcome so far, by id in order of appearance."""

    def __init__(self) -> None:
        self._by_id: dict[str, list[tuple[StoredMessage, dict[str, Any]]]] = {}

    def add(self, message: StoredMessage, part: dict[str, Any]) -> None:
        self._by_id.setdefault(part["toolInvocation"]["toolCallId"], []).append((message, part))

    def answer(
        self, result: ToolResult, turn: Sequence[StoredMessage], *, is_inside: bool = False
    ) -> dict[str, Any] | None:
        """Give the result to its call when that stands in `turn`; else a part that holds the result alone.

        Meant is the first open call of the id in the turn: parallel calls are answered in order. A result inside an
        assistant message belongs to a hosted call first, any other to a client's.
        """
        open_calls = self._by_id.get(result.call_id, [])
        at = len(open_calls)
        while at and any(open_calls[at - 1][0] is message for message in turn):
            at -= 1
        if in_turn := range(at, len(open_calls)):
            fitting = [i for i in in_turn if bool(open_calls[i][1].get("providerExecuted")) is is_inside] or in_turn
            part = open_calls.pop(fitting[0])[1]
            part["toolInvocation"].update(outcome(result.output))
            if options := without_orphan_mark(result.options or {}):
                part["providerMetadata"] = _joined(part.get("providerMetadata") or {}, options)
            return None
        call = open_calls.pop()[1]["toolInvocation"] if open_calls else {}
        args = call["args"] if call else {} if result.input is UNSET else result.input
        found = outcome(result.output)
        invocation = {
            "state": found.pop("state"),
            "toolCallId": result.call_id,
            "toolName": result.name or call.get("toolName") or "unknown_tool",
            "args": args,
            **found,
        }
        metadata = _joined(result.options or {}, {"mastra": {"orphanResult": True}})
        return {"type": "tool-invocation", "toolInvocation": invocation, "providerMetadata": metadata}


def without_orphan_mark(metadata: Options) -> dict[str, Any]:
    """Metadata of a result that found its call."""
    out = dict(metadata)
    if isinstance(mastra := out.get("mastra"), dict) and "orphanResult" in mastra:
        out["mastra"] = {key: value for key, value in mastra.items() if key != "orphanResult"}
        if not out["mastra"]:
            del out["mastra"]
    return out


def _joined(first: Options, second: Options) -> dict[str, Any]:
    """Both metadata by namespace; the second's keys win."""
    out = dict(first)
    for name, value in second.items():
        before = out.get(name)
        out[name] = {**before, **value} if isinstance(before, dict) and isinstance(value, dict) else value
    return out
