"""Rows that were read a moment ago are not read again, and make the same prompt."""

from typing import Any

import pytest
from hypothesis import given, settings

from memory.messages.convert import Made, to_prompt
from memory.messages.recent import Recent
from memory.messages.stored import RowContent, StoredMessage
from memory.messages.values import write_json
from tests import strategies
from tests.messages.build import message, tool

MANY = 1024 * 1024


def rows(thread: list[StoredMessage]) -> list[dict[str, Any]]:
    """The messages as a store loads them."""
    return [{**message, "content": RowContent(write_json(message["content"]).encode())} for message in thread]


@settings(max_examples=150)
@given(strategies.threads())
def test_a_second_reading_makes_the_same_prompt(thread: list[StoredMessage]) -> None:
    recent: Recent[Made] = Recent(MANY)
    expected = to_prompt(rows(thread))

    assert to_prompt(rows(thread), recent=recent) == expected
    assert to_prompt(rows(thread), recent=recent) == expected


def test_a_second_reading_gives_the_very_messages_of_the_first() -> None:
    recent: Recent[Made] = Recent(MANY)
    thread = [message("a", tool("c1", args={"x": 1}))]

    first, second = to_prompt(rows(thread), recent=recent), to_prompt(rows(thread), recent=recent)

    assert first.messages[0] is second.messages[0]


def test_id_role_and_text_of_a_row_count() -> None:
    recent: Recent[Made] = Recent(MANY)
    one = message("a", tool("c1", args={"x": 1}))
    others = [{**one, "id": "b"}, {**one, "role": "user"}, message("a", tool("c1", args={"x": 2}))]
    to_prompt(rows([one]), recent=recent)

    for other in others:
        assert to_prompt(rows([other]), recent=recent) == to_prompt(rows([other]))


@pytest.mark.parametrize("part", [None, {"providerMetadata": {"mastra": {"orphanResult": True}}}])
def test_arguments_in_an_earlier_row_are_those_of_this_list(part: dict[str, Any] | None) -> None:
    recent: Recent[Made] = Recent(MANY)
    bare = message("b", tool("c1", args={}, part=part))

    for x in (1, 2):
        thread = [message(f"a{x}", tool("c1", args={"x": x})), bare]
        for _ in range(2):
            prompt = to_prompt(rows(thread), recent=recent)
            assert prompt.messages[-1].parts[-1].input == {"x": x}  # type: ignore[union-attr]
            assert prompt == to_prompt(rows(thread))


def test_what_nobody_asks_for_is_forgotten() -> None:
    recent: Recent[int] = Recent(100)
    recent.put("kept", 0, 10)
    recent.put("left", 0, 10)
    for number in range(40):
        assert recent.get("kept") == 0
        recent.put(number, number, 10)

    assert recent.get("left") is None
    assert sum(recent.get(number) is not None for number in range(40)) < 20
