"""A preview as its page shows it: one row a stored message, its parts beside what changed them and what is sent.

The same number marks a change in all three panes. Runs of messages that nothing touched fold to one row.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe
from msgspec import Struct

from compat_admin.dashboard.json_lines import Line, lines
from compat_admin.dashboard.shown import Shown, effective_parts, shown_part
from compat_admin.dashboard.tags import foreign
from memory.messages.stored import StoredMessage, decode_json, write_json
from memory.processors.changes import Placed

SHOWN_LINES = 200
FOLDED_LINES = 40
_SNIPPET = 240

Sign = Literal["gone", "add", "chg", ""]
_SIGNS = {"gone": "−", "add": "+", "chg": "~", "": ""}
_SPOKEN = {"gone": "removed", "add": "added", "chg": "changed", "": ""}


class Stored(Struct, frozen=True):
    """A stored part in the left pane."""

    kind: str
    text: str
    size: int
    sign: Sign
    marks: list[int]

    @property
    def sign_text(self) -> str:
        return _SIGNS[self.sign]


class Note(Struct, frozen=True):
    """A change in the middle pane. `same_as` is the number of an earlier one with the same rule and reason."""

    change: Placed
    verb: str
    before: SafeString
    after: SafeString
    same_as: int | None


class Sent(Struct, frozen=True):
    """A line of the request in the right pane."""

    number: int
    text: str
    sign: Sign
    marks: list[int]

    @property
    def sign_text(self) -> str:
        return _SIGNS[self.sign]

    @property
    def spoken(self) -> str:
        return _SPOKEN[self.sign]


class Message(Struct, frozen=True):
    """A stored message: how it is called, where its page is, its parts, and its lines of the request."""

    label: str
    link: str
    role: str
    model_id: str
    size: int
    parts: list[Stored]
    sent: list[Sent]
    hidden_lines: int
    goes_to: list[str]


class Row(Struct, frozen=True):
    """One row of the grid. `same`: nothing touched these messages. `frame`: what the request holds round them."""

    kind: Literal["same", "message", "made", "frame"]
    title: str
    messages: list[Message]
    notes: list[Note]
    sent: list[Sent]
    hidden_lines: int
    sent_size: int
    shared: str = ""

    @property
    def stored_size(self) -> int:
        return sum(message.size for message in self.messages)


class XRay(Struct, frozen=True):
    rows: list[Row]
    stored_size: int
    sent_size: int
    rule_count: int
    line_count: int


def build(
    *,
    messages: Sequence[StoredMessage],
    landed: Mapping[str, Sequence[str]],
    changes: Sequence[Placed],
    body: bytes,
    labels: Mapping[str, tuple[str, str]],
) -> XRay:
    """The rows of a preview. `landed`: message id to the pointers of what it became in the request's body; `labels`:
    message id to its short name and the address of its page (either may be empty)."""
    notes = list(_notes(changes))
    all_lines = lines(decode_json(body))
    marked = _marks(changes, all_lines)
    # What no stored message became (instructions, made-up turns) is listed under an empty id.
    landed = {message_id: pointers for message_id, pointers in landed.items() if message_id}
    list_place = next((_list_of(pointer) for pointers in landed.values() for pointer in pointers), "/messages")
    units: dict[str, list[Line]] = {}
    head: list[Line] = []
    tail: list[Line] = []
    for line in all_lines:
        unit = _unit(line.place, list_place)
        if unit:
            units.setdefault(unit, []).append(line)
        else:
            (tail if units else head).append(line)

    by_message: dict[int, list[Note]] = {}
    frame_notes: list[Note] = []
    position = {message.get("id"): i for i, message in enumerate(messages)}
    for note in notes:
        at = _stored_index(note.change.stored)
        at = position.get(note.change.message_id) if at is None else at
        if at is None:
            frame_notes.append(note)
        else:
            by_message.setdefault(at, []).append(note)

    owners = {_unit(pointer, list_place) for pointers in landed.values() for pointer in pointers}
    order = list(units)
    shown_units: set[str] = set()
    rows: list[Row] = [_frame("Settings and instructions", head, frame_notes, marked)]
    for i, message in enumerate(messages):
        own = [_unit(pointer, list_place) for pointer in landed.get(message.get("id", ""), ())]
        own = list(dict.fromkeys(unit for unit in own if unit in units))
        fresh = [unit for unit in own if unit not in shown_units]
        if fresh:
            # What no stored message became stands where it is sent.
            for unit in order[: order.index(fresh[0])]:
                if unit not in owners and unit not in shown_units:
                    rows.append(_made(unit, units[unit], marked))
                    shown_units.add(unit)
        shown_units.update(fresh)
        rows.append(_message_row(message, fresh, own, units, by_message.get(i, []), marked, labels))
    rows += [_made(unit, units[unit], marked) for unit in order if unit not in shown_units]
    if tail:
        rows.append(_frame("The rest of the request", tail, [], marked))
    return XRay(
        rows=list(_folded(rows)),
        stored_size=sum(message.size for row in rows for message in row.messages),
        sent_size=len(body),
        rule_count=len({change.rule for change in changes}),
        line_count=len(all_lines),
    )


# Rows


def _message_row(
    message: StoredMessage,
    fresh: Sequence[str],
    own: Sequence[str],
    units: Mapping[str, Sequence[Line]],
    notes: list[Note],
    marked: Mapping[int, tuple[Sign, list[int]]],
    labels: Mapping[str, tuple[str, str]],
) -> Row:
    content = message.get("content") or {}
    label, link = labels.get(message.get("id", ""), ("", ""))
    metadata = content.get("metadata")
    model_id = metadata.get("modelId") if isinstance(metadata, dict) else ""
    size = len(write_json(content).encode())
    sent, hidden = _sent([line for unit in fresh for line in units[unit]], marked, SHOWN_LINES)
    shared = "" if fresh or not own else f"in {_spelt(own[0])}, above"
    touched = bool(notes) or any(line.sign for line in sent) or not own or bool(shared)
    shown = Message(
        label=label,
        link=link,
        role=str(message.get("role", "")).capitalize(),
        model_id=model_id if isinstance(model_id, str) else "",
        size=size,
        parts=_parts(content, notes),
        sent=sent,
        hidden_lines=hidden,
        goes_to=[_spelt(unit) for unit in fresh],
    )
    kind: Literal["message", "same"] = "message" if touched else "same"
    return Row(kind, "", [shown], notes, sent, hidden, _size(units, fresh), shared)


def _parts(content: Mapping[str, Any], notes: Sequence[Note]) -> list[Stored]:
    by_part: dict[int, list[Note]] = {}
    loose: list[Note] = []
    for note in notes:
        n = _part_index(note.change.stored)
        if n is None:
            loose.append(note)
        else:
            by_part.setdefault(n, []).append(note)
    out: list[Stored] = []
    for n, part in enumerate(effective_parts(content)):
        shown = shown_part(n, part)
        mine = by_part.get(n, [])
        if shown.kind == "step" and not mine:
            continue
        changed = [note for note in mine if note.change.before is not None]
        sign: Sign = ""
        if any(note.change.after is None for note in changed):
            sign = "gone"
        elif changed:
            sign = "chg"
        out.append(_stored(shown, sign, [note.change.number for note in changed]))
        loose += [note for note in mine if note.change.before is None]
    for note in loose:
        number, change = note.change.number, note.change
        if change.before is None:
            out.append(Stored("added for this call only", "", 0, "add", [number]))
        else:
            out.append(
                Stored("the message", _snippet(change.before), 0, "gone" if change.after is None else "chg", [number])
            )
    return out


def _stored(shown: Shown, sign: Sign, marks: list[int]) -> Stored:
    text = shown.body.text if shown.body else ""
    kind = {"text": "text" if text.strip() else "text, blank", "reasoning": f"reasoning, {shown.note}"}.get(
        shown.kind, ""
    )
    if shown.kind == "call":
        kind, text = f"{shown.title}, {shown.state}", shown.call_id
    if shown.kind == "unreadable":
        kind = f"unreadable: {shown.title}"
    return Stored(kind or shown.title or shown.kind, text[:_SNIPPET], shown.size, sign, marks)


def _frame(title: str, found: Sequence[Line], notes: list[Note], marked: Mapping[int, tuple[Sign, list[int]]]) -> Row:
    sent, hidden = _sent(found, marked, SHOWN_LINES)
    where = f"lines {found[0].number} to {found[-1].number}" if found else ""
    return Row("frame", f"{title}, {where}", [], notes, sent, hidden, sum(len(line.text) for line in found))


def _made(unit: str, found: Sequence[Line], marked: Mapping[int, tuple[Sign, list[int]]]) -> Row:
    sent, hidden = _sent(found, marked, SHOWN_LINES)
    return Row(
        "made", f"{_spelt(unit)}, made for this call", [], [], sent, hidden, sum(len(line.text) for line in found)
    )


def _folded(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows with each run of untouched messages as one."""
    run: list[Row] = []
    for row in rows:
        if row.kind == "same":
            run.append(row)
            continue
        if run:
            yield _fold(run)
            run = []
        yield row
    if run:
        yield _fold(run)


