from __future__ import annotations

import struct
import zlib

import pytest

from memory.providers.eventstream import LONGEST_FRAME, BadFrame, frames
from tests.providers.frames import event, frame, text_header


def pieces(raw: bytes, size: int) -> list[bytes]:
    return [raw[start : start + size] for start in range(0, len(raw), size)]


class TestFrames:
    def test_are_found_in_any_chunking(self) -> None:
        raw = event("messageStart", {"role": "assistant"}) + event("messageStop", {"stopReason": "end_turn"})
        whole = list(frames([raw]))
        assert [item.text(":event-type") for item in whole] == ["messageStart", "messageStop"]
        assert whole[0].payload == b'{"role":"assistant"}'
        for size in (1, 7, 13, 4096):
            assert list(frames(pieces(raw, size))) == whole

    def test_come_as_soon_as_they_are_complete(self) -> None:
        first, second = event("a", {}), event("b", {})
        reader = frames(iter([first[:5], first[5:] + second[:20], second[20:]]))
        assert [next(reader).text(":event-type"), next(reader).text(":event-type")] == ["a", "b"]

    def test_cut_by_the_end_are_not_given(self) -> None:
        assert list(frames([event("a", {})[:-1]])) == []

    def test_without_payload_are_frames(self) -> None:
        (found,) = frames([frame(b"", b"")])
        assert (found.headers, found.payload, found.text("absent")) == ({}, b"", "")

    def test_hold_headers_of_every_kind(self) -> None:
        kinds = [b"\x00", b"\x01", b"\x02\xff", b"\x03\xff\xfe", b"\x04" + struct.pack(">i", -7)]
        kinds += [b"\x05" + struct.pack(">q", 2**40), b"\x06\x00\x02hi", b"\x07\x00\x02hi", b"\x08" + b"t" * 8]
        kinds += [b"\x09" + b"u" * 16]
        headers = b"".join(bytes([1]) + bytes([97 + n]) + kind for n, kind in enumerate(kinds))
        (found,) = frames([frame(headers, b"")])
        values = [True, False, -1, -2, -7, 2**40, b"hi", "hi", b"t" * 8, b"u" * 16]
        assert list(found.headers.values()) == values


class TestBrokenFrames:
    @pytest.mark.parametrize("at", [0, 9, 14, 40, -1])
    def test_one_wrong_byte_is_noticed(self, at: int) -> None:
        raw = bytearray(event("contentBlockDelta", {"delta": {"text": "words"}}))
        raw[at] ^= 1
        with pytest.raises(BadFrame, match="checksum"):
            list(frames([bytes(raw)]))

    @pytest.mark.parametrize(("total", "head"), [(15, 0), (20, 8), (LONGEST_FRAME + 1, 0)])
    def test_impossible_lengths_are_refused(self, total: int, head: int) -> None:
        prelude = struct.pack(">II", total, head)
        with pytest.raises(BadFrame, match="can't have"):
            list(frames([prelude + struct.pack(">I", zlib.crc32(prelude))]))

    @pytest.mark.parametrize(
        "headers", [b"\x05ab", b"\x01a\x07\x00\x09x", b"\x01a\x63", b"\x01\xff\x00", b"\x01a\x04\x00"]
    )
    def test_headers_that_make_no_sense_are_refused(self, headers: bytes) -> None:
        with pytest.raises(BadFrame):
            list(frames([frame(headers, b"")]))

    def test_frames_before_a_broken_one_are_given(self) -> None:
        reader = frames([event("a", {}) + b"<html>not a frame</html>"])
        assert next(reader).text(":event-type") == "a"
        with pytest.raises(BadFrame):
            next(reader)

    def test_header_text_is_checked_for_length(self) -> None:
        good = text_header("name", "value")
        with pytest.raises(BadFrame):
            list(frames([frame(good[:-1], b"")]))
