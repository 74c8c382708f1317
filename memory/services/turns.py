"""A run taken up from its row: its next call, what became of it, and how the run ends. Who makes the calls is open.

Whatever goes wrong in one of these steps closes the run, and says there why.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Event
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from memory import marks
from memory.errors import (
    CompatAdminError,
    Conflict,
    EncodingError,
    InvalidInput,
    NotFound,
    ProviderError,
    RunCancelled,
    Tripwire,
)
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.values import write_json
from memory.models import Agent, Run
from memory.processors import Chain, Switches
from memory.processors.calls import Call, Model, Pause
from memory.processors.loop import TurnLoop
from memory.providers.http import Connection
from memory.providers.wire import Settings
from memory.services.calls import ProviderModel, chain_for, settings_for
from memory.services.connections import connection_for, http_client, target_model
from memory.services.feed import Feed, open_feed
from memory.services.ledger import Ledger, RunLost
from memory.services.rules import switches_for
from memory.store import DjangoStorage

log = logging.getLogger(__name__)


class RunTurn:
    """The turn of a run, between two calls. `signal` is set when the run is to be cancelled.

    `error` is what ended the run, None while it goes on and when it was answered.
    """

    def __init__(
        self,
        run: Run,
        *,
        signal: Event | None = None,
        feed: Feed | None = None,
        target: Connection | None = None,
    ) -> None:
        self.run, self._target = run, target
        self.signal = signal or Event()
        self.feed = feed or Feed(run.id, after=last_event(run))
        self.ledger = Ledger(run, self.feed)
        self.error: Exception | None = None
        self.is_over = False

    @property
    def messages(self) -> MessageList:
        """The messages of the turn, once it was taken up."""
        return self._loop().messages

    # The steps

    def next_call(self) -> Call | None:
        """The next call, on record; None when the run is over."""
        with self._closing():
            loop = self.ledger.loop or self._take_up()
            call = loop.next_call()
            if call is not None:
                return call
            self._finish(loop)
        return None

    def reopened(self, sha256: str, started_at: datetime) -> Call | None:
        """The call that is open, as its row says; None when the run can't go on."""
        with self._closing():
            return self._take_up().reopened(sha256, started_at)
        return None

    def answered(self, call: Call, reply: Any) -> None:
        """Take a reply, which ends the run."""
        with self._closing():
            loop = self._loop()
            with transaction.atomic():
                loop.answered(call, reply)
            self._finish(loop)

    def failed(self, call: Call, error: Exception) -> Pause | None:
        """What follows a failed call: how long to wait before the next one; None when the run is over."""
        with self._closing():
            return self._loop().failed(call, error)
        return None

    def wait_until(self, pause: Pause) -> datetime:
        """Put the run's wait on its row, so that nothing else has to remember it; when it is due."""
        due_at = timezone.now() + timedelta(seconds=pause.seconds)
        Run.objects.filter(id=self.run.id).update(due_at=due_at, state=self.ledger.state())
        return due_at

    def cancel(self, why: str = "cancelled") -> None:
        """End a run that has no call in flight."""
        with self._closing():
            raise RunCancelled(why, run_id=self.run.id)

    # Inside

    def _loop(self) -> TurnLoop:
        if self.ledger.loop is None:
            raise RuntimeError("this run has not been taken up")
        return self.ledger.loop

    def _take_up(self) -> TurnLoop:
        run = self.run
        agent = run.agent
        if agent is None:
            raise Conflict("the agent of this run is gone", code="agent_gone")
        state, self.ledger.answers_run = _state_of(run)
        kept_loop = state.get("loop")
        chain, listed = chain_and_list(run, agent, state)
        kept = _add_system(run, agent, listed)
        self.ledger.rules_hash = _rules_hash(chain)
        loop = TurnLoop(
            chain,
            listed,
            model_of(run, agent, kept, ModelRef(run.provider, run.model_id), self._target),
            recorder=self.ledger,
            abort_signal=self.signal,
            max_processor_retries=agent.max_processor_retries,
            model_max_retries=agent.model_max_retries,
            first_step=state.get("steps", 0),
            fallbacks=[_fallback(run, agent, kept, chain, text) for text in agent.fallback_models],
        )
        self.ledger.loop = loop
        loop.begin(kept_loop)
        if loop.step:
            marks.passed("next step")
        return loop

    def _finish(self, loop: TurnLoop) -> None:
        turn = loop.finish()
        marks.passed("persisted")
        self.ledger.close("waiting" if turn.tool_calls else "succeeded", turn=turn)
        self.is_over = True

    @contextmanager
    def _closing(self) -> Iterator[None]:
        try:
            yield
        except RunLost as lost:
            self.error, self.is_over = lost, True
            log.warning("run %s was closed by another process while this one was at it", self.run.id)
        except Tripwire as tripwire:
            said = f"{tripwire.processor_id}: {tripwire.reason}"
            self._close("stopped", tripwire, error_class="stopped-by-processor", error=said)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has to be closed; it is logged there
            self._break_off(error)

    def _break_off(self, error: Exception) -> None:
        """End the run after an error; what had come of an answer is saved."""
        loop = self.ledger.loop
        if loop is not None and not loop.steps:  # After an answer it was an output hook that failed, and had its turn.
            try:
                loop.break_off(error)
            except Tripwire as tripwire:
                said = f"{tripwire.processor_id}: {tripwire.reason}"
                return self._close("stopped", tripwire, error_class="stopped-by-processor", error=said)
            except Exception as failure:  # noqa: BLE001 - logged below
                error = failure
            self.ledger.message_ids = [m["id"] for m in loop.messages.unsaved()] if loop.messages.has_output else []
        if isinstance(error, RunCancelled):
            return self._close("cancelled", error, error_class="cancelled", error=str(error))
        is_known = isinstance(error, ProviderError | EncodingError | InvalidInput | NotFound | Conflict)
        if not is_known:
            log.error("run %s failed", self.run.id, exc_info=error)
        kind = error.error_class if isinstance(error, ProviderError) else getattr(error, "code", "internal")
        said = str(error) if is_known else "something failed here; the log has the details"
        return self._close("failed", error, error_class=kind, error=said)

    def _close(self, status: str, cause: Exception, *, error_class: str, error: str) -> None:
        self.error, self.is_over = cause, True
        try:
            self.ledger.close(status, error_class=error_class, error=error)
        except RunLost:
            log.warning("run %s was closed by another process while this one was at it", self.run.id)


