"""Stored messages: plain dicts in the stored format (version 2), read from and written to their text.

A row's text is the record. It is checked once when it arrives (`clean_content`); reading never fails a thread: a
text that can't be read comes back as an error part that pages show as a card.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from memory.errors import FieldError, InvalidInput
from memory.messages.values import JsonObject, write_json

StoredMessage = dict[str, Any]
"""`{"id", "role", "createdAt", "threadId", "resourceId", "type", "content": {...}}`; `content` is parsed.

As a store loads them `content` is a `RowContent`, which a message list reads when somebody looks at the message.
"""

ROLES = ("user", "assistant", "system", "signal")
RANKS = {"partial-call": 0, "call": 1, "approval-requested": 2, "approval-responded": 3}
RANKS |= {"result": 4, "output-error": 4, "output-denied": 4}
UNREADABLE = "data-unreadable"
DENIED = "Tool call was not approved by the user"

_HALF = re.compile("[\ud800-\udfff]")
_HALF_OR_NUL = re.compile("[\ud800-\udfff\x00]")


def read_content(text: str | bytes) -> dict[str, Any]:
    """The content object of a row's text. A bare JSON text (old format) reads as one text part.

    What can't be read comes back as a single `data-unreadable` part with the reason and the first 2,000 characters.
    """
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        shown = text if isinstance(text, str) else text.decode("utf-8", "replace")
        return {"format": 2, "parts": [{"type": UNREADABLE, "data": {"reason": str(error), "text": shown[:2000]}}]}
    return content_of(value)


def content_of(value: Any) -> dict[str, Any]:
    """The content object that a stored `content` value means; a text is the old format."""
    if isinstance(value, JsonObject):
        return value.value
    if isinstance(value, str):
        return {"format": 2, "content": value, "parts": [{"type": "text", "text": value}]}
    if isinstance(value, dict):
        return value
    return {
        "format": 2,
        "parts": [{"type": UNREADABLE, "data": {"reason": "not an object", "text": str(value)[:2000]}}],
    }


class RowContent(JsonObject):
    """A content as a row's text. Nothing of it is read before it is asked for, so it costs a prompt little."""

    __slots__ = ("row_text",)

    def __init__(self, row_text: str | bytes) -> None:
        self.row_text = row_text

    @property
    def raw(self) -> msgspec.Raw:  # type: ignore[override]
        return msgspec.Raw(self.row_text)

    @property
    def value(self) -> dict[str, Any]:
        try:
            return self._value
        except AttributeError:
            value = read_content(self.row_text)
            self._value = value
            return value


