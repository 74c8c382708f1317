"""Reads for pages and the API: small values, bodies only where asked for, pages by key and never by offset.

A cursor holds the key of the last item. It is signed, so a key that was never given out is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Literal, TypeVar

import msgspec
from django.core import signing
from django.db import connection
from django.db.models import BooleanField, Case, F, Model, Q, QuerySet, TextField, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from msgspec import UNSET, Struct, UnsetType, structs
from msgspec.structs import replace

from memory import bodies
from memory.errors import InvalidInput, NotFound
from memory.models import Agent, ApiKey, Attempt, Job, Message, MessageVersion, RuleSetting, Run, Thread
from memory.principal import Principal, can_be_looked_up

MAX_LIMIT = 200
ESTIMATED_UP_TO = 10_000
Count = Literal["estimate", "exact"]
MAX_ID = 2**63 - 1
HIDDEN = "…"
OUR_PROCESSORS = ("", "model_max_retries", "provider-history-compat", "stream-error-retry-processor")

_UNHEARD = timedelta(minutes=1)

T = TypeVar("T")
R = TypeVar("R", bound=Model)


class Page(Struct, Generic[T], frozen=True):
    """Some items and the cursor of what follows; None when nothing does. `total` only if it was asked for."""

    items: list[T]
    next_cursor: str | None
    total: int | UnsetType = UNSET


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


class AttemptName(Struct, frozen=True):
    """An attempt in a list of choices."""

    run_id: str
    number: int
    provider: str
    model_id: str
    status: int | None
    decision: str
    started_at: datetime

    @property
    def number_text(self) -> str:
        return str(self.number)


class CallItem(Struct, frozen=True):
    """An attempt in a list of calls. `error_class` is empty for an answer, and while it is awaited."""

    run_id: str
    provider: str
    model_id: str
    status: int | None
    error_class: str
    decision: str
    started_at: datetime


class MessageThen(Struct, frozen=True):
    """A message as it was; `remark` says so where it was changed since."""

    id: str
    seq: int
    role: str
    content: str
    remark: str


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


class JobItem(Struct, frozen=True):
    """A job in a list, without what it was given and what came of it."""

    id: str
    kind: str
    queue: str
    title: str
    made_by: str
    resource_id: str
    status: str
    attempt_count: int
    due_at: datetime
    cancel_asked_at: datetime | None
    done_count: int
    total_count: int | None
    note: str
    error: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


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


class KeyItem(Struct, frozen=True):
    """A caller's key or token without its text. Without `resource_id` it may act for any resource."""

    id: int
    name: str
    prefix: str
    kind: Literal["key", "token"]
    scopes: list[str]
    resource_id: str
    state: Literal["active", "expired", "revoked"]
    maker_id: int | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


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
    active_since: datetime | None = None,
    active_before: datetime | None = None,
    metadata: Mapping[str, str | int | float | bool] | None = None,
    count: Count | None = None,
) -> Page[ThreadItem]:
    """Threads the caller may see, newest activity first; `metadata` names values that have to be there.

    Raises InvalidInput (bad_cursor).
    """
    threads = _scoped(Thread.objects.all(), caller)
    threads = _filtered(threads, resource_id=resource_id, last_provider=provider, agent=agent_id)
    if active_since is not None:
        threads = threads.filter(last_activity_at__gte=active_since)
    if active_before is not None:
        threads = threads.filter(last_activity_at__lt=active_before)
    for i, (key, value) in enumerate((metadata or {}).items()):
        threads = threads.annotate(**{f"wanted_{i}": KeyTransform(key, "metadata")}).filter(**{f"wanted_{i}": value})
    if has_error:
        # Spelt as in the partial index, without a parameter: only so does SQLite see that the index serves.
        threads = threads.filter(RawSQL("NOT (memory_thread.last_error = '')", (), BooleanField()))
    elif has_error is False:
        threads = threads.filter(last_error="")
    page = _page(threads, ThreadItem, "last_activity_at", cursor, limit, lambda t: (t.last_activity_at, t.id))
    if count is not None:
        page = structs.replace(page, total=total_of(threads, count))
    return page if caller.may("read") else structs.replace(page, items=[thread_shape(item) for item in page.items])


