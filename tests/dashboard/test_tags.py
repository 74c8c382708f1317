import pytest

from compat_admin.dashboard.json_lines import lines, pretty
from compat_admin.dashboard.shown import cut
from compat_admin.dashboard.tags import foreign, plural, prose, seconds, size


class TestWords:
    @pytest.mark.parametrize(
        ("value", "words"),
        [(0, "0 B"), (999, "999 B"), (2100, "2.1 KB"), (64_000, "64 KB"), (999_950, "1 MB"), (18_400_000, "18.4 MB")],
    )
    def test_size(self, value: int, words: str) -> None:
        assert size(value) == words

    @pytest.mark.parametrize(
        ("value", "words"),
        [(0.0, "0 s"), (0.31, "0.31 s"), (8.0, "8 s"), (37.4, "37.4 s"), (250, "4 min 10 s"), (7500, "2 h 5 min")],
    )
    def test_seconds(self, value: float, words: str) -> None:
        assert seconds(value) == words

    def test_plural(self) -> None:
        assert [plural(n, "change") for n in (0, 1, 2000)] == ["0 changes", "1 change", "2,000 changes"]

    def test_foreign_text_is_escaped_before_its_odd_characters_are_named(self) -> None:
        assert foreign("<b>\x01") == '&lt;b&gt;<span class="bad-char" title="control character">U+0001</span>'

    def test_prose_keeps_paragraphs_apart(self) -> None:
        assert prose("a\n\n \n<b>") == '<p dir="auto">a</p><p dir="auto">&lt;b&gt;</p>'


class TestCut:
    def test_never_splits_a_character_and_says_what_is_missing(self) -> None:
        found = cut("字" * 1000, 100)

        assert found.text == "字" * 33
        assert (found.size, found.missing) == (3000, 2901)

    def test_leaves_a_text_that_fits(self) -> None:
        assert cut("字" * 33, 99).missing == 0


class TestLines:
    def test_keep_order_and_every_digit(self) -> None:
        assert pretty({"b": 2**80, "a": 1.0}) == '{"b": 1208925819614629174706176, "a": 1.0}'

    def test_know_their_places(self) -> None:
        value = {"messages": [{"role": "user", "content": "x" * 80}], "a/b": {"~": ["y" * 80]}}

        places = {line.place for line in lines(value)}

        assert {"/messages/0/role", "/messages/0/content", "/a~1b/~0/0"} <= places
        assert [line.number for line in lines(value)] == list(range(1, len(lines(value)) + 1))

    def test_cut_long_texts_with_their_size(self) -> None:
        shown = lines({"text": "x" * 10_000})

        assert max(len(line.text) for line in shown) < 400
        assert "10 KB in all" in shown[1].text

    def test_bear_deep_nesting(self) -> None:
        value: object = 1
        for _ in range(500):
            value = [value]

        assert lines(value)
