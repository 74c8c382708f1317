"""Server-sent events out of bytes in any chunking."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from memory.messages.halves import write_mended


class Event(Struct, frozen=True):
    """One event: its name (empty when it has none) and its data lines joined by newline."""

    name: str
    data: str


def events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream as soon as they are complete. An event that the end cuts off is not given.

    Line ends may be LF, CR or CRLF; comments and other fields are passed over. Source: the HTML standard's section on
    server-sent events.
    """
    name, data = "", list[str]()
    for line in _lines(pieces):
        if not line:
            if data:
                yield Event(name, "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value


def stream_of(events: Iterable[Mapping[str, Any]]) -> bytes:
    """The bytes of a stream of these events. Their names, where a protocol has them, are their types."""
    out = []
    for event in events:
        if isinstance(name := event.get("type"), str) and name.isprintable():
            out.append(f"event: {name}\n")
        out.append(f"data: {write_mended(event)}\n\n")
    return "".join(out).encode()


def _lines(pieces: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    begun: list[str] = []  # of the line that is not complete yet
    after_cr = False
    for piece in pieces:
        text = decoder.decode(piece)
        if not text:
            continue
        if after_cr and text[0] == "\n":
            text = text[1:]
        after_cr = text.endswith("\r")
        first, *others = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        begun.append(first)
        for line in others:
            yield "".join(begun)
            begun = [line]
