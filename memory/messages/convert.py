"""Stored messages to a prompt, faithfully.

Left out is only what no model may see: `data-*` parts, sources, ids, times, markers. Pending calls, orphan results
and blank texts stay: whatever repairs is a pass with a rule id, so that it can be seen, explained and switched.
Source: the message format's section 4.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard
from urllib.parse import unquote_to_bytes

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
from memory.messages.stored import DENIED, RowContent, content_of
from memory.messages.typed import Body, Invocation, StoredPart, is_plain_object, lenient_body, typed_body
from memory.messages.values import JsonObject, value_of, write_json

_OUTPUT_TYPES = ("text", "json", "error-text", "error-json", "content")
_DATA_URI = re.compile(r"^data:([^;,]*)[^,]*?(;base64)?,", re.DOTALL)


def to_prompt(messages: Iterable[Mapping[str, Any]], *, system: Sequence[str] = ()) -> Prompt:
    """The prompt that stored messages (list order, oldest first) make, `system` texts first.

    Each prompt message has the id and origin stamp of its stored message, each part the index of its stored part.
    `content` is a stored value or a `RowContent`, which is read as far as a prompt needs it. What was read is not kept:
    that the next row has the same memory again is worth more than a second reading costs.
    """
    out = [Message("system", text) for text in system]
    arguments: dict[str, Any] = {}
    for message in messages:
        role, content, message_id = message.get("role"), message.get("content"), message.get("id") or ""
        if role == "system":
            continue
        old: list[StoredPart] = []
        body = typed_body(content.row_text) if type(content) is RowContent else None
        if body is None:
            body, old = lenient_body(content_of(content))
        given = body.parts
        ends_in_text = bool(given) and given[-1].type == "text"
        if role != "assistant" and ends_in_text and len(given) == 1 and not old:
            # Half of all messages are one text.
            text = Text(given[0].text or "", given[0].provider_metadata, 0)
            out.append(Message("user", (text,), body.options or None, message_id))
            continue
        parts = enumerate(given) if ends_in_text and not old else _with_old(body, old)
        if role != "assistant":
            if said := tuple(_said_by_user(parts)):
                out.append(Message("user", said, body.options or None, message_id))
            continue
        made = _turn(parts, message_id, body.origin, arguments)
        if body.options:
            made = _with_options(made, body.options)
        out += made
    return Prompt(tuple(out))


def _with_options(made: list[Message], options: Options) -> list[Message]:
    """Message-level metadata goes to the last produced message of the assistant."""
    for i in range(len(made) - 1, -1, -1):
        if made[i].role == "assistant":
            old = made[i]
            made[i] = Message(old.role, old.content, options, old.id, old.origin, old.parted)
            break
    return made


_WITHOUT_TEXT = {"tool-invocation", "reasoning", "step-start", ""}


def _with_old(body: Body, old: list[StoredPart]) -> Iterable[tuple[int | None, StoredPart]]:
    """The parts with their index; old fields first, the text beside them last where no part says anything else."""
    parts: list[tuple[int | None, StoredPart]] = [(None, part) for part in old]
    parts += enumerate(body.parts)
    if _WITHOUT_TEXT.issuperset(part.type for part in body.parts):
        text = value_of(body.content)
        if text and isinstance(text, str):
            parts.append((None, StoredPart("text", text)))
    return parts


def _said_by_user(parts: Iterable[tuple[int | None, StoredPart]]) -> list[Part]:
    out: list[Part] = []
    is_text = False  # whether the last part was a text
    for at, part in parts:
        kind = part.type
        if kind == "text":
            text = Text(part.text or "", part.provider_metadata, at)
            if is_text and text.options and _is_same_item(last := out[-1], text):
                out[-1] = Text(last.text + text.text, last.options, last.at)
            else:
                out.append(text)
            is_text = True
        elif kind in ("file", "tool-invocation", "reasoning", "step-start"):
            is_text = False
            if kind == "file" and (file := _file(part, at, is_user=True)) is not None:
                out.append(file)
    return out


def _turn(
    parts: Iterable[tuple[int | None, StoredPart]],
    message_id: str,
    origin: Origin | None,
    arguments: dict[str, Any],
) -> list[Message]:
    """An assistant's stored message as prompt messages: blocks, each with the results of its calls behind it."""
    made: list[Message] = []
    block: list[Part] = []
    results: list[Part] = []
    is_parted = False
    tool: ToolCall | None = None  # the last part, when it was one of a tool
    for at, part in parts:
        kind = part.type
        new: Part | None
        if kind == "tool-invocation":
            if (invocation := part.tool_invocation) is None:
                continue
            call_id, name, options = invocation.tool_call_id, invocation.tool_name, part.provider_metadata
            if args := value_of(invocation.args):
                known = arguments[call_id] = args
            else:
                args = {} if args is None else args
                known = arguments.get(call_id) or {}
            output = _output(invocation, options)
            executed = part.provider_executed
            if tool is not None and executed and not tool.provider_executed and output is not None:
                _close(made, block, results, message_id, origin, is_parted)
                block, results, is_parted = [], [], True
            tool = ToolCall(call_id, name, args, executed, output is None, options, at)
            if output is None or not (options and _is_orphan(options)):
                block.append(tool)
            if output is not None:
                (block if executed else results).append(ToolResult(call_id, name, output, known, options, at))
            continue
        if kind == "text":
            new = Text(part.text or "", part.provider_metadata, at)
            if new.options and tool is None and block and _is_same_item(last := block[-1], new):
                block[-1] = Text(last.text + new.text, last.options, last.at)
                continue
        elif kind == "step-start":
            if block or results:
                _close(made, block, results, message_id, origin, is_parted)
                block, results = [], []
            is_parted, tool = False, None
            continue
        elif kind == "reasoning":
            new = _reasoning(part, at, origin)
        elif kind == "file":
            new = _file(part, at, is_user=False)
        else:
            continue
        if new is None:
            continue
        if tool is not None:  # this can only have come after the tool's outcome
            _close(made, block, results, message_id, origin, is_parted)
            block, results, is_parted, tool = [], [], True, None
        block.append(new)
    _close(made, block, results, message_id, origin, is_parted)
    return made


