"""Frames of Amazon's binary event stream, as Bedrock sends them. Source: the AWS documentation of its encoding."""

import struct
import zlib

_TEXT = 7


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """One message: lengths and their checksum, headers, payload, and a checksum of all before it."""
    head = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    body = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return body + struct.pack(">I", zlib.crc32(body))


def event(kind: str, payload: bytes) -> bytes:
    """An event of a kind, its payload JSON."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, payload)


def _header(name: str, value: str) -> bytes:
    encoded = value.encode()
    return bytes([len(name)]) + name.encode() + bytes([_TEXT]) + struct.pack(">H", len(encoded)) + encoded
