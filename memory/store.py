"""Messages into rows and back; the only file that knows both shapes.

A turn is saved with two statements: one moves the thread's counters, which locks its row and gives out `seq`, one
inserts. Only ids that were there before, and rows left open before, ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.utils import timezone
from msgspec import Struct
from psycopg.adapt import Loader

from memory import audit
from memory.errors import Conflict, FieldError, InvalidInput, NotFound
from memory.messages.arguments import storable_text
from memory.messages.stored import (
    ROLES,
    RowContent,
    StoredMessage,
    check_content,
    content_of,
    instant,
    parts_of,
    read_content,
    timestamp,
)
from memory.messages.typed import origin_of
from memory.messages.values import write_json
from memory.models import Message, MessageVersion, Thread
from memory.statements import load_row

STORED_ROLES = tuple(role for role in ROLES if role != "system")
_WAITING = ("call", "approval-requested", "approval-responded")
_ROWS_PER_INSERT = 500  # SQLite takes 32,766 values a statement
_NOTES_SHOWN = 5


class _Bytes(Loader):
    """Text as it came: who reads JSON wants its bytes."""

    def load(self, data: Any) -> bytes:
        return bytes(data)


# A message's time as `timestamp` spells it, and its content as bytes: to make objects of both takes longer than to
# read the rows.
_AS_TEXT = {
    "sqlite": (
        "replace(substr(m.created_at || '.000', 1, 23), ' ', 'T') || 'Z'",
        "CAST(m.content AS BLOB)",
    ),
    "postgresql": (
        """to_char(m.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')::varchar""",
        "m.content",
    ),
}


