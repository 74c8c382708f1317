"""JSON as numbered lines, each with its place, so that a page can show a piece of a body and mark lines in it.

Short containers stay on one line, long texts are cut with their size; keys keep their order, integers every digit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from compat_admin.dashboard.tags import size
from memory.messages.values import write_json

WIDTH = 76
SHOWN_TEXT = 240


class Line(Struct, frozen=True):
    """One line. `place` is the JSON pointer of the value that begins, stands or ends here."""

    number: int
    text: str
    place: str
    is_whole: bool
    """The value of `place` is all on this line."""


def lines(value: Any, *, shown_text: int | None = SHOWN_TEXT) -> list[Line]:
    """A JSON value as lines, numbered from 1. Texts over `shown_text` characters are cut; None cuts nothing."""
    found = _lines(value, "", "", 0, shown_text, "")
    return [Line(number, text, place, whole) for number, (text, place, whole) in enumerate(found, start=1)]


def pretty(value: Any) -> str:
    """The lines as one text, nothing cut."""
    return "\n".join(line.text for line in lines(value, shown_text=None))


def pointer_step(key: str | int) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return "/" + str(key).replace("~", "~0").replace("/", "~1")


def _lines(
    value: Any, place: str, key: str, depth: int, shown_text: int | None, comma: str
) -> Iterator[tuple[str, str, bool]]:
    indent = "  " * depth
    if not isinstance(value, dict | list) or not value or depth > 60:
        yield f"{indent}{key}{_scalar(value, shown_text)}{comma}", place, True
        return
    short = _inline(value, WIDTH - len(indent) - len(key))
    if short is not None:
        yield f"{indent}{key}{short}{comma}", place, True
        return
    is_object = isinstance(value, dict)
    entries: list[tuple[str | int, Any]] = list(value.items() if isinstance(value, dict) else enumerate(value))
    yield f"{indent}{key}{'{' if is_object else '['}", place, False
    for i, (name, entry) in enumerate(entries):
        entry_key = f"{write_json(name)}: " if is_object else ""
        after = "," if i < len(entries) - 1 else ""
        yield from _lines(entry, place + pointer_step(name), entry_key, depth + 1, shown_text, after)
    yield f"{indent}{'}' if is_object else ']'}{comma}", place, False


def _inline(value: Any, width: int) -> str | None:
    """The value on one line if it fits the width, with blanks after `:` and `,`; None if it does not."""
    if width < 2:
        return None
    if isinstance(value, Mapping):
        pieces, room = [], width - 2
        for key, entry in value.items():
            name = write_json(key)
            piece = _inline(entry, room - len(name) - 2)
            if piece is None:
                return None
            pieces.append(f"{name}: {piece}")
            room -= len(pieces[-1]) + 2
        return "{" + ", ".join(pieces) + "}"
    if isinstance(value, list):
        pieces, room = [], width - 2
        for entry in value:
            piece = _inline(entry, room)
            if piece is None:
                return None
            pieces.append(piece)
            room -= len(piece) + 2
        return "[" + ", ".join(pieces) + "]"
    if isinstance(value, str) and len(value) > width:
        return None
    text = write_json(value)
    return text if len(text) <= width else None


def _scalar(value: Any, shown_text: int | None) -> str:
    if isinstance(value, str) and shown_text is not None and len(value) > shown_text:
        whole = size(len(value.encode("utf-8", "replace")))
        return f'{write_json(value[:shown_text])[:-1]}…" ({whole} in all)'
    text = write_json(value)
    if shown_text is not None and len(text) > shown_text and isinstance(value, dict | list):
        return f"{text[:shown_text]}… ({size(len(text.encode()))} in all)"
    return text
