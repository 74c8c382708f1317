"""Stored messages to a prompt, faithfully.

Left out is only what no model may see: `data-*` parts, sources, ids, times, markers. Pending calls, orphan results
and blank texts stay: whatever repairs is a pass with a rule id, so that it can be seen, explained and switched.
Source: the message format's section 4.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from memory.messages.prompt import (
    File,
    Message,
    Options,
    Origin,
    Output,
    Part,
    Prompt,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    own_origin,
)
from memory.messages.stored import DENIED, content_of, origin_of, write_json

_OUTPUT_TYPES = ("text", "json", "error-text", "error-json", "content")
_DATA_URI = re.compile(r"^data:([^;,]*)[^,]*?(;base64)?,", re.DOTALL)


class _Tool(Struct, frozen=True):
    """A tool part on its way: one call and, unless pending, its outcome."""

    call: ToolCall
    result: ToolResult | None
    is_orphan: bool = False


class _Marker(Struct, frozen=True):
    is_stored: bool


class _Source(Struct, frozen=True):
    pass


_Item = Text | Reasoning | File | _Tool | _Marker | _Source


def to_prompt(messages: Iterable[Mapping[str, Any]], *, system: Sequence[str] = ()) -> Prompt:
    """The prompt that stored messages (list order, oldest first) make, `system` texts first.

    Each prompt message has the id and origin stamp of its stored message, each part the index of its stored part.
    """
    out = [Message("system", text) for text in system]
    arguments: dict[str, Any] = {}
    for message in messages:
        role, content = message.get("role"), content_of(message.get("content"))
        if role == "system":
            continue
        items = _tidy(_items(content, is_user=role != "assistant", arguments=arguments))
        if not items:
            continue
        message_id, origin = message.get("id") or "", origin_of(content)
        if role == "assistant":
            made = _split(_with_markers(items), message_id, origin)
        else:
            parts = tuple(item for item in items if isinstance(item, Text | File))
            made = [Message("user", parts, id=message_id)] if parts else []
        options = _mapping(content.get("providerMetadata"))
        out.extend(_with_options(made, "assistant" if role == "assistant" else "user", options) if options else made)
    return Prompt(tuple(out))


def _with_options(made: list[Message], role: str, options: Options) -> list[Message]:
    """Message-level metadata goes to the last produced message of the same role."""
    for i in range(len(made) - 1, -1, -1):
        if made[i].role == role:
            old = made[i]
            made[i] = Message(old.role, old.content, options, old.id, old.origin, old.parted)
            break
    return made


# One message to a flat list


def _items(content: Mapping[str, Any], *, is_user: bool, arguments: dict[str, Any]) -> list[_Item]:
    parts = content.get("parts")
    if not isinstance(parts, list):
        parts = []
    types = {part.get("type") for part in parts if isinstance(part, dict)}
    items: list[_Item] = []
    if "tool-invocation" not in types:
        legacy = content.get("toolInvocations")
        for entry in legacy if isinstance(legacy, list) else ():
            if isinstance(entry, dict) and (tool := _tool({"toolInvocation": entry}, None, arguments)):
                items.append(tool)
    if "reasoning" not in types and (reasoning := content.get("reasoning")) and isinstance(reasoning, str):
        items.append(Reasoning(reasoning))
    if "file" not in types:
        attachments = content.get("experimental_attachments")
        for entry in attachments if isinstance(attachments, list) else ():
            if isinstance(entry, dict):
                file = {"mimeType": entry.get("contentType"), "data": entry.get("url"), "filename": entry.get("name")}
                if (made := _file(file, None, is_user)) is not None:
                    items.append(made)
    for at, part in enumerate(parts):
        if isinstance(part, dict) and (item := _item(part, at, is_user, arguments)) is not None:
            items.append(item)
    text = content.get("content")
    if isinstance(text, str) and text and types <= {"tool-invocation", "reasoning", "step-start"}:
        items.append(Text(text))
    return items


def _item(part: Mapping[str, Any], at: int, is_user: bool, arguments: dict[str, Any]) -> _Item | None:
    match part.get("type"):
        case "text":
            text = part.get("text")
            return Text(text if isinstance(text, str) else "", _mapping(part.get("providerMetadata")), at)
        case "tool-invocation":
            return _tool(part, at, arguments)
        case "reasoning":
            return _reasoning(part, at)
        case "step-start":
            return _Marker(is_stored=True)
        case "file":
            return _file(part, at, is_user)
        case "source":
            return _Source()
        case _:
            return None


def _mapping(value: Any) -> Options | None:
    return value if isinstance(value, dict) else None


def _reasoning(part: Mapping[str, Any], at: int) -> Reasoning | None:
    text, details = part.get("reasoning") or "", part.get("details") or ()
    if not text:
        text = "".join(d.get("text") or "" for d in details if isinstance(d, dict) and d.get("type") == "text")
    if not text and not details:
        return None
    options = _mapping(part.get("providerMetadata"))
    return Reasoning(text, options, at, own_origin(options))


def _file(part: Mapping[str, Any], at: int | None, is_user: bool) -> File | None:
    data = part.get("data") or part.get("url")
    if not isinstance(data, str):
        return None
    media_type = part.get("mimeType") or part.get("mediaType")
    if data.startswith("data:") and (head := _DATA_URI.match(data)):
        media_type = media_type or head[1]
        if is_user:
            rest = data[head.end() :]
            data = rest if head[2] else base64.b64encode(unquote_to_bytes(rest)).decode()
    return File(media_type or "image/png", data, part.get("filename"), _mapping(part.get("providerMetadata")), at)


def _tool(part: Mapping[str, Any], at: int | None, arguments: dict[str, Any]) -> _Tool | None:
    invocation = part.get("toolInvocation")
    if not isinstance(invocation, dict):
        return None
    call_id, name = str(invocation.get("toolCallId") or ""), str(invocation.get("toolName") or "")
    options = _mapping(part.get("providerMetadata"))
    args = invocation.get("args")
    if args is None:
        args = {}
    if args:
        arguments[call_id] = args
    output = _output(invocation, options)
    executed = part.get("providerExecuted")
    call = ToolCall(call_id, name, args, executed, output is None, options, at)
    mastra = options.get("mastra") if options else None
    is_orphan = bool(isinstance(mastra, dict) and mastra.get("orphanResult"))
    if output is None:
        return _Tool(call, None)
    known = args or arguments.get(call_id) or {}
    return _Tool(call, ToolResult(call_id, name, output, known, options, at), is_orphan)


def _output(invocation: Mapping[str, Any], options: Options | None) -> Output | None:
    """The outcome a model sees, or None while there is none."""
    match invocation.get("state"):
        case "result":
            mastra = options.get("mastra") if options else None
            compact = mastra.get("modelOutput") if isinstance(mastra, dict) else None
            if isinstance(compact, dict) and compact.get("type") in _OUTPUT_TYPES:
                return Output(compact["type"], compact.get("value"))
            return tool_output(invocation.get("result") if compact is None else compact)
        case "output-error":
            return Output("error-text", invocation.get("errorText") or "")
        case "output-denied":
            approval = invocation.get("approval")
            reason = approval.get("reason") if isinstance(approval, dict) else None
            return Output("text", reason or DENIED)
        case _:
            return None


def tool_output(result: Any) -> Output:
    """What a model sees of a raw tool result: a `value` is unwrapped, media items become content, else text or JSON."""
    if isinstance(result, dict):
        if result.get("type") == "content" and isinstance(result.get("value"), list):
            return Output("content", result["value"])
        if "value" in result:
            result = result["value"]
    if isinstance(result, str):
        return Output("text", result)
    if isinstance(result, dict) and isinstance(items := result.get("content"), list):
        media = [i for i in items if isinstance(i, dict) and i.get("type") in ("image", "audio")]
        if any(isinstance(item.get("data"), str) for item in media):
            return Output("content", [_content_item(item) for item in items])
    return Output("json", result)


def _content_item(item: Any) -> dict[str, Any]:
    if isinstance(item, dict) and item.get("type") in ("image", "audio") and isinstance(item.get("data"), str):
        media_type = item.get("mediaType") or item.get("mimeType") or f"{item['type']}/*"
        return {"type": "media", "data": item["data"], "mediaType": media_type}
    if isinstance(item, dict) and item.get("type") == "text" and isinstance(item.get("text"), str):
        return {"type": "text", "text": item["text"]}
    return {"type": "text", "text": write_json(item)}


# Tidying, markers, splitting


def _item_id(options: Options | None) -> str | None:
    for namespace in ("openai", "azure"):
        value = options.get(namespace) if options else None
        if isinstance(value, dict) and isinstance(value.get("itemId"), str):
            return str(value["itemId"])
    return None


def _tidy(items: list[_Item]) -> list[_Item]:
    """Join neighbouring texts of one Responses item; source annotations between them do not count."""
    out: list[_Item] = []
    for item in items:
        if isinstance(item, _Source):
            continue
        last = out[-1] if out else None
        item_id = _item_id(item.options) if isinstance(item, Text) else None
        if isinstance(item, Text) and isinstance(last, Text) and item_id and item_id == _item_id(last.options):
            out[-1] = Text(last.text + item.text, last.options, last.at)
            continue
        out.append(item)
    return out


def _with_markers(items: list[_Item]) -> list[_Item]:
    """Step markers where a tool part is followed by something that can only come after its outcome."""
    out: list[_Item] = []
    last: _Item | None = None
    for item in items:
        if isinstance(last, _Tool):
            is_client = not last.call.provider_executed
            if isinstance(item, _Tool):
                if is_client and item.call.provider_executed and item.result is not None:
                    out.append(_Marker(is_stored=False))
            elif not isinstance(item, _Marker):
                out.append(_Marker(is_stored=False))
        out.append(item)
        last = item
    return out


def _split(items: list[_Item], message_id: str, origin: Origin | None) -> list[Message]:
    made: list[Message] = []
    block: list[Part] = []
    results: list[Part] = []
    parted = False

    def close() -> None:
        if block:
            made.append(Message("assistant", tuple(block), None, message_id, origin, parted and bool(made)))
        if results:
            made.append(Message("tool", tuple(results), None, message_id, origin))
        block.clear()
        results.clear()

    for item in items:
        match item:
            case _Marker():
                close()
                parted = not item.is_stored
            case _Tool(is_orphan=True, result=ToolResult() as result):
                (block if item.call.provider_executed else results).append(result)
            case _Tool():
                block.append(item.call)
                if item.result is not None:
                    (block if item.call.provider_executed else results).append(item.result)
            case Reasoning():
                block.append(item if item.origin else Reasoning(item.text, item.options, item.at, origin))
            case Text() | File():
                block.append(item)
    close()
    return made
