"""How large the images of a request are, as a vendor would measure them."""

import base64
import binascii
import re

_FRAME = re.compile(rb"\xff[\xc0-\xc3\xc5-\xc7\xc9-\xcb\xcd-\xcf]..\x08(..)(..)", re.DOTALL)


def longest_side(data: str) -> int:
    """Pixels of the longer side of a PNG, GIF, JPEG or WebP in base64; 0 where that can't be told."""
    try:
        raw = base64.b64decode(data)
    except (binascii.Error, ValueError):
        return 0
    match raw[:4]:
        case b"\x89PNG" if len(raw) >= 24:
            return max(int.from_bytes(raw[16:20]), int.from_bytes(raw[20:24]))
        case b"GIF8" if len(raw) >= 10:
            return max(int.from_bytes(raw[6:8], "little"), int.from_bytes(raw[8:10], "little"))
        case b"RIFF" if raw[12:16] == b"VP8X" and len(raw) >= 30:
            return max(int.from_bytes(raw[24:27], "little"), int.from_bytes(raw[27:30], "little")) + 1
    frame = _FRAME.search(raw) if raw[:2] == b"\xff\xd8" else None
    return max(int.from_bytes(frame[1]), int.from_bytes(frame[2])) if frame else 0
