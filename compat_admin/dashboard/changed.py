"""Changes as the x-ray shows them: notes with words and letters, and the marks they leave on lines of the request."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from msgspec import Struct

from compat_admin.dashboard.json_lines import Line
from compat_admin.dashboard.tags import foreign
from memory.messages.values import write_json
from memory.processors.changes import Placed
from memory.processors.compat.catalogue import RULES
from memory.processors.compat.targets import STEP_NAMES, step_of

Sign = Literal["gone", "add", "chg", ""]
FILTER_STEP, OWN_STEP = 0, 11
_COMPARED = 2000
"""Characters of a value whose letters are compared: the comparison grows with their square."""


class Note(Struct, frozen=True):
    """A change in the middle pane. `same_as` is the number of an earlier one with the same rule and reason."""

    change: Placed
    verb: str
    before: SafeString
    after: SafeString
    same_as: int | None
    step: int

    @property
    def step_name(self) -> str:
        return step_name(self.step)

    @property
    def confidence(self) -> str:
        rule = RULES.get(self.change.rule)
        return rule.confidence if rule else ""


def notes_of(changes: Sequence[Placed]) -> Iterator[Note]:
    seen: dict[tuple[str, str], int] = {}
    for change in changes:
        same_as = seen.get((change.rule, change.reason))
        seen.setdefault((change.rule, change.reason), change.number)
        before, after = difference(change.before, change.after)
        yield Note(change, _verb(change), before, after, same_as, step_for(change.rule))


def step_for(rule: str) -> int:
    """The step a change was made in: 1 to 10, 0 for a processor before the passes, 11 for a rule of one's own."""
    if rule in RULES:
        return step_of(rule) or OWN_STEP
    return FILTER_STEP if rule.startswith("tool-call-filter") else OWN_STEP


def step_name(step: int) -> str:
    if step == FILTER_STEP:
        return "Tool filter"
    return "Own rules" if step == OWN_STEP else f"{step} {STEP_NAMES[step - 1]}"


def difference(before: Any, after: Any) -> tuple[SafeString, SafeString]:
    """Both values as one-line texts, escaped, with the letters that differ in `<u>`; empty for None."""
    old = "" if before is None else before if isinstance(before, str) else write_json(before)
    new = "" if after is None else after if isinstance(after, str) else write_json(after)
    if not old or not new or len(old) + len(new) > _COMPARED:
        return foreign(old), foreign(new)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.4:
        return foreign(old), foreign(new)
    left = right = SafeString("")
    for kind, a, b, c, d in matcher.get_opcodes():
        left += _piece(old[a:b], kind == "equal")
        right += _piece(new[c:d], kind == "equal")
    return mark_safe(left), mark_safe(right)


def marks_of(
    changes: Sequence[Placed], lines_at: Mapping[str, Sequence[Line]], unit_of: Any
) -> dict[int, tuple[Sign, list[int]]]:
    """Line number to its sign and the numbers of the changes that begin there.

    `lines_at` holds the lines of each message of the request, and under an empty key those outside of them.
    """
    marks: dict[int, tuple[Sign, list[int]]] = {}
    for change in changes:
        for pointer in (change.sent, *change.also_sent):
            if pointer is None:
                continue
            block = [line for line in lines_at.get(unit_of(pointer), ()) if _touches(line, pointer)]
            if not block:
                continue
            telling = _telling(block, change)
            sign: Sign = "chg"
            hit = telling or block[:1]
            if change.before is None:
                # Where the new thing itself is not found, the place it was added to only gets the number.
                sign, hit = ("add", block) if telling else ("", block[:1])
            for line in hit:
                old_sign, numbers = marks.get(line.number, ("", []))
                number = [change.number] if line is hit[0] else []
                marks[line.number] = (old_sign or sign, [*numbers, *number])
    return marks


def _verb(change: Placed) -> str:
    if change.after is None:
        return "Left out"
    if change.before is None:
        return "Added"
    if "-id" in change.rule or "tool-name" in change.rule:
        return "Renamed"
    return "Rewritten"


def _piece(text: str, is_equal: bool) -> SafeString:
    if not text:
        return SafeString("")
    return foreign(text) if is_equal else format_html("<u>{}</u>", foreign(text))


def _telling(block: Sequence[Line], change: Placed) -> list[Line]:
    """The lines of a changed value that hold what it became."""
    after, before = change.after, change.before
    leaves = [after]
    if isinstance(after, dict):
        old = before if isinstance(before, dict) else {}
        leaves = [value for key, value in after.items() if old.get(key) != value]
    needles = [write_json(leaf)[:60] for leaf in leaves if leaf not in ("", None)]
    return [line for line in block if any(needle in line.text for needle in needles)]


def _touches(line: Line, pointer: str) -> bool:
    if line.place == pointer or line.place.startswith(pointer + "/"):
        return True
    return line.is_whole and pointer.startswith(line.place + "/")
