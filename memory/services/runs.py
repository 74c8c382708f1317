"""Turns: started, recorded attempt by attempt, closed. A run belongs to a process under a lease.

The input is on the run before the first call, each answer is in its events before any output processor runs, and a
run whose lease ran out is closed through the same output processors.
"""

from __future__ import annotations

import hashlib
import logging
import os
import socket
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import msgspec
from django.conf import settings as django_settings
from django.db import DatabaseError, connection, transaction
from django.db.models import Q
from django.utils import timezone
from msgspec import Struct

from memory import queue
from memory.access import Principal, agent_for, run_for, thread_for
from memory.errors import (
    Busy,
    CompatAdminError,
    Conflict,
    EncodingError,
    InvalidInput,
    NotFound,
    ProviderError,
    RunCancelled,
    RunFailed,
    RunStopped,
    Tripwire,
)
from memory.messages.halves import mended
from memory.messages.lists import MessageList
from memory.messages.names import ModelRef
from memory.messages.stored import StoredMessage, check_content, write_json
from memory.models import Agent, Attempt, Job, Run, RunEvent, Thread
from memory.processors import Chain, Turn, TurnEnd, run_turn
from memory.processors.loop import AttemptRecord
from memory.providers.http import headers_for, url_for
from memory.providers.wire import Chunk, Settings
from memory.services import signals
from memory.services.calls import ProviderModel, chain_for, settings_for
from memory.services.connections import connection_for, http_client, target_model
from memory.services.preview import Preview, placed, show
from memory.store import DjangoStorage, id_problem, insert_thread, thread_id_problem

log = logging.getLogger(__name__)

RUN_TASK = "memory.run_in_background"
ACTIVE = ("queued", "running")
_MAX_STATE_BYTES = 256 * 1024
_SHOWN_ERROR = 2000
_FLUSH_EVERY_S = 0.1
MAX_STREAMS = 64

Wait = Callable[[float], bool]


class GenerateRequest(Struct, frozen=True, kw_only=True):
    """What a caller asks an agent: a text, or messages in prompt or stored form."""

    messages: Any
    thread_id: str | None = None
    resource_id: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] | None = None
    tools: Any = None
    tool_choice: Any = None


class RunResult(Struct, frozen=True, kw_only=True):
    """How a turn ended. `status` is succeeded, or waiting when client tools have to be executed."""

    run_id: str
    thread_id: str
    status: str
    text: str
    finish_reason: str
    tool_calls: Sequence[Mapping[str, Any]]
    usage: Mapping[str, int]
    attempt_count: int
    message_ids: Sequence[str]


# Starting


def generate(caller: Principal, agent_id: str, request: GenerateRequest, *, wait: Wait | None = None) -> RunResult:
    """Answer one turn. Raises RunFailed with the run's id when no retry is granted, RunStopped, InvalidInput."""
    agent = agent_for(caller, agent_id)
    run = _open_run(caller, agent, request, status="running")
    return _execute(run, agent, wait=_sleep if wait is None else wait)


class Prepared(Struct, frozen=True, kw_only=True):
    """A run whose calls its caller makes itself, and the request to send."""

    run_id: str
    thread_id: str
    shown: Preview


def prepare(caller: Principal, agent_id: str, request: GenerateRequest) -> Prepared:
    """The pipeline without the call: the run with its input, and the exact request. Raises InvalidInput."""
    agent = agent_for(caller, agent_id)
    run = _open_run(caller, agent, request, status="prepared")
    ref = ModelRef(run.provider, run.model_id)
    before = _continued(run)
    chain, listed = _chain_and_list(run, agent, before)
    kept = _add_system(run, agent, listed)
    reached = connection_for(ref.provider, with_key=False, model_id=ref.model_id)
    target = ProviderModel(reached, ref, _settings(ref, agent, kept))
    try:
        shown = show(chain, listed, target, step_number=before.get("steps", 0))
    except CompatAdminError as error:
        Ledger(run).close("failed", error_class=error.code, error=str(error))
        raise
    state = {"processors": chain.state, "counts": chain.counts, "steps": before.get("steps", 0)}
    Run.objects.filter(id=run.id).update(rules_hash=_rules_hash(chain), state=write_json(state))
    changes = {"changes": shown.changes, "size_bytes": shown.request.size_bytes}
    Ledger(run).event("prepared", {**changes, "sha256": hashlib.sha256(shown.request.body).hexdigest()})
    return Prepared(run_id=run.id, thread_id=run.thread_id or "", shown=shown)


