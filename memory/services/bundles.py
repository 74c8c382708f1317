"""A run as one file: its input, the agent and the rules in force, the thread before it, every attempt with its bytes.

It holds no key, no owner and no connection, and needs nothing beside it to be played again (`services.replay`). The
form is described in docs/bundles.md.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.db.models import Min, Q
from django.utils import timezone
from msgspec import Raw, Struct

from memory import queries
from memory.access import Principal, run_for
from memory.errors import InvalidInput
from memory.messages.stored import parts_of, timestamp
from memory.messages.values import write_json
from memory.models import Message, MessageVersion, Provider, Run
from memory.providers.entries import ENTRIES
from memory.queries import AttemptBodies, AttemptItem
from memory.services.keys import provider_key
from memory.services.ledger import SETUP_FIELDS, without_key
from memory.services.rules import switches_for

FORMAT = "compat-admin-run"
VERSION = 1
_OWNER = ("threadId", "resourceId")


class Bytes(Struct, frozen=True, omit_defaults=True):
    """A body as text, or where it is none, in base64. Both are null where it was not kept, or is removed."""

    size_bytes: int
    text: str | None = None
    base64: str | None = None
    sha256: str = ""
    problem: str = ""

    @property
    def content(self) -> bytes | None:
        if self.base64 is not None:
            return base64.b64decode(self.base64)
        return None if self.text is None else self.text.encode("utf-8", "surrogatepass")


class Sent(Struct, frozen=True):
    url: str
    headers: dict[str, str]
    body: Bytes


class Came(Struct, frozen=True):
    status: int | None
    headers: dict[str, str]
    body: Bytes


class BundledAttempt(Struct, frozen=True):
    """A call and what was decided after it."""

    number: int
    provider: str
    protocol: str
    model_id: str
    request: Sent
    response: Came
    changes: Raw
    findings: Raw
    decision: str
    reason: str
    asked_by: str
    matched: str
    error_class: str
    error_message: str
    delay_wanted_ms: float | None
    delay_granted_ms: float | None
    slept_ms: float | None
    started_at: datetime
    finished_at: datetime | None


class BundledRun(Struct, frozen=True):
    """The run itself. `state` is what its processors began with."""

    id: str
    thread_id: str | None
    agent_name: str
    provider: str
    model_id: str
    status: str
    finish_reason: str
    error_class: str
    error_message: str
    rules_hash: str
    is_own_call: bool
    created_at: datetime
    finished_at: datetime | None
    input: Raw
    settings: Raw
    state: Raw
    message_ids: list[str]
    usage: dict[str, Any]


class BundledMessage(Struct, frozen=True):
    """A stored message as it was before the run."""

    id: str
    role: str
    type: str
    createdAt: str
    content: Raw


class Bundle(Struct, frozen=True):
    """The file. `rules` are the switches in force by provider; `missing` says in words what was not to be had."""

    format: str
    version: int
    made_at: datetime
    run: BundledRun
    agent: dict[str, Any] | None
    rules: dict[str, dict[str, str]]
    messages: list[BundledMessage]
    attempts: list[BundledAttempt]
    missing: list[str]


def bundle_of(caller: Principal, run_id: str) -> bytes:
    """The bundle of a run, as JSON. Raises NotFound."""
    run = run_for(caller, run_id)
    items = queries.attempts_of(run.id)
    bodies = queries.bodies_of(run.id)
    missing = _missing(run, bodies)
    agent, rules = _setup(run, items, bodies, missing)
    made = Bundle(
        format=FORMAT,
        version=VERSION,
        made_at=timezone.now(),
        run=_run(run),
        agent=agent,
        rules=rules,
        messages=_messages_before(run, items, agent),
        attempts=[_attempt(item, bodies[item.number]) for item in items],
        missing=missing,
    )
    return _without_keys(msgspec.json.encode(made))


def read_bundle(content: bytes) -> Bundle:
    """A bundle from its file. Raises InvalidInput that says what is wrong with it."""
    try:
        found = msgspec.json.decode(content, type=Bundle)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeError) as error:
        raise InvalidInput(f"this is no bundle of a run: {error}") from error
    if found.format != FORMAT:
        raise InvalidInput(f"this is no bundle of a run: its format is {found.format!r}")
    if found.version != VERSION:
        raise InvalidInput(f"this bundle has version {found.version}; this program reads version {VERSION}")
    return found


def _run(run: Run) -> BundledRun:
    names = set(BundledRun.__struct_fields__) - {"input", "settings", "state"}
    fields = {name: getattr(run, name) for name in names}
    fields |= {"input": _input(run), "settings": Raw(run.settings.encode()), "state": _state_before(run)}
    return BundledRun(**fields)


def _input(run: Run) -> Raw:
    """The messages of the input, without whose they are."""
    given = msgspec.json.decode(run.input)
    return Raw(msgspec.json.encode([{k: v for k, v in one.items() if k not in _OWNER} for one in given]))


def _state_before(run: Run) -> Raw:
    """What the processors of the run whose tool calls this one brings results for had kept."""
    earlier = Run.objects.filter(thread=run.thread_id, created_at__lt=run.created_at, finish_reason="tool-calls")
    text = earlier.order_by("-created_at", "-id").values_list("state", flat=True).first() if run.thread_id else None
    kept = msgspec.json.decode(text or "{}")
    kept.pop("loop", None)
    return Raw(msgspec.json.encode(kept))


def _missing(run: Run, bodies: Mapping[int, AttemptBodies]) -> list[str]:
    said = []
    if run.removed_at is not None:
        said.append(f"bodies, input and events were removed on {run.removed_at:%Y-%m-%d}")
    elif not all(found.is_sent_kept and found.is_came_kept for found in bodies.values()):
        said.append("the agent keeps no bodies of its calls")
    said += [f"request of attempt {number}: {f.sent.problem}" for number, f in bodies.items() if f.sent.problem]
    return said


def _setup(
    run: Run, items: Sequence[AttemptItem], bodies: Mapping[int, AttemptBodies], missing: list[str]
) -> tuple[dict[str, Any] | None, dict[str, dict[str, str]]]:
    """The agent and the switches by provider, as the attempts have them on record; else as they are now."""
    agent: dict[str, Any] | None = None
    rules: dict[str, dict[str, str]] = {}
    for item in items:
        if setup := bodies[item.number].setup:
            found = msgspec.json.decode(setup)
            agent = agent or found["agent"]
            rules.setdefault(item.provider, found["rules"])
    if agent is None and run.agent is not None:
        agent = {name: getattr(run.agent, name) for name in SETUP_FIELDS}
        rules = {name: dict(switches_for(name, run.agent.id)) for name in {run.provider, *(i.provider for i in items)}}
        missing.append("agent and rules are those of now, not those of the run")
    return agent, rules


def _messages_before(run: Run, items: Sequence[AttemptItem], agent: Mapping[str, Any] | None) -> list[BundledMessage]:
    """The thread's messages as the run found them, as many as its processors recall."""
    if run.thread_id is None:
        return []
    at = items[0].started_at if items else run.created_at
    given = msgspec.json.decode(run.input)
    there = Message.objects.filter(thread=run.thread_id)
    given_ids = [message.get("id") for message in given]
    answers = Q(message_id__in=run.message_ids, created_at__gte=run.created_at)
    own = there.filter(Q(message_id__in=given_ids) | answers)
    first = own.aggregate(Min("seq"))["seq__min"]
    if first is not None:
        there = there.filter(seq__lt=first)
    # One that was written again since was there before if it is older than the run.
    there = there.filter(Q(saved_at__lte=at) | Q(created_at__lt=run.created_at))
    rows = list(there.order_by("-seq")[: _recalled(agent)])[::-1]
    later = MessageVersion.objects.filter(message__in=rows, archived_at__gt=at).order_by("-version")
    answered = {call["toolCallId"] for message in given for call in _calls(message) if call.get("state") == "result"}
    former = dict(later.values_list("message_id", "content"))
    return [
        BundledMessage(
            id=row.message_id,
            role=row.role,
            type=row.type,
            createdAt=timestamp(row.created_at),
            content=_raw(former.get(row.pk) or _before_results(row, at, answered)),
        )
        for row in rows
    ]


