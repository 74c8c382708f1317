"""What a picture is by its bytes, and how many pixels it has: PNG, GIF, JPEG and WebP, as their formats lay it down."""

import base64
import binascii

from msgspec import Struct

MOST_PIXELS = 8000
"""Longest side a picture may have."""
MANY = 20
"""A request with more pictures than this is held to `PIXELS_OF_MANY`."""
PIXELS_OF_MANY = 2000
_LEAST_BYTES = 30
_HEAD_CHARS = 200_000


class Picture(Struct, frozen=True):
    """The media type that the first bytes show; sides are 0 where the bytes end before they say."""

    media_type: str
    width: int = 0
    height: int = 0


def picture_of(data: str) -> Picture | None:
    """What the bytes in base64 are; None for what is none of the four, or no base64."""
    try:
        raw = base64.b64decode(data[:_HEAD_CHARS] + "=" * (-len(data[:_HEAD_CHARS]) % 4))
    except (binascii.Error, ValueError):
        return None
    if raw[:8] == b"\x89PNG\r\n\x1a\n":
        return _sized("image/png", raw, int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24]))
    if raw[:4] == b"GIF8":
        return _sized("image/gif", raw, int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little"), 10)
    if raw[:4] == b"RIFF" and raw[8:12] == b"WEBP":
        return _sized("image/webp", raw, *_webp_sides(raw))
    if raw[:3] == b"\xff\xd8\xff":
        return Picture("image/jpeg", *_jpeg_sides(raw))
    return None


def too_long(found: Picture, count: int) -> int:
    """The limit in pixels that a picture breaks among so many; 0 for none."""
    limit = PIXELS_OF_MANY if count > MANY else MOST_PIXELS
    return limit if max(found.width, found.height) > limit else 0


def _sized(media_type: str, raw: bytes, width: int, height: int, least: int = _LEAST_BYTES) -> Picture:
    return Picture(media_type, width, height) if len(raw) >= least else Picture(media_type)


def _webp_sides(raw: bytes) -> tuple[int, int]:
    match raw[12:16]:
        case b"VP8X":
            return int.from_bytes(raw[24:27], "little") + 1, int.from_bytes(raw[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(raw[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return int.from_bytes(raw[26:28], "little") & 0x3FFF, int.from_bytes(raw[28:30], "little") & 0x3FFF


def _jpeg_sides(raw: bytes) -> tuple[int, int]:
    """Sides from the first frame header; segments before it say how long they are."""
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        kind = raw[at + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(raw[at + 7 : at + 9]), int.from_bytes(raw[at + 5 : at + 7])
        at += 2 + int.from_bytes(raw[at + 2 : at + 4])
    return 0, 0
