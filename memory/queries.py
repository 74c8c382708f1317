"""Reads for pages and the API: small values, bodies only where asked for, pages by key and never by offset.

A cursor holds the key of the last item. It is signed, so a key that was never given out is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import msgspec
from django.core import signing
from django.db.models import BooleanField, Case, F, Model, Q, QuerySet, TextField, Value, When
from django.db.models.expressions import RawSQL
from msgspec import Struct
from msgspec.structs import replace

from memory import bodies
from memory.errors import InvalidInput, NotFound
from memory.models import Agent, Attempt, Message, MessageVersion, RuleSetting, Run, Thread
from memory.principal import Principal, can_be_looked_up

MAX_LIMIT = 200

T = TypeVar("T")
R = TypeVar("R", bound=Model)


class Page(Struct, Generic[T], frozen=True):
    """Some items and the cursor of what follows; None when nothing does."""

    items: list[T]
    next_cursor: str | None


class ThreadItem(Struct, frozen=True):
    """A thread in a list; field by field what the API shows."""

    id: str
    title: str
    resource_id: str
    agent_id: str | None
    metadata: dict[str, Any]
    message_count: int
    byte_count: int
    last_activity_at: datetime
    last_provider: str
    last_model: str
    last_error: str
    created_at: datetime


class MessageItem(Struct, frozen=True):
    """A message of a page. `content` is the stored JSON text, None where it is larger than was asked for."""

    id: str
    seq: int
    role: str
    type: str
    created_at: datetime
    provider: str
    protocol: str
    model_id: str
    version: int
    written_by: str
    reason: str
    rule: str
    run_id: str
    is_open: bool
    byte_count: int
    summary: list[list[Any]]
    content: str | None


class RunItem(Struct, frozen=True):
    """A run in a list, without its input, state and events."""

    id: str
    thread_id: str | None
    agent_id: str | None
    agent_name: str
    resource_id: str
    started_by: str
    provider: str
    model_id: str
    status: str
    finish_reason: str
    usage: dict[str, Any]
    error_class: str
    error_message: str
    attempt_count: int
    created_at: datetime
    finished_at: datetime | None


class AttemptItem(Struct, frozen=True):
    """An attempt without its bodies. `changes` and `findings` are JSON texts; times ending in `_ms` milliseconds."""

    number: int
    provider: str
    protocol: str
    model_id: str
    url: str
    request_headers: dict[str, Any]
    request_size: int
    request_sha256: str
    changes: str
    findings: str
    status: int | None
    response_headers: dict[str, Any]
    response_size: int
    provider_request_id: str
    error_class: str
    error_message: str
    decision: str
    reason: str
    asked_by: str
    matched: str
    delay_wanted_ms: float | None
    delay_granted_ms: float | None
    slept_ms: float | None
    usage: dict[str, Any]
    started_at: datetime
    finished_at: datetime | None


class RunDetail(Struct, frozen=True):
    """A run with its attempts. `input` and `settings` are JSON texts. At `removed_at` its bodies went."""

    run: RunItem
    input: str
    settings: str
    message_ids: list[str]
    rules_hash: str
    is_own_call: bool
    due_at: datetime | None
    removed_at: datetime | None
    attempts: list[AttemptItem]


class VersionItem(Struct, frozen=True):
    """An earlier text of a message, without the text. `archived_at` is when the next one replaced it."""

    version: int
    byte_count: int
    written_by: str
    reason: str
    rule: str
    run_id: str
    archived_at: datetime


class RuleSettingItem(Struct, frozen=True):
    """A switch as set; `scope_id` names the provider or agent."""

    rule: str
    scope: str
    scope_id: str
    state: str
    changed_by: str
    changed_at: datetime


# Lists


def threads_page(
    caller: Principal,
    *,
    cursor: str | None = None,
    limit: int = 20,
    resource_id: str | None = None,
    provider: str | None = None,
    has_error: bool | None = None,
    agent_id: str | None = None,
) -> Page[ThreadItem]:
    """Threads the caller may see, newest activity first. Raises InvalidInput (bad_cursor)."""
    threads = _scoped(Thread.objects.all(), caller)
    threads = _filtered(threads, resource_id=resource_id, last_provider=provider, agent=agent_id)
    if has_error:
        # Spelt as in the partial index, without a parameter: only so does SQLite see that the index serves.
        threads = threads.filter(RawSQL("NOT (memory_thread.last_error = '')", (), BooleanField()))
    elif has_error is False:
        threads = threads.filter(last_error="")
    return _page(threads, ThreadItem, "last_activity_at", cursor, limit, lambda t: (t.last_activity_at, t.id))


def runs_page(
    caller: Principal,
    *,
    cursor: str | None = None,
    limit: int = 20,
    thread_id: str | None = None,
    status: str | None = None,
    agent_id: str | None = None,
) -> Page[RunItem]:
    """Runs the caller may see, newest first. Raises InvalidInput (bad_cursor)."""
    runs = _filtered(_scoped(Run.objects.all(), caller), thread=thread_id, status=status, agent=agent_id)
    return _page(runs, RunItem, "created_at", cursor, limit, lambda run: (run.created_at, run.id))


def agents_page(*, cursor: str | None = None, limit: int = 20) -> Page[Agent]:
    """Agents by id. They belong to no resource. Raises InvalidInput for a bad cursor or limit."""
    _check_limit(limit)
    rows = Agent.objects.order_by("id")
    if cursor:
        rows = rows.filter(id__gt=_read_cursor(cursor, "Agent", tuple[str])[0])
    items = list(rows[: limit + 1])
    more = len(items) > limit
    return Page(items[:limit], _make_cursor((items[limit - 1].id,), "Agent") if more else None)


def messages_page(
    thread: Thread,
    *,
    cursor: str | None = None,
    before: int | None = None,
    after: int | None = None,
    limit: int = 40,
    max_bytes: int | None = None,
) -> Page[MessageItem]:
    """Messages of a thread, oldest first in the page: the newest page, that before a `seq`, or that after one.

    The cursor goes on the way the first page went. Messages over `max_bytes` come without their content. Raises
    InvalidInput (bad_cursor).
    """
    _check_limit(limit)
    if cursor:
        direction, seq = _read_cursor(cursor, "messages", tuple[str, int])
        before, after = (None, seq) if direction == "after" else (seq, None)
    messages = Message.objects.filter(thread=thread.id)
    forward = after is not None
    if forward:
        messages = messages.filter(seq__gt=after).order_by("seq")
    else:
        messages = (messages if before is None else messages.filter(seq__lt=before)).order_by("-seq")
    content: Any = F("content")
    if max_bytes is not None:
        content = Case(When(byte_count__lte=max_bytes, then=content), default=Value(None), output_field=TextField())
    names = ["message_id", *MessageItem.__struct_fields__[1:-1]]
    rows = list(messages.values_list(*names, content)[: limit + 1])
    items = [MessageItem(*row) for row in rows[:limit]]
    next_cursor = None
    if len(rows) > limit:
        next_cursor = _make_cursor(("after" if forward else "before", items[-1].seq), "messages")
    return Page(items if forward else items[::-1], next_cursor)


# One thing


def message_text(thread: Thread, message_id: str, *, version: int | None = None) -> str:
    """The stored JSON text of a message, now or at a version. Raises NotFound."""
    present = _filtered(Message.objects.filter(thread=thread.id), message_id=message_id)
    earlier = _versions(thread, message_id)
    found: str | None
    if version is None:
        found = present.values_list("content", flat=True).first()
    else:
        found = present.filter(version=version).values_list("content", flat=True).first()
        if found is None:
            found = earlier.filter(version=version).values_list("content", flat=True).first()
    if found is None:
        raise NotFound("no such message or version")
    return found


def versions_of(thread: Thread, message_id: str) -> list[VersionItem]:
    """What a message was before, newest first; empty for one that never changed."""
    return _structs(_versions(thread, message_id).order_by("-version"), VersionItem)


def _versions(thread: Thread, message_id: str) -> QuerySet[MessageVersion]:
    return _filtered(MessageVersion.objects.filter(message__thread=thread.id), message__message_id=message_id)


def run_detail(caller: Principal, run_id: str) -> RunDetail:
    """A run the caller may see, with its attempts. Raises NotFound."""
    names = (*RunItem.__struct_fields__, "input", "settings", "message_ids", "rules_hash", "is_own_call", "due_at")
    names += ("removed_at",)
    row: Any = _filtered(_scoped(Run.objects.all(), caller), id=run_id).values_list(*names).first()
    if row is None:
        raise NotFound("no such run")
    width = len(RunItem.__struct_fields__)
    return RunDetail(*[RunItem(*row[:width]), *row[width:], attempts_of(run_id)])


def attempts_of(run_id: str) -> list[AttemptItem]:
    """The attempts of a run, in order."""
    rows = Attempt.objects.filter(run=run_id).order_by("number")
    items = _structs(rows, AttemptItem)
    kept = {number: records for number, *records in rows.values_list("number", "changes_record", "findings_record")}
    records = {
        f"{name} {number}": (bytes(record), "")
        for number, pair in kept.items()
        for name, record in zip(("changes", "findings"), pair, strict=True)
        if record
    }
    if not records:
        return items
    read = bodies.read(records)
    return [
        replace(
            item,
            **{
                name: _list_text(found)
                for name in ("changes", "findings")
                if (found := read.get(f"{name} {item.number}"))
            },
        )
        for item in items
    ]


def _list_text(body: bodies.Body) -> str:
    return body.content.decode() if not body.problem else "[]"


class AttemptBodies(Struct, frozen=True):
    """What an attempt sent and got, and the agent and rules it was made with, as JSON.

    An empty body that `is_…_kept` was empty; another one was never kept, or is removed.
    """

    sent: bodies.Body
    came: bytes
    setup: bytes
    is_sent_kept: bool
    is_came_kept: bool


_BODY_COLUMNS = ("request_record", "request_body", "request_sha256", "request_size", "response_body", "response_size")


def bodies_of(run_id: str, *numbers: int) -> dict[int, AttemptBodies]:
    """The bodies of a run's attempts by number; of all without `numbers`. Statements do not grow with the attempts."""
    rows = Attempt.objects.filter(run=run_id)
    if numbers:
        rows = rows.filter(number__in=numbers)
    found = list(rows.order_by("number").values_list("number", "setup_record", *_BODY_COLUMNS))
    records: dict[str, tuple[bytes, str]] = {}
    for number, setup, record, _, sha256, *_ in found:
        if record:
            records[f"sent {number}"] = (bytes(record), sha256)
        if setup:
            records[f"setup {number}"] = (bytes(setup), "")
    read = bodies.read(records) if records else {}
    nothing = bodies.Body([])
    out: dict[int, AttemptBodies] = {}
    for number, _, record, whole, sha256, size, came, came_size in found:
        sent = read.get(f"sent {number}") or (bodies.whole(bytes(whole), sha256) if whole else nothing)
        out[number] = AttemptBodies(
            sent=sent,
            came=zlib.decompress(came) if came else b"",
            setup=read.get(f"setup {number}", nothing).content,
            is_sent_kept=bool(record or whole or not size),
            is_came_kept=bool(came or not came_size),
        )
    return out


