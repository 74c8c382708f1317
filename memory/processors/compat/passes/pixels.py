"""The size of an image from its first bytes."""

from __future__ import annotations

import base64
import binascii
import struct

_HEAD = 60_000
"""How many characters of base64 are looked at: the size stands at the beginning, in a JPEG behind its metadata."""


def image_size(data: str) -> tuple[int, int] | None:
    """Width and height in pixels of an image in base64 or a data URI; None for what is none of PNG, GIF, JPEG, WebP."""
    if data.startswith("data:"):
        data = data.partition(",")[2]
    try:
        head = base64.b64decode(data[:_HEAD])
    except (binascii.Error, ValueError):
        return None
    try:
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            return struct.unpack(">II", head[16:24])
        if head.startswith(b"GIF8"):
            return struct.unpack("<HH", head[6:10])
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp(head)
        return _jpeg(head) if head.startswith(b"\xff\xd8") else None
    except (struct.error, IndexError):
        return None


def _webp(head: bytes) -> tuple[int, int] | None:
    kind = head[12:16]
    if kind == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", head[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:
        kind = head[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None
