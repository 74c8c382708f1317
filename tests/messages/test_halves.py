"""Half characters are mended wherever somebody else wrote them."""

from __future__ import annotations

from typing import Any

import pytest

from memory.errors import InvalidInput
from memory.messages.halves import mended, read_mended, write_mended

HIGH, LOW = "\ud83d", "\ude00"


class TestMended:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (HIGH, "\ufffd"),
            (f"a{LOW}b", "a\ufffdb"),
            (HIGH + LOW, "\U0001f600"),
            ({HIGH: [LOW, {"x": (HIGH, 1)}]}, {"\ufffd": ["\ufffd", {"x": ("\ufffd", 1)}]}),
        ],
    )
    def test_joins_or_replaces_halves_at_any_depth(self, given: Any, expected: Any) -> None:
        assert mended(given) == expected

    @pytest.mark.parametrize("value", ["\U0001f600", {"a": ["b", 1, None, {"c": 1.5}]}, [], 10**30])
    def test_leaves_all_else_as_the_same_object(self, value: Any) -> None:
        assert mended(value) is value


class TestJson:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            (rb'{"a": "x\ud83d"}', {"a": "x\ufffd"}),
            (rb'{"a": "\ud83d\ude00", "n": 123456789012345678901}', {"a": "\U0001f600", "n": 123456789012345678901}),
            (b'{"a": "\xff"}', {"a": "\ufffd"}),
            ('{"a": "\ud83d"}', {"a": "\ufffd"}),
        ],
    )
    def test_is_read_with_halves_mended(self, text: bytes | str, value: Any) -> None:
        assert read_mended(text) == value

    @pytest.mark.parametrize("text", [b"", b"{", b"NaN", b"[" * 100_000, rb'"\ud83d'])
    def test_that_is_none_is_refused(self, text: bytes) -> None:
        with pytest.raises(InvalidInput):
            read_mended(text)

    def test_is_written_with_halves_mended(self) -> None:
        assert write_mended({"a": HIGH}) == '{"a":"\ufffd"}'
        assert write_mended({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'
