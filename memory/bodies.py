"""Fragments as rows: kept with few statements, read back whole, and renewed while anything kept is made of them.

A fragment's `used_on` is never more than a day older than the last attempt that was made of it: who writes an attempt
looks which nodes are there and young, and writes the others again, with all that they hold. So whatever is a good deal
older than the oldest kept attempt is needed by nobody, and may go without asking who holds it (`services.retention`).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone
from msgspec import Struct

from memory.fragments import NODE, Cut, cut, keys_of_record, pack, put_together, split_keys

_ROWS_PER_STATEMENT = 1000
_YOUNG = timedelta(days=1)
_OTHER_HASH = "these are not the bytes that were sent: their hash is another one"

Known = dict[bytes, tuple[int, bytes]]


class Body(Struct, frozen=True):
    """A body as it was put together. `problem` says in words why it is not the one that was kept; empty when it is.

    `pieces` are its fragments and what is between them.
    """

    pieces: Sequence[bytes]
    problem: str = ""

    @property
    def content(self) -> bytes:
        return b"".join(self.pieces)


def keep(*cuts: Cut) -> None:
    """Write what of these bodies is not there yet, inside the caller's transaction: a read, and a write if need be."""
    contents: dict[bytes, bytes] = {}
    nodes: dict[bytes, bytes] = {}
    asked: set[bytes] = set()
    for one in cuts:
        contents |= one.contents
        nodes |= one.nodes
        asked |= {*one.tops, *one.nodes}
    today = timezone.now().date()
    young = _young(asked, today)
    wanted = {key for key in asked if key not in young}
    for key in list(wanted):
        if key in nodes:
            wanted |= {child for child in split_keys(nodes[key]) if child in contents}
    rows: list[tuple[bytes, int, bytes]] = []
    for key in wanted:
        kind, data = (NODE, nodes[key]) if key in nodes else pack(contents[key])
        rows.append((key, kind, data))
    _write(rows, today)


def _young(keys: Iterable[bytes], today: date) -> set[bytes]:
    found: set[bytes] = set()
    for batch in _batches(sorted(keys)):
        with connection.cursor() as cursor:
            cursor.execute(
                f"SELECT key FROM memory_fragment WHERE used_on >= %s AND key IN ({_marks(batch)})",
                [_day(today - _YOUNG), *batch],
            )
            found |= {bytes(key) for (key,) in cursor.fetchall()}
    return found


def _write(rows: list[tuple[bytes, int, bytes]], today: date) -> None:
    # By name, so that two writers of the same fragments wait for each other in one order only. Who meets a row that is
    # there makes it young: were it being removed, that waits for us, and then leaves it.
    day = _day(today)
    for batch in _batches(sorted(rows)):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO memory_fragment (key, kind, data, used_on) VALUES "
                + ", ".join(["(%s, %s, %s, %s)"] * len(batch))
                + " ON CONFLICT (key) DO UPDATE SET used_on = excluded.used_on"
                " WHERE memory_fragment.used_on < excluded.used_on",
                [value for row in batch for value in (*row, day)],
            )


def read(records: Mapping[str, tuple[bytes, str]]) -> dict[str, Body]:
    """The bodies of these records, by the same names. Beside each record stands the body's SHA-256, empty if unknown.

    The number of statements does not depend on how many there are.
    """
    known = load(key for record, _ in records.values() for key in keys_of_record(record))
    return {name: _checked(record, sha256, known) for name, (record, sha256) in records.items()}


def _checked(record: bytes, sha256: str, known: Known) -> Body:
    made, missing = put_together(record, known)
    if missing:
        return Body(made, f"{missing:,} of its pieces can't be found: this is what is left of it")
    if sha256:
        digest = hashlib.sha256()
        for piece in made:
            digest.update(piece)
        if digest.hexdigest() != sha256:
            return Body(made, _OTHER_HASH)
    return Body(made)


def whole(packed: bytes, sha256: str) -> Body:
    """A body as older rows hold it, in one piece."""
    content = zlib.decompress(packed)
    is_same = not sha256 or hashlib.sha256(content).hexdigest() == sha256
    return Body([content], "" if is_same else _OTHER_HASH)


def load(keys: Iterable[bytes]) -> Known:
    """Kind and stored bytes of these fragments and of all that they hold, by name; those that are gone are absent."""
    known: Known = {}
    wanted = set(keys)
    while wanted:
        found: Known = {}
        for batch in _batches(sorted(wanted)):
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT key, kind, data FROM memory_fragment WHERE key IN ({_marks(batch)})", batch)
                found |= {bytes(key): (kind, bytes(data)) for key, kind, data in cursor.fetchall()}
        known |= found
        wanted = {
            child for kind, data in found.values() if kind == NODE for child in split_keys(data) if child not in known
        }
    return known


def renew(records: Iterable[bytes], *, today: date, older_than: date) -> int:
    """Make young what these records are made of and is older than that day; how many fragments."""
    known = load(key for record in records for key in keys_of_record(record))
    count = 0
    for batch in _batches(sorted(known)):
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                f"UPDATE memory_fragment SET used_on = %s WHERE used_on < %s AND key IN ({_marks(batch)})",
                [_day(today), _day(older_than), *batch],
            )
            count += cursor.rowcount
    return count


def text_record(text: str, *, at_most: int = 2000) -> tuple[str, Cut | None]:
    """A JSON text to be kept: itself where it is short, else an empty list and the pieces it was cut into."""
    return (text, None) if len(text) <= at_most else ("[]", cut(text.encode()))


def _batches(rows: list[Any]) -> Iterator[list[Any]]:
    return (rows[at : at + _ROWS_PER_STATEMENT] for at in range(0, len(rows), _ROWS_PER_STATEMENT))


def _marks(values: Sequence[object]) -> str:
    return ", ".join(["%s"] * len(values))


def _day(day: date) -> Any:
    return connection.ops.adapt_datefield_value(day)
