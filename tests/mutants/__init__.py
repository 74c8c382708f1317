"""One-line faults that the tests must notice."""

from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[2]


class Mutant(msgspec.Struct, frozen=True):
    """The line `old` of a file, whole and with its indentation, becomes `new`; `why` is what it keeps true.

    `near` are the tests that are asked first.
    """

    file: str
    old: str
    new: str
    why: str
    near: str


def mutants() -> list[Mutant]:
    return msgspec.json.decode((Path(__file__).parent / "mutants.json").read_bytes(), type=list[Mutant])


def occurrences(text: str, line: str) -> int:
    return text.split("\n").count(line)
