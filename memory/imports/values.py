"""What importing reads: an exchange with a provider, or a whole thread."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from memory.errors import InvalidInput
from memory.messages.stored import (
    StoredMessage,
    check_content,
    clean_content,
    content_of,
    decode_json,
    instant,
    timestamp,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When a history without any times is said to have begun."""
SECOND = timedelta(seconds=1)

PREFIX = "import:"
"""Begins the ids of threads whose origin has no threads of its own."""
_LONGEST_ID = 128
"""Of a thread."""
_ROLES = ("user", "assistant", "signal")


class Line(Struct, frozen=True, kw_only=True):
    """One exchange. `key` is its id as the ids of threads and messages can hold it; `stream` the bytes of an answer."""

    id: str
    key: str
    provider: str
    protocol: str
    model: str
    request: Mapping[str, Any]
    response: Any = None
    status: int = 200
    stream: bytes = b""
    continues: str = ""
    headers: Mapping[str, str] = {}

    @property
    def stamp(self) -> dict[str, str]:
        """Who wrote the answer, as a turn's metadata says it."""
        return stamp_of(self.provider, self.protocol, self.model)


class Dump(Struct, frozen=True, kw_only=True):
    """A whole thread. `messages` have ids and times and stand oldest first; `system` texts and `tools` go beside them.

    `thread_id` is its own id where that means something there (`is_own_id`), else one made by us. `left_out` names
    what of it was left out, and why. `metadata` is that of the thread.
    """

    format: str
    thread_id: str
    messages: Sequence[StoredMessage]
    is_own_id: bool = False
    resource_id: str = ""
    title: str = ""
    created_at: datetime | None = None
    metadata: Mapping[str, Any] = {}
    system: Sequence[str] = ()
    tools: Sequence[Any] = ()
    provider: str = ""
    protocol: str = ""
    model: str = ""
    last_error: str = ""
    left_out: Sequence[tuple[str, str]] = ()


def stamp_of(provider: str, protocol: str, model: str) -> dict[str, str]:
    """What a turn's metadata says of who wrote it; without what is not known."""
    values = {"provider": provider, "protocol": protocol, "modelId": model}
    return {name: value for name, value in values.items() if value}


def stamped(message: StoredMessage, stamp: Mapping[str, str]) -> StoredMessage:
    """The message with this stamp, if it is an assistant's."""
    if message["role"] != "assistant" or not stamp:
        return message
    content = message["content"]
    return {**message, "content": {**content, "metadata": {**(content.get("metadata") or {}), **stamp}}}


def digest(value: Any) -> str:
    """A short name of a JSON value, the same one whenever it comes again."""
    return hashlib.sha256(json_text(value).encode()).hexdigest()[:32]


def key_of(id_: str, *, kind: str = "line") -> str:
    """The id where ids of threads can hold it behind our prefix, else `kind` and a hash."""
    if id_ and id_.isprintable() and "/" not in id_ and len(PREFIX + id_) <= _LONGEST_ID:
        return id_
    return f"{kind}-" + hashlib.sha256(id_.encode("utf-8", "replace")).hexdigest()[:32]


def label(text: str, length: int) -> str:
    """A short text that rows and pages can hold: printable and cut to `length`."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text[:length])


def json_text(value: Any) -> str:
    """The JSON text of a foreign value, cleaned as rows need it."""
    return clean_content(value)[0]


def parsed(text: Any) -> Any:
    """The value of a text that should be JSON, such as a call's arguments; one that is none stays as it is."""
    if not isinstance(text, str):
        return text
    try:
        return decode_json(text.encode("utf-8", "surrogatepass"))
    except InvalidInput:
        return text


def word(value: Mapping[str, Any], *keys: str) -> str:
    """The first text under these keys that is not empty."""
    return next((found for key in keys if isinstance(found := value.get(key), str) and found), "")


def objects(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list, of `{"data": [...]}` too."""
    if isinstance(value, Mapping):
        value = value.get("data")
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def moment(value: Any) -> datetime | None:
    """A time as text, as milliseconds or as seconds: numbers below 100 thousand million are seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e11:
        value = value * 1000
    return instant(value)


class Thread(Struct, frozen=True):
    """Messages of a thread as they can be stored, and what was left out of them."""

    messages: list[StoredMessage]
    system: list[str]
    left_out: list[tuple[str, str]]


def settled(messages: Sequence[Mapping[str, Any]], key: str) -> Thread:
    """These messages with ids and times, oldest first; system texts apart; those that no row can hold named.

    One without an id gets `<key>#<its place>`, one with the id of an earlier one `~` and a number behind it. One
    without a time is dated a millisecond after the one before it.
    """
    kept: list[StoredMessage] = []
    system: list[str] = []
    left_out: list[tuple[str, str]] = []
    known: set[str] = set()
    last: datetime | None = None
    for place, message in enumerate(messages):
        id_ = message.get("id")
        name = id_ if isinstance(id_, str) and id_ else f"{key}#{place}"
        content, role = message.get("content"), message.get("role")
        errors = check_content(content, "content")
        if role == "system" and not errors:
            system.append(_text(content))
            continue
        if errors or role not in _ROLES:
            why = f"{errors[0].field}: {errors[0].message}" if errors else f"unknown role {role!r}"
            left_out.append((name, f"a message is left out: {why}"))
            continue
        at = moment(message.get("createdAt")) or (last + timedelta(milliseconds=1) if last else START)
        last = at
        own = {"id": _fresh(_storable(name), known), "role": role, "createdAt": timestamp(at)}
        if isinstance(type_ := message.get("type"), str) and type_ not in ("", "v2"):
            own["type"] = type_[:64]
        kept.append({**own, "content": content_of(content)})
    return Thread(sorted(kept, key=lambda message: str(message["createdAt"])), system, left_out)


def _text(content: Any) -> str:
    value = content_of(content)
    texts = [part.get("text") for part in value.get("parts") or () if isinstance(part, dict)]
    found = "\n".join(text for text in texts if isinstance(text, str))
    return found or str(value.get("content") or "")


def _storable(name: str) -> str:
    if name.isprintable() and len(name) <= 240:
        return name
    return "message-" + hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:32]


def _fresh(name: str, known: set[str]) -> str:
    number = 1
    fresh = name
    while fresh in known:
        number += 1
        fresh = f"{name}~{number}"
    known.add(fresh)
    return fresh