def send(call: Call, turn: RunTurn, on_open: Callable[[Any], None] | None = None) -> Any:
    """Make a call here: the reply, or the exception that came instead of one. Touches no row."""
    model = call.model
    assert isinstance(model, ProviderModel)
    try:
        return model.send(call.request, on_chunk=turn.feed.chunk, on_open=on_open)
    except Exception as error:  # noqa: BLE001 - the loop decides what it means
        return error


# What a run is made of


def chain_and_list(run: Run, agent: Agent, state: Mapping[str, Any]) -> tuple[Chain, MessageList]:
    """The run's processors, with the states and counts of what it goes on with, and the list of its input."""
    storage = DjangoStorage(written_by=f"agent:{agent.id}", run_id=run.id)
    chain = chain_for(
        agent,
        provider=run.provider,
        storage=storage,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        state=state.get("processors"),
        counts=state.get("counts"),
    )
    listed = MessageList(thread_id=run.thread_id, resource_id=run.resource_id)
    listed.add(msgspec.json.decode(run.input), "input")
    return chain, listed


def model_of(
    run: Run, agent: Agent, kept: Mapping[str, Any], ref: ModelRef, target: Connection | None = None
) -> ProviderModel:
    """The model of a run's call; one that its caller calls needs no key."""
    connection = target or connection_for(ref.provider, with_key=not run.is_own_call, model_id=ref.model_id)
    client = None if run.is_own_call else http_client()
    return ProviderModel(connection, ref, _settings(ref, agent, kept), client, is_streamed=bool(kept.get("stream")))


def _fallback(run: Run, agent: Agent, kept: Mapping[str, Any], chain: Chain, text: str) -> Callable[[], Model | None]:
    def next_model() -> Model | None:
        try:
            ref = target_model(text)
            model = model_of(run, agent, kept, ref)
        except CompatAdminError as error:
            log.warning("run %s can't fall back to %s: %s", run.id, text, error)
            return None
        chain.switches = Switches(dict(switches_for(ref.provider, agent.id)))
        return model

    return next_model


def _add_system(run: Run, agent: Agent, listed: MessageList) -> dict[str, Any]:
    """Put the agent's instructions and the caller's system texts first; what the run keeps of its settings."""
    kept: dict[str, Any] = msgspec.json.decode(run.settings)
    for text in [agent.instructions, *kept.get("system", ())]:
        if text:
            listed.add_system(text)
    return kept


def _settings(ref: ModelRef, agent: Agent, kept: Mapping[str, Any]) -> Settings:
    tools = agent.tools if kept.get("tools") is None else kept["tools"]
    return settings_for(ref, agent.settings, kept.get("settings"), tools=tools, tool_choice=kept.get("tool_choice"))


def _state_of(run: Run) -> tuple[dict[str, Any], str]:
    """The run's own state, else that of the run whose tool calls it brings the results of, with that run's id; empty
    for a fresh turn."""
    if run.state != "{}":
        own: dict[str, Any] = msgspec.json.decode(run.state)
        return own, ""
    if '"orphanResult":true' not in run.input and '"state":"result"' not in run.input:
        return {}, ""
    waiting = Run.objects.filter(thread_id=run.thread_id, status="waiting").order_by("-created_at", "-id").first()
    if waiting is None:
        return {}, ""
    found = msgspec.json.decode(waiting.state)
    if not isinstance(found, dict):
        return {}, waiting.id
    found.pop("loop", None)
    return found, waiting.id


def _rules_hash(chain: Chain) -> str:
    processors = [f"{processor.id} {getattr(processor, 'rules', '')}" for processor in chain.input]
    text = write_json([processors, sorted(chain.switches.as_dict().items())])
    return hashlib.sha256(text.encode()).hexdigest()


def last_event(run: Run) -> int:
    """The number of the run's last event that is written."""
    return run.events.order_by("-seq").values_list("seq", flat=True).first() or 0


def feed_for(run: Run) -> Feed:
    """The feed that this process has, or now opens, for a run."""
    return open_feed(run.id, after=last_event(run))
