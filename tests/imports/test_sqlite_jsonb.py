"""SQLite's binary JSON: elements built as its documentation says, and a column as LibSQL wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from memory.imports.sqlite_jsonb import decode

NULL, TRUE, FALSE, INT, INT5, FLOAT, FLOAT5, TEXT, TEXTJ, TEXT5, TEXTRAW, ARRAY, OBJECT = range(13)


def element(kind: int, payload: str | bytes = b"", *, width: int = 0) -> bytes:
    """An element; `width` bytes hold its size where the head's four bits are not to."""
    data = payload.encode() if isinstance(payload, str) else payload
    if not width:
        return bytes([len(data) << 4 | kind]) + data
    return bytes([{1: 12, 2: 13, 4: 14, 8: 15}[width] << 4 | kind]) + len(data).to_bytes(width, "big") + data


@pytest.mark.parametrize(
    ("blob", "value"),
    [
        (element(NULL), None),
        (element(TRUE), True),
        (element(FALSE), False),
        (element(INT, "-12"), -12),
        (element(INT, "12345678901234567890123", width=1), 12345678901234567890123),
        (element(INT5, "-0x1F"), -31),
        (element(FLOAT, "4.25e1"), 42.5),
        (element(FLOAT5, ".5"), 0.5),
        (element(TEXT, ""), ""),
        (element(TEXT, "é🌊"), "é🌊"),
        (element(TEXTRAW, 'a"\\n\n'), 'a"\\n\n'),
        (element(TEXTJ, '\\"\\u00e9\\n'), '"é\n'),
        (element(TEXT5, "\\x41\\'\\v\\0", width=1), "A'\x0b\x00"),
        (element(TEXT5, 'a"\\\\v\\\nb\\n'), 'a"\\vb\n'),
        (element(ARRAY), []),
        (element(OBJECT), {}),
        (element(ARRAY, element(INT, "1") + element(ARRAY, element(NULL)), width=8), [1, [None]]),
        (element(OBJECT, element(TEXT, "a") + element(TEXT, "x" * 300, width=2), width=4), {"a": "x" * 300}),
        (
            b"\xcc3gcolourGblueWdepth\xcc\x1fgmetres\xcb\x1654.2\xc3\x109007199254740991",
            {"colour": "blue", "depth": {"metres": [4.2, 9007199254740991]}},
        ),
    ],
)
def test_is_read(blob: bytes, value: Any) -> None:
    assert decode(blob) == value


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        element(TEXT, "ab")[:-1],
        element(INT, "1x"),
        element(INT5, "zz"),
        element(TEXT, b"\xff"),
        element(13),
        element(NULL) + element(NULL),
        element(OBJECT, element(TEXT, "a")),
        b"\x1b" * 5000,
    ],
)
def test_refuses_other_bytes(blob: bytes) -> None:
    with pytest.raises(ValueError):
        decode(blob)