def parts_of(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parts of a content object that are objects, as stored."""
    parts = content.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def tool_invocations(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The tool invocations of a message: those of its parts, then those of the legacy list."""
    for part in parts_of(content):
        invocation = part.get("toolInvocation")
        if part.get("type") == "tool-invocation" and isinstance(invocation, dict):
            yield invocation
    legacy = content.get("toolInvocations")
    if isinstance(legacy, list):
        yield from (entry for entry in legacy if isinstance(entry, dict))


def rank_of(invocation: Mapping[str, Any]) -> int:
    """How far a tool invocation has come, from 0 to 4 (final); -1 for a state nobody knows."""
    state = invocation.get("state")
    return RANKS.get(state, -1) if isinstance(state, str) else -1


def text_of(content: Mapping[str, Any]) -> str:
    """The plain text of a message, joined by newline; what a list of threads or a search shows."""
    texts = [
        part["text"] for part in parts_of(content) if part.get("type") == "text" and isinstance(part.get("text"), str)
    ]
    if not texts and isinstance(content.get("content"), str):
        texts = [content["content"]]
    return "\n".join(texts)


def timestamp(at: datetime) -> str:
    """ISO 8601 UTC with milliseconds, as stored messages spell time."""
    return f"{at.astimezone(UTC).isoformat(timespec='milliseconds')[:-6]}Z"


def instant(value: Any) -> datetime | None:
    """The time a stored `createdAt` means: ISO text, epoch milliseconds or a datetime; None when it means none."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime.fromtimestamp(value / 1000, UTC)
        if isinstance(value, str) and value:
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


# Checking what arrives


def check_content(value: Any, place: str) -> list[FieldError]:
    """What is wrong with a content value, by place; nothing for one that can be stored."""
    if isinstance(value, str):
        return []
    if not isinstance(value, dict):
        return [FieldError(place, "expected an object with parts, or a text")]
    parts = value.get("parts")
    if parts is None:
        if isinstance(value.get("content"), str) or isinstance(value.get("toolInvocations"), list):
            return []
        return [FieldError(f"{place}.parts", "a message needs parts or a content text")]
    if not isinstance(parts, list):
        return [FieldError(f"{place}.parts", "expected a list")]
    return [error for i, part in enumerate(parts) for error in _check_part(part, f"{place}.parts[{i}]")]


def _check_part(part: Any, place: str) -> Iterator[FieldError]:
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        yield FieldError(place, "expected an object with a type")
        return
    kind = part["type"]
    metadata = part.get("providerMetadata")
    if metadata is not None and not isinstance(metadata, dict):
        yield FieldError(f"{place}.providerMetadata", "expected an object")
    if kind == "text" and not isinstance(part.get("text", ""), str):
        yield FieldError(f"{place}.text", "expected a text")
    elif kind == "reasoning":
        if not isinstance(part.get("reasoning") or "", str):
            yield FieldError(f"{place}.reasoning", "expected a text")
        if not isinstance(part.get("details") or [], list):
            yield FieldError(f"{place}.details", "expected a list")
    elif kind == "file" and not isinstance(part.get("data") or part.get("url"), str):
        yield FieldError(f"{place}.data", "expected a URL, a data URI or base64")
    elif kind == "tool-invocation":
        invocation = part.get("toolInvocation")
        if not isinstance(invocation, dict):
            yield FieldError(f"{place}.toolInvocation", "expected an object")
            return
        for key in ("toolCallId", "toolName"):
            if not isinstance(invocation.get(key), str):
                yield FieldError(f"{place}.toolInvocation.{key}", "expected a text")
        if rank_of(invocation) < 0:
            yield FieldError(f"{place}.toolInvocation.state", f"expected one of {', '.join(RANKS)}")


def clean_content(value: Any) -> tuple[str, list[str]]:
    """The text to store for a content value, and notes on what had to be cleaned.

    U+0000 and unpaired surrogate halves become U+FFFD (valid halves are joined); numbers that are not finite become
    null. Sources: PostgreSQL refuses U+0000 in text, every provider refuses half surrogates.
    """
    notes: list[str] = []
    cleaned = _clean(value, "", notes)
    return write_json(cleaned), notes


def _clean(value: Any, place: str, notes: list[str]) -> Any:
    if isinstance(value, str):
        return _clean_text(value, place, notes)
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            new_key = _clean_text(key, f"{place}/{key!a}", notes) if isinstance(key, str) else str(key)
            out[new_key] = _clean(item, f"{place}/{new_key}", notes)
        return out
    if isinstance(value, list | tuple):
        return [_clean(item, f"{place}/{i}", notes) for i, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        notes.append(f"{place}: {value} became null")
        return None
    return value


def _clean_text(text: str, place: str, notes: list[str]) -> str:
    if not _HALF_OR_NUL.search(text):
        return text
    nul_count = text.count("\x00")
    if nul_count:
        notes.append(f"{place}: {nul_count} x U+0000 replaced")
        text = text.replace("\x00", "\ufffd")
    if _HALF.search(text):
        joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        notes.append(f"{place}: surrogate halves joined or replaced")
        text = joined
    return text


def decode_json(body: bytes) -> Any:
    """The value of a JSON body, big integers exact, half surrogates kept for `clean_content` to mend.

    Raises InvalidInput when it is no JSON (also for NaN and Infinity, which JSON does not have).
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return _decode_lenient(body, error)


def _decode_lenient(body: bytes, error: Exception) -> Any:
    # msgspec refuses a lone surrogate escape; the standard parser keeps it, so that the text can be mended, not lost.
    def refuse(name: str) -> Any:
        raise InvalidInput(f"not JSON: {name} is no JSON value", code="not_json")

    try:
        return json.loads(body, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise InvalidInput(f"not JSON: {error}", code="not_json") from error
