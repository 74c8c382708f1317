"""Amazon's binary event stream (`application/vnd.amazon.eventstream`): frames out of bytes in any chunking.

A frame is its length and that of its headers (4 bytes each, big endian), a checksum of these eight bytes, headers,
payload, and a checksum of all before it. Source: the AWS documentation of event stream encoding.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

LONGEST_FRAME = 24 * 1024 * 1024
"""Bytes of the longest frame that is waited for."""

_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_NUMBERS = {2: struct.Struct(">b"), 3: struct.Struct(">h"), 4: struct.Struct(">i"), 5: struct.Struct(">q")}
_TIMESTAMP, _UUID_BYTES = 8, 16
_TEXT = 7


class BadFrame(ValueError):
    """Bytes that are no frame: a checksum that is wrong, or lengths that can't be."""


class Frame(Struct, frozen=True):
    """One message. Header names are as sent (`:event-type`); their values are texts, numbers, booleans or bytes."""

    headers: Mapping[str, Any]
    payload: bytes

    def text(self, name: str) -> str:
        """The header `name`; empty when there is none or it is no text."""
        value = self.headers.get(name)
        return value if isinstance(value, str) else ""


def frame_of(headers: Mapping[str, str], payload: bytes) -> bytes:
    """The bytes of a frame."""
    head = b""
    for name, value in headers.items():
        said = value.encode()
        head += bytes([len(name)]) + name.encode() + bytes([_TEXT]) + _LENGTH.pack(len(said)) + said
    total = _PRELUDE.size + len(head) + len(payload) + _CHECKSUM.size
    lengths = _PRELUDE.pack(total, len(head), 0)[: -_CHECKSUM.size]
    data = lengths + _CHECKSUM.pack(zlib.crc32(lengths)) + head + payload
    return data + _CHECKSUM.pack(zlib.crc32(data))


def frames(pieces: Iterable[bytes]) -> Iterator[Frame]:
    """The frames as soon as they are complete. One that the end cuts off is not given. Raises BadFrame."""
    buffer = bytearray()
    wanted = _PRELUDE.size
    for piece in pieces:
        buffer += piece
        while len(buffer) >= wanted:
            if wanted == _PRELUDE.size:
                wanted = _length(buffer)
                continue
            yield _frame(bytes(buffer[:wanted]))
            del buffer[:wanted]
            wanted = _PRELUDE.size


def _length(buffer: bytearray) -> int:
    total, head, checksum = _PRELUDE.unpack_from(buffer)
    if zlib.crc32(buffer[: _PRELUDE.size - _CHECKSUM.size]) != checksum:
        raise BadFrame("the checksum of a frame's beginning is wrong")
    if total < _PRELUDE.size + head + _CHECKSUM.size or total > LONGEST_FRAME:
        raise BadFrame(f"a frame can't have {total:,} bytes with {head:,} of headers")
    return int(total)


def _frame(data: bytes) -> Frame:
    _, head, _ = _PRELUDE.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, len(data) - _CHECKSUM.size)
    if zlib.crc32(data[: -_CHECKSUM.size]) != checksum:
        raise BadFrame("the checksum of a frame is wrong")
    body = _PRELUDE.size + head
    return Frame(_headers(data[_PRELUDE.size : body]), data[body : -_CHECKSUM.size])


def _headers(data: bytes) -> dict[str, Any]:
    out: dict[str, Any] = {}
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            name = data[at + 1 : end].decode()
            out[name], at = _value(data[end], data, end + 1)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise BadFrame(f"headers that can't be read: {error}") from error
    return out


def _value(kind: int, data: bytes, at: int) -> tuple[Any, int]:
    """A header's value and where the next one begins."""
    match kind:
        case 0 | 1:
            return kind == 0, at
        case 2 | 3 | 4 | 5:
            number = _NUMBERS[kind]
            return number.unpack_from(data, at)[0], at + number.size
        case 6 | 7:
            (size,) = _LENGTH.unpack_from(data, at)
            at += _LENGTH.size
            value = data[at : at + size]
            if len(value) < size:
                raise BadFrame("a header is longer than its frame")
            return (value.decode() if kind == 7 else value), at + size
        case 8:
            return data[at : at + _TIMESTAMP], at + _TIMESTAMP
        case 9:
            return data[at : at + _UUID_BYTES], at + _UUID_BYTES
    raise BadFrame(f"a header of the unknown type {kind}")
