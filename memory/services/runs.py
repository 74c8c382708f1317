"""Turns: started here, prepared for callers who call the provider themselves, cancelled, run again.

The input is on the run before the first call. A thread has one run at a time; others are refused or wait their turn.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal

import msgspec
from django.conf import settings as django_settings
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from memory import marks
from memory.access import Principal, agent_for, run_for
from memory.errors import Busy, Conflict, InvalidInput, NotFound, RunCancelled, RunFailed, RunStopped, Tripwire
from memory.messages.lists import MessageList
from memory.messages.stored import check_content, parts_of
from memory.messages.values import write_json
from memory.models import Agent, Job, Run, RunEvent, Thread
from memory.providers.http import Connection
from memory.services.calls import settings_for
from memory.services.connections import connection_for, target_model
from memory.services.feed import Told, write_events
from memory.services.leases import close_expired_runs as close_expired_runs
from memory.services.preview import Preview, shown_call
from memory.services.runner import (
    OWNER,
    Wait,
    claim_queued,
    dispatch,
    execute,
    job_id_of,
    lease,
    may_run_here,
    runner,
    wake_next,
)
from memory.services.runner import (
    RUN_TASK as RUN_TASK,
)
from memory.services.streams import Reading, give_place, take_place, wait_until_over
from memory.services.turns import RunTurn
from memory.statements import insert_row, load_row
from memory.store import claim_thread, id_problem, insert_thread, thread_id_problem

ACTIVE = ("queued", "running")


class GenerateRequest(Struct, frozen=True, kw_only=True):
    """What a caller asks an agent: a text, or messages in prompt or stored form.

    `when_busy`: what becomes of it while its thread has an active run. `stream` is for prepared requests.
    """

    messages: Any
    thread_id: str | None = None
    resource_id: str | None = None
    model: str | None = None
    settings: Mapping[str, Any] | None = None
    tools: Any = None
    tool_choice: Any = None
    when_busy: Literal["refuse", "queue"] = "refuse"
    stream: bool = False


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
    """Answer one turn. Raises RunFailed with the run's id when no retry is granted, RunStopped, RunCancelled; Conflict
    (run_active) when the thread has a run already, Busy when this process has as many as it may, InvalidInput.

    With `wait` everything is done in this thread.
    """
    agent = agent_for(caller, agent_id)
    if wait is not None or (not may_run_here() and django_settings.COMPAT_ADMIN_ROLE != "web"):
        run = open_run(caller, agent, request)
        if run.status == "running":
            execute(run, wait=_sleep if wait is None else wait)
    else:
        take_place()
        try:
            run = _start(caller, agent, request, run_id=new_run_id(), is_streamed=False)
            wait_until_over(run.id)
        finally:
            give_place()
    return result_of(run.id)


def start_stream(caller: Principal, agent_id: str, request: GenerateRequest) -> Reading:
    """The events of a run that goes on by itself, whoever reads them. Raises as `generate` does."""
    agent = agent_for(caller, agent_id)
    reading = Reading(new_run_id())
    try:
        _start(caller, agent, request, run_id=reading.run_id, is_streamed=True)
    except BaseException:
        reading.close()
        raise
    return reading


def start_background(caller: Principal, agent_id: str, request: GenerateRequest) -> Run:
    """A queued run; poll it by its id, or read its events. Raises as `generate` does."""
    agent = agent_for(caller, agent_id)
    with transaction.atomic():
        run = open_run(caller, agent, request, is_queued=True)
        transaction.on_commit(lambda: dispatch(run.id))
    marks.passed("input stored")
    return run


def _start(caller: Principal, agent: Agent, request: GenerateRequest, *, run_id: str, is_streamed: bool) -> Run:
    """A run that is executed by this process, or by another one where this is only for the dashboard."""
    if not may_run_here():
        with transaction.atomic():
            run = open_run(caller, agent, request, run_id=run_id, is_queued=True, is_streamed=is_streamed)
            transaction.on_commit(lambda: dispatch(run.id))
        return run
    runner().enter(run_id)
    try:
        ref = target_model(request.model or agent.model)
        target = connection_for(ref.provider, with_key=True, model_id=ref.model_id)
        run = open_run(caller, agent, request, run_id=run_id, is_streamed=is_streamed, target=target)
        marks.passed("input stored")
    except BaseException:
        runner().leave(run_id)
        raise
    if run.status == "running":
        runner().start(run, told=_first_event(run), target=target)
    else:
        runner().leave(run_id)
        # The run before it may have ended, and woken whom it saw, before this one was there to be seen.
        wake_next(run.thread_id or "")
    return run


def run_job(job_id: str, *, wait: Wait | None = None) -> None:
    """Execute a queued run and return when it is over.

    One that somebody has, whose thread is busy, or for which there is no place is left: a sweep calls again.
    """
    job = Job.objects.filter(id=job_id, status="queued").first()
    if job is None:
        return
    run_id, is_here = job.arguments["run_id"], wait is None and may_run_here()
    if is_here:
        try:
            runner().enter(run_id)
        except Busy:
            return
    run = claim_queued(run_id)
    if not is_here:
        if run is not None:
            execute(run, wait=_sleep if wait is None else wait)
    elif run is None:
        runner().leave(run_id)
    else:
        runner().start(run)
        wait_until_over(run.id)


def _sleep(seconds: float) -> bool:
    return threading.Event().wait(seconds)


def rerun(caller: Principal, run_id: str) -> RunResult:
    """The input of a run once more, as a new run. Raises as `generate` does."""
    return generate(caller, *_again(caller, run_id))


def rerun_in_background(caller: Principal, run_id: str) -> Run:
    """The input of a run once more, as a new run that goes on by itself. Raises as `generate` does."""
    return start_background(caller, *_again(caller, run_id))


def _again(caller: Principal, run_id: str) -> tuple[str, GenerateRequest]:
    """The agent and the request of a run that is over. Raises Conflict."""
    run = run_for(caller, run_id)
    if run.agent_id is None or run.thread_id is None:
        raise Conflict("the agent or thread of this run is gone", code="cannot_rerun")
    if run.status in ACTIVE:
        raise Conflict("this run is still going on", code="run_active", run_id=run.id)
    if run.removed_at is not None:
        raise Conflict(f"the input of this run was removed on {run.removed_at:%Y-%m-%d}", code="cannot_rerun")
    kept = msgspec.json.decode(run.settings)
    told = [{"role": "system", "content": text} for text in kept.get("system", ())]
    request = GenerateRequest(
        messages=[*told, *msgspec.json.decode(run.input)],
        thread_id=run.thread_id,
        resource_id=run.resource_id,
        model=f"{run.provider}/{run.model_id}",
        settings=kept.get("settings"),
        tools=kept.get("tools"),
        tool_choice=kept.get("tool_choice"),
    )
    return run.agent_id, request


def cancel_run(caller: Principal, run_id: str) -> Run:
    """End a run: its call or wait at once, wherever it is; what had come is kept. Raises Conflict for one over."""
    run = run_for(caller, run_id)
    with transaction.atomic():
        asked = Run.objects.filter(id=run.id, finished_at=None)
        if not asked.update(cancel_asked_at=timezone.now()):
            raise Conflict(f"this run is {run.status} already", code="run_over", run_id=run.id)
        run.refresh_from_db()
        has_no_process = run.status == "queued" or run.is_own_call
        if has_no_process:
            RunTurn(run).cancel(f"cancelled by {caller.name}")
            ended = {"status": "cancelled", "finished_at": timezone.now()}
            Job.objects.filter(id=job_id_of(run.id), status="queued").update(**ended)
    if has_no_process:
        wake_next(run.thread_id or "")
    else:
        runner().cancel(run.id)  # Another process that has it looks for its flag.
    run.refresh_from_db()
    return run


# For callers who call the provider themselves


class Prepared(Struct, frozen=True, kw_only=True):
    """A run whose calls its caller makes itself, and the request to send."""

    run_id: str
    thread_id: str
    shown: Preview


def prepare(caller: Principal, agent_id: str, request: GenerateRequest) -> Prepared:
    """The turn with its first call open: whoever makes it says what became of it (`reports`). Raises as `generate`."""
    agent = agent_for(caller, agent_id)
    run = open_run(caller, agent, request, is_own_call=True, is_streamed=request.stream)
    turn = RunTurn(run)
    call = turn.next_call()
    if call is None:
        wake_next(run.thread_id or "")
        if isinstance(turn.error, Tripwire):
            raise RunStopped(str(turn.error), run_id=run.id) from turn.error
        if turn.error is not None:
            raise turn.error
        raise Conflict("a processor had the answer: there is nothing to send", code="already_answered", run_id=run.id)
    turn.ledger.explained(call)
    return Prepared(run_id=run.id, thread_id=run.thread_id or "", shown=shown_call(call, turn.messages))


# How a run ended


def result_of(run_id: str) -> RunResult:
    """The result of a run that is over. Raises RunFailed, RunStopped or RunCancelled for one without."""
    run = Run.objects.defer("input", "settings", "state").get(id=run_id)
    kinds: dict[str, type[RunFailed]] = {"stopped": RunStopped, "cancelled": RunCancelled}
    if run.status not in ("succeeded", "waiting"):
        kind = kinds.get(run.status, RunFailed)
        raise kind(run.error_message, run_id=run.id, attempt_count=run.attempt_count)
    told = RunEvent.objects.filter(run=run_id, type="message").order_by("-seq").values_list("data", flat=True).first()
    parts = parts_of(msgspec.json.decode(told)["message"]["content"]) if told else []
    calls = [part["toolInvocation"] for part in parts if _is_open_call(part)]
    return RunResult(
        run_id=run.id,
        thread_id=run.thread_id or "",
        status=run.status,
        text="".join(part["text"] for part in parts if part.get("type") == "text"),
        finish_reason=run.finish_reason,
        tool_calls=[{"id": call["toolCallId"], "name": call["toolName"], "arguments": call["args"]} for call in calls],
        usage=run.usage,
        attempt_count=run.attempt_count,
        message_ids=run.message_ids,
    )


def _is_open_call(part: Mapping[str, Any]) -> bool:
    return part.get("type") == "tool-invocation" and not part.get("providerExecuted")


# Opening


def new_run_id() -> str:
    return f"run_{uuid.uuid4().hex}"


def open_run(
    caller: Principal,
    agent: Agent,
    request: GenerateRequest,
    *,
    run_id: str | None = None,
    is_queued: bool = False,
    is_own_call: bool = False,
    is_streamed: bool = False,
    target: Connection | None = None,
) -> Run:
    """The run's row, with its input and its thread; nothing is called yet. It is running, or queued behind another one.

    `target` is its connection where that is known to be there. Raises InvalidInput, NotFound, Conflict.
    """
    ref = target_model(request.model or agent.model)
    if target is None:
        connection_for(ref.provider, with_key=not is_own_call, model_id=ref.model_id)
    tools = agent.tools if request.tools is None else request.tools
    settings_for(ref, agent.settings, request.settings, tools=tools, tool_choice=request.tool_choice)
    given = _given_messages(request.messages)
    thread_id, resource_id, thread = _place(caller, request)
    listed = MessageList(thread_id=thread_id, resource_id=resource_id)
    listed.add(given, "input")
    if not listed.messages:
        raise InvalidInput("a turn needs at least one message", field="messages")
    kept = {"settings": request.settings, "tools": request.tools, "tool_choice": request.tool_choice}
    if is_streamed:
        kept["stream"] = True
    now = timezone.now()
    run = Run(
        id=run_id or new_run_id(),
        thread_id=thread_id,
        agent=agent,
        agent_name=agent.name,
        resource_id=resource_id,
        started_by=caller.name[:200],
        provider=ref.provider,
        model_id=ref.model_id[:200],
        status="queued" if is_queued else "running",
        input=write_json(listed.messages),
        settings=write_json({**kept, "system": listed.system_texts}),
        is_own_call=is_own_call,
        created_at=now,
    )
    with transaction.atomic():
        if thread is None:
            active = "" if is_queued else run.id
            thread = Thread(id=thread_id, resource_id=resource_id, agent=agent, active_run=active)
            if not insert_thread(thread):
                raise Conflict("this thread id is taken", code="id_taken")
        elif is_queued:
            if request.when_busy == "refuse" and thread.active_run:
                raise _busy(thread)
        elif not claim_thread(thread.id, run.id, now):
            thread.refresh_from_db(fields=["active_run"])
            if request.when_busy == "refuse" or is_own_call:
                raise _busy(thread)
            run.status = "queued"
        _write_opened(run)
    return run


def _write_opened(run: Run) -> None:
    if run.status == "running":
        run.owner = "" if run.is_own_call else OWNER
        patience = timedelta(seconds=django_settings.COMPAT_ADMIN_OWN_CALL_LEASE_S)
        run.lease_until = run.created_at + patience if run.is_own_call else lease(run.created_at)
    insert_row(run)
    if run.status == "queued":
        Job.objects.create(
            id=job_id_of(run.id),
            kind="run",
            title=run.agent_name,
            arguments={"run_id": run.id},
            made_by=run.started_by,
            resource_id=run.resource_id,
            woken_at=run.created_at,
        )
    write_events(run.id, [_first_event(run)])


def _first_event(run: Run) -> Told:
    type = "queued" if run.status == "queued" else "started"
    return 1, type, write_json({"run_id": run.id, "thread_id": run.thread_id})


def _busy(thread: Thread) -> Conflict:
    return Conflict(
        "this thread has a run that is not over; wait for it, cancel it, or ask with when_busy=queue",
        code="run_active",
        run_id=thread.active_run or Run.objects.filter(thread=thread, status="queued").values_list("id", flat=True)[0],
    )


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
    thread = load_row(Thread, thread_id) if request.thread_id is not None else None
    if thread is None:
        return thread_id, resource_id or thread_id, None
    if not caller.may_act_for(thread.resource_id):
        raise NotFound("no such thread")
    if resource_id is not None and thread.resource_id != resource_id:
        raise NotFound("no such thread")
    return thread.id, thread.resource_id, thread