def attempt_bodies(run_id: str, number: int) -> AttemptBodies:
    """The exact bytes that were sent and that came back. Raises NotFound."""
    found = bodies_of(run_id, number)
    if number not in found:
        raise NotFound("no such attempt")
    return found[number]


def rule_settings() -> list[RuleSettingItem]:
    """Every switch that was set, by rule and scope."""
    return _structs(RuleSetting.objects.order_by("rule", "scope", "scope_id"), RuleSettingItem)


# How pages are read


def _scoped(rows: QuerySet[R], caller: Principal) -> QuerySet[R]:
    return rows.filter(resource_id=caller.resource_id) if caller.resource_id else rows


def _filtered(rows: QuerySet[R], **wanted: str | None) -> QuerySet[R]:
    for field, value in wanted.items():
        if value is not None:
            rows = rows.filter(**{field: value}) if can_be_looked_up(value) else rows.none()
    return rows


def _page(
    rows: QuerySet[R],
    item_type: type[T],
    time_field: str,
    cursor: str | None,
    limit: int,
    key_of: Callable[[T], tuple[datetime, str]],
) -> Page[T]:
    _check_limit(limit)
    salt = item_type.__name__
    if cursor:
        micros, last_id = _read_cursor(cursor, salt, tuple[int, str])
        at = _EPOCH + timedelta(microseconds=micros)
        # The first condition bounds the index, the second leaves out what was on the page before.
        rows = rows.filter(Q(**{f"{time_field}__lt": at}) | Q(id__lt=last_id), **{f"{time_field}__lte": at})
    # One more than asked for tells whether there is a next page.
    items = _structs(rows.order_by(f"-{time_field}", "-id")[: limit + 1], item_type)
    if len(items) <= limit:
        return Page(items, None)
    at, last_id = key_of(items[limit - 1])
    micros = (at - _EPOCH) // timedelta(microseconds=1)
    return Page(items[:limit], _make_cursor((micros, last_id), salt))


def _structs(rows: QuerySet[R], item_type: type[T]) -> list[T]:
    names: tuple[str, ...] = item_type.__struct_fields__  # type: ignore[attr-defined]
    return [item_type(*row) for row in rows.values_list(*names)]


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"expected 1 to {MAX_LIMIT}", field="limit")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _make_cursor(key: tuple[Any, ...], salt: str) -> str:
    text = signing.b64_encode(msgspec.msgpack.encode(key)).decode()
    return signing.Signer(sep=".", salt=f"cursor.{salt}").sign(text)


def _read_cursor(cursor: str, salt: str, key_type: type[T]) -> T:
    try:
        text = signing.Signer(sep=".", salt=f"cursor.{salt}").unsign(cursor)
    except (signing.BadSignature, UnicodeError) as error:
        raise InvalidInput("this cursor was not given out by this list", field="cursor", code="bad_cursor") from error
    return msgspec.msgpack.decode(signing.b64_decode(text.encode()), type=key_type)
