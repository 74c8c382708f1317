"""SQLite's binary JSON (JSONB), which LibSQL keeps some columns in, read without the SQLite that can.

An element is a byte with its type (low half) and its size (high half, or in the 1, 2, 4 or 8 bytes behind it), then
its payload: texts of JSON, or the elements of an array or object. Source: SQLite's documentation "The SQLite JSONB
Format".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_SIZES = {12: 1, 13: 2, 14: 4, 15: 8}
_CONSTANTS = {0: None, 1: True, 2: False}
_ARRAY, _OBJECT = 11, 12
_ESCAPE5 = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(\r\n|[\n\r\u2028\u2029])|(['v0])|.)|\"")
_PLAIN5 = {"'": "'", "v": "\\u000b", "0": "\\u0000"}


def decode(data: bytes) -> Any:
    """The value of a JSONB blob. Raises ValueError for bytes that are none."""
    try:
        value, end = _element(data, 0)
    except (IndexError, RecursionError, msgspec.DecodeError) as error:
        raise ValueError(f"not JSONB: {error}") from error
    if end != len(data):
        raise ValueError("not JSONB: bytes behind its end")
    return value


def _element(data: bytes, at: int) -> tuple[Any, int]:
    """The element that begins here, and where it ends."""
    kind, size = data[at] & 0x0F, data[at] >> 4
    start = at + 1
    if width := _SIZES.get(size):
        size = int.from_bytes(data[start : start + width], "big")
        start += width
    end = start + size
    if end > len(data):
        raise ValueError("not JSONB: an element is longer than the bytes")
    if kind in _CONSTANTS:
        return _CONSTANTS[kind], end
    if kind == _ARRAY:
        return list(_elements(data, start, end)), end
    if kind == _OBJECT:
        found = list(_elements(data, start, end))
        return dict(zip(found[::2], found[1::2], strict=True)), end
    return _scalar(kind, data[start:end].decode()), end


def _elements(data: bytes, at: int, end: int) -> Iterator[Any]:
    while at < end:
        value, at = _element(data, at)
        yield value


def _scalar(kind: int, text: str) -> Any:
    match kind:
        case 3 | 5:  # numbers of JSON
            return msgspec.json.decode(text)
        case 4:  # hexadecimal
            return int(text, 16)
        case 6:  # a number of JSON5
            return float(text)
        case 7 | 10:  # without escapes
            return text
        case 8:  # with escapes of JSON
            return msgspec.json.decode(f'"{text}"')
        case 9:  # with escapes of JSON5
            return msgspec.json.decode(f'"{_ESCAPE5.sub(_escaped, text)}"')
    raise ValueError(f"not JSONB: an element of type {kind}")


def _escaped(found: re.Match[str]) -> str:
    """What only JSON5 has, as JSON writes it: escapes, and quotes without one. An escaped line's end is nothing."""
    if found[1]:
        return f"\\u00{found[1]}"
    if found[2]:
        return ""
    if found[3]:
        return _PLAIN5[found[3]]
    return '\\"' if found[0] == '"' else found[0]
