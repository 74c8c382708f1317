"""Runs whose process is gone: what came is saved, and they end as interrupted; those that only waited go on here."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from django.utils import timezone
from msgspec import Struct

from memory.errors import Busy
from memory.messages.names import ModelRef
from memory.messages.prompt import Reasoning, Text
from memory.messages.stored import StoredMessage
from memory.models import Attempt, Message, Run, RunEvent
from memory.processors import TurnEnd
from memory.processors.loop import response_message
from memory.providers.wire import Reply, Usage
from memory.services.feed import Feed
from memory.services.runner import OWNER, lease, may_run_here, queued_again, runner, wake_next
from memory.services.turns import RunTurn, chain_and_list, last_event

log = logging.getLogger(__name__)

_NEVER_WRITTEN = 1000
"""So many events a process may have told its readers that it had no time to write: their numbers are not given again,
or a reader who comes back would take what follows for what it has seen."""


def close_expired_runs(*, now: datetime | None = None) -> int:
    """Take over the runs whose lease ran out. How many."""
    at = now or timezone.now()
    expired = Run.objects.filter(finished_at=None, lease_until__lt=at)
    count = 0
    for run_id, owner in list(expired.values_list("id", "owner")):
        if not expired.filter(id=run_id).update(owner=OWNER, lease_until=lease(at)):
            continue
        if owner == OWNER and runner().has(run_id):
            continue  # It is on its way here, and was only late with its sign of life.
        count += 1
        try:
            _take_over(Run.objects.select_related("agent").get(id=run_id))
        except Exception:  # the sweep goes on with the other runs; this one's turn comes again with its new lease
            log.exception("run %s, whose process is gone, could not be taken over", run_id)
    return count


def _take_over(run: Run) -> None:
    if run.due_at is not None and run.cancel_asked_at is None and may_run_here():
        try:
            runner().resume(run)
            return
        except Busy:
            pass
    if not queued_again(run):
        _close_interrupted(run)
    wake_next(run.thread_id or "")


def _close_interrupted(run: Run) -> None:
    """Write what the run's events hold through the output processors, as the run itself would have done."""
    turn = RunTurn(run, feed=Feed(run.id, after=last_event(run) + _NEVER_WRITTEN))
    error = "The process that ran this turn ended before the turn did."
    if run.is_own_call:
        error = "Nobody reported what became of the call."
    try:
        _save_what_came(run)
    except Exception:  # it is closed all the same, or its thread would be taken for good, and keeps its events
        log.exception("what run %s had written could not be saved", run.id)
    # Not what was saved just now: the run itself may have got so far.
    written = Message.objects.filter(thread=run.thread_id, run_id=run.id).order_by("seq")
    turn.ledger.message_ids = list(written.values_list("message_id", flat=True))
    turn.ledger.close("interrupted", error_class="interrupted", error=error)


def _save_what_came(run: Run) -> None:
    came = _answers(run)
    if run.agent is None or not came:
        return
    chain, listed = chain_and_list(run, run.agent, {})
    chain.process_input(listed)
    known = {entry.message["id"] for entry in listed.entries if entry.was_loaded}
    for message in came:
        if message["id"] not in known:
            listed.add([message], "response")
    chain.process_output_result(listed, TurnEnd(finish_reason="error"))


def _answers(run: Run) -> list[StoredMessage]:
    """The answers of a run as its events tell them: whole ones, and what had come of one that was under way."""
    rows = RunEvent.objects.filter(run=run).order_by("seq").values_list("type", "data")
    whole: list[StoredMessage] = []
    pieces: list[tuple[str, str]] = []
    for type, data in rows:
        match type:
            case "message":
                whole.append(msgspec.json.decode(data)["message"])
                pieces.clear()
            case "attempt":
                pieces.clear()
            case "text-delta" | "reasoning-delta":
                pieces.append((type, msgspec.json.decode(data)["text"]))
    begun = _begun(run, pieces)
    return [*whole, _incomplete(begun)] if begun is not None else whole


def _begun(run: Run, pieces: Sequence[tuple[str, str]]) -> StoredMessage | None:
    """The message of an answer that was coming in, under the id that it would have had."""
    kinds = {"text-delta": Text, "reasoning-delta": Reasoning}
    parts: list[Any] = []
    for type, text in pieces:
        if parts and isinstance(parts[-1], kinds[type]):
            parts[-1] = kinds[type](parts[-1].text + text)
        else:
            parts.append(kinds[type](text))
    attempt = Attempt.objects.filter(run=run).order_by("-number").first()
    kept = msgspec.json.decode(run.state).get("loop")
    if not parts or attempt is None or not kept:
        return None
    by = _Author(ModelRef(attempt.provider, attempt.model_id), attempt.protocol)
    message = response_message(Reply(tuple(parts), "error", Usage()), by, timezone.now())
    return None if message is None else {**message, "id": kept["message_id"]}


class _Author(Struct, frozen=True):
    ref: ModelRef
    protocol: str


def _incomplete(message: StoredMessage) -> StoredMessage:
    content = message["content"]
    return {**message, "content": {**content, "metadata": {**content.get("metadata", {}), "incomplete": True}}}
