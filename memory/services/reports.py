"""What callers report about calls they made themselves: the same decisions, repairs and ledger as for calls of ours.

A report is taken whole or not at all: it is one transaction, and nothing is called in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from memory.access import Principal, run_for
from memory.errors import Conflict, InvalidInput, ProviderError
from memory.messages.lists import MessageList
from memory.messages.prompt import Part, ToolCall
from memory.messages.values import write_json
from memory.models import Attempt, Run
from memory.processors.calls import Call
from memory.providers.http import Exchange
from memory.providers.wire import Usage
from memory.services.calls import Answer, ProviderModel
from memory.services.ledger import OPEN
from memory.services.preview import Preview, shown_call
from memory.services.runner import wake_next
from memory.services.runs import RunResult, result_of
from memory.services.turns import RunTurn

Outcome = Callable[[ProviderModel, Call], Any]


class Report(Struct, frozen=True, kw_only=True):
    """What follows a report: another call after `delay_ms` with the request in `shown`, or the end of the run.

    `attempt` is the number of the call that is open now, 0 without one. `result` is there when the turn was answered.
    """

    run_id: str
    status: str
    retry: bool
    delay_ms: float
    reason: str
    attempt: int = 0
    shown: Preview | None = None
    result: RunResult | None = None


def report_reply(
    caller: Principal,
    run_id: str,
    *,
    reply: Any = None,
    stream: str | None = None,
    events: Sequence[Mapping[str, Any]] | None = None,
    messages: Sequence[Mapping[str, Any]] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    attempt: int | None = None,
) -> Report:
    """Take a provider's reply: its JSON, the text or the events of its stream, or messages in stored or prompt form;
    exactly one.

    A reply that can't be read, or that says an error, counts as a failed call. Raises Conflict (no_open_attempt) when
    the run has no call open, or not that one; InvalidInput, NotFound.
    """
    if [reply is None, stream is None, events is None, messages is None].count(False) != 1:
        raise InvalidInput("give exactly one of reply, stream, events and messages", field="reply")
    known = {name.lower(): value for name, value in (headers or {}).items()}

    def read(model: ProviderModel, call: Call) -> Any:
        at = time.time()
        if messages is not None:
            return _written(messages, Exchange(status, known, write_json(messages).encode(), at, at))
        if stream is not None or events is not None:
            body = stream.encode("utf-8", "replace") if stream is not None else model.stream_of(events or ())
            return model.read_stream([body], Exchange(status, known, body, at, at), call.request)
        return model.read(Exchange(status, known, write_json(reply).encode(), at, at), call.request)

    return _report(caller, run_id, read, attempt)


def report_error(
    caller: Principal,
    run_id: str,
    *,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
    attempt: int | None = None,
) -> Report:
    """Take what came instead of a reply: a provider's error, or without a status that no answer came, and why.

    Raises as `report_reply` does.
    """
    text = body if isinstance(body, str) else "" if body is None else write_json(body)
    known = {name.lower(): value for name, value in (headers or {}).items()}

    def read(model: ProviderModel, call: Call) -> Any:
        if status is None:
            said = f"{model.ref.provider}: {text or 'no answer came'}"
            raise ProviderError(said, error_class="connection", is_retryable=False, error_code=_code_in(text))
        at = time.time()
        raise model.error_in(Exchange(status, known, text.encode("utf-8", "replace"), at, at))

    return _report(caller, run_id, read, attempt)


def _report(caller: Principal, run_id: str, read: Outcome, number: int | None) -> Report:
    run_for(caller, run_id)
    with transaction.atomic():
        turn, call = _open_call(run_id, number)
        report = _step(turn, call, read)
    if turn.is_over:
        wake_next(turn.run.thread_id or "")
    return report


def _open_call(run_id: str, number: int | None) -> tuple[RunTurn, Call | None]:
    run = Run.objects.select_for_update().get(id=run_id)
    if not run.is_own_call:
        raise Conflict("this run's calls are made here", code="no_open_attempt", run_id=run.id)
    found = Attempt.objects.filter(run=run_id, decision=OPEN).values_list("number", "request_sha256", "started_at")
    opened = found.order_by("-number").first() if run.finished_at is None else None
    if opened is None:
        raise Conflict(f"this run has no open attempt: it is {run.status}", code="no_open_attempt", run_id=run.id)
    if number is not None and number != opened[0]:
        message = f"attempt {number} is not open; attempt {opened[0]} is"
        raise Conflict(message, code="no_open_attempt", run_id=run.id)
    turn = RunTurn(run)
    return turn, turn.reopened(opened[1], opened[2])


def _step(turn: RunTurn, call: Call | None, read: Outcome) -> Report:
    pause = None
    if call is not None:
        assert isinstance(call.model, ProviderModel)
        try:
            answer = read(call.model, call)
        except ProviderError as error:
            pause = turn.failed(call, error)
        else:
            turn.answered(call, answer)
    following = turn.next_call() if pause is not None else None
    run = turn.run
    if following is not None and pause is not None:
        turn.ledger.explained(following)
        patience = timedelta(seconds=settings.COMPAT_ADMIN_OWN_CALL_LEASE_S + pause.seconds)
        Run.objects.filter(id=run.id).update(lease_until=timezone.now() + patience)
        return Report(
            run_id=run.id,
            status="running",
            retry=True,
            delay_ms=pause.seconds * 1000,
            reason=pause.reason,
            attempt=following.number,
            shown=shown_call(following, turn.messages),
        )
    run.refresh_from_db()
    is_answered = run.status in ("succeeded", "waiting")
    reason = Attempt.objects.filter(run=run).order_by("-number").values_list("reason", flat=True).first() or ""
    return Report(
        run_id=run.id,
        status=run.status,
        retry=False,
        delay_ms=0,
        reason=reason if not is_answered else "",
        result=result_of(run.id) if is_answered else None,
    )


def _written(messages: Sequence[Mapping[str, Any]], came: Exchange) -> Answer:
    """The answer that stored messages tell: the assistant's parts."""
    listed = MessageList()
    listed.add(list(messages), "response")
    parts: list[Part] = []
    for message in listed.to_prompt().messages:
        if message.role == "assistant":
            parts += message.parts
    if not parts:
        raise InvalidInput("expected a message of the assistant", field="messages")
    has_calls = any(isinstance(part, ToolCall) and not part.provider_executed for part in parts)
    return Answer(tuple(parts), "tool-calls" if has_calls else "stop", Usage(), "", "", came)


def _code_in(text: str) -> str:
    """A system's code such as ECONNRESET at the begin of what a client said, which matchers look for."""
    first = text.strip().split(" ", 1)[0].rstrip(":")
    return first if first.isupper() and first.isalnum() else ""
