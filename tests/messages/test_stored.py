"""Reading and cleaning the text of a row."""

from datetime import UTC, datetime
from typing import Any

import pytest

from memory.errors import InvalidInput
from memory.messages.names import model_ref, provider_id
from memory.messages.prompt import Origin
from memory.messages.stored import (
    UNREADABLE,
    check_content,
    clean_content,
    decode_json,
    instant,
    read_content,
    timestamp,
)
from memory.messages.typed import origin_of


class TestReading:
    def test_reads_a_bare_text_as_one_part(self) -> None:
        assert read_content('"old"') == {"format": 2, "content": "old", "parts": [{"type": "text", "text": "old"}]}

    @pytest.mark.parametrize("row", ["{broken", "5", b"\xff", "[" * 5000])
    def test_shows_what_it_cannot_read(self, row: Any) -> None:
        (part,) = read_content(row)["parts"]
        assert part["type"] == UNREADABLE
        assert part["data"]["reason"]

    def test_keeps_big_integers(self) -> None:
        assert read_content('{"parts": [], "n": 123456789012345678901234567890}')["n"] == 123456789012345678901234567890

    @pytest.mark.parametrize(
        ("metadata", "expected"),
        [
            ({"provider": "anthropic.messages", "modelId": "c"}, Origin("anthropic", "", "c")),
            ({"provider": "openai-responses"}, Origin("openai", "openai-responses", "")),
            ({"provider": "openai", "protocol": "openai-chat"}, Origin("openai", "openai-chat", "")),
            ({"provider": 5}, None),
            ({}, None),
            (None, None),
        ],
    )
    def test_reads_the_stamp_of_a_turn(self, metadata: Any, expected: Origin | None) -> None:
        assert origin_of({"metadata": metadata}) == expected

    def test_splits_a_model_at_the_first_slash(self) -> None:
        assert str(model_ref("openrouter/anthropic/claude")) == "openrouter/anthropic/claude"
        assert model_ref("openrouter/anthropic/claude").model_id == "anthropic/claude"
        assert (model_ref("gpt").provider, provider_id("openai-chat")) == ("", "openai")

    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ("2026-02-10T08:00:00.500Z", "2026-02-10T08:00:00.500Z"),
            ("2026-02-10T09:00:00+01:00", "2026-02-10T08:00:00.000Z"),
            (1770710400000, "2026-02-10T08:00:00.000Z"),
            (datetime(2026, 2, 10, 8, tzinfo=UTC), "2026-02-10T08:00:00.000Z"),
            ("yesterday", None),
            (True, None),
            (10**30, None),
        ],
    )
    def test_reads_times(self, given: Any, expected: str | None) -> None:
        found = instant(given)
        assert (found and timestamp(found)) == expected


class TestCleaning:
    def test_mends_what_no_store_takes_and_says_so(self) -> None:
        dirty = {"parts": [{"type": "text", "text": "a\x00\ud83d\ude00\ud83d"}], "n": float("nan")}
        row, notes = clean_content(dirty)
        assert read_content(row) == {"parts": [{"type": "text", "text": "a\ufffd😀\ufffd"}], "n": None}
        assert len(notes) == 3

    def test_keeps_key_order_and_says_nothing_of_clean_content(self) -> None:
        assert clean_content({"b": 1, "a": {"d": 1, "c": 10**30}}) == ('{"b":1,"a":{"d":1,"c":1' + "0" * 30 + "}}", [])

    @pytest.mark.parametrize("body", [b"{", b'{"a": NaN}', b"\xff"])
    def test_refuses_what_is_no_json(self, body: bytes) -> None:
        with pytest.raises(InvalidInput, match="not JSON"):
            decode_json(body)

    @pytest.mark.parametrize(
        ("content", "field"),
        [
            (5, "c"),
            ({}, "c.parts"),
            ({"parts": {}}, "c.parts"),
            ({"parts": [5]}, "c.parts[0]"),
            ({"parts": [{"type": "text", "text": 5}]}, "c.parts[0].text"),
            ({"parts": [{"type": "file"}]}, "c.parts[0].data"),
            ({"parts": [{"type": "reasoning", "details": 5}]}, "c.parts[0].details"),
            ({"parts": [{"type": "tool-invocation"}]}, "c.parts[0].toolInvocation"),
            (
                {"parts": [{"type": "tool-invocation", "toolInvocation": {"toolCallId": "c", "toolName": "f"}}]},
                "c.parts[0].toolInvocation.state",
            ),
        ],
    )
    def test_names_the_place_of_what_cannot_be_stored(self, content: Any, field: str) -> None:
        assert [error.field for error in check_content(content, "c")] == [field]
