"""Bodies are cut where JSON is and come together again, and a growing one shares what it had."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.fragments import (
    NODE,
    Cut,
    cut,
    differences,
    first_difference,
    pack,
    parts_of_record,
    pieces,
    put_together,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
    max_leaves=40,
)


def known(*cuts: Cut) -> dict[bytes, tuple[int, bytes]]:
    """The rows that these make."""
    rows = {key: pack(content) for one in cuts for key, content in one.contents.items()}
    return rows | {key: (NODE, joined) for one in cuts for key, joined in one.nodes.items()}


def again(body: bytes) -> bytes:
    made = cut(body)
    content, missing = put_together(made.record, known(made))
    assert missing == 0
    return b"".join(content)


def messages(count: int, first: int = 0) -> list[dict[str, Any]]:
    words = random.Random(5)
    said = [" ".join(words.choices(("tide", "lamp", "東京", '"', "\\u0000"), k=30)) for _ in range(first + count)]
    return [
        {"role": "user" if i % 2 else "assistant", "content": f"{i} {said[i]}"} for i in range(first, first + count)
    ]


def body_of(listed: list[Any], **more: Any) -> bytes:
    return json.dumps({"model": "m", **more, "messages": listed}, separators=(",", ":")).encode()


class TestPieces:
    @given(st.binary(max_size=300) | JSON.map(lambda value: json.dumps(value).encode()))
    def test_any_bytes_come_together_again(self, body: bytes) -> None:
        assert again(body) == body

    @given(st.dictionaries(st.sampled_from(("messages", "input", "contents", "system", "tools")), JSON, max_size=5))
    def test_any_request_comes_together_again(self, request: dict[str, Any]) -> None:
        for separators in ((",", ":"), (", ", ": ")):
            body = json.dumps(request, ensure_ascii=False, separators=separators).encode("utf-8", "surrogatepass")
            assert again(body) == body

    @pytest.mark.parametrize("key", ["messages", "contents", "input", "whatever"])
    def test_a_message_is_a_fragment_whatever_the_list_is_called(self, key: str) -> None:
        listed = messages(3)
        body = json.dumps({"model": "m", key: listed, "top_p": 1}, separators=(",", ":")).encode()
        head, elements, tail = pieces(body)
        assert (head, tail) == (f'{{"model":"m","{key}":['.encode(), b'],"top_p":1}')
        assert [json.loads(element) for element in elements] == listed

    def test_tools_and_system_have_their_own(self) -> None:
        tools, system = messages(2), "You are kind. " * 20
        found = pieces(body_of(messages(2), system=system, tools=tools))
        lists = [piece for piece in found if isinstance(piece, list)]
        assert [len(piece) for piece in lists] == [1, 2, 2]
        assert json.loads(lists[0][0]) == system

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"not json",
            b'{"messages":[',
            b'{"a":"a","a":"a"}',
            b'{"\xff":1}',
            b'{"messages":[{"a": 1 }, {"b": 2}]}' * 40,
            b"[" * 5000,
            b'{"numbers":[' + b",".join(b"%d" % i for i in range(5000)) + b"]}",
            b'{"x":"' + b"y" * 100 + b'","x":"' + b"z" * 100 + b'"}',
        ],
    )
    def test_what_is_odd_is_kept_as_it_is(self, body: bytes) -> None:
        assert again(body) == body

    def test_numbers_do_not_get_a_name_each(self) -> None:
        assert len(cut(b'{"numbers":[' + b",".join(b"%d" % i for i in range(5000)) + b"]}").contents) == 1

    def test_messages_that_are_all_the_same_end_somewhere(self) -> None:
        for text in "abcdefghijklmnop":
            body = body_of([{"role": "user", "content": text * 100}] * 700)
            assert again(body) == body

    def test_what_is_gone_is_counted(self) -> None:
        made = cut(body_of(messages(40)))
        rows = known(made)
        for key in list(made.contents)[:3]:
            del rows[key]
        assert put_together(made.record, rows)[1] == 3


class TestGrowth:
    def test_a_thousandth_turn_adds_its_own_messages_and_a_node_or_two(self) -> None:
        listed = messages(1000)
        before = cut(body_of(listed[:998]))
        after = cut(body_of(listed))
        assert len(set(after.contents) - set(before.contents)) == 2
        assert len(set(after.nodes) - set(before.nodes)) <= 4
        assert len(after.record) < 3000

    def test_a_window_that_moves_on_shares_most_nodes(self) -> None:
        listed = messages(1002)
        before, after = cut(body_of(listed[:1000])), cut(body_of(listed[2:]))
        assert len(set(after.contents) - set(before.contents)) == 2
        assert len(set(after.nodes) - set(before.nodes)) < len(after.nodes) / 5

    def test_the_record_grows_with_the_logarithm(self) -> None:
        sizes = [len(cut(body_of(messages(count))).record) for count in (10, 100, 1000, 10_000)]
        assert max(sizes) < 4000

    def test_the_same_body_has_the_same_record(self) -> None:
        assert cut(body_of(messages(90))) == cut(body_of(messages(90)))

    def test_parts_are_literal_or_names(self) -> None:
        made = cut(body_of(messages(5)))
        kinds = [type(part) for part in parts_of_record(made.record)]
        assert kinds == [bytes, tuple, bytes]


class TestDifferences:
    def test_name_the_message_that_changed(self) -> None:
        listed = messages(30)
        other = [*listed[:12], {"role": "user", "content": "another"}, *listed[13:]]
        (found,) = differences(body_of(listed), body_of(other))
        assert found.place == "messages[12]"
        assert json.loads(found.before or b"") == listed[12]
        assert json.loads(found.after or b"") == other[12]

    def test_tell_one_left_out_from_all_that_moved_up(self) -> None:
        listed = messages(30)
        (found,) = differences(body_of(listed), body_of([*listed[:5], *listed[6:]]))
        assert (found.place, found.after) == ("messages[5]", None)

    def test_see_what_stands_beside_the_messages(self) -> None:
        one, other = body_of(messages(4), top_p=1), body_of(messages(4), system="be kind")
        (found,) = differences(one, other)
        assert (found.place, found.before, found.after) == ("system", b"1", b'"be kind"')

    @given(st.dictionaries(st.sampled_from(("messages", "system", "tools")), JSON, max_size=3))
    def test_there_are_none_of_a_body_to_itself(self, request: dict[str, Any]) -> None:
        body = json.dumps(request).encode()
        assert differences(body, body) == []

    def test_many_of_the_same_are_compared_in_order(self) -> None:
        one = body_of([{"role": "user", "content": "same"}] * 3000)
        other = body_of([{"role": "user", "content": "else"}, *[{"role": "user", "content": "same"}] * 2999, {}])
        assert [d.place for d in differences(one, other)] == ["messages[0]", "messages[3000]"]

    @pytest.mark.parametrize(
        ("before", "after", "expected"),
        [
            (b'{"a":1}', b'{"a":2}', ("a", 5)),
            (b"not json", b"not jsom", ("", 7)),
            (b'{"a":1}', b'{"a":1} ', ("", 7)),
        ],
    )
    def test_begin_at_a_byte(self, before: bytes, after: bytes, expected: tuple[str, int]) -> None:
        assert first_difference(before, after) == expected
