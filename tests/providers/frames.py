"""Frames of a binary event stream, written for tests."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec


def frame(headers: bytes, payload: bytes) -> bytes:
    prelude = struct.pack(">II", len(headers) + len(payload) + 16, len(headers))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def text_header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()


def event(kind: str, data: Mapping[str, Any]) -> bytes:
    headers = text_header(":event-type", kind) + text_header(":message-type", "event")
    return frame(headers, msgspec.json.encode(data))


def exception(kind: str, data: Mapping[str, Any]) -> bytes:
    headers = text_header(":exception-type", kind) + text_header(":message-type", "exception")
    return frame(headers, msgspec.json.encode(data))


def stream(events: Iterable[Mapping[str, Mapping[str, Any]]]) -> bytes:
    """Frames of events written as `[{"messageStart": {...}}, ...]`."""
    return b"".join(event(kind, data) for item in events for kind, data in item.items())