def _fold(run: Sequence[Row]) -> Row:
    messages = [row.messages[0] for row in run]
    sent: list[Sent] = []
    hidden = 0
    for row in run:
        limit = FOLDED_LINES if len(run) > 1 else SHOWN_LINES
        sent += row.sent[:limit]
        hidden += row.hidden_lines + max(0, len(row.sent) - limit)
    first, last = messages[0].label, messages[-1].label
    title = f"{first}, as stored" if len(run) == 1 else f"{first} to {last}, {len(run)} messages as stored"
    return Row("same", title, messages, [], sent, hidden, sum(row.sent_size for row in run))


# Changes


def _notes(changes: Sequence[Placed]) -> Iterator[Note]:
    seen: dict[tuple[str, str], int] = {}
    for change in changes:
        same_as = seen.get((change.rule, change.reason))
        seen.setdefault((change.rule, change.reason), change.number)
        before, after = difference(change.before, change.after)
        yield Note(change, _verb(change), before, after, same_as)


def _verb(change: Placed) -> str:
    if change.after is None:
        return "Left out"
    if change.before is None:
        return "Added"
    if "-id" in change.rule or "tool-name" in change.rule:
        return "Renamed"
    return "Rewritten"


def difference(before: Any, after: Any) -> tuple[SafeString, SafeString]:
    """Both values as one-line texts, escaped, with the letters that differ in `<u>`; empty for None."""
    old = "" if before is None else before if isinstance(before, str) else write_json(before)
    new = "" if after is None else after if isinstance(after, str) else write_json(after)
    if not old or not new:
        return foreign(old), foreign(new)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.4:
        return foreign(old), foreign(new)
    left = right = SafeString("")
    for kind, a, b, c, d in matcher.get_opcodes():
        left += _piece(old[a:b], kind == "equal")
        right += _piece(new[c:d], kind == "equal")
    return mark_safe(left), mark_safe(right)


