"""The pretend Claude looks at pictures: what they are, and how many pixels they have."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from memory.sandbox.pictures import Picture, picture_of
from tests.sandbox.conftest import Caller


def png(width: int, height: int) -> str:
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = struct.pack(">I", len(header)) + b"IHDR" + header + struct.pack(">I", zlib.crc32(b"IHDR" + header))
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chunk).decode()


def image(data: str, media_type: str = "image/png") -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


_FRAME = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, 300, 700, 1)
_COMMENT = b"\xff\xfe" + struct.pack(">H", 6) + b"text"
_WEBP = b"RIFF\0\0\0\0WEBP"
_LOSSLESS = _WEBP + b"VP8L" + bytes(5) + (699 | 299 << 14).to_bytes(4, "little") + bytes(5)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (png(700, 300), Picture("image/png", 700, 300)),
        (encoded(b"GIF89a" + struct.pack("<HH", 700, 300)), Picture("image/gif", 700, 300)),
        (encoded(b"\xff\xd8" + _COMMENT + _FRAME), Picture("image/jpeg", 700, 300)),
        (encoded(b"\xff\xd8\xff\xe0\0\x04"), Picture("image/jpeg")),
        (encoded(_WEBP + b"VP8X" + bytes(8) + b"\xbb\x02\0\x2b\x01\0"), Picture("image/webp", 700, 300)),
        (encoded(_LOSSLESS), Picture("image/webp", 700, 300)),
        (encoded(_WEBP + b"VP8 " + bytes(10) + struct.pack("<HH", 700, 300)), Picture("image/webp", 700, 300)),
        (encoded(b"%PDF-1.4"), None),
        ("no base64!", None),
    ],
)
def test_type_and_sides_are_read_from_the_first_bytes(data: str, shown: Picture | None) -> None:
    assert picture_of(data) == shown


class TestClaude:
    def test_refuses_a_picture_under_another_type(self, anthropic: Caller) -> None:
        said = anthropic.refusal(messages=[{"role": "user", "content": [image(png(1, 1), "image/jpeg")]}])
        assert said == (
            "messages.0.content.0.image.source.base64.data: The image was specified using the image/jpeg media type,"
            " but the image appears to be a image/png image"
        )

    def test_refuses_more_than_8000_pixels_a_side(self, anthropic: Caller) -> None:
        said = anthropic.refusal(messages=[{"role": "user", "content": [image(png(1, 8001))]}])
        assert said == (
            "messages.0.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed"
            " size: 8000 pixels"
        )
        anthropic.accepted(messages=[{"role": "user", "content": [image(png(8000, 8000))]}])

    def test_refuses_more_than_2000_pixels_among_many(self, anthropic: Caller) -> None:
        small = [image(png(10, 10))] * 19
        calls = [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
        results = [{"type": "tool_result", "tool_use_id": "t1", "content": [image(png(2001, 10))]}]
        history = [{"role": "assistant", "content": calls}, {"role": "user", "content": results}]
        anthropic.accepted(messages=[{"role": "user", "content": small}, *history])
        said = anthropic.refusal(messages=[{"role": "user", "content": [*small, image(png(10, 10))]}, *history])
        assert said == (
            "messages.2.content.0.tool_result.content.0.image.source.base64.data: At least one of the image dimensions"
            " exceed max allowed size for many-image requests: 2000 pixels"
        )


def test_an_older_claude_wants_tools_declared(anthropic: Caller) -> None:
    calls = [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
    results = [{"type": "tool_result", "tool_use_id": "t1", "content": "nothing"}]
    messages = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": results},
    ]
    anthropic.accepted(messages=messages)
    assert anthropic.refusal(messages=messages, model="claude-3-haiku-20240307") == (
        "Requests which include `tool_use` or `tool_result` blocks must define tools"
    )