def start_background(caller: Principal, agent_id: str, request: GenerateRequest) -> Run:
    """A queued run that a worker answers; poll it by its id."""
    agent = agent_for(caller, agent_id)
    with transaction.atomic():
        run = _open_run(caller, agent, request, status="queued")
        job = Job.objects.create(id=f"job_{uuid.uuid4().hex}", kind="run", arguments={"run_id": run.id})
        queue.send(RUN_TASK, job.id)
    return run


def start_stream(caller: Principal, agent_id: str, request: GenerateRequest) -> Run:
    """A run that goes on in a thread of this process, whoever reads its events (`streams.read_events`).

    Raises InvalidInput, NotFound; Busy when this process has as many streams as it may.
    """
    agent = agent_for(caller, agent_id)
    slot = _Slot()
    try:
        run = _open_run(caller, agent, request, status="running")
        Ledger(run).event("started", {"run_id": run.id, "thread_id": run.thread_id})
        _pool().submit(_run_apart, run.id, slot)
    except BaseException:
        slot.give_back()
        raise
    return run


class _Slot:
    """One of the places for streamed runs in this process. Raises Busy when none is free."""

    def __init__(self) -> None:
        if not _slots.acquire(blocking=False):
            raise Busy("this process runs as many streams as it may; try again in a moment")

    def give_back(self) -> None:
        _slots.release()


_slots = threading.BoundedSemaphore(MAX_STREAMS)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MAX_STREAMS, thread_name_prefix="run")


def _run_apart(run_id: str, slot: _Slot) -> None:
    try:
        run = Run.objects.select_related("agent").get(id=run_id)
        if run.agent is not None:
            _execute(run, run.agent, wait=_sleep, is_streamed=True)
    except RunFailed:
        return  # the run says why
    except Exception:
        log.exception("run %s could not be executed", run_id)
    finally:
        slot.give_back()
        connection.close()


def run_job(job_id: str, *, wait: Wait | None = None) -> None:
    """Execute a queued run. Claimed by a conditional update, so a second delivery does nothing."""
    now = timezone.now()
    if not Job.objects.filter(id=job_id, status="queued").update(status="running", started_at=now):
        return
    job = Job.objects.get(id=job_id)
    run_id = job.arguments["run_id"]
    claimed = Run.objects.filter(id=run_id, status="queued").update(
        status="running", owner=OWNER, lease_until=_lease(now)
    )
    error = ""
    if claimed:
        run = Run.objects.get(id=run_id)
        try:
            if run.agent is None:
                raise RunFailed("the agent of this run is gone", run_id=run.id)
            _execute(run, run.agent, wait=_sleep if wait is None else wait)
        except RunFailed as failure:
            error = str(failure)
    status = "failed" if error else "done"
    Job.objects.filter(id=job_id).update(status=status, error=error, finished_at=timezone.now())


def rerun(caller: Principal, run_id: str) -> RunResult:
    """The input of a run once more, as a new run."""
    run = run_for(caller, run_id)
    if run.agent_id is None or run.thread_id is None:
        raise Conflict("the agent or thread of this run is gone", code="cannot_rerun")
    if run.status in ACTIVE:
        raise Conflict("this run is still going on", code="run_active")
    kept = msgspec.json.decode(run.settings)
    request = GenerateRequest(
        messages=msgspec.json.decode(run.input),
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        model=f"{run.provider}/{run.model_id}",
        settings=kept.get("settings"),
        tools=kept.get("tools"),
        tool_choice=kept.get("tool_choice"),
    )
    return generate(caller, run.agent_id, request)