def _before_results(row: Message, at: datetime, answered: set[str]) -> str:
    """The content of a message before these calls had results. A turn of several steps grows in one message that is
    open, so without versions: what stands behind the calls that a run answers came in it, or later."""
    if row.saved_at <= at or not answered:
        return row.content
    content = msgspec.json.decode(row.content)
    parts = parts_of(content)
    ends = [i for i, part in enumerate(parts) if (part.get("toolInvocation") or {}).get("toolCallId") in answered]
    if not ends:
        return row.content
    kept = parts[: ends[-1] + 1]
    for i in ends:
        call = {key: value for key, value in kept[i]["toolInvocation"].items() if key != "result"}
        kept[i] = {**kept[i], "toolInvocation": {**call, "state": "call"}}
    rest = {key: value for key, value in content.items() if key not in ("content", "toolInvocations")}
    return write_json({**rest, "parts": kept})


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    parts = parts_of(content) if isinstance(content, Mapping) else []
    return [part["toolInvocation"] for part in parts if isinstance(part.get("toolInvocation"), Mapping)]


def _recalled(agent: Mapping[str, Any] | None) -> int | None:
    """The most messages that the agent's history recalls; None where that is all."""
    most = None
    for entry in (agent or {}).get("input_processors", ()):
        named = entry if isinstance(entry, Mapping) else {"id": entry}
        if named.get("id") == "message-history":
            last = (named.get("options") or {}).get("last_messages")
            if last is None or isinstance(last, bool):
                return None
            most = max(most or 0, int(last))
    return most


