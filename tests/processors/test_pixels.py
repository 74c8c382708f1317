"""Sizes read from the first bytes of images."""

import base64
import struct

import pytest

from memory.processors.compat.passes.pixels import image_size

JPEG = b"\xff\xd8" + b"\xff\xe0\x00\x04ab" + b"\xff\xc0\x00\x11\x08" + struct.pack(">HH", 30, 40) + b"\x03" * 12
WEBP = b"RIFF\x00\x00\x00\x00WEBP"


@pytest.mark.parametrize(
    ("head", "size"),
    [
        (b"\x89PNG\r\n\x1a\n" + b"\x00\x00\x00\rIHDR" + struct.pack(">II", 3, 2), (3, 2)),
        (b"GIF89a" + struct.pack("<HH", 7, 5) + b"\x00" * 4, (7, 5)),
        (JPEG, (40, 30)),
        (WEBP + b"VP8X" + b"\x00" * 8 + (99).to_bytes(3, "little") + (49).to_bytes(3, "little"), (100, 50)),
        (WEBP + b"VP8L" + b"\x00" * 4 + b"\x2f" + (9 | 4 << 14).to_bytes(4, "little"), (10, 5)),
        (WEBP + b"VP8 " + b"\x00" * 10 + struct.pack("<HH", 64, 32), (64, 32)),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"no image at all", None),
        (b"", None),
    ],
)
def test_is_the_one_in_the_header(head: bytes, size: tuple[int, int] | None) -> None:
    encoded = base64.b64encode(head).decode()
    assert image_size(encoded) == size
    assert image_size(f"data:image/png;base64,{encoded}") == size


def test_of_what_is_no_base64_is_unknown() -> None:
    assert image_size("é!") is None
    assert image_size("abc") is None
