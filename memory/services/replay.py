"""A bundle played again: the same service code, input and answers, and whether it sends the same bytes.

Everything happens in one transaction that is taken back, so it leaves nothing behind in whatever database it runs.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec
from django.db import transaction
from msgspec import Struct

from memory.access import operator
from memory.errors import InvalidInput
from memory.fragments import first_difference
from memory.messages.stored import instant
from memory.messages.values import write_json
from memory.models import Agent, Message, Provider, RuleSetting, Run, Thread
from memory.services.bundles import Bundle, BundledAttempt
from memory.services.ledger import SETUP_FIELDS
from memory.services.runner import execute
from memory.services.runs import GenerateRequest, open_run

_EXCERPT = 60
_ENDED_FROM_OUTSIDE = ("cancelled", "interrupted", "open")


class Answer(Struct, frozen=True):
    """What a provider said. Without a status the connection broke at once, with `is_broken` after the body."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    is_broken: bool


class Provided(Protocol):
    """A provider that gives recorded answers in turn, and what has arrived there."""

    url: str
    arrived: list[bytes]


Serve = Callable[[Sequence[Answer]], AbstractContextManager[Provided]]


class Compared(Struct, frozen=True):
    """An attempt beside the recorded one. `difference` is empty where the very same bytes were sent."""

    number: int
    size_bytes: int
    difference: str = ""


class Replayed(Struct, frozen=True):
    """How it went, attempt by attempt."""

    attempts: list[Compared]
    status: str

    @property
    def is_same(self) -> bool:
        return not any(attempt.difference for attempt in self.attempts)


def replay(bundle: Bundle, serve: Serve) -> Replayed:
    """Play the run again, with `serve` for its provider. Raises InvalidInput for one that can't be played."""
    recorded = [_request(attempt) for attempt in bundle.attempts]
    if bundle.agent is None or not recorded:
        raise InvalidInput("this bundle can't be played: it has no " + ("calls" if bundle.agent else "agent"))
    is_streamed = bool(msgspec.json.decode(bundle.run.settings).get("stream"))
    with serve([_answer(attempt, is_streamed) for attempt in bundle.attempts]) as provider, transaction.atomic():
        run = _opened(bundle, provider.url, is_streamed)
        turn = execute(run, wait=lambda _: False)
        run.refresh_from_db()
        transaction.set_rollback(True)
    if not provider.arrived and turn.error is not None:
        raise InvalidInput(f"no call was made: {turn.error}")
    compared = [
        _compared(attempt, was, provider.arrived[i] if i < len(provider.arrived) else None)
        for i, (attempt, was) in enumerate(zip(bundle.attempts, recorded, strict=True))
    ]
    if bundle.attempts[-1].decision not in _ENDED_FROM_OUTSIDE:
        for number, sent in enumerate(provider.arrived[len(recorded) :], start=len(recorded) + 1):
            compared.append(Compared(number, len(sent), "there was no such attempt"))
    return Replayed(compared, run.status)


def _request(attempt: BundledAttempt) -> bytes:
    content = attempt.request.body.content
    if content is None or (attempt.response.body.content is None and attempt.response.body.size_bytes):
        raise InvalidInput(f"this bundle can't be played: it holds no bodies of attempt {attempt.number}")
    return content


def _answer(attempt: BundledAttempt, is_streamed: bool) -> Answer:
    came, content = attempt.response, attempt.response.body.content or b""
    # What fails inside a stream has begun as a success, and has no headers of its own.
    is_broken = is_streamed and bool(content) and attempt.decision != "answered" and not came.headers
    return Answer(200 if is_broken else came.status, came.headers, content, is_broken)


def _opened(bundle: Bundle, url: str, is_streamed: bool) -> Run:
    """The run as it was before its first call."""
    agent = _agent(bundle)
    _connections(bundle, url)
    thread_id = f"replay-{uuid.uuid4().hex}"
    settings = msgspec.json.decode(bundle.run.settings)
    if bundle.messages:
        _thread(bundle, thread_id, agent)
    system = [{"role": "system", "content": text} for text in settings.get("system") or ()]
    return open_run(
        operator("replay"),
        agent,
        GenerateRequest(
            messages=[*system, *msgspec.json.decode(bundle.run.input)],
            thread_id=thread_id,
            resource_id=thread_id,
            model=f"{bundle.run.provider}/{bundle.run.model_id}",
            settings=settings.get("settings"),
            tools=settings.get("tools"),
            tool_choice=settings.get("tool_choice"),
        ),
        is_streamed=is_streamed,
    )


def _agent(bundle: Bundle) -> Agent:
    values = {name: value for name, value in (bundle.agent or {}).items() if name in SETUP_FIELDS}
    return Agent.objects.create(**{**values, "id": f"replay-{uuid.uuid4().hex}", "capture": "off"})


def _connections(bundle: Bundle, url: str) -> None:
    """Every provider that was called, at this address without a key, with the switches that were in force."""
    RuleSetting.objects.all().delete()
    for attempt in bundle.attempts:
        Provider.objects.update_or_create(
            id=attempt.provider, defaults={"protocol": attempt.protocol, "base_url": url, "key_ref": "", "headers": {}}
        )
    RuleSetting.objects.bulk_create(
        RuleSetting(rule=rule, scope="provider", scope_id=provider, state=state)
        for provider, states in bundle.rules.items()
        for rule, state in states.items()
    )


def _thread(bundle: Bundle, thread_id: str, agent: Agent) -> None:
    thread = Thread.objects.create(
        id=thread_id,
        resource_id=thread_id,
        agent=agent,
        message_count=len(bundle.messages),
        last_seq=len(bundle.messages),
    )
    Message.objects.bulk_create(
        Message(
            thread=thread,
            message_id=message.id,
            seq=seq,
            role=message.role,
            type=message.type,
            content=bytes(message.content).decode(),
            byte_count=len(message.content),
            **({"created_at": at} if (at := instant(message.createdAt)) else {}),
        )
        for seq, message in enumerate(bundle.messages, start=1)
    )
    state: Mapping[str, Any] = msgspec.json.decode(bundle.run.state)
    if state:
        Run.objects.create(
            id=f"run_{uuid.uuid4().hex}",
            thread=thread,
            agent=agent,
            agent_name=agent.name,
            resource_id=thread_id,
            provider=bundle.run.provider,
            model_id=bundle.run.model_id,
            status="waiting",
            input="[]",
            state=write_json(state),
        )


def _compared(attempt: BundledAttempt, was: bytes, sent: bytes | None) -> Compared:
    if sent is None:
        return Compared(attempt.number, len(was), "it was not made")
    if sent == was:
        is_whole = hashlib.sha256(was).hexdigest() == attempt.request.body.sha256
        return Compared(attempt.number, len(sent), "" if is_whole else "the recorded hash is not that of the body")
    place, at = first_difference(was, sent)
    return Compared(
        attempt.number,
        len(sent),
        f"differs at byte {at:,}, in {place or 'the rest'}: recorded …{_excerpt(was, at)}… now …{_excerpt(sent, at)}…",
    )


def _excerpt(body: bytes, at: int) -> str:
    return body[max(0, at - _EXCERPT // 3) : at + _EXCERPT].decode("utf-8", "replace")
