"""What an attempt sent and got, as a run's page shows it, and what differs from the attempt before it.

Always said: how much is shown, how large the whole is, and whether it is what was really sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from msgspec import Struct

from compat_admin.dashboard.json_lines import lines
from compat_admin.dashboard.shown import Cut, cut
from compat_admin.dashboard.tags import count, plural, size
from memory.errors import InvalidInput
from memory.fragments import Difference, differences
from memory.messages.stored import decode_json
from memory.queries import AttemptBodies, AttemptItem, RunDetail

SHOWN_BYTES = 64_000
LAID_OUT_BYTES = 256_000
SHOWN_LINES = 400
SHOWN_DIFFERENCES = 20
SHOWN_DIFFERENCE_LINES = 40
_LINE = 300
_BEFORE = 80
_LINE_PAIRS_MOST = 250_000
_KINDS = ("changed", "left out", "added")


class Body(Struct, frozen=True):
    """What was sent or came back: as JSON lines where it is JSON of a bearable size, else its beginning.

    `shown` says how much of it that is. `absent` says why there is none, `problem` why it is not what was sent.
    """

    lines: list[Any]
    text: Cut
    size: int
    shown: str = ""
    absent: str = ""
    problem: str = ""


def shown_body(content: bytes, whole_size: int, *, absent: str = "", problem: str = "") -> Body:
    """A body whose size on record is `whole_size`."""
    text = cut(content.decode("utf-8", "replace"), SHOWN_BYTES)
    if absent or not content:
        return Body([], text, whole_size, absent=absent, problem=problem)
    if len(content) <= LAID_OUT_BYTES:
        try:
            value = decode_json(content)
        except InvalidInput:
            pass
        else:
            found = lines(value)
            said = "long texts cut" if found != lines(value, shown_text=None) else "whole"
            if len(found) > SHOWN_LINES:
                said = f"first {SHOWN_LINES} of {len(found):,} lines shown"
            return Body(found[:SHOWN_LINES], text, whole_size, said, problem=problem)
    part = f"first {size(len(text.text.encode('utf-8', 'replace')))} shown" if text.missing else "whole"
    return Body([], text, whole_size, part, problem=problem)


def bodies_shown(detail: RunDetail, item: AttemptItem, found: AttemptBodies) -> tuple[Body, Body]:
    """Request and response of an attempt."""
    sent = shown_body(
        found.sent.content,
        item.request_size,
        absent="" if found.is_sent_kept else why_absent(detail),
        problem=found.sent.problem,
    )
    came = shown_body(found.came, item.response_size, absent="" if found.is_came_kept else why_absent(detail))
    return sent, came


def why_absent(detail: RunDetail) -> str:
    """Why a body that there was is not to be had."""
    if detail.removed_at is not None:
        return f"Bodies removed on {detail.removed_at:%Y-%m-%d}; size, hash and decision stay on record."
    return "Not kept: its agent is set to keep no bodies. Size, hash and decision are on record."


class Differs(Struct, frozen=True):
    """A piece that differs: `rows` are `("del" | "ins" | "", text)`, `hidden` more are not shown."""

    place: str
    what: str
    rows: list[tuple[str, str]]
    hidden: int


class Compared(Struct, frozen=True):
    """An attempt's request beside an earlier one."""

    number: int
    said: str
    items: list[Differs]
    hidden: int = 0


def compared(before: AttemptItem, after: AttemptItem, bodies: dict[int, AttemptBodies]) -> Compared | None:
    """What differs between the requests of two attempts; None where there is not both."""
    if before.request_sha256 and before.request_sha256 == after.request_sha256:
        return Compared(before.number, "Byte for byte the same request.", [])
    one, other = bodies[before.number].sent.content, bodies[after.number].sent.content
    if not (one and other):
        return None
    if before.protocol != after.protocol:
        said = f"Another protocol: {after.protocol} where it was {before.protocol}. So the whole body is another one."
        return Compared(before.number, said, [])
    found = differences(one, other)
    return Compared(
        before.number,
        _in_words(found, len(other) - len(one)),
        [_differs(difference) for difference in found[:SHOWN_DIFFERENCES]],
        max(0, len(found) - SHOWN_DIFFERENCES),
    )


def _in_words(found: Sequence[Difference], more: int) -> str:
    if not found:
        return "The same values, written otherwise."
    kinds = [_kind(difference) for difference in found]
    told = [
        plural(kinds.count(kind), "piece") + f" {kind}" for kind in ("changed", "left out", "added") if kind in kinds
    ]
    by = f", {size(abs(more))} {'more' if more > 0 else 'less'}" if more else ""
    return f"{', '.join(told)}{by}. All else is byte for byte the same."


def _kind(difference: Difference) -> str:
    if difference.before is None:
        return "added"
    return "left out" if difference.after is None else "changed"


def _differs(difference: Difference) -> Differs:
    rows = list(_rows(_laid_out(difference.before), _laid_out(difference.after)))
    shown = rows[:SHOWN_DIFFERENCE_LINES]
    return Differs(difference.place or "the body", _kind(difference), shown, len(rows) - len(shown))


def _laid_out(piece: bytes | None) -> list[str]:
    if piece is None:
        return []
    if len(piece) <= LAID_OUT_BYTES:
        try:
            return [line.text for line in lines(decode_json(piece), shown_text=None)]
        except InvalidInput:
            pass
    return [piece.decode("utf-8", "replace")]


def _rows(before: list[str], after: list[str]) -> Iterator[tuple[str, str]]:
    """Lines that went and came, with one that stayed on either side."""
    if len(before) * len(after) > _LINE_PAIRS_MOST:
        yield from _replaced(before, after)
        return
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(1):
        for tag, i, i_end, j, j_end in group:
            if tag == "equal":
                yield from (("", _window(line, line)) for line in before[i:i_end])
            else:
                yield from _replaced(before[i:i_end], after[j:j_end])


def _replaced(gone: list[str], come: list[str]) -> Iterator[tuple[str, str]]:
    pairs = list(zip_longest(gone, come))
    yield from (("del", _window(was, now)) for was, now in pairs if was is not None)
    yield from (("ins", _window(now, was)) for was, now in pairs if now is not None)


def _window(line: str, other: str | None) -> str:
    """The line, of a long one a piece from shortly before it differs from the other one."""
    if len(line) <= _LINE:
        return line
    same = 0
    if other is not None and other != line:
        same = next(
            (n for n, (a, b) in enumerate(zip(line, other, strict=False)) if a != b), min(len(line), len(other))
        )
    start = max(0, same - _BEFORE)
    begin, end = "…" if start else "", "…" if start + _LINE < len(line) else ""
    return f"{begin}{line[start : start + _LINE]}{end} ({count(len(line))} characters)"