def _attempt(item: AttemptItem, bodies: AttemptBodies) -> BundledAttempt:
    names = set(BundledAttempt.__struct_fields__) - {"request", "response", "changes", "findings"}
    sent = bodies.sent.content if bodies.is_sent_kept else None
    came = bodies.came if bodies.is_came_kept else None
    return BundledAttempt(
        **{name: getattr(item, name) for name in names},
        request=Sent(
            item.url,
            item.request_headers,
            _bytes(sent, item.request_size, sha256=item.request_sha256, problem=bodies.sent.problem),
        ),
        response=Came(item.status, item.response_headers, _bytes(came, item.response_size)),
        changes=Raw(item.changes.encode()),
        findings=Raw(item.findings.encode()),
    )


def _bytes(content: bytes | None, size: int, **more: str) -> Bytes:
    if content is None:
        return Bytes(size, **more)
    try:
        return Bytes(size, text=content.decode(), **more)
    except UnicodeDecodeError:
        return Bytes(size, base64=base64.b64encode(content).decode(), **more)


def _raw(text: str) -> Raw:
    try:
        return msgspec.json.decode(text, type=Raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Raw(msgspec.json.encode(text))


def _without_keys(content: bytes) -> bytes:
    """The file without any key that a connection has now: whoever put one into a message did not mean to hand it on."""
    text = content.decode()
    key_refs = {f"env:{entry.key_variable}" for entry in ENTRIES.values() if entry.key_variable}
    for key_ref in key_refs.union(Provider.objects.exclude(key_ref="").values_list("key_ref", flat=True)):
        try:
            key = provider_key(key_ref)
        except InvalidInput:
            continue  # a key that is not there is in no file
        if isinstance(key, str):
            text = without_key(text, key.strip())
    return text.encode()
