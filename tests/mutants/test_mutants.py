"""The list of mutants stays true."""

import ast

import pytest

from tests.mutants import ROOT, Mutant, mutants, occurrences


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.why)
def test_breaks_a_line_that_is_there_once(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert occurrences(text, mutant.old) == 1
    assert mutant.old != mutant.new
    ast.parse(text.replace(f"{mutant.old}\n", f"{mutant.new}\n", 1))


def test_counts_twenty_and_more() -> None:
    assert len({(mutant.file, mutant.old) for mutant in mutants()}) >= 20
