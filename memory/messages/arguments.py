"""Arguments of calls as JSON objects: in requests every target takes these, and new rows hold nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from memory.messages.stored import clean_content, content_of, read_content
from memory.messages.values import write_json


def as_object(value: Any) -> dict[str, Any]:
    """The object that stands for arguments in another form.

    A JSON text is read, nothing becomes `{}`, another value goes under `value`, broken text under `_raw`.
    """
    if isinstance(value, str) and value.strip():
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {"_raw": value}
    if isinstance(value, dict):
        return value
    return {} if value is None or value == [] or (isinstance(value, str) and not value.strip()) else {"value": value}


def storable_text(value: Any) -> tuple[str, list[str]]:
    """The text to store for a content value, and notes on what had to be cleaned.

    As `clean_content`; and arguments that are no object become one, what came staying beside them as `rawInput`.
    A call with free text, or of whose maker we know that it wrote broken JSON, is marked as such and may go back to it.
    """
    text, notes = clean_content(value)
    content = read_content(text) if notes else content_of(value)
    made = _with_objects(content)
    if made is content:
        return text, notes
    return write_json(made), [*notes, "arguments that were no object became one"]


def _with_objects(content: dict[str, Any]) -> dict[str, Any]:
    out = content
    parts, legacy = content.get("parts"), content.get("toolInvocations")
    if isinstance(parts, list):
        made = [_part(part) for part in parts]
        if any(a is not b for a, b in zip(made, parts, strict=True)):
            out = {**out, "parts": made}
    if isinstance(legacy, list):
        calls = [_invocation(call) for call in legacy]
        if any(a is not b for a, b in zip(calls, legacy, strict=True)):
            out = {**out, "toolInvocations": calls}
    return out


def _part(part: Any) -> Any:
    if not isinstance(part, dict) or part.get("type") != "tool-invocation" or _is_marked(part.get("providerMetadata")):
        return part
    invocation = part.get("toolInvocation")
    made = _invocation(invocation)
    return part if made is invocation else {**part, "toolInvocation": made}


def _invocation(call: Any) -> Any:
    if not isinstance(call, dict) or call.get("args") is None or isinstance(call["args"], Mapping):
        return call
    return {"rawInput": call["args"], **call, "args": as_object(call["args"])}


def _is_marked(metadata: Any) -> bool:
    """Whether a maker's options say that its call has free text, or text that is no JSON."""
    options = metadata.values() if isinstance(metadata, Mapping) else ()
    return any(isinstance(own, Mapping) and (own.get("rawArguments") or own.get("custom")) for own in options)