class DjangoStorage:
    """A `HistoryStorage` of rows. What it writes carries `written_by` and `run_id`; `clock` says when.

    Outside a transaction every call is one of its own.
    """

    def __init__(self, *, written_by: str = "", run_id: str = "", clock: Callable[[], datetime] = timezone.now) -> None:
        self.written_by, self.run_id, self._clock = written_by, run_id, clock

    def load_messages(self, thread_id: str, resource_id: str | None, *, last: int | None) -> list[StoredMessage]:
        """The newest `last` messages (None: all), oldest first by `seq`. Of a foreign or absent thread: none.

        Contents are `RowContent`: read when looked into.
        """
        created_at, content = _AS_TEXT[connection.vendor]
        query = (
            f"SELECT m.message_id, m.role, {created_at}, m.type, {content}, t.resource_id"
            " FROM memory_message m JOIN memory_thread t ON t.id = m.thread_id WHERE m.thread_id = %s"
        )
        values: list[Any] = [thread_id]
        if resource_id is not None:
            query += " AND t.resource_id = %s"
            values.append(resource_id)
        query += " ORDER BY m.seq DESC"
        if last is not None:
            query += " LIMIT %s"
            values.append(last)
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.cursor.adapters.register_loader("text", _Bytes)
            cursor.execute(query, values)
            rows = cursor.fetchall()
        return [
            {
                "id": message_id,
                "role": role,
                "createdAt": at,
                "threadId": thread_id,
                "resourceId": owner,
                "type": type_,
                "content": RowContent(text),
            }
            for message_id, role, at, type_, text, owner in reversed(rows)
        ]

    def save_messages(
        self,
        thread_id: str,
        resource_id: str | None,
        messages: Sequence[StoredMessage],
        *,
        run_id: str = "",
        written_by: str = "",
        close: bool = True,
    ) -> None:
        """Insert or replace by id within the thread. With `close=False` new rows stay open: a step, not the end.

        Raises NotFound for an absent or foreign thread, InvalidInput for a message that no row can hold.
        """
        now = self._clock()
        rows = [_row(message, f"messages[{i}]", now, close=close) for i, message in enumerate(messages)]
        author = _Author(written_by or self.written_by, run_id or self.run_id)
        _write(thread_id, resource_id, rows, author, now)

    def load_thread(self, thread_id: str) -> dict[str, Any] | None:
        """`{id, resourceId, title, metadata, createdAt, updatedAt, messageCount}`, or None."""
        row = load_row(Thread, thread_id)
        if row is None:
            return None
        return {
            "id": row.id,
            "resourceId": row.resource_id,
            "title": row.title,
            "metadata": row.metadata,
            "createdAt": timestamp(row.created_at),
            "updatedAt": timestamp(row.updated_at),
            "messageCount": row.message_count,
        }

    def create_thread(self, thread: dict[str, Any]) -> None:
        """Make the thread; one that its own resource has made meanwhile is left as it is.

        Raises Conflict (id_taken) when the id is another resource's, InvalidInput for an id that no row can hold.
        """
        now = self._clock()
        if problem := thread_id_problem(thread["id"]):
            raise InvalidInput(problem, field="thread_id")
        if problem := id_problem(thread["resourceId"]):
            raise InvalidInput(problem, field="resource_id")
        row = Thread(
            id=thread["id"],
            resource_id=thread["resourceId"],
            title=thread.get("title") or "",
            metadata=thread.get("metadata") or {},
            created_at=instant(thread.get("createdAt")) or now,
            updated_at=instant(thread.get("updatedAt")) or now,
            last_activity_at=now,
        )
        if not insert_thread(row) and not Thread.objects.filter(id=row.id, resource_id=row.resource_id).exists():
            raise Conflict(f"thread id {row.id} is taken", code="id_taken")

    def repair_messages(self, messages: Sequence[StoredMessage], *, rule: str, reason: str) -> int:
        """Store repaired messages (all of one thread) as one new version each; how many really differed.

        Unknown ids are left alone.
        """
        if not messages:
            return 0
        now = self._clock()
        thread_id = messages[0]["threadId"]
        author = _Author(self.written_by or rule, self.run_id, reason, rule)
        rows = {message["id"]: _row(message, f"messages[{i}]", now) for i, message in enumerate(messages)}
        with transaction.atomic():
            changed = _write_versions(thread_id, rows, author, now)
            if changed:
                audit.record(
                    author.name,
                    "messages.repaired",
                    "thread",
                    thread_id,
                    rule=rule,
                    reason=reason,
                    run_id=author.run_id,
                    message_ids=changed,
                )
        return len(changed)

    def revert_message(self, thread: Thread, message_id: str, version: int, actor: str) -> int:
        """Make the text of an earlier version the present one, as a new version; its number.

        Raises NotFound for an unknown message or version. A text that is the present one already changes nothing.
        """
        now = self._clock()
        with transaction.atomic():
            found = (
                MessageVersion.objects.filter(message__thread=thread, message__message_id=message_id, version=version)
                .values_list("content", "message__role", "message__type", "message__created_at")
                .first()
            )
            if found is None:
                raise NotFound("no such version")
            content, role, type_, created_at = found
            row = _row_of_text(message_id, role, type_, created_at, content)
            changed = _write_versions(
                thread.id, {message_id: row}, _Author(actor, "", f"back to version {version}"), now
            )
            if changed:
                audit.record(actor, "message.reverted", "thread", thread.id, message_id=message_id, version=version)
            messages = Message.objects.filter(thread=thread, message_id=message_id)
            return messages.values_list("version", flat=True).get()


def append_raw(
    thread: Thread,
    messages: Iterable[tuple[str, str, datetime | None, Any, str]],
    *,
    written_by: str,
    now: datetime | None = None,
) -> list[str]:
    """Add `(id, role, created_at, content value, type)` to the thread, all or nothing; the ids that were new.

    An id that is there with this role and content is passed over. Raises Conflict (message_exists) when it is there
    with others, NotFound when the thread is gone, InvalidInput for a message that no row can hold.
    """
    at = now or timezone.now()
    rows = [
        _row({"id": id_, "role": role, "createdAt": created_at, "content": value, "type": type_}, f"messages[{i}]", at)
        for i, (id_, role, created_at, value, type_) in enumerate(messages)
    ]
    return _write(thread.id, thread.resource_id, rows, _Author(written_by), at, refuse_other=True)


def insert_thread(thread: Thread) -> bool:
    """Insert the row unless its id is taken; whether it was inserted."""
    try:
        with transaction.atomic():
            thread.save(force_insert=True)
    except IntegrityError:
        return False
    return True