def _open_run(caller: Principal, agent: Agent, request: GenerateRequest, *, status: str) -> Run:
    """The run's row, with its input; nothing is called yet. Raises InvalidInput, NotFound, Conflict."""
    ref = target_model(request.model or agent.model)
    connection_for(ref.provider, with_key=status != "prepared")
    settings_for(ref, agent.settings, request.settings, tools=_tools(agent, request), tool_choice=request.tool_choice)
    given = _given_messages(request.messages)
    thread_id, resource_id, thread = _place(caller, request)
    listed = MessageList(thread_id=thread_id, resource_id=resource_id)
    listed.add(given, "input")
    if not listed.messages:
        raise InvalidInput("a turn needs at least one message", field="messages")
    if thread is None:
        thread = Thread(id=thread_id, resource_id=resource_id, agent=agent)
        if not insert_thread(thread):
            raise Conflict("this thread id is taken", code="id_taken")
    kept = {"settings": request.settings, "tools": request.tools, "tool_choice": request.tool_choice}
    now = timezone.now()
    is_running = status == "running"
    run = Run.objects.create(
        id=f"run_{uuid.uuid4().hex}",
        thread=thread,
        agent=agent,
        agent_name=agent.name,
        resource_id=resource_id,
        started_by=caller.name[:200],
        provider=ref.provider,
        model_id=ref.model_id[:200],
        status=status,
        input=write_json(listed.messages),
        settings=write_json({**kept, "system": listed.system_texts}),
        owner=OWNER if is_running else "",
        lease_until=_lease(now) if is_running else None,
        created_at=now,
    )
    return run


def _tools(agent: Agent, request: GenerateRequest) -> Any:
    return agent.tools if request.tools is None else request.tools


def _given_messages(value: Any) -> Any:
    if isinstance(value, str):
        if not value.strip():
            raise InvalidInput("the text is empty", field="messages")
        return value
    if not isinstance(value, list):
        raise InvalidInput("expected a text or a list of messages", field="messages")
    errors = []
    for i, message in enumerate(value):
        if isinstance(message, Mapping) and isinstance(message.get("content"), Mapping):
            place = f"messages[{i}]"
            errors += check_content(message["content"], f"{place}.content")
            if message.get("id") is not None and (problem := id_problem(message["id"])):
                raise InvalidInput(problem, field=f"{place}.id")
    if errors:
        raise InvalidInput("some messages can't be stored", errors=tuple(errors))
    return value


def _place(caller: Principal, request: GenerateRequest) -> tuple[str, str, Thread | None]:
    """Thread id, resource and, if it is there, the thread. The credential's resource beats what the caller says."""
    resource_id = caller.resource_id or request.resource_id
    if caller.resource_id and request.resource_id not in (None, caller.resource_id):
        raise NotFound("no such resource for this key")
    if resource_id is not None and (problem := id_problem(resource_id)):
        raise InvalidInput(problem, field="resource_id")
    thread_id = request.thread_id or f"thr_{uuid.uuid4().hex}"
    if problem := thread_id_problem(thread_id):
        raise InvalidInput(problem, field="thread_id")
    if request.thread_id is None or not Thread.objects.filter(id=thread_id).exists():
        return thread_id, resource_id or thread_id, None
    thread = thread_for(caller, thread_id)
    if resource_id is not None and thread.resource_id != resource_id:
        raise NotFound("no such thread")
    return thread.id, thread.resource_id, thread


# Executing


def _execute(run: Run, agent: Agent, *, wait: Wait, is_streamed: bool = False) -> RunResult:
    """Run the turn of an open run and close it, whatever happens."""
    ledger = Ledger(run, is_streamed=is_streamed)
    try:
        with _beats:
            turn = _turn(run, agent, ledger, wait)
    except Tripwire as tripwire:
        ledger.close("stopped", error_class="stopped-by-processor", error=f"{tripwire.processor_id}: {tripwire.reason}")
        raise RunStopped(str(tripwire), run_id=run.id, attempt_count=ledger.attempt_count) from tripwire
    except RunCancelled as cancelled:
        ledger.close("cancelled", error_class="cancelled", error=str(cancelled))
        raise RunCancelled(str(cancelled), run_id=run.id, attempt_count=ledger.attempt_count) from cancelled
    except Exception as error:
        is_known = isinstance(error, ProviderError | EncodingError | InvalidInput | NotFound | Conflict)
        if not is_known:
            log.exception("run %s failed", run.id)
        kind = error.error_class if isinstance(error, ProviderError) else getattr(error, "code", "internal")
        said = str(error) if is_known else "something failed here; the log has the details"
        ledger.close("failed", error_class=kind, error=said)
        raise RunFailed(said, run_id=run.id, attempt_count=ledger.attempt_count) from error
    status = "waiting" if turn.tool_calls else "succeeded"
    ledger.close(status, turn=turn)
    return RunResult(
        run_id=run.id,
        thread_id=run.thread_id or "",
        status=status,
        text=turn.text,
        finish_reason=turn.finish_reason,
        tool_calls=[{"id": call.id, "name": call.name, "arguments": call.input} for call in turn.tool_calls],
        usage=turn.usage,
        attempt_count=turn.attempt_count,
        message_ids=ledger.message_ids,
    )


