"""The x-ray of an attempt that was made: the bytes and changes on record, never worked out again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from compat_admin.dashboard.changed import Note, notes_of
from compat_admin.dashboard.xray import Message, Request, Row, XRay, paged, shown_message, spelt, stored_index
from memory.messages.stored import StoredMessage
from memory.processors.changes import Placed


def recorded_changes(text: str) -> list[Placed]:
    """The changes kept with an attempt; empty for a record of another form."""
    try:
        return msgspec.json.decode(text, type=list[Placed])
    except msgspec.ValidationError:
        return []


def build_recorded(
    *,
    changes: Sequence[Placed],
    body: bytes,
    messages: Mapping[str, tuple[StoredMessage, str]],
    labels: Mapping[str, tuple[str, str]],
    step: int | None = None,
    only_changed: bool = False,
    first_row: int = 0,
) -> XRay:
    """The rows of an attempt: one a message of its request, with the changes that landed in it.

    `messages` are the stored ones that changes name, as they were then, each with a remark; which stored message an
    untouched one came from is not on record. Raises InvalidInput for a body that is no JSON.
    """
    notes = list(notes_of(changes))
    pointers = [change.sent for change in changes if change.sent]
    request = Request(body, changes, pointers)
    at_unit: dict[str, list[Note]] = {}
    unsent: list[Note] = []
    for note in notes:
        unit = request.unit_of(note.change.sent) if note.change.sent else ""
        if unit in request.place:
            at_unit.setdefault(unit, []).append(note)
        else:
            unsent.append(note)

    # The stored place of a message that left nothing behind says between which two of the others it stood.
    anchors = {unit: min(_place(note) for note in found) for unit, found in at_unit.items()}
    rows: list[Row] = [request.frame("Settings and instructions", request.head, [n for n in unsent if _place(n) < 0])]
    waiting = sorted((note for note in unsent if _place(note) >= 0), key=_place)
    for unit in request.order:
        while unit in anchors and waiting and _place(waiting[0]) < anchors[unit]:
            rows.append(_row(request, (), _taken(waiting), messages, labels))
        found = at_unit.get(unit, [])
        same = [note for note in waiting if found and _place(note) == anchors[unit]]
        waiting = [note for note in waiting if note not in same]
        if found:
            rows.append(_row(request, (unit,), sorted([*found, *same], key=_number), messages, labels))
        else:
            rows.append(_untouched(request, unit))
    while waiting:
        rows.append(_row(request, (), _taken(waiting), messages, labels))
    if request.tail:
        rows.append(request.frame("The rest of the request", request.tail, []))
    count = len(request.order)
    return paged(rows, notes, request, message_count=count, step=step, only=only_changed, first_row=first_row)


def _taken(waiting: list[Note]) -> list[Note]:
    """The notes of the first message that waits, taken off the list."""
    place = _place(waiting[0])
    taken = [note for note in waiting if _place(note) == place]
    waiting[:] = [note for note in waiting if _place(note) != place]
    return taken


def _row(
    request: Request,
    units: tuple[str, ...],
    notes: list[Note],
    messages: Mapping[str, tuple[StoredMessage, str]],
    labels: Mapping[str, tuple[str, str]],
) -> Row:
    shown: list[Message] = []
    for message_id in dict.fromkeys(note.change.message_id for note in notes):
        mine = [note for note in notes if note.change.message_id == message_id]
        message, remark = messages.get(message_id, ({"id": message_id, "role": ""}, "not in the thread any more"))
        shown.append(shown_message(message, mine, labels, remark))
    sent, hidden, size = request.sent(units)
    return Row("message", "", shown, notes, sent, hidden, size, units, stored_size=sum(m.size for m in shown))


def _untouched(request: Request, unit: str) -> Row:
    sent, hidden, size = request.sent([unit])
    label = Message(spelt(unit), "", "", "", size, [])
    return Row("same", "", [label], [], sent, hidden, size, (unit,))


def _place(note: Note) -> int:
    found = stored_index(note.change.stored)
    return -1 if found is None else found


def _number(note: Note) -> int:
    return note.change.number