def claim_thread(thread_id: str, run_id: str, at: datetime) -> bool:
    """Make a run that was opened at `at` the active one of its thread, unless another is, or is queued before it."""
    opened_at = connection.ops.adapt_datetimefield_value(at)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE memory_thread SET active_run = %s WHERE id = %s AND active_run = '' AND NOT EXISTS"
            " (SELECT 1 FROM memory_run e WHERE e.thread_id = memory_thread.id AND e.status = 'queued'"
            " AND (e.created_at < %s OR (e.created_at = %s AND e.id < %s)))",
            [run_id, thread_id, opened_at, opened_at, run_id],
        )
        return bool(cursor.rowcount)


def insert_events(events: Sequence[tuple[str, int, str, str]], now: datetime) -> None:
    """Add run events `(run_id, seq, type, JSON text)` with as few statements as can be."""
    at = connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        for start in range(0, len(events), _ROWS_PER_INSERT):
            batch = events[start : start + _ROWS_PER_INSERT]
            cursor.execute(
                "INSERT INTO memory_runevent (run_id, seq, type, data, created_at) VALUES "
                + ", ".join(["(%s, %s, %s, %s, %s)"] * len(batch)),
                [value for event in batch for value in (*event, at)],
            )


def copy_messages(
    source_id: str, thread_id: str, first_seq: int, last_seq: int, written_by: str, now: datetime
) -> tuple[int, int]:
    """Copy messages as they are now to the beginning of an empty thread; how many, and their bytes.

    Copied in the database: a thread may hold more than a process should.
    """
    same = "role, type, {}, content, byte_count, {}, {}, {}, {}, summary, provider, protocol, model_id, {}, created_at"
    picked = same.format("1", "%s", "''", "''", "''", "%s")
    statement = (
        f"INSERT INTO memory_message ({_COLUMNS}) SELECT %s, message_id, ROW_NUMBER() OVER (ORDER BY seq), {picked}, %s"
        " FROM memory_message WHERE thread_id = %s AND seq BETWEEN %s AND %s ORDER BY seq"
    )
    at = connection.ops.adapt_datetimefield_value(now)
    with connection.cursor() as cursor:
        cursor.execute(statement, [thread_id, written_by, False, at, source_id, first_seq, last_seq])
        cursor.execute(
            "SELECT COUNT(*), COALESCE(SUM(byte_count), 0) FROM memory_message WHERE thread_id = %s", [thread_id]
        )
        count, byte_count = cursor.fetchone()
    return int(count), int(byte_count)


def lock_thread(thread_id: str) -> None:
    """Hold the thread's row until the caller's transaction ends. Raises NotFound when it is gone."""
    # SQLite has no row locks and needs none: its transactions begin as the only writer.
    if not list(Thread.objects.select_for_update(no_key=True).filter(id=thread_id).values_list("id")):
        raise NotFound("no such thread")


def delete_thread(thread_id: str) -> dict[str, int]:
    """Delete a thread with all that hangs on it, inside the caller's transaction; how many rows of each kind went."""
    messages = "SELECT id FROM memory_message WHERE thread_id = %s"
    runs = "SELECT id FROM memory_run WHERE thread_id = %s"
    # Not the ORM's cascade, which loads every row it deletes.
    statements = {
        "versions": f"DELETE FROM memory_messageversion WHERE message_id IN ({messages})",
        "messages": "DELETE FROM memory_message WHERE thread_id = %s",
        "rule_uses": "DELETE FROM memory_ruleuse WHERE thread_id = %s",
        # What is marked as removed may be deleted (`append_only`).
        "": "UPDATE memory_run SET removed_at = CURRENT_TIMESTAMP WHERE thread_id = %s",
        "attempts": f"DELETE FROM memory_attempt WHERE run_id IN ({runs})",
        "events": f"DELETE FROM memory_runevent WHERE run_id IN ({runs})",
        "runs": "DELETE FROM memory_run WHERE thread_id = %s",
        "threads": "DELETE FROM memory_thread WHERE id = %s",
    }
    counts: dict[str, int] = {}
    with connection.cursor() as cursor:
        for name, statement in statements.items():
            cursor.execute(statement, [thread_id])
            counts[name] = cursor.rowcount
    del counts[""]
    return counts


# What a row holds besides the text


def summary_of(content: Mapping[str, Any]) -> list[list[Any]]:
    """One entry a part: its type and the bytes of its JSON. A text without parts counts as one."""
    parts = parts_of(content)
    if not parts and isinstance(content.get("content"), str):
        parts = [{"type": "text", "text": content["content"]}]
    return [[str(part.get("type"))[:64], len(write_json(part).encode())] for part in parts]


