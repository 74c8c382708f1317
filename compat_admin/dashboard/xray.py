"""A preview as its page shows it: one row a stored message, its parts beside what changed them and what is sent.

The same number marks a change in all three panes. Runs of messages that nothing touched fold to one row. However large
the history, a page holds only so many bytes: what does not fit is one link further on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from compat_admin.dashboard.changed import FILTER_STEP, OWN_STEP, Note, Sign, marks_of, notes_of, step_name
from compat_admin.dashboard.json_lines import Line, lines
from compat_admin.dashboard.shown import Shown, effective_parts, shown_part
from memory.messages.stored import StoredMessage, decode_json
from memory.messages.values import write_json
from memory.processors.changes import Placed
from memory.processors.compat.targets import STEP_NAMES

SHOWN_LINES = 120
FOLDED_LINES = 30
FOLDED_MESSAGES = 20
PAGE_BYTES = 120_000
"""About as much HTML as the rows of one page may be."""
LISTS = ("messages", "input", "contents")
"""What protocols call the messages of a request."""
_SNIPPET = 240
_SYSTEM = ('"role": "system",', '"role": "developer",')
_SIGNS: dict[Sign, str] = {"gone": "−", "add": "+", "chg": "~", "": ""}
_SPOKEN: dict[Sign, str] = {"gone": "removed", "add": "added", "chg": "changed", "": ""}


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


class Sent(Struct, frozen=True):
    """A line of the request in the right pane. `jumps`: lines before it are left out."""

    number: int
    text: str
    sign: Sign
    marks: list[int]
    jumps: bool = False

    @property
    def spoken(self) -> str:
        return _SPOKEN[self.sign]


class Message(Struct, frozen=True):
    """A stored message: how it is called, where its page is, and its parts."""

    label: str
    link: str
    role: str
    model_id: str
    size: int
    parts: list[Stored]
    note: str = ""


class Row(Struct, frozen=True):
    """One row of the grid. `same`: nothing touched these messages. `frame`: what the request holds round them."""

    kind: Literal["same", "message", "made", "frame"]
    title: str
    messages: list[Message]
    notes: list[Note]
    sent: list[Sent]
    hidden_lines: int = 0
    sent_size: int = 0
    units: tuple[str, ...] = ()
    shared: str = ""
    hidden_messages: int = 0
    stored_size: int = 0

    @property
    def sent_title(self) -> str:
        """`messages[0] to [7], lines 6 to 212`."""
        if not self.sent:
            return "nothing"
        name = spelt(self.units[0]) if self.units else "outside the messages"
        if len(self.units) > 1:
            name += f" to [{self.units[-1].rpartition('/')[2]}]"
        first, last = self.sent[0].number, self.sent[-1].number + self.hidden_lines
        return f"{name}, line {first:,}" if first == last else f"{name}, lines {first:,} to {last:,}"


class StepCount(Struct, frozen=True):
    """A stop of the strip; `number` is what the page is asked for to see its changes alone."""

    number: int
    name: str
    count: int


class XRay(Struct, frozen=True):
    """The rows of this page, and numbers about all of them. `next_row` is where the next page begins, if there is one.

    `losses` counts changes by how much was lost, beginning with the worst.
    """

    rows: list[Row]
    stored_size: int
    sent_size: int
    rule_count: int
    line_count: int
    message_count: int
    unit_count: int
    steps: list[StepCount]
    losses: list[tuple[str, int]]
    first_row: int
    next_row: int | None


def build(
    *,
    messages: Sequence[StoredMessage],
    landed: Mapping[str, Sequence[str]],
    changes: Sequence[Placed],
    body: bytes,
    labels: Mapping[str, tuple[str, str]],
    step: int | None = None,
    only_changed: bool = False,
    first_row: int = 0,
) -> XRay:
    """The rows of a preview. `landed`: message id to the pointers of what it became in the request's body; `labels`:
    message id to its short name and the address of its page (either may be empty). With a `step` only its changes."""
    notes = list(notes_of(changes))
    # What no stored message became (instructions, made-up turns) is listed under an empty id.
    landed = {message_id: pointers for message_id, pointers in landed.items() if message_id}
    pointers = [pointer for each in landed.values() for pointer in each]
    request = Request(body, changes, pointers)
    by_message: dict[int, list[Note]] = {}
    frame_notes: list[Note] = []
    position = {message.get("id"): i for i, message in enumerate(messages)}
    for note in notes:
        at = stored_index(note.change.stored)
        at = position.get(note.change.message_id) if at is None else at
        if at is None:
            frame_notes.append(note)
        else:
            by_message.setdefault(at, []).append(note)

    owners = {request.unit_of(pointer) for pointer in pointers}
    shown_units: set[str] = set()
    rows: list[Row] = [request.frame("Settings and instructions", request.head, frame_notes)]
    for i, message in enumerate(messages):
        own = [request.unit_of(pointer) for pointer in landed.get(message.get("id", ""), ())]
        own = list(dict.fromkeys(unit for unit in own if unit in request.place))
        fresh = [unit for unit in own if unit not in shown_units]
        if fresh:
            # What no stored message became stands where it is sent.
            for unit in request.order[: request.place[fresh[0]]]:
                if unit not in owners and unit not in shown_units:
                    rows.append(request.made(unit))
                    shown_units.add(unit)
        shown_units.update(fresh)
        rows.append(_message_row(request, message, fresh, own, by_message.get(i, []), labels))
    rows += [request.made(unit) for unit in request.order if unit not in shown_units]
    if request.tail:
        rows.append(request.frame("The rest of the request", request.tail, []))
    return paged(rows, notes, request, message_count=len(messages), step=step, only=only_changed, first_row=first_row)


def paged(
    rows: Sequence[Row],
    notes: Sequence[Note],
    request: Request,
    *,
    message_count: int,
    step: int | None,
    only: bool,
    first_row: int,
) -> XRay:
    """The x-ray of all rows: those asked for, folded, and as many of them as a page holds."""
    wanted = list(rows)
    if step is not None:
        narrowed = ((row, [note for note in row.notes if note.step == step]) for row in rows)
        wanted = [replace(row, notes=kept) for row, kept in narrowed if kept]
    elif only:
        wanted = [row for row in rows if row.kind in ("message", "made") or row.notes]
    folded = list(_folded(wanted))
    first_row = min(first_row, max(0, len(folded) - 1))
    end, cost = first_row, 0
    while end < len(folded) and (end == first_row or cost + _cost(folded[end]) <= PAGE_BYTES):
        cost += _cost(folded[end])
        end += 1
    by_loss = Counter(note.change.loss for note in notes)
    order = ("content lost", "reasoning hidden", "reshaped", "same")
    return XRay(
        rows=folded[first_row:end],
        stored_size=sum(row.stored_size for row in rows),
        sent_size=request.size,
        rule_count=len({note.change.rule for note in notes}),
        line_count=request.line_count,
        message_count=message_count,
        unit_count=len(request.order),
        steps=_steps(notes),
        losses=[(loss, by_loss[loss]) for loss in order if by_loss[loss]],  # type: ignore[index]  # all are losses
        first_row=first_row,
        next_row=end if end < len(folded) else None,
    )


class Request:
    """The body as lines, by the message they lie in, with the marks of the changes.

    `head` and `tail` are the lines before and behind the messages, `order` the messages as they are sent.
    """

    def __init__(self, body: bytes, changes: Sequence[Placed], pointers: Sequence[str]) -> None:
        value = decode_json(body)
        found = lines(value)
        self.size, self.line_count = len(body), len(found)
        known = (name for name in LISTS if isinstance(value, dict) and isinstance(value.get(name), list))
        self._list = next(("/" + pointer.split("/")[1] for pointer in pointers), f"/{next(known, LISTS[0])}")
        self._lines: dict[str, list[Line]] = {}
        self.head: list[Line] = []
        self.tail: list[Line] = []
        for line in found:
            unit = self.unit_of(line.place)
            if unit:
                self._lines.setdefault(unit, []).append(line)
            else:
                (self.tail if self._lines else self.head).append(line)
        self.order = list(self._lines)
        self.place = {unit: i for i, unit in enumerate(self.order)}
        self._marked = marks_of(changes, {**self._lines, "": [*self.head, *self.tail]}, self.unit_of)

    def unit_of(self, place: str) -> str:
        """The message of the request that a place lies in, `/messages/3`; empty outside the list."""
        return "/".join(place.split("/")[:3]) if place.startswith(self._list + "/") else ""

    def sent(self, units: Sequence[str]) -> tuple[list[Sent], int, int]:
        """The lines of some messages that are shown, how many are not, and the size of all."""
        return self._shown([line for unit in units for line in self._lines[unit]])

    def frame(self, title: str, found: Sequence[Line], notes: list[Note]) -> Row:
        sent, hidden, size = self._shown(found)
        return Row("frame", title, [], notes, sent, hidden, size)

    def made(self, unit: str) -> Row:
        sent, hidden, size = self.sent([unit])
        if self.order and unit == self.order[0] and any(line.text.strip() in _SYSTEM for line in self._lines[unit]):
            return Row("frame", "Instructions", [], [], sent, hidden, size, (unit,))
        return Row("made", f"{spelt(unit)}, made for this call", [], [], sent, hidden, size, (unit,))

    def _shown(self, found: Sequence[Line]) -> tuple[list[Sent], int, int]:
        """The first lines and every marked one, within bounds."""
        kept = [line for i, line in enumerate(found) if i < SHOWN_LINES or line.number in self._marked]
        kept = kept[: SHOWN_LINES * 2]
        sent: list[Sent] = []
        for line in kept:
            jumps = bool(sent) and line.number != sent[-1].number + 1
            sent.append(Sent(line.number, line.text, *self._marked.get(line.number, ("", [])), jumps))
        size = sum(len(line.text.encode("utf-8", "replace")) for line in found)
        return sent, len(found) - len(kept), size


# Rows


def _message_row(
    request: Request,
    message: StoredMessage,
    fresh: Sequence[str],
    own: Sequence[str],
    notes: list[Note],
    labels: Mapping[str, tuple[str, str]],
) -> Row:
    shown = shown_message(message, notes, labels)
    sent, hidden, size = request.sent(fresh)
    shared = "" if fresh or not own else f"in {spelt(own[0])}, above"
    touched = bool(notes) or any(line.sign for line in sent) or not own or bool(shared)
    kind: Literal["message", "same"] = "message" if touched else "same"
    return Row(kind, "", [shown], notes, sent, hidden, size, tuple(fresh), shared, stored_size=shown.size)


def shown_message(
    message: StoredMessage, notes: Sequence[Note], labels: Mapping[str, tuple[str, str]], note: str = ""
) -> Message:
    """A stored message with the marks of these changes on its parts."""
    content = message.get("content") or {}
    label, link = labels.get(message.get("id", ""), ("", ""))
    metadata = content.get("metadata")
    model_id = metadata.get("modelId") if isinstance(metadata, dict) else ""
    return Message(
        label=label,
        link=link,
        role=str(message.get("role", "")).capitalize(),
        model_id=model_id if isinstance(model_id, str) else "",
        size=_size_of(content),
        parts=_parts(content, notes),
        note=note,
    )


def _size_of(content: Any) -> int:
    try:
        return len(write_json(content).encode())
    except UnicodeError:
        # Half a character, which only an example can still hold: the store mends it on the way in.
        return len(json.dumps(content))


def _parts(content: Mapping[str, Any], notes: Sequence[Note]) -> list[Stored]:
    by_part: dict[int, list[Note]] = {}
    loose: list[Note] = []
    for note in notes:
        n = part_index(note.change.stored)
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
    messages = [message for row in run for message in row.messages]
    sent = [line for row in run for line in row.sent]
    hidden = sum(row.hidden_lines for row in run)
    first, last = messages[0].label, messages[-1].label
    title = first if len(run) == 1 else f"{first} to {last}, {len(run)} messages"
    if not messages[0].role:
        title += ", no change on record"
    else:
        title += ", as stored" if len(run) == 1 else " as stored"
    return Row(
        "same",
        title,
        messages[:FOLDED_MESSAGES],
        [],
        sent[:FOLDED_LINES],
        hidden + max(0, len(sent) - FOLDED_LINES),
        sum(row.sent_size for row in run),
        tuple(unit for row in run for unit in row.units),
        hidden_messages=max(0, len(messages) - FOLDED_MESSAGES),
        stored_size=sum(row.stored_size for row in run),
    )


def _cost(row: Row) -> int:
    """About how many bytes of HTML a row is."""
    parts = sum(300 + len(part.text) for message in row.messages for part in message.parts)
    sent = sum(14 + len(line.text) + (140 if line.sign or line.marks else 0) for line in row.sent)
    notes = sum(650 + len(note.before) + len(note.after) for note in row.notes)
    return 400 + 250 * len(row.messages) + parts + sent + notes


def _steps(notes: Sequence[Note]) -> list[StepCount]:
    """The stops between stored and sent: the tool filter and one's own rules only where they did something."""
    counts = Counter(note.step for note in notes)
    numbers = [*([FILTER_STEP] if counts[FILTER_STEP] else []), *range(1, len(STEP_NAMES) + 1)]
    numbers += [OWN_STEP] if counts[OWN_STEP] else []
    return [StepCount(number, step_name(number), counts[number]) for number in numbers]


# Places


def spelt(unit: str) -> str:
    _, name, index = unit.split("/")
    return f"{name}[{index}]"


def stored_index(pointer: str | None) -> int | None:
    steps = pointer.split("/") if pointer else []
    return int(steps[2]) if len(steps) > 2 and steps[1] == "messages" and steps[2].isdigit() else None


def part_index(pointer: str | None) -> int | None:
    steps = pointer.split("/") if pointer else []
    return int(steps[5]) if len(steps) > 5 and steps[4] == "parts" and steps[5].isdigit() else None


def _snippet(value: Any) -> str:
    text = value if isinstance(value, str) else write_json(value)
    return text[:_SNIPPET]