def _turn(run: Run, agent: Agent, ledger: Ledger, wait: Wait) -> Turn:
    ref = ModelRef(run.provider, run.model_id)
    target = connection_for(ref.provider, with_key=True, model_id=ref.model_id)
    before = _continued(run)
    chain, listed = _chain_and_list(run, agent, before)
    kept = _add_system(run, agent, listed)
    Run.objects.filter(id=run.id).update(rules_hash=_rules_hash(chain))
    ledger.begin(chain, listed, target)
    on_chunk = ledger.chunk if ledger.is_streamed else None
    model = _OffDatabase(target, ref, _settings(ref, agent, kept), http_client(), on_chunk=on_chunk)
    turn = run_turn(
        chain,
        listed,
        model,
        wait=_off_database(wait),
        recorder=ledger,
        max_processor_retries=agent.max_processor_retries,
        model_max_retries=agent.model_max_retries,
        max_steps=agent.max_steps,
        first_step=before.get("steps", 0),
    )
    return turn


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


def _chain_and_list(run: Run, agent: Agent, before: Mapping[str, Any]) -> tuple[Chain, MessageList]:
    """The run's processors, with the states and counts of the run it goes on with, and the list of its input."""
    storage = DjangoStorage(written_by=f"agent:{agent.id}", run_id=run.id)
    chain = chain_for(
        agent,
        provider=run.provider,
        storage=storage,
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        state=before.get("processors"),
        counts=before.get("counts"),
    )
    listed = MessageList(thread_id=run.thread_id, resource_id=run.resource_id)
    listed.add(msgspec.json.decode(run.input), "input")
    return chain, listed


def _continued(run: Run) -> dict[str, Any]:
    """The state of the run whose tool calls this one brings the results of; empty for a fresh turn."""
    if '"orphanResult":true' not in run.input and '"state":"result"' not in run.input:
        return {}
    waiting = Run.objects.filter(thread_id=run.thread_id, status="waiting").order_by("-created_at", "-id").first()
    if waiting is None:
        return {}
    Run.objects.filter(id=waiting.id, status="waiting").update(status="succeeded")
    found = msgspec.json.decode(waiting.state)
    return found if isinstance(found, dict) else {}


def _rules_hash(chain: Chain) -> str:
    processors = [f"{processor.id} {getattr(processor, 'rules', '')}" for processor in chain.input]
    text = write_json([processors, sorted(chain.switches.as_dict().items())])
    return hashlib.sha256(text.encode()).hexdigest()


def _release_connection() -> None:
    """Give the database connection back: no call and no wait may hold one."""
    if not connection.in_atomic_block:
        connection.close()


class _OffDatabase(ProviderModel):
    """A model whose calls hold no database connection."""

    def send(self, request: Any) -> Any:
        _release_connection()
        return super().send(request)


def _off_database(wait: Wait) -> Wait:
    def waiting(seconds: float) -> bool:
        _release_connection()
        return wait(seconds)

    return waiting


def _sleep(seconds: float) -> bool:
    return threading.Event().wait(seconds)


# The ledger