def runs_page(
    caller: Principal,
    *,
    cursor: str | None = None,
    limit: int = 20,
    thread_id: str | None = None,
    status: str | None = None,
    agent_id: str | None = None,
    provider: str | None = None,
    model_id: str | None = None,
    error_class: str | None = None,
    has_retries: bool = False,
    since: datetime | None = None,
    count: Count | None = None,
) -> Page[RunItem]:
    """Runs the caller may see, newest first. Raises InvalidInput (bad_cursor)."""
    runs = _filtered(_scoped(Run.objects.all(), caller), thread=thread_id, status=status, agent=agent_id)
    runs = _filtered(runs, provider=provider, model_id=model_id, error_class=error_class)
    if since is not None:
        runs = runs.filter(created_at__gte=since)
    # Spelt as in the partial indexes, without a parameter: only so does SQLite see that they serve.
    if error_class is not None:
        runs = runs.filter(RawSQL("NOT (memory_run.error_class = '')", (), BooleanField()))
    if has_retries:
        runs = runs.filter(RawSQL("memory_run.attempt_count > 1", (), BooleanField()))
    page = _page(runs, RunItem, "created_at", cursor, limit, lambda run: (run.created_at, run.id))
    if count is not None:
        page = structs.replace(page, total=total_of(runs, count))
    return page if caller.may("read") else structs.replace(page, items=[run_shape(item) for item in page.items])


def jobs_page(
    caller: Principal,
    *,
    cursor: str | None = None,
    limit: int = 20,
    status: str | None = None,
    kind: str | None = None,
) -> Page[JobItem]:
    """Jobs the caller may see, newest first. Raises InvalidInput (bad_cursor)."""
    jobs = _filtered(_scoped(Job.objects.all(), caller), status=status, kind=kind)
    return _page(jobs, JobItem, "created_at", cursor, limit, lambda job: (job.created_at, job.id))


def unheard_jobs(caller: Principal, *, now: datetime | None = None) -> int:
    """How many queued jobs are due and nobody was called for in the last minute. Sweeps call every few seconds: where
    there are some, no worker sweeps, or none reaches its broker."""
    before = (now or timezone.now()) - _UNHEARD
    due = _scoped(Job.objects.filter(status="queued", finished_at=None, due_at__lt=before), caller)
    return due.filter(Q(woken_at=None) | Q(woken_at__lt=before)).count()


def agents_page(*, cursor: str | None = None, limit: int = 20) -> Page[Agent]:
    """Agents by id. They belong to no resource. Raises InvalidInput for a bad cursor or limit."""
    _check_limit(limit)
    rows = Agent.objects.order_by("id")
    if cursor:
        rows = rows.filter(id__gt=_read_cursor(cursor, "Agent", tuple[str])[0])
    items = list(rows[: limit + 1])
    more = len(items) > limit
    return Page(items[:limit], _make_cursor((items[limit - 1].id,), "Agent") if more else None)


def keys_page(
    caller: Principal, *, cursor: str | None = None, limit: int = 20, kind: str | None = None
) -> Page[KeyItem]:
    """Keys of callers and the tokens they made, newest first; of one `kind` if given. Raises InvalidInput."""
    _check_limit(limit)
    rows = _scoped(ApiKey.objects.order_by("-id"), caller)
    if kind is not None:
        rows = rows.filter(maker__isnull=kind == "key")
    if cursor:
        rows = rows.filter(id__lt=_read_cursor(cursor, "keys", tuple[int])[0])
    items = _key_items(rows[: limit + 1])
    more = len(items) > limit
    return Page(items[:limit], _make_cursor((items[limit - 1].id,), "keys") if more else None)


def key_item(key_id: int) -> KeyItem:
    """A key or token. Raises NotFound."""
    found = _key_items(ApiKey.objects.filter(id=key_id)) if key_id <= MAX_ID else []
    if not found:
        raise NotFound("no such key")
    return found[0]


def _key_items(rows: QuerySet[ApiKey]) -> list[KeyItem]:
    now = timezone.now()
    items = []
    for key in rows.select_related("maker"):
        maker_ends = key.maker.expires_at if key.maker else None
        ends = [end for end in (key.expires_at, maker_ends) if end is not None]
        is_revoked = key.revoked_at is not None or (key.maker is not None and key.maker.revoked_at is not None)
        items.append(
            KeyItem(
                id=key.id,
                name=key.name,
                prefix=key.prefix,
                kind="key" if key.maker_id is None else "token",
                scopes=key.scopes,
                resource_id=key.resource_id,
                state="revoked" if is_revoked else "expired" if any(end <= now for end in ends) else "active",
                maker_id=key.maker_id,
                created_at=key.created_at,
                expires_at=key.expires_at,
                last_used_at=key.last_used_at,
                revoked_at=key.revoked_at,
            )
        )
    return items


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