def _close(
    made: list[Message], block: list[Part], results: list[Part], message_id: str, origin: Origin | None, is_parted: bool
) -> None:
    if block:
        made.append(Message("assistant", tuple(block), None, message_id, origin, is_parted and bool(made)))
    if results:
        made.append(Message("tool", tuple(results), None, message_id, origin))


def _is_orphan(options: Options) -> bool:
    mastra = options.get("mastra")
    return isinstance(mastra, dict) and bool(mastra.get("orphanResult"))


def _reasoning(part: StoredPart, at: int | None, origin: Origin | None) -> Reasoning | None:
    text = part.reasoning
    if not text:
        if not part.details:
            return None
        first = part.details[0]
        text = first.text or "" if first.type == "text" else ""
        if len(part.details) > 1:
            text += "".join([detail.text or "" for detail in part.details[1:] if detail.type == "text"])
    options = part.provider_metadata
    return Reasoning(text, options, at, (own_origin(options) if options else None) or origin)


def _file(part: StoredPart, at: int | None, *, is_user: bool) -> File | None:
    data = value_of(part.data) or part.url
    if not isinstance(data, str):
        return None
    media_type = part.mime_type or part.media_type
    if data.startswith("data:") and (head := _DATA_URI.match(data)):
        media_type = media_type or head[1]
        if is_user:
            rest = data[head.end() :]
            data = rest if head[2] else base64.b64encode(unquote_to_bytes(rest)).decode()
    return File(media_type or "image/png", data, part.filename, part.provider_metadata, at)


def _output(invocation: Invocation, options: Options | None) -> Output | None:
    """The outcome a model sees, or None while there is none."""
    state = invocation.state
    if state == "result":
        mastra = options.get("mastra") if options else None
        compact = mastra.get("modelOutput") if isinstance(mastra, dict) else None
        if isinstance(compact, dict) and compact.get("type") in _OUTPUT_TYPES:
            return Output(compact["type"], compact.get("value"))
        return tool_output(value_of(invocation.result) if compact is None else compact)
    if state == "output-error":
        return Output("error-text", invocation.error_text or "")
    if state == "output-denied":
        approval = invocation.approval
        reason = approval.get("reason") if isinstance(approval, dict) else None
        return Output("text", reason or DENIED)
    return None


def tool_output(result: Any) -> Output:
    """What a model sees of a raw tool result: a `value` is unwrapped, media items become content, else text or JSON."""
    if type(result) is JsonObject:
        if is_plain_object(result.raw):
            return Output("json", result)
        result = result.value
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


def _is_same_item(one: Part, other: Text) -> TypeGuard[Text]:
    """Whether both are texts of one item of the Responses API: they are joined, whatever sources stand between."""
    item_id = _item_id(other.options)
    return bool(item_id) and isinstance(one, Text) and item_id == _item_id(one.options)


def _item_id(options: Options | None) -> str | None:
    for namespace in ("openai", "azure"):
        value = options.get(namespace) if options else None
        if isinstance(value, dict) and isinstance(value.get("itemId"), str):
            return str(value["itemId"])
    return None
