"""What we would do about a provider's error: the run loop decides, with the error handed to it, and calls nobody."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from memory.access import Principal, agent_for, thread_for
from memory.errors import InvalidInput, ProviderError
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.models import Agent
from memory.processors import run_turn
from memory.processors.calls import AttemptRecord, NoRecorder
from memory.processors.changes import Finding, Placed
from memory.processors.compat.catalogue import RULES, default_state
from memory.processors.compat.errors import texts_of
from memory.processors.compat.faults import known_faults
from memory.processors.storage import MemoryStorage
from memory.profiles import profile_for
from memory.providers import entry_for, wire_module
from memory.providers.http import Connection, Exchange
from memory.providers.wire import Usage
from memory.services.calls import Answer, Outbound, ProviderModel, chain_for, settings_for
from memory.services.connections import connection_for, target_model
from memory.services.preview import placed
from memory.services.rules import switches_for
from memory.store import DjangoStorage

MAX_TIMES = 50
_SAMPLE = {"id": "m1", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": "Hello"}]}}


class KnownBy(Struct, frozen=True):
    """A rule whose words are in the error, and its switch for this provider and agent."""

    id: str
    title: str
    family: str
    state: str


class Explained(Struct, frozen=True, kw_only=True):
    """An error and what follows from it. `delay_ms` is None where nothing is tried again.

    `changes` and `findings` are those of the next request, `changes_before` those of the refused one; `body_before` and
    `body_after` are the two requests, the second empty where nothing is sent again.
    """

    error: ProviderError
    rules: Sequence[KnownBy]
    is_retry: bool
    delay_ms: float | None
    wanted_ms: float | None
    reason: str
    asked_by: str
    matched: str
    changes_before: Sequence[Placed]
    changes: Sequence[Placed]
    findings: Sequence[Finding]
    body_before: bytes = b""
    body_after: bytes = b""


def explain_error(
    caller: Principal,
    *,
    provider: str,
    model: str = "",
    status: int,
    headers: Mapping[str, str],
    body: str,
    agent_id: str | None = None,
    thread_id: str | None = None,
    times: int = 1,
) -> Explained:
    """The class of a provider's error, the rules that know it, and what an agent (none: the default processors) does.

    The decision is about a stored thread's next request, without one about a plain greeting; `times` is how often the
    same error has come in a row. Nothing is called, stored or repaired. Raises InvalidInput, NotFound.
    """
    agent = agent_for(caller, agent_id) if agent_id else None
    # Only the words count where no model is named, and no provider has one of this name.
    ref = target_model(f"{provider}/{model or 'any-model'}")
    if not 400 <= status <= 599:
        raise InvalidInput("expected the status of an error, 400 to 599", field="status")
    if not 1 <= times <= MAX_TIMES:
        raise InvalidInput(f"expected 1 to {MAX_TIMES}", field="times")
    connection = _connection(ref.provider)
    error = wire_module(connection.protocol).decode_error(status, headers, body, provider=ref.provider)
    thread = thread_for(caller, thread_id) if thread_id else None
    listed = MessageList() if thread is None else MessageList(thread_id=thread.id, resource_id=thread.resource_id)
    if thread is None:
        listed.add([_SAMPLE], "input")
    chain = chain_for(
        agent,
        provider=ref.provider,
        storage=MemoryStorage() if thread is None else _ReadOnly(),
        thread_id=listed.thread_id,
        resource_id=listed.resource_id,
        read_only=True,
    )
    settings = settings_for(ref, agent.settings if agent else None, tools=agent.tools if agent else None)
    refusing = _Refusing(connection, ref, settings)
    refusing.refuse_with(error, times)
    seen = _Seen()
    try:
        run_turn(
            chain,
            listed,
            refusing,
            wait=lambda _: False,
            recorder=seen,
            max_processor_retries=agent.max_processor_retries if agent else None,
            model_max_retries=agent.model_max_retries if agent else 0,
        )
    except ProviderError as raised:
        if raised is not error:
            raise
    if not seen.attempts:
        raise InvalidInput("a processor of this agent answers by itself, so no provider is asked", field="agent_id")
    return _explained(error, seen.attempts, times, ref=ref, protocol=connection.protocol, agent=agent)


def _explained(
    error: ProviderError,
    attempts: Sequence[AttemptRecord],
    times: int,
    *,
    ref: ModelRef,
    protocol: str,
    agent: Agent | None,
) -> Explained:
    refused = attempts[min(times, len(attempts)) - 1]
    following = attempts[times] if len(attempts) > times else None
    switches = switches_for(ref.provider, agent.id if agent else None)
    known = [rule for rule, _ in known_faults(texts_of(error), profile_for(ref, protocol))]
    return Explained(
        error=error,
        rules=[
            KnownBy(rule, RULES[rule].title, RULES[rule].family, switches.get(rule, default_state(rule)))
            for rule in known
            if rule in RULES
        ],
        is_retry=refused.decision == "retry",
        delay_ms=refused.delay_granted_ms,
        wanted_ms=refused.delay_wanted_ms,
        reason=refused.reason,
        asked_by=refused.asked_by,
        matched=refused.matched,
        changes_before=_changes(refused),
        changes=_changes(following) if following else [],
        findings=list(following.prompt.findings) if following else [],
        body_before=refused.request.body,
        body_after=following.request.body if following else b"",
    )


def _connection(provider: str) -> Connection:
    """Where the provider is reached; one that has no address yet is no reason not to explain its words."""
    try:
        return connection_for(provider, with_key=False)
    except InvalidInput:
        return Connection(provider, entry_for(provider).protocol, "https://provider.invalid", "", {})


def _changes(attempt: AttemptRecord) -> list[Placed]:
    return placed(attempt.prompt, attempt.messages, attempt.request.encoded)


class _Refusing(ProviderModel):
    """A model that answers with an error so many times, then with nothing."""

    _refusal: ProviderError
    _left = 0

    def refuse_with(self, error: ProviderError, times: int) -> None:
        self._refusal, self._left = error, times

    def for_step(self, asked: Any) -> Any:
        made = super().for_step(asked)
        made.refuse_with(self._refusal, self._left)
        return made

    def send(self, request: Outbound, **given: Any) -> Answer:
        if self._left > 0:
            self._left -= 1
            raise self._refusal
        return Answer((), "stop", Usage(), "", self.ref.model_id, Exchange(200, {}, b"", 0.0, 0.0))


class _Seen(NoRecorder):
    """The attempts, kept for looking."""

    def __init__(self) -> None:
        self.attempts: list[AttemptRecord] = []

    def attempt(self, record: AttemptRecord) -> None:
        self.attempts.append(record)


class _ReadOnly(DjangoStorage):
    """Rows to look at: whatever is saved or repaired is not."""

    def save_messages(self, *args: Any, **options: Any) -> None:
        return

    def create_thread(self, thread: dict[str, Any]) -> None:
        return

    def repair_messages(self, messages: Sequence[Any], *, rule: str, reason: str) -> int:
        return 0
