"""The fields of a stored message that a prompt is made of: read from its text at once, or from plain values leniently.

Typed reading is for the many rows that are as they should be, and leaves arguments and results as text. What it
refuses is read leniently, to the same effect. Source: the message format's section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Raw, Struct

from memory.messages.names import provider_id
from memory.messages.prompt import Origin

_ABSENT = Raw()


class Invocation(Struct, gc=False, rename="camel"):
    """A tool invocation."""

    state: str = ""
    tool_call_id: str = ""
    tool_name: str = ""
    args: Raw = _ABSENT
    """Text; the plain value where it was read leniently. So are `result` and a part's `data`."""
    result: Raw = _ABSENT
    error_text: Any = None
    approval: Any = None


class Detail(Struct, gc=False):
    """A piece of reasoning."""

    type: str = ""
    text: str | None = None


class StoredPart(Struct, gc=False, rename="camel"):
    """A part of any type; fields that its type has not are absent."""

    type: str = ""
    text: str | None = None
    provider_metadata: dict[str, Any] | None = None
    tool_invocation: Invocation | None = None
    reasoning: str | None = None
    details: list[Detail] | None = None
    data: Raw = _ABSENT
    url: str | None = None
    mime_type: str | None = None
    media_type: str | None = None
    filename: str | None = None
    provider_executed: bool | None = None


class _Stamp(Struct, gc=False, rename="camel"):
    provider: str | None = None
    protocol: str | None = None
    model_id: str | None = None


class Body(Struct, gc=False, rename="camel"):
    """A message's content."""

    parts: list[StoredPart]
    content: Raw = _ABSENT
    """The text beside the parts: mostly a copy of theirs, so it is not read before it is needed."""
    options: dict[str, Any] | None = msgspec.field(default=None, name="providerMetadata")
    stamp: _Stamp | None = msgspec.field(default=None, name="metadata")
    # Fields of old formats: a message that has one is refused here, and so read leniently.
    tool_invocations: None = None
    reasoning: None = None
    attachments: None = msgspec.field(default=None, name="experimental_attachments")

    @property
    def origin(self) -> Origin | None:
        stamp = self.stamp
        if stamp is None or not stamp.provider:
            return None
        return _origin(stamp.provider, stamp.protocol, stamp.model_id)


_decode = msgspec.json.Decoder(Body).decode


def typed_body(text: str | bytes) -> Body | None:
    """The body of a content's JSON text; None when something in it is not of its type, or in a field of old formats."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


class _CallId(Struct, gc=False, rename="camel"):
    tool_call_id: str = ""


class _Caller(Struct, gc=False, rename="camel"):
    tool_invocation: _CallId | None = None


class _Calls(Struct, gc=False):
    parts: list[_Caller]


_decode_calls = msgspec.json.Decoder(_Calls).decode


def call_ids(text: str | bytes) -> list[str] | None:
    """The ids of the calls in the parts of a content's JSON text; None where only its plain value tells them."""
    try:
        parts = _decode_calls(text).parts
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return [part.tool_invocation.tool_call_id for part in parts if part.tool_invocation is not None]


class _Special(Struct, gc=False):
    value: Raw = _ABSENT
    content: Raw = _ABSENT


_decode_special = msgspec.json.Decoder(_Special).decode


def is_plain_object(text: Raw) -> bool:
    """Whether the JSON object has none of the keys that make a tool's result more than JSON."""
    special = _decode_special(text)
    return not special.value and not special.content


@lru_cache(maxsize=1024)
def _origin(provider: str, protocol: str | None, model_id: str | None) -> Origin:
    if protocol is None:
        protocol = provider if provider in ("openai-chat", "openai-responses") else ""
    return Origin(provider_id(provider), protocol, model_id or "")


def origin_of(content: Mapping[str, Any]) -> Origin | None:
    """The stamp of a turn (`metadata.provider`, `protocol`, `modelId`), or None when it carries none."""
    return Body([], stamp=_stamp(content)).origin


def lenient_body(content: Mapping[str, Any]) -> tuple[Body, list[StoredPart]]:
    """The body of a content object, whatever it holds, and what counts of its old fields.

    Calls, reasoning and attachments of old formats count only where no part is of their kind.
    """
    get: Callable[[str], Any] = content.get
    given = get("parts")
    parts = [_part(part) for part in given] if isinstance(given, list) else []
    types = {part.type for part in parts}
    old: list[StoredPart] = []
    if "tool-invocation" not in types and isinstance(legacy := get("toolInvocations"), list):
        calls = ({"type": "tool-invocation", "toolInvocation": entry} for entry in legacy if isinstance(entry, dict))
        old += map(_part, calls)
    reasoning = get("reasoning")
    if "reasoning" not in types and isinstance(reasoning, str) and reasoning:
        old.append(StoredPart("reasoning", reasoning=reasoning))
    if "file" not in types and isinstance(attachments := get("experimental_attachments"), list):
        for entry in attachments:
            if isinstance(entry, dict):
                media_type, name = entry.get("contentType"), entry.get("name")
                old.append(_part({"type": "file", "mimeType": media_type, "data": entry.get("url"), "filename": name}))
    return Body(parts, get("content"), _mapping(get("providerMetadata")), _stamp(content)), old


def _stamp(content: Mapping[str, Any]) -> _Stamp | None:
    metadata = content.get("metadata")
    if not isinstance(metadata, Mapping):
        return None
    return _Stamp(_text(metadata.get("provider")), _text(metadata.get("protocol")), _text(metadata.get("modelId")))


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
        [_detail(detail) for detail in details] if isinstance(details := get("details"), list) else None,
        get("data"),
        _text(get("url")),
        _text(get("mimeType")),
        _text(get("mediaType")),
        _text(get("filename")),
        get("providerExecuted"),
    )


def _detail(given: Any) -> Detail:
    return Detail(_text(given.get("type")) or "", _text(given.get("text"))) if isinstance(given, dict) else Detail()


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