class Ledger:
    """Writes what happens in a run as it happens."""

    def __init__(self, run: Run, *, is_streamed: bool = False) -> None:
        self.run, self.is_streamed = run, is_streamed
        self._pieces: list[Any] = []
        self._flushed_at = 0.0
        self.attempt_count = 0
        self.message_ids: list[str] = []
        self._chain: Chain | None = None
        self._list: MessageList | None = None
        self._target: Any = None
        self._seq = RunEvent.objects.filter(run=run).count()

    def begin(self, chain: Chain, listed: MessageList, target: Any) -> None:
        self._chain, self._list, self._target = chain, listed, target

    def chunk(self, chunk: Chunk) -> None:
        """A piece of a streamed answer: the first one at once, further ones about ten times a second."""
        self._pieces.append(chunk)
        if time.monotonic() - self._flushed_at >= _FLUSH_EVERY_S:
            self._flush()
            _release_connection()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        for type, data in _joined_pieces(pieces):
            self._seq += 1
            RunEvent.objects.create(run=self.run, seq=self._seq, type=type, data=write_json(data))
        self._flushed_at = time.monotonic()
        signals.notify(self.run.id)

    def event(self, type: str, data: Mapping[str, Any]) -> None:
        self._flush()
        self._seq += 1
        RunEvent.objects.create(run=self.run, seq=self._seq, type=type, data=write_json(data))
        signals.notify(self.run.id)

    def attempt(self, record: AttemptRecord) -> None:
        """One attempt with everything that was decided about it, before any wait."""
        self.attempt_count = record.number
        error, exchange = record.error, getattr(record.reply, "exchange", None)
        status, headers, came = None, {}, b""
        if exchange is not None:
            status, headers, came = exchange.status, exchange.headers, exchange.body
        elif isinstance(error, ProviderError):
            status, headers = error.status_code, error.response_headers
            came = (error.response_body or "").encode("utf-8", "replace")
        encoded = record.request.encoded
        changes = placed(record.prompt, record.messages, encoded)
        with transaction.atomic():
            Attempt.objects.create(
                run=self.run,
                number=record.number,
                provider=self.run.provider,
                protocol=self._target.protocol,
                model_id=self.run.model_id,
                url=url_for(self._target, encoded)[:600],
                request_headers=headers_for(self._target, with_key=False),
                request_body=zlib.compress(encoded.body),
                request_size=len(encoded.body),
                request_sha256=hashlib.sha256(encoded.body).hexdigest(),
                changes=write_json(changes),
                findings=write_json(list(record.prompt.findings)),
                status=status,
                response_headers=_shown_headers(headers),
                response_body=zlib.compress(came),
                response_size=len(came),
                provider_request_id=_for_row(getattr(error, "request_id", "") or _request_id(headers))[:200],
                error_class=getattr(error, "error_class", "internal")[:64] if error else "",
                error_message=_for_row(str(error))[:_SHOWN_ERROR] if error else "",
                decision=record.decision,
                reason=record.reason,
                asked_by=record.asked_by,
                matched=record.matched[:200],
                delay_wanted_ms=record.delay_wanted_ms,
                delay_granted_ms=record.delay_granted_ms,
                usage=_plain(getattr(record.reply, "usage", None)),
                started_at=record.started_at,
                finished_at=record.finished_at,
            )
            Run.objects.filter(id=self.run.id).update(attempt_count=record.number)
            self.event("attempt", {"number": record.number, "decision": record.decision, "status": status})

    def waited(self, number: int, slept_ms: float) -> None:
        Attempt.objects.filter(run=self.run, number=number).update(slept_ms=slept_ms)

    def replied(self, message: StoredMessage, reply: Any) -> None:
        """The answer, safe before any output processor runs. It gets its id here, so that it is written once."""
        message.setdefault("id", f"msg_{uuid.uuid4().hex}")
        self.event("message", {"message": message, "finish_reason": reply.finish_reason})

    def close(self, status: str, *, turn: Turn | None = None, error_class: str = "", error: str = "") -> None:
        """End the run, and say on its thread how the last one went."""
        state = self._state(turn)
        if self._list is not None and turn is not None:
            self.message_ids = [message["id"] for message in self._list.unsaved()]
        for failure in self._chain.failures if self._chain else ():
            self.event("processor-failed", msgspec.structs.asdict(failure))
        now, error = timezone.now(), _for_row(error)
        with transaction.atomic():
            Run.objects.filter(id=self.run.id).update(
                status=status,
                state=state,
                finish_reason=(turn.finish_reason if turn else "error")[:32],
                usage=turn.usage if turn else {},
                message_ids=self.message_ids,
                error_class=error_class[:64],
                error_message=error[:_SHOWN_ERROR],
                finished_at=now,
                lease_until=None,
            )
            shown = f"{error_class}: {error}"[:500] if error else ""
            Thread.objects.filter(~Q(last_error=shown), id=self.run.thread_id).update(last_error=shown)
            self.event("finished", {"status": status})

    def _state(self, turn: Turn | None) -> str:
        if self._chain is None:
            return "{}"
        kept = {"processors": self._chain.state, "counts": self._chain.counts, "steps": turn.step_count if turn else 0}
        text = write_json(kept)
        if len(text) > _MAX_STATE_BYTES:
            log.warning("the processors' state of run %s is too large and is not kept", self.run.id)
            return "{}"
        return text


def _joined_pieces(pieces: Sequence[Any]) -> list[tuple[str, dict[str, str]]]:
    """Events for the pieces of an answer; neighbouring ones of a kind are one."""
    out: list[tuple[str, dict[str, str]]] = []
    for piece in pieces:
        fields: dict[str, str] = msgspec.structs.asdict(piece)
        type = str(piece.__struct_config__.tag)
        last = out[-1] if out else None
        if last is not None and last[0] == type and last[1].get("call_id") == fields.get("call_id"):
            last[1]["text"] += fields["text"]
        else:
            out.append((type, fields))
    return out