def _piece(text: str, is_equal: bool) -> SafeString:
    if not text:
        return SafeString("")
    return conditional_escape(text) if is_equal else format_html("<u>{}</u>", text)


def _marks(changes: Sequence[Placed], found: Sequence[Line]) -> dict[int, tuple[Sign, list[int]]]:
    """Line number to its sign and the numbers of the changes that begin there."""
    marks: dict[int, tuple[Sign, list[int]]] = {}
    for change in changes:
        for pointer in (change.sent, *change.also_sent):
            if pointer is None:
                continue
            block = [line for line in found if _touches(line, pointer)]
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


def _sent(found: Sequence[Line], marked: Mapping[int, tuple[Sign, list[int]]], limit: int) -> tuple[list[Sent], int]:
    """The first lines and every marked one, and how many are not among them."""
    kept = [line for i, line in enumerate(found) if i < limit or line.number in marked]
    sent = [Sent(line.number, line.text, *marked.get(line.number, ("", []))) for line in kept]
    return sent, len(found) - len(kept)


# Places


def _list_of(pointer: str) -> str:
    return "/" + pointer.split("/")[1]


def _unit(place: str, list_place: str) -> str:
    """The message of the request that a place lies in, `/messages/3`; empty outside the list."""
    if not place.startswith(list_place + "/"):
        return ""
    return "/".join(place.split("/")[:3])


def _spelt(unit: str) -> str:
    _, name, index = unit.split("/")
    return f"{name}[{index}]"


def _stored_index(pointer: str | None) -> int | None:
    steps = pointer.split("/") if pointer else []
    return int(steps[2]) if len(steps) > 2 and steps[1] == "messages" and steps[2].isdigit() else None


def _part_index(pointer: str | None) -> int | None:
    steps = pointer.split("/") if pointer else []
    return int(steps[5]) if len(steps) > 5 and steps[4] == "parts" and steps[5].isdigit() else None


def _size(units: Mapping[str, Sequence[Line]], chosen: Sequence[str]) -> int:
    return sum(len(line.text.encode("utf-8", "replace")) for unit in chosen for line in units[unit])


def _snippet(value: Any) -> str:
    text = value if isinstance(value, str) else write_json(value)
    return text[:_SNIPPET]