def messages_around(thread: Thread, seq: int, *, limit: int = 40, max_bytes: int | None = None) -> Page[MessageItem]:
    """The message of a `seq` amid those before and after it, oldest first; a page without a next one."""
    _check_limit(limit)
    after = messages_page(thread, after=seq - 1, limit=limit, max_bytes=max_bytes).items
    before = messages_page(thread, before=seq, limit=limit, max_bytes=max_bytes).items
    kept_before = max(limit // 2, limit - len(after))
    earlier = before[max(0, len(before) - kept_before) :]
    return Page([*earlier, *after[: limit - len(earlier)]], None)


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
    detail = RunDetail(*[RunItem(*row[:width]), *row[width:], attempts_of(run_id)])
    return detail if caller.may("read") else detail_shape(detail)


def attempts_of(run_id: str) -> list[AttemptItem]:
    """The attempts of a run, in order."""
    return _attempts(Attempt.objects.filter(run=run_id).order_by("number"))


def _attempts(rows: QuerySet[Attempt]) -> list[AttemptItem]:
    """Attempts of one run, with their changes wherever these are kept."""
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


def attempts_of_thread(thread_id: str, *, limit: int) -> list[AttemptName]:
    """The newest attempts of a thread's runs, newest first."""
    return _structs(Attempt.objects.filter(run__thread=thread_id).order_by("-started_at", "-id")[:limit], AttemptName)


def newest_calls(*, limit: int) -> list[CallItem]:
    """The newest attempts of all runs, newest first, without those that callers made themselves."""
    names = CallItem.__struct_fields__
    rows = Attempt.objects.order_by("-id").values_list(*names, "run__is_own_call")[:limit]
    return [CallItem(*row) for *row, is_own in rows if not is_own]


def attempt_of_thread(thread_id: str, run_id: str, number: int) -> AttemptItem:
    """An attempt of one of a thread's runs. Raises NotFound."""
    rows = _filtered(Attempt.objects.filter(run__thread=thread_id, number=number), run=run_id)
    found = _attempts(rows)
    if not found:
        raise NotFound("no such attempt of this thread")
    return found[0]


def messages_as_of(thread: Thread, ids: Collection[str], at: datetime) -> list[MessageThen]:
    """Messages of a thread as they were at a moment, as far as their versions tell; absent ones are left out."""
    rows = Message.objects.filter(thread=thread.id, message_id__in=ids).order_by("seq")
    now = {row.pk: row for row in rows.only("message_id", "seq", "role", "content", "version")}
    first: dict[int, MessageVersion] = {}
    for version in MessageVersion.objects.filter(message__in=now, archived_at__gt=at).order_by("version"):
        first.setdefault(version.message_id, version)
    return [
        MessageThen(row.message_id, row.seq, row.role, first[pk].content, f"version {first[pk].version}, changed since")
        if pk in first
        else MessageThen(row.message_id, row.seq, row.role, row.content, "")
        for pk, row in now.items()
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


# Without content, for who may see the shape only


def thread_shape(item: ThreadItem) -> ThreadItem:
    """The thread without its title, which often quotes it, what its metadata says, and the words of its last error."""
    hidden = dict.fromkeys(item.metadata, HIDDEN)
    return structs.replace(item, title="", metadata=hidden, last_error=item.last_error.partition(":")[0])


def run_shape(item: RunItem) -> RunItem:
    """The run with its error's class for what the error said: providers quote what they refuse."""
    return structs.replace(item, error_message=item.error_class if item.error_message else "")


def detail_shape(detail: RunDetail) -> RunDetail:
    """The run without its input, settings and what stood in its requests and answers."""
    attempts = [attempt_shape(attempt) for attempt in detail.attempts]
    return structs.replace(detail, run=run_shape(detail.run), input="[]", settings="{}", attempts=attempts)


def attempt_shape(item: AttemptItem) -> AttemptItem:
    """The attempt without what its error said; its changes and findings name rule and place, not what stood there."""
    kept = {"number", "rule", "family", "severity", "stored", "sent", "place", "message_id", "loss"}

    def without(text: str) -> str:
        values = msgspec.json.decode(text)
        return msgspec.json.encode([{k: v for k, v in value.items() if k in kept} for value in values]).decode()

    # Our own processors give reasons in words of their own, but where the next request could not be made.
    is_ours = item.asked_by in OUR_PROCESSORS and not item.reason.startswith("The next attempt could not")
    return structs.replace(
        item,
        error_message="",
        reason=item.reason if is_ours else "",
        changes=without(item.changes),
        findings=without(item.findings),
    )


def rule_settings() -> list[RuleSettingItem]:
    """Every switch that was set, by rule and scope."""
    return _structs(RuleSetting.objects.order_by("rule", "scope", "scope_id"), RuleSettingItem)


# How pages are read


def total_of(rows: QuerySet[Any], how: Count) -> int:
    """How many rows there are. An estimate is what the database expects or, on SQLite, right up to 10,000."""
    if how == "exact":
        return rows.order_by().count()
    if connection.vendor == "postgresql":
        plan = msgspec.json.decode(rows.order_by().explain(format="json"))
        return int(plan[0]["Plan"]["Plan Rows"])
    return rows.order_by()[:ESTIMATED_UP_TO].count()


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
