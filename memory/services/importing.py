"""Histories from elsewhere become threads: recorded exchanges, request bodies, and whole threads of other systems.

A line that continues another adds to its thread what its request and its answer have beyond it; any other line starts
one. Ids come from the line's id (a bare body's from its hash), so that importing again changes nothing. A whole thread
comes again under the same ids: what is new in it is added, what somebody changed here since stays.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone
from msgspec import Struct
from msgspec.structs import replace

from memory import imports, store
from memory.access import Principal
from memory.errors import CompatAdminError, Conflict, Forbidden, InvalidInput
from memory.imports.exchange import TITLE_LENGTH, Conversation, joined, name_of, thread_id_of, title_of
from memory.imports.sources import Unit
from memory.imports.values import PREFIX, Dump, Line, key_of
from memory.messages.arguments import storable_text
from memory.messages.stored import StoredMessage, clean_content, decode_json, instant
from memory.models import Message, Thread
from memory.services.preview import Preview, preview

log = logging.getLogger(__name__)

_AUTHOR = "import:"


class ImportReport(Struct):
    """What an import did. `unchanged` counts what was there; `skipped` names what was left out, and why."""

    threads_made: int = 0
    threads_extended: int = 0
    messages_added: int = 0
    unchanged: int = 0
    skipped: list[tuple[str, str]] = []


def import_lines(
    lines: Iterable[Unit],
    *,
    caller: Principal,
    resource_id: str,
    source: str,
    format_: str = "",
    keep_owner: bool = False,
    clock: Callable[[], datetime] = timezone.now,
) -> ImportReport:
    """Store these histories as threads of the resource; what was done, and what was left out and why.

    One that can't be imported never stops the others: each is a transaction of its own. `source` names where they come
    from, `clock` says when they came, `format_` what they are (`imports.FORMATS`; empty: told from each). With
    `keep_owner` a thread that names its own resource becomes that one's. Raises Forbidden for another resource than the
    caller's, InvalidInput for one that no row can hold, and for an unknown format.
    """
    _check(caller, resource_id, format_)
    author = store.clean_label(f"{_AUTHOR}{source}", 200)
    storage = store.DjangoStorage(written_by=author, clock=clock)
    shelf = _Shelf(resource_id, storage)
    report = ImportReport()

    def take(found: Line | Dump) -> None:
        if isinstance(found, Dump):
            owner = found.resource_id if keep_owner and found.resource_id else resource_id
            _check(caller, owner)
            with transaction.atomic():
                _put_dump(found, owner, storage, report)
            return
        with transaction.atomic():
            before = shelf.before(found)
            if shelf.holds(found, before):
                report.unchanged += 1
                return
            conversation = joined(before, found)
            shelf.put(conversation)
        _count(report, before, conversation, found)

    _take_each(lines, take, report, format_=format_, source=source)
    return report


def _check(caller: Principal, resource_id: str, format_: str = "") -> None:
    if problem := store.id_problem(resource_id):
        raise InvalidInput(problem, field="resource_id")
    if not caller.may_act_for(resource_id):
        raise Forbidden("this key acts for another resource")
    if format_ and format_ not in imports.FORMATS:
        message = f"no format is called {format_!r}; known are {', '.join(imports.FORMATS)}"
        raise InvalidInput(message, field="format")


def _take_each(
    units: Iterable[Unit], take: Callable[[Line | Dump], None], report: ImportReport, *, format_: str, source: str
) -> None:
    """Hand over all that can be read. What can't be, or isn't taken, is named in the report."""
    with _named(report, source):  # a store may break off
        for number, unit in enumerate(units, 1):
            name = f"line {number}"
            with _named(report, name):
                if isinstance(unit, Dump):
                    found: Iterator[Line | Dump] = iter((unit,))
                else:
                    text = unit.encode("utf-8", "surrogatepass") if isinstance(unit, str) else unit
                    if not text.strip():
                        continue
                    value = decode_json(text)
                    name = name_of(value) or name
                    found = imports.read(value, format_)
                _take_found(found, take, report, name)


def _take_found(
    found: Iterator[Line | Dump], take: Callable[[Line | Dump], None], report: ImportReport, name: str
) -> None:
    with _named(report, name):
        for one in found:
            with _named(report, one.thread_id if isinstance(one, Dump) else name):
                take(one)


@contextmanager
def _named(report: ImportReport, name: str) -> Iterator[None]:
    """Goes on after what breaks in here, with its name and the reason in the report."""
    try:
        yield
    except CompatAdminError as error:
        report.skipped.append((name, str(error)))
    except Exception as error:  # one that breaks must not end the import
        log.exception("%s could not be imported", name)
        report.skipped.append((name, f"{type(error).__name__}: {error}"))


def _count(report: ImportReport, before: Conversation | None, conversation: Conversation, line: Line) -> None:
    known_count = 0
    if before is not None and before.thread_id == conversation.thread_id:
        report.threads_extended += 1
        known_count = len(before.messages)
    else:
        report.threads_made += 1
    report.messages_added += len(conversation.messages) - known_count
    if conversation.remark:
        report.skipped.append((line.id, conversation.remark))


class _Shelf:
    """The rows of imported threads of one resource."""

    def __init__(self, resource_id: str, storage: store.DjangoStorage) -> None:
        self._resource_id, self._storage = resource_id, storage
        self._thread_ids: dict[str, str] = {}

    def before(self, line: Line) -> Conversation | None:
        """The thread of the line that this one continues, as far as it was imported."""
        if not line.continues:
            return None
        own = Thread.objects.filter(resource_id=self._resource_id)
        known = self._thread_ids.get(line.continues)
        found = own.filter(id=known) if known else own.filter(imported__lines__has_key=line.continues)
        row = found.order_by("created_at", "id").values_list("id", "imported").first()
        if row is None:
            return None
        thread_id, imported = row
        messages = self._storage.load_messages(thread_id, self._resource_id, last=None)
        return Conversation(thread_id=thread_id, messages=messages, unsaved=(), imported=imported)

    def holds(self, line: Line, before: Conversation | None) -> bool:
        """Whether the line was imported. Raises Conflict when the id of its thread is taken by something else."""
        if before is not None and line.id in before.imported["lines"]:
            self._thread_ids[line.id] = before.thread_id
            return True
        thread_id = thread_id_of(line)
        row = Thread.objects.filter(id=thread_id).values_list("resource_id", "imported").first()
        if row is None:
            return False
        resource_id, imported = row
        if resource_id != self._resource_id or line.id not in imported.get("lines", ()):
            raise Conflict(f"the thread id {thread_id} is taken", code="id_taken")
        self._thread_ids[line.id] = thread_id
        return True

    def put(self, conversation: Conversation) -> None:
        """Store what is unsaved. Raises Conflict when the id of a new thread is taken."""
        imported = msgspec.json.decode(clean_content(conversation.imported)[0])
        lines = conversation.imported["lines"]
        if len(lines) == 1:
            created_at = instant(conversation.messages[0]["createdAt"])
            title = store.clean_label(conversation.title, TITLE_LENGTH)
            row = Thread(id=conversation.thread_id, resource_id=self._resource_id, title=title)
            row.created_at = row.updated_at = created_at or timezone.now()
            if not store.insert_thread(row):
                raise Conflict(f"the thread id {conversation.thread_id} is taken", code="id_taken")
        self._storage.save_messages(conversation.thread_id, self._resource_id, conversation.unsaved)
        thread = Thread.objects.filter(id=conversation.thread_id)
        thread.update(imported=imported, last_error=conversation.last_error)
        self._thread_ids |= dict.fromkeys(lines, conversation.thread_id)


# Whole threads


def _put_dump(dump: Dump, resource_id: str, storage: store.DjangoStorage, report: ImportReport) -> None:
    """Make the thread, or add what is new in it. Raises Conflict when its id is taken by something else."""
    thread_id = _dump_thread_id(dump)
    row = Thread.objects.filter(id=thread_id).values_list("resource_id", "imported").first()
    if row is None:
        _make_thread(dump, thread_id, resource_id)
        storage.save_messages(thread_id, resource_id, dump.messages)
        _keep_imported(dump, thread_id)
        report.threads_made += 1
        report.messages_added += len(dump.messages)
        report.skipped += dump.left_out
        return
    owner, imported = row
    if owner != resource_id or imported.get("format") != dump.format:
        raise Conflict(f"the thread id {thread_id} is taken", code="id_taken")
    store.lock_thread(thread_id)
    new, changed, remark = _beyond(dump, thread_id)
    if remark:
        report.skipped.append((thread_id, remark))
    if not new and not changed:
        report.unchanged += 1
        return
    storage.save_messages(thread_id, resource_id, [*changed, *new])
    _keep_imported(dump, thread_id)
    report.threads_extended += 1
    report.messages_added += len(new)
    report.skipped += dump.left_out


def _dump_thread_id(dump: Dump) -> str:
    if not store.thread_id_problem(dump.thread_id):
        return dump.thread_id
    return PREFIX + key_of(dump.thread_id, kind="thread")


def _make_thread(dump: Dump, thread_id: str, resource_id: str) -> None:
    """Insert the row. Raises InvalidInput for a thread that only its messages would tell from another, without any."""
    if not dump.messages and not dump.is_own_id:
        raise InvalidInput("it holds no messages")
    first_at = instant(dump.messages[0]["createdAt"]) if dump.messages else None
    row = Thread(
        id=thread_id,
        resource_id=resource_id,
        title=store.clean_label(dump.title or title_of(dump.messages), TITLE_LENGTH),
        metadata=msgspec.json.decode(clean_content(dump.metadata)[0]),
    )
    row.created_at = row.updated_at = dump.created_at or first_at or timezone.now()
    if not store.insert_thread(row):
        raise Conflict(f"the thread id {thread_id} is taken", code="id_taken")


def _keep_imported(dump: Dump, thread_id: str) -> None:
    imported = imported_of(dump)
    kept = msgspec.json.decode(clean_content(imported)[0])
    Thread.objects.filter(id=thread_id).update(imported=kept, last_error=store.clean_label(dump.last_error, 500))


def imported_of(dump: Dump) -> dict[str, Any]:
    """What the thread keeps beside its messages, as that of a line does; `line` is its id where it comes from."""
    return {
        "system": list(dump.system),
        "tools": list(dump.tools),
        "provider": dump.provider,
        "protocol": dump.protocol,
        "model": dump.model,
        "format": dump.format,
        "line": dump.thread_id,
        "lines": {dump.thread_id: len(dump.messages)},
    }


def _beyond(dump: Dump, thread_id: str) -> tuple[list[StoredMessage], list[StoredMessage], str]:
    """Messages that the thread does not have, those that changed where they came from, and what stays as it is.

    What was written here since is nobody else's to replace, and a thread that went on here is not continued.
    """
    rows = {
        message_id: (role, content, written_by)
        for message_id, role, content, written_by in Message.objects.filter(thread=thread_id).values_list(
            "message_id", "role", "content", "written_by"
        )
    }
    sent = {message["id"]: message for message in dump.messages}
    new = [message for message in dump.messages if message["id"] not in rows]
    if new and any(not who.startswith(_AUTHOR) for id_, (_, _, who) in rows.items() if id_ not in sent):
        return [], [], f"the thread went on here: {len(new)} new messages are left out"
    changed, kept_count = [], 0
    for id_, (role, content, written_by) in rows.items():
        message = sent.get(id_)
        if message is None or (role == message["role"] and content == storable_text(message["content"])[0]):
            continue
        if written_by.startswith(_AUTHOR):
            changed.append(message)
        else:
            kept_count += 1
    remark = f"{kept_count} messages that differ were changed here and stay" if kept_count else ""
    return new, changed, remark


# Trying without storing


class Trial(Struct, frozen=True):
    """A conversation previewed for a target `provider/model`: the preview, or why there is none."""

    thread_id: str
    target: str
    preview: Preview | None
    error: str = ""


def try_lines(
    lines: Iterable[Unit],
    *,
    caller: Principal,
    targets: Sequence[str],
    report: ImportReport,
    format_: str = "",
    source: str = "",
) -> Iterator[Trial]:
    """Every conversation of these histories previewed for every target; no row stays. `report` gets what they held."""
    by_line: dict[str, Conversation] = {}

    def take(line: Line | Dump) -> None:
        if isinstance(line, Dump):
            conversation = _whole(line)
            by_line[f"{line.format} {line.thread_id}"] = conversation
            report.threads_made += 1
            report.messages_added += len(conversation.messages)
            report.skipped += line.left_out
            return
        before = by_line.get(line.continues)
        conversation = joined(before, line)
        by_line.update(dict.fromkeys(conversation.imported["lines"], conversation))
        _count(report, before, conversation, line)

    _take_each(lines, take, report, format_=format_, source=source)
    for conversation in {found.thread_id: found for found in by_line.values()}.values():
        yield from _tried(conversation, caller, targets)


def _whole(dump: Dump) -> Conversation:
    if not dump.messages:
        raise InvalidInput("it holds no messages")
    return Conversation(
        thread_id=dump.thread_id,
        messages=dump.messages,
        unsaved=dump.messages,
        imported=imported_of(dump),
        last_error=dump.last_error,
    )


def _tried(conversation: Conversation, caller: Principal, targets: Sequence[str]) -> list[Trial]:
    # Rows for a moment, so that the trial goes the way of a thread; short, so that others may write in between.
    name = "trial:" + hashlib.sha256(conversation.thread_id.encode()).hexdigest()[:32]
    shelf = _Shelf(caller.resource_id or name, store.DjangoStorage(written_by="trial"))
    imported = {**conversation.imported, "lines": {name: len(conversation.messages)}}
    with transaction.atomic():
        shelf.put(replace(conversation, thread_id=name, unsaved=conversation.messages, imported=imported))
        out = [_previewed(caller, name, conversation.thread_id, target) for target in targets]
        transaction.set_rollback(True)
    return out


def _previewed(caller: Principal, name: str, thread_id: str, target: str) -> Trial:
    provider, _, model = target.partition("/")
    try:
        return Trial(thread_id, target, preview(caller, thread_id=name, provider=provider, model=model))
    except CompatAdminError as error:
        return Trial(thread_id, target, None, str(error))
    except Exception as error:  # a history that breaks a preview is what is looked for; the others count as well
        log.exception("the preview of %s for %s failed", thread_id, target)
        return Trial(thread_id, target, None, f"{type(error).__name__}: {error}")
