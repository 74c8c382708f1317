"""The page about the pretend providers' own mistakes is the one its command makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.judge import REFUSALS, ROOT, Tally, judged, page, reports


@pytest.fixture(scope="module")
def tallies(recordings_dir: Path, pytestconfig: pytest.Config) -> dict[str, Tally]:
    return judged(recordings_dir)


def test_nothing_that_was_answered_is_refused_and_nothing_that_was_refused_passes(tallies: dict[str, Tally]) -> None:
    """Whoever finds one that can't be helped lists it here, with the reason."""
    assert {case for tally in tallies.values() for case in tally.false_refusals} == set()
    assert {case for tally in tallies.values() for case in tally.false_passes} == set()


def test_is_what_the_command_makes(tallies: dict[str, Tally], pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--recordings"):
        pytest.skip("The page is about the recordings beside the project, and others were named.")
    assert (ROOT / "docs" / "judge.md").read_text(encoding="utf-8") == page(tallies)


def test_names_mistakes_and_counts_them() -> None:
    tallies = {
        "anthropic": Tally(answered=7, false_refusals=["a.1"], refused=2, reported=3, false_passes=["s1", "s2"]),
        "openai": Tally(answered=5, other_errors=["a limit", "a limit"], mended=["s3"]),
    }
    lines = page(tallies).splitlines()
    assert "| `anthropic` | 7 | 1 | 2 | 3 | 2 |" in lines
    assert "| all | 12 | 1 | 2 | 3 | 2 |" in lines
    assert "- False refusals: `a.1`" in lines
    assert "- False passes: `s1`, `s2`" in lines
    assert "- Recorded errors that say nothing of the history: a limit (2)." in lines
    assert lines[-1].endswith("before any rule: `s3`.")


def test_looks_at_every_reported_refusal() -> None:
    assert len(reports()) >= 40
    assert all(case["error"]["status"] in REFUSALS for case in reports().values())


def test_says_where_there_are_no_recordings(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there are no recordings in"):
        judged(tmp_path)
