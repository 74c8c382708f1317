"""Which tests and recorded refusals name a rule: read from the tests themselves, where they lie beside the code."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from memory.processors.compat.catalogue import RULES

TESTS = Path(__file__).resolve().parents[3] / "tests"
_NAMES = re.compile(r"[\"'/]([a-z]+(?:-[a-z0-9]+)+)[\"'/]")
_CLASS = re.compile(r"class (Test\w*)")
_TEST = re.compile(r"(\s*)def (test_\w+)")


class Covered(Struct, frozen=True):
    """`tests` by their pytest names below the tests' folder; `cases` as id and source of a refusal seen elsewhere."""

    tests: tuple[str, ...] = ()
    cases: tuple[tuple[str, str], ...] = ()


def covered(rule: str) -> Covered | None:
    """What covers a rule; None where the tests are not installed beside the code."""
    return _all().get(rule, Covered()) if TESTS.is_dir() else None


@cache
def _all() -> dict[str, Covered]:
    tests: dict[str, dict[str, None]] = {}
    cases: dict[str, dict[tuple[str, str], None]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for name, rule in _named(file):
            tests.setdefault(rule, {})[name] = None
    for file in sorted((TESTS / "cases").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            for rule in case.get("rules") or ():
                cases.setdefault(rule, {})[str(case.get("id", "")), str(case.get("source", ""))] = None
    return {rule: Covered(tuple(tests.get(rule, ())), tuple(cases.get(rule, ()))) for rule in {*tests, *cases}}


def _named(file: Path) -> Iterator[tuple[str, str]]:
    """Test and rule for every rule id that stands in a test; one outside of any counts for the file."""
    where = file.relative_to(TESTS).as_posix()
    group = test = ""
    for line in file.read_text(encoding="utf-8").splitlines():
        if found := _CLASS.match(line):
            group, test = found[1], ""
        elif found := _TEST.match(line):
            test = found[2]
            group = group if found[1] else ""
        for rule in _NAMES.findall(line):
            if rule in RULES:
                yield "::".join(name for name in (where, group, test) if name), rule