def stamp_of(content: Mapping[str, Any]) -> tuple[str, str, str]:
    """Provider, protocol and model id that a turn is stamped with, cut to their columns; empty texts without."""
    origin = origin_of(content)
    return (origin.provider[:64], origin.protocol[:64], origin.model_id[:200]) if origin else ("", "", "")


def has_waiting_call(content: Mapping[str, Any]) -> bool:
    """Whether a call to a client's tool still waits for its outcome or approval."""
    return any(
        part.get("type") == "tool-invocation"
        and not part.get("providerExecuted")
        and isinstance(part.get("toolInvocation"), dict)
        and part["toolInvocation"].get("state") in _WAITING
        for part in parts_of(content)
    )


def check_messages(values: Any, place: str = "messages") -> list[FieldError]:
    """What keeps these values from being stored, by place. Ids and times may be missing."""
    if not isinstance(values, list):
        return [FieldError(place, "expected a list")]
    return [error for i, value in enumerate(values) for error in _check_message(value, f"{place}[{i}]")]


def _check_message(value: Any, place: str) -> list[FieldError]:
    if not isinstance(value, Mapping):
        return [FieldError(place, "expected an object")]
    errors = []
    if value.get("id") is not None and (problem := id_problem(value["id"])):
        errors.append(FieldError(f"{place}.id", problem))
    if value.get("role") not in STORED_ROLES:
        errors.append(FieldError(f"{place}.role", f"expected one of {', '.join(STORED_ROLES)}"))
    if value.get("createdAt") is not None and instant(value["createdAt"]) is None:
        errors.append(FieldError(f"{place}.createdAt", "expected an ISO 8601 time or epoch milliseconds"))
    if value.get("type") is not None and not (isinstance(value["type"], str) and len(value["type"]) <= 64):
        errors.append(FieldError(f"{place}.type", "expected a text of at most 64 characters"))
    return [*errors, *check_content(value.get("content"), f"{place}.content")]


def thread_id_problem(value: Any) -> str:
    """What keeps a value from being a thread's id, which is also a piece of a URL's path; empty when nothing does."""
    if isinstance(value, str) and ("/" in value or value in (".", "..")):
        return "expected a text without / that is not . or .."
    return id_problem(value, max_length=128)


def id_problem(value: Any, *, max_length: int = 255) -> str:
    """What keeps a value from being the id of a message or resource; empty when nothing does."""
    if not isinstance(value, str):
        return "expected a text"
    if not 0 < len(value) <= max_length:
        return f"expected 1 to {max_length} characters"
    if not value.isprintable():  # also true of U+0000 and half surrogates, which no row can hold
        return "expected printable characters"
    return ""


# Writing


class _Row(Struct, frozen=True):
    id: str
    role: str
    type: str
    created_at: datetime
    text: str
    byte_count: int
    summary: list[list[Any]]
    stamp: tuple[str, str, str]
    is_open: bool
    note: str


class _Author(Struct, frozen=True):
    name: str
    run_id: str = ""
    reason: str = ""
    rule: str = ""


def _row(message: Mapping[str, Any], place: str, now: datetime, *, close: bool = True) -> _Row:
    if problem := id_problem(message.get("id")):
        raise InvalidInput(problem, field=f"{place}.id")
    value = message.get("content")
    try:
        text, notes = storable_text(value)
        # A cleaned text is read again, so that what is taken from it is clean, too.
        content = read_content(text) if notes else content_of(value)
        summary = summary_of(content)
    except RecursionError as error:
        raise InvalidInput("nested too deeply", field=f"{place}.content") from error
    type_ = message.get("type")
    return _Row(
        id=message["id"],
        role=message["role"],
        type=clean_label(type_) if isinstance(type_, str) and type_ else "text",
        created_at=instant(message.get("createdAt")) or now,
        text=text,
        byte_count=len(text.encode()),
        summary=summary,
        stamp=stamp_of(content) if message["role"] == "assistant" else ("", "", ""),
        is_open=not close or has_waiting_call(content),
        note=_note(notes),
    )


def _row_of_text(message_id: str, role: str, type_: str, created_at: datetime, text: str) -> _Row:
    content = read_content(text)
    stamp = stamp_of(content) if role == "assistant" else ("", "", "")
    byte_count = len(text.encode())
    return _Row(message_id, role, type_, created_at, text, byte_count, summary_of(content), stamp, False, "")