def _for_row(text: str) -> str:
    """The text as a row can hold it; it may quote what a provider sent."""
    whole: str = mended(text)
    return whole.replace("\x00", "\ufffd")


_SECRET = ("set-cookie", "authorization", "x-api-key", "api-key")


def _shown_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _SECRET}


def _request_id(headers: Mapping[str, str]) -> str:
    return next((headers[name] for name in ("request-id", "x-request-id", "x-amzn-requestid") if name in headers), "")


def _plain(usage: Any) -> dict[str, int]:
    return msgspec.to_builtins(usage) if isinstance(usage, Struct) else {}


# Leases

OWNER = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


def _lease(now: datetime) -> datetime:
    return now + timedelta(seconds=django_settings.COMPAT_ADMIN_RUN_LEASE_S)


class _Heartbeat:
    """Renews the leases of this process' runs, in a thread that lives while there are any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._run_count = 0
        self._is_beating = False

    def __enter__(self) -> None:
        with self._changed:
            self._run_count += 1
            if not self._is_beating:
                self._is_beating = True
                threading.Thread(target=self._beat, name="run leases", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._run_count -= 1
            self._changed.notify_all()

    def _beat(self) -> None:
        while True:
            with self._changed:
                pause = django_settings.COMPAT_ADMIN_RUN_LEASE_S / 3
                if self._changed.wait_for(lambda: not self._run_count, pause):
                    self._is_beating = False
                    return
            try:
                renew_leases()
            except DatabaseError:
                log.exception("the leases of this process' runs could not be renewed")
            finally:
                connection.close()


_beats = _Heartbeat()


def renew_leases() -> int:
    """Move the leases of this process' runs forward; how many there are."""
    return Run.objects.filter(owner=OWNER, finished_at=None).update(lease_until=_lease(timezone.now()))


def close_expired_runs(*, now: datetime | None = None) -> int:
    """Close runs whose process is gone: what came is saved, and they are shown as interrupted. How many."""
    at = now or timezone.now()
    count = 0
    for run_id in list(Run.objects.filter(finished_at=None, lease_until__lt=at).values_list("id", flat=True)):
        claimed = Run.objects.filter(id=run_id, finished_at=None, lease_until__lt=at).update(
            owner=OWNER, lease_until=_lease(at)
        )
        if claimed:
            _close_interrupted(Run.objects.select_related("agent").get(id=run_id))
            count += 1
    return count


def _close_interrupted(run: Run) -> None:
    """Write what the run's events hold through the output processors, as the run itself would have done."""
    ledger = Ledger(run)
    ledger.attempt_count = run.attempt_count
    came = [
        msgspec.json.decode(data)["message"]
        for data in RunEvent.objects.filter(run=run, type="message").order_by("seq").values_list("data", flat=True)
    ]
    error = "The process that ran this turn ended before the turn did."
    if run.agent is not None and came:
        try:
            chain, listed = _chain_and_list(run, run.agent, {})
            chain.process_input(listed)
            known = {entry.message["id"] for entry in listed.entries if entry.was_loaded}
            for message in came:
                if message["id"] not in known:
                    listed.add([_incomplete(message)], "response")
            chain.process_output_result(listed, TurnEnd(finish_reason="error"))
            ledger.message_ids = [message["id"] for message in listed.unsaved()]
        except Exception:  # the sweep goes on with the other runs; this one keeps its events
            log.exception("what run %s had written could not be saved", run.id)
    ledger.close("interrupted", error_class="interrupted", error=error)


def _incomplete(message: StoredMessage) -> StoredMessage:
    content = message["content"]
    return {**message, "content": {**content, "metadata": {**content.get("metadata", {}), "incomplete": True}}}


def requeue_jobs(*, now: datetime | None = None, older_than_s: float = 30) -> int:
    """Wake somebody up for jobs that nobody took: the row is the truth, the queue may have lost them."""
    at = now or timezone.now()
    waiting = Job.objects.filter(status="queued", created_at__lt=at - timedelta(seconds=older_than_s))
    ids = list(waiting.values_list("id", flat=True)[:1000])
    for job_id in ids:
        queue.send(RUN_TASK, job_id)
    return len(ids)
