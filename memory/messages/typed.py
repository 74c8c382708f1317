"""The fields of a stored message that a prompt is made of: read from its text at once, or from plain values leniently.

Typed reading is for the many rows that are as they should be, and leaves arguments and results as text. What it
refuses is read leniently, to the same effect. Source: the message format's section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from memory.messages.names import provider_id
from memory.messages.prompt import Options, Origin

_ABSENT = Raw()


class Invocation(Struct, gc=False, rename="camel"):
    """A tool invocation."""

    state: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Raw = _ABSENT
    """Text; the plain value where it was read leniently. So are `result` and a part's `details` and `data`."""
    result: Raw = _ABSENT
    error_text: Any = None
    approval: Any = None


class StoredPart(Struct, gc=False, rename="camel"):
    """A part of any type; fields that its type has not are absent."""

    type: str = ""
    text: str | None = None
    provider_metadata: dict[str, Any] | None = None
    tool_invocation: Invocation | None = None
    reasoning: str | None = None
    details: Raw = _ABSENT
    data: Raw = _ABSENT
    url: str | None = None
    mime_type: str | None = None
    media_type: str | None = None
    filename: str | None = None
    provider_executed: bool | None = None


class Body(Struct, gc=False):
    """A message's content: its parts, what stands in old fields beside them, its options, its author."""

    parts: list[StoredPart]
    old: Sequence[StoredPart] = ()
    """Calls, reasoning and attachments of old formats, which count only where no part is of their kind."""
    text: str | None = None
    options: Options | None = None
    origin: Origin | None = None


class _Stamp(Struct, gc=False, rename="camel"):
    provider: str | None = None
    protocol: str | None = None
    model_id: str | None = None


class _Content(Struct, gc=False, rename="camel"):
    parts: list[StoredPart]
    content: str | None = None
    provider_metadata: dict[str, Any] | None = None
    metadata: _Stamp | None = None
    tool_invocations: Raw = _ABSENT
    reasoning: Raw = _ABSENT
    attachments: Raw = msgspec.field(default=_ABSENT, name="experimental_attachments")


_decode = msgspec.json.Decoder(_Content).decode


def typed_body(text: Raw) -> Body | None:
    """The body of a content's JSON text; None when something in it is not of its type, or in a field of old formats."""
    try:
        content = _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if content.tool_invocations or content.reasoning or content.attachments:
        return None
    stamp, origin = content.metadata, None
    if stamp is not None and stamp.provider:
        origin = origin_named(stamp.provider, stamp.protocol, stamp.model_id)
    return Body(content.parts, (), content.content, content.provider_metadata, origin)


class _Special(Struct, gc=False):
    value: Raw = _ABSENT
    content: Raw = _ABSENT


_decode_special = msgspec.json.Decoder(_Special).decode


def is_plain_object(text: Raw) -> bool:
    """Whether the JSON object has none of the keys that make a tool's result more than JSON."""
    special = _decode_special(text)
    return not special.value and not special.content


@lru_cache(maxsize=1024)
def origin_named(provider: str, protocol: str | None, model_id: str | None) -> Origin:
    """The stamp that these stored names mean."""
    if protocol is None:
        protocol = provider if provider in ("openai-chat", "openai-responses") else ""
    return Origin(provider_id(provider), protocol, model_id or "")


def lenient_body(content: Mapping[str, Any]) -> Body:
    """The body of a content object, whatever it holds."""
    given = content.get("parts")
    parts = [_part(part) for part in given] if isinstance(given, list) else []
    types = {part.type for part in parts}
    old: list[StoredPart] = []
    if "tool-invocation" not in types and isinstance(legacy := content.get("toolInvocations"), list):
        calls = ({"type": "tool-invocation", "toolInvocation": entry} for entry in legacy if isinstance(entry, dict))
        old += map(_part, calls)
    reasoning = content.get("reasoning")
    if "reasoning" not in types and isinstance(reasoning, str) and reasoning:
        old.append(StoredPart("reasoning", reasoning=reasoning))
    if "file" not in types and isinstance(attachments := content.get("experimental_attachments"), list):
        for entry in attachments:
            if isinstance(entry, dict):
                media_type, name = entry.get("contentType"), entry.get("name")
                old.append(_part({"type": "file", "mimeType": media_type, "data": entry.get("url"), "filename": name}))
    text = content.get("content")
    options = _mapping(content.get("providerMetadata"))
    return Body(parts, old, text if isinstance(text, str) else None, options, origin_of(content))


def origin_of(content: Mapping[str, Any]) -> Origin | None:
    """The stamp of a turn (`metadata.provider`, `protocol`, `modelId`), or None when it carries none."""
    metadata = content.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    provider = metadata.get("provider")
    if not isinstance(provider, str) or not provider:
        return None
    return origin_named(provider, _text(metadata.get("protocol")), _text(metadata.get("modelId")))


def _part(given: Any) -> StoredPart:
    """The part that a plain value means; one of no type where it means none."""
    if not isinstance(given, dict) or not isinstance(given.get("type"), str):
        return StoredPart()
    get: Callable[[str], Any] = given.get
    invocation = get("toolInvocation")
    return StoredPart(
        given["type"],
        _text(get("text")),
        _mapping(get("providerMetadata")),
        _invocation(invocation.get) if isinstance(invocation, dict) else None,
        _text(get("reasoning")),
        get("details"),
        get("data"),
        _text(get("url")),
        _text(get("mimeType")),
        _text(get("mediaType")),
        _text(get("filename")),
        get("providerExecuted"),
    )


def _invocation(get: Callable[[str], Any]) -> Invocation:
    return Invocation(
        _text(get("state")) or "",
        str(get("toolCallId") or ""),
        str(get("toolName") or ""),
        get("args"),
        get("result"),
        get("errorText"),
        get("approval"),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _mapping(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