def clean_label(text: str, length: int = 64) -> str:
    """A short text as a column can hold it: printable and cut to `length`."""
    return "".join(character if character.isprintable() else "\ufffd" for character in text[:length])


def _note(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    rest = f"; and {len(notes) - _NOTES_SHOWN} more" if len(notes) > _NOTES_SHOWN else ""
    return "cleaned: " + "; ".join(notes[:_NOTES_SHOWN]) + rest


def _write(
    thread_id: str,
    resource_id: str | None,
    rows: Sequence[_Row],
    author: _Author,
    now: datetime,
    *,
    refuse_other: bool = False,
) -> list[str]:
    """Insert the rows, replace those whose id was there; the ids that were new."""
    # The last one of an id counts; by time within one save, by arrival across saves.
    ordered = sorted({row.id: row for row in rows}.values(), key=lambda row: row.created_at)
    if not ordered:
        return []
    with transaction.atomic():
        first_seq = _advance(thread_id, resource_id, ordered, now)
        new_ids, leaves_open = _insert(thread_id, first_seq, ordered, author, now)
        known = [row for row in ordered if row.id not in new_ids]
        if known:
            _replace(thread_id, known, author, now, refuse=refuse_other)
            _close_gaps(thread_id, first_seq, [row.id for row in ordered if row.id in new_ids])
            if refuse_other and not new_ids:
                transaction.set_rollback(True)  # Nothing was added, so the thread did not move either.
                return []
        if leaves_open:
            Message.objects.filter(thread=thread_id, is_open=True, seq__lt=first_seq).update(is_open=False)
    return [row.id for row in ordered if row.id in new_ids]


def _advance(thread_id: str, resource_id: str | None, rows: Sequence[_Row], now: datetime) -> int:
    """Move the thread's counters on as if all rows were new; the first `seq` they may take. Locks the thread."""
    at = connection.ops.adapt_datetimefield_value(now)
    query = (
        "UPDATE memory_thread SET last_seq = last_seq + %s, message_count = message_count + %s,"
        " byte_count = byte_count + %s, last_activity_at = %s, updated_at = %s"
    )
    values: list[Any] = [len(rows), len(rows), sum(row.byte_count for row in rows), at, at]
    stamp = next((row.stamp for row in reversed(rows) if row.stamp[0]), None)
    if stamp is not None:
        query += ", last_provider = %s, last_model = %s"
        values += [stamp[0], stamp[2]]
    query += " WHERE id = %s"
    values.append(thread_id)
    if resource_id is not None:
        query += " AND resource_id = %s"
        values.append(resource_id)
    with connection.cursor() as cursor:
        cursor.execute(f"{query} RETURNING last_seq", values)
        found = cursor.fetchone()
    if found is None:
        raise NotFound("no such thread")
    last_seq: int = found[0]
    return last_seq - len(rows) + 1


_COLUMNS = (
    "thread_id, message_id, seq, role, type, version, content, byte_count, written_by, reason, rule, run_id,"
    " summary, provider, protocol, model_id, is_open, created_at, saved_at"
)
_VALUES = "(" + ", ".join(["%s"] * 19) + ")"


def _insert(
    thread_id: str, first_seq: int, rows: Sequence[_Row], author: _Author, now: datetime
) -> tuple[set[str], bool]:
    """Insert what is not there; the ids that were new, and whether earlier rows of the thread stand open."""
    as_time, as_json = connection.ops.adapt_datetimefield_value, connection.ops.adapt_json_value
    saved_at = as_time(now)
    new_ids: set[str] = set()
    leaves_open = False
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _ROWS_PER_INSERT):
            batch = rows[start : start + _ROWS_PER_INSERT]
            values: list[Any] = []
            for seq, row in enumerate(batch, first_seq + start):
                values += [thread_id, row.id, seq, row.role, row.type, 1, row.text, row.byte_count]
                values += [author.name, row.note, "", author.run_id, as_json(row.summary, None), *row.stamp]
                values += [row.is_open, as_time(row.created_at), saved_at]
            cursor.execute(
                f"INSERT INTO memory_message ({_COLUMNS}) VALUES {', '.join([_VALUES] * len(batch))}"
                " ON CONFLICT (thread_id, message_id) DO NOTHING RETURNING message_id,"
                " EXISTS (SELECT 1 FROM memory_message e WHERE e.thread_id = %s AND e.is_open AND e.seq < %s)",
                [*values, thread_id, first_seq],
            )
            for message_id, earlier_is_open in cursor.fetchall():
                new_ids.add(message_id)
                leaves_open = leaves_open or bool(earlier_is_open)
    return new_ids, leaves_open


def _replace(thread_id: str, rows: Sequence[_Row], author: _Author, now: datetime, *, refuse: bool) -> None:
    """Give rows that were there their new text, and take back what the counters were moved for them."""
    stored = {row.message_id: row for row in _present(thread_id, [row.id for row in rows])}
    for row in rows:
        old = stored[row.id]
        if refuse:
            if old.content != row.text or old.role != row.role:
                raise Conflict(f"message {row.id} is there with another content", code="message_exists")
        elif old.content != row.text:
            reason = row.note or ("" if old.is_open else "saved again")
            _change(old, row, _Author(author.name, author.run_id, reason), now, stays_open=old.is_open and row.is_open)
        elif old.is_open and not row.is_open:
            Message.objects.filter(pk=old.pk).update(is_open=False)
    Thread.objects.filter(id=thread_id).update(
        message_count=F("message_count") - len(rows),
        byte_count=F("byte_count") - sum(stored[row.id].byte_count for row in rows),
    )


def _close_gaps(thread_id: str, first_seq: int, new_ids: Sequence[str]) -> None:
    """Number the new rows as if those that were there had not been in the save."""
    for seq, message_id in enumerate(new_ids, first_seq):
        # Upwards, so that each number is free: a row only ever moves down.
        Message.objects.filter(thread=thread_id, message_id=message_id).update(seq=seq)
    Thread.objects.filter(id=thread_id).update(last_seq=first_seq + len(new_ids) - 1)


def _write_versions(thread_id: str, rows: Mapping[str, _Row], author: _Author, now: datetime) -> list[str]:
    """Give these messages a new version where the text differs; their ids. Raises NotFound for an absent thread."""
    lock_thread(thread_id)
    differing = [old for old in _present(thread_id, rows) if old.content != rows[old.message_id].text]
    if not differing:
        return []
    # An open row leaves no version, and without one there would be no way back.
    Message.objects.filter(pk__in=[old.pk for old in differing if old.is_open]).update(is_open=False)
    growth = 0
    for old in differing:
        row = rows[old.message_id]
        _change(old, row, author, now, stays_open=old.is_open, is_new_version=True)
        growth += row.byte_count - old.byte_count
    Thread.objects.filter(id=thread_id).update(byte_count=F("byte_count") + growth, updated_at=now)
    return [old.message_id for old in differing]


class _Present(Struct, frozen=True):
    pk: int
    message_id: str
    role: str
    content: str
    byte_count: int
    is_open: bool


def _present(thread_id: str, message_ids: Iterable[str]) -> list[_Present]:
    ids = list(message_ids)
    return [
        _Present(*found)
        for start in range(0, len(ids), _ROWS_PER_INSERT)
        for found in Message.objects.filter(thread=thread_id, message_id__in=ids[start : start + _ROWS_PER_INSERT])
        .order_by("seq")
        .values_list("pk", "message_id", "role", "content", "byte_count", "is_open")
    ]


def _change(
    old: _Present, row: _Row, author: _Author, now: datetime, *, stays_open: bool, is_new_version: bool = False
) -> None:
    # The trigger archives what a closed row was; raising the version tells it that the author below is the right one.
    raised = {"version": F("version") + 1} if is_new_version or not old.is_open else {}
    Message.objects.filter(pk=old.pk).update(
        content=row.text,
        byte_count=row.byte_count,
        summary=row.summary,
        provider=row.stamp[0],
        protocol=row.stamp[1],
        model_id=row.stamp[2],
        written_by=author.name,
        reason=author.reason,
        rule=author.rule,
        run_id=author.run_id,
        is_open=stays_open,
        saved_at=now,
        **raised,
    )


def _utc(value: datetime | str) -> datetime:
    """A time as a raw cursor gives it: PostgreSQL with its zone, SQLite in UTC without."""
    at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
