"""Runs of this process: calls have threads, rows have few, and a run that waits has none.

`Runner` moves each of its runs through the steps of `turns`. What touches rows is done by a small pool, a call to a
provider by a large one that touches no row; a wait is an entry in a heap and an instant on the run's row. One thread
keeps the time: it wakes what is due, renews leases, and looks for runs that another process wants cancelled.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from django.conf import settings
from django.db import Error, connection, transaction
from django.db.models import F
from django.utils import timezone

from memory import marks, queue
from memory.errors import Busy
from memory.messages.halves import storable
from memory.models import Job, Run, Thread
from memory.processors.calls import Call, Pause
from memory.providers.http import Connection, Stream
from memory.services.feed import Told, close_feed, open_feed, writer
from memory.services.ledger import RunLost
from memory.services.streams import release_connection
from memory.services.turns import RunTurn, feed_for, send
from memory.statements import update_rows
from memory.store import claim_thread

log = logging.getLogger(__name__)

OWNER = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
RUN_TASK = "memory.run_in_background"
LOOK_FOR_CANCELS_S = 0.5
_MAX_CLAIMS = 3

Wait = Callable[[float], bool]


class _Going:
    """A run on its way through this process."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.signal = threading.Event()
        self.stream: Stream | None = None
        self.explained: Future[None] | None = None
        """The record of what was changed for the call under way."""
        self.wait: tuple[int, float] | None = None
        """Number of the attempt behind which it waits, and since when."""

    def opened(self, stream: Stream, on_sent: Callable[[], None]) -> None:
        self.stream, stream.on_sent = stream, on_sent
        if self.signal.is_set():
            stream.cancel()


class Runner:
    """Executes runs. At most `max_runs` of them, waiting ones too; `max_calls` calls at once.

    `row_threads` work on them before, between and after their calls, each with a connection to the database.
    """

    def __init__(self, *, max_runs: int, max_calls: int, row_threads: int = 4) -> None:
        self.max_runs = max_runs
        self._changed = threading.Condition()
        self._going: dict[str, _Going] = {}
        self._offered: deque[str] = deque()
        self._due: list[tuple[float, int, str]] = []
        self._numbers = itertools.count()
        self._is_keeping = False
        self._rows = ThreadPoolExecutor(row_threads, thread_name_prefix="run rows")
        self._calls = ThreadPoolExecutor(max_calls, thread_name_prefix="run call")

    # Doors

    def enter(self, run_id: str) -> None:
        """Take a place for a run that is about to be opened. Raises Busy when there is none, or it has one."""
        with self._changed:
            if run_id in self._going:
                raise Busy("this process has this run already")
            if len(self._going) >= self.max_runs:
                raise Busy(f"this process has {self.max_runs} runs going on; try again in a moment")
            self._going[run_id] = _Going(run_id)

    def leave(self, run_id: str) -> None:
        """Give the place back."""
        with self._changed:
            self._going.pop(run_id, None)
            following = self._offered.popleft() if self._offered else None
            self._changed.notify_all()
        close_feed(run_id)
        if following is not None:
            self.offer(following)

    def has(self, run_id: str) -> bool:
        """Whether the run is on its way here."""
        return run_id in self._going

    def start(self, run: Run, *, told: Told | None = None, target: Connection | None = None) -> None:
        """Begin an open run, which has entered; it goes on in the threads of this runner.

        `told` is its only event so far and `target` its connection, where the caller has just made them.
        """
        going = self._going[run.id]
        if told is None:
            feed = feed_for(run)
        else:
            feed = open_feed(run.id, after=told[0])
            feed.tell([told])
        self._keep()
        turn = RunTurn(run, signal=going.signal, feed=feed, target=target)
        self._rows.submit(self._with_rows, lambda: self._step(going, lambda: self._send(going, turn, turn.next_call())))

    def offer(self, run_id: str) -> None:
        """Have a queued run executed as soon as there is a place, if it is still queued and its thread is free."""
        self._rows.submit(self._with_rows, lambda: self._take(run_id))

    def resume(self, run: Run) -> None:
        """Go on with a run whose wait another process began."""
        self.enter(run.id)
        feed_for(run)
        self._park(self._going[run.id], run.due_at or timezone.now(), run.attempt_count)
        self._keep()

    def cancel(self, run_id: str) -> bool:
        """End the run's call or wait now; whether it is one of this process."""
        with self._changed:
            going = self._going.get(run_id)
            if going is None:
                return False
            going.signal.set()
            if going.wait is not None:
                heapq.heappush(self._due, (time.monotonic(), next(self._numbers), run_id))
            self._changed.notify_all()
        stream = going.stream  # It is gone as soon as its call is over, which may be now.
        if stream is not None:
            stream.cancel()
        return True

    # Steps

    def _with_rows(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception:
            log.exception("a run could not be moved on")
        finally:
            if connection.vendor != "sqlite":  # which has no server whose connections could run short
                release_connection()

    def _step(self, going: _Going, work: Callable[[], None]) -> None:
        """Do the work; a run that can't even be closed is left to its lease."""
        try:
            work()
        except BaseException:
            self.leave(going.run_id)
            raise

    def _take(self, run_id: str) -> None:
        if self.has(run_id) or not Run.objects.filter(id=run_id, status="queued").exists():
            return
        try:
            self.enter(run_id)
        except Busy:
            with self._changed:
                self._offered.append(run_id)
            return
        run = claim_queued(run_id)
        if run is None:
            self.leave(run_id)
        else:
            self.start(run)

    def _send(self, going: _Going, turn: RunTurn, call: Call | None) -> None:
        if call is None:
            self._over(going, turn)
            return
        self._calls.submit(self._call, going, turn, call)

    def _explain(self, going: _Going, turn: RunTurn, call: Call) -> None:
        """Have it written what was changed for a call: while its answer is awaited, as it takes a while."""
        if going.explained is None:
            going.explained = self._rows.submit(self._with_rows, lambda: self._explained(turn, call))

    @staticmethod
    def _explained(turn: RunTurn, call: Call) -> None:
        try:
            turn.ledger.explained(call)
        except Error:
            log.exception("what was changed for a call of run %s could not be written", turn.run.id)

    def _call(self, going: _Going, turn: RunTurn, call: Call) -> None:
        marks.passed("before call")
        explain = partial(self._explain, going, turn, call)
        try:
            is_streamed = getattr(call.model, "is_streamed", False)
            if is_streamed:
                writer.add(turn.feed)
            try:
                outcome = send(call, turn, lambda stream: going.opened(stream, explain))
            finally:
                going.stream = None
                explain()
                if is_streamed:
                    writer.remove(turn.feed)
            self._rows.submit(
                self._with_rows, lambda: self._step(going, lambda: self._came(going, turn, call, outcome))
            )
        except BaseException:
            # Nobody looks at what a pool's work raises; the run is left to its lease.
            log.exception("a call of run %s could not be made", going.run_id)
            self.leave(going.run_id)
            raise

    def _came(self, going: _Going, turn: RunTurn, call: Call, outcome: Any) -> None:
        marks.passed("reply came")
        if going.explained is not None:
            # It was handed in before, so it is done or at work.
            going.explained.result()
            going.explained = None
        pause = None
        if isinstance(outcome, Exception):
            pause = turn.failed(call, outcome)
        else:
            turn.answered(call, outcome)
        if turn.is_over or pause is None:
            self._over(going, turn)
        elif pause.seconds > 0:
            self._park(going, turn.wait_until(pause), pause.number)
        else:
            self._send(going, turn, turn.next_call())

    def _over(self, going: _Going, turn: RunTurn) -> None:
        close_job(turn)
        self.leave(going.run_id)
        wake_next(turn.run.thread_id or "")

    # Waits

    def _park(self, going: _Going, due_at: datetime, number: int) -> None:
        due = time.monotonic() + max(0.0, (due_at - timezone.now()).total_seconds())
        with self._changed:
            going.wait = (number, time.monotonic())
            at = time.monotonic() if going.signal.is_set() else due
            heapq.heappush(self._due, (at, next(self._numbers), going.run_id))
            self._changed.notify_all()
        marks.passed("waiting")

    def _wake(self, run_id: str) -> None:
        with self._changed:
            going = self._going.get(run_id)
            waited, since = (going.wait or (0, 0.0)) if going is not None else (0, 0.0)
            if going is None or not waited:
                return  # It was cancelled before, or has gone on.
            going.wait = None
        self._rows.submit(
            self._with_rows, lambda: self._step(going, lambda: self._woken(going, waited, time.monotonic() - since))
        )

    def _woken(self, going: _Going, number: int, slept_s: float) -> None:
        run = Run.objects.select_related("agent").filter(id=going.run_id, finished_at=None).first()
        if run is None:
            self.leave(going.run_id)
            return
        turn = RunTurn(run, signal=going.signal, feed=feed_for(run))
        turn.ledger.waited(number, slept_s * 1000)
        if going.signal.is_set():
            turn.cancel("cancelled during a wait")
        self._send(going, turn, None if turn.is_over else turn.next_call())

    # The keeper

    def _keep(self) -> None:
        with self._changed:
            if not self._is_keeping:
                self._is_keeping = True
                threading.Thread(target=self._keep_time, name="run keeper", daemon=True).start()

    def _keep_time(self) -> None:
        looked_at = renewed_at = time.monotonic()
        while True:
            with self._changed:
                now = time.monotonic()
                pause = min(LOOK_FOR_CANCELS_S, self._due[0][0] - now if self._due else LOOK_FOR_CANCELS_S)
                if pause > 0:
                    self._changed.wait(pause)
                if not self._going:
                    self._due.clear()
                    self._is_keeping = False
                    break
                now = time.monotonic()
                due = []
                while self._due and self._due[0][0] <= now:
                    due.append(heapq.heappop(self._due)[2])
            try:
                for run_id in due:
                    self._wake(run_id)
                if now - looked_at >= LOOK_FOR_CANCELS_S:
                    looked_at = now
                    for run_id in cancelled_elsewhere():
                        self.cancel(run_id)
                if now - renewed_at >= settings.COMPAT_ADMIN_RUN_LEASE_S / 3:
                    renewed_at = now
                    renew_leases(list(self._going))
            except Exception:
                # Whatever it was: without this thread all runs of this process would be given up.
                log.exception("the runs of this process could not be looked after; it is tried again")
            finally:
                if connection.vendor != "sqlite":
                    connection.close()
        connection.close()


@cache
def runner() -> Runner:
    """The one of this process."""
    return Runner(
        max_runs=settings.COMPAT_ADMIN_MAX_RUNS,
        max_calls=settings.COMPAT_ADMIN_MAX_CALLS,
        row_threads=settings.COMPAT_ADMIN_RUN_THREADS,
    )


def may_run_here() -> bool:
    """Whether runs are executed by this process: not by one for the dashboard, and not inside a transaction, which
    hides a run from the threads that would execute it."""
    return settings.COMPAT_ADMIN_ROLE != "web" and not connection.in_atomic_block


def execute(run: Run, *, wait: Wait) -> RunTurn:
    """An open run from its beginning to its end, in this thread."""
    turn = RunTurn(run)
    call = turn.next_call()
    while call is not None:
        turn.ledger.explained(call)
        release_connection()
        outcome = send(call, turn)
        pause: Pause | None = None
        if isinstance(outcome, Exception):
            pause = turn.failed(call, outcome)
        else:
            turn.answered(call, outcome)
        if pause is None:
            break
        if pause.seconds > 0:
            release_connection()
            before = time.monotonic()
            is_cancelled = wait(pause.seconds)
            turn.ledger.waited(pause.number, (time.monotonic() - before) * 1000)
            if is_cancelled:
                turn.cancel("cancelled during a wait")
        call = None if turn.is_over else turn.next_call()
    close_job(turn)
    wake_next(run.thread_id or "")
    return turn


# Threads have one run at a time


def claim_queued(run_id: str) -> Run | None:
    """The queued run, running now and owned by this process; None when it is not queued, or its thread not free."""
    now = timezone.now()
    with transaction.atomic():
        run = Run.objects.select_related("agent").filter(id=run_id, status="queued").first()
        if run is None or not claim_thread(run.thread_id or "", run.id, run.created_at):
            return None
        owned = {"status": "running", "owner": OWNER, "lease_until": lease(now)}
        if not Run.objects.filter(id=run_id, status="queued").update(**owned):
            transaction.set_rollback(True)
            return None
        Job.objects.filter(id=job_id_of(run_id), status="queued").update(
            status="running", started_at=now, attempt_count=F("attempt_count") + 1
        )
    marks.passed("claimed")
    run.status, run.owner = "running", OWNER
    RunTurn(run).ledger.event("started", {"run_id": run.id, "thread_id": run.thread_id})
    return run


def queued_again(run: Run) -> bool:
    """Put a run whose process is gone back into the queue it came from, if it had made no call; whether it is there."""
    job = Job.objects.filter(id=job_id_of(run.id), status="running", attempt_count__lt=_MAX_CLAIMS)
    if run.attempt_count or run.is_own_call or run.cancel_asked_at is not None:
        return False
    with transaction.atomic():
        if not job.update(status="queued", started_at=None, woken_at=None):
            return False
        Run.objects.filter(id=run.id).update(status="queued", owner="", lease_until=None)
        Thread.objects.filter(id=run.thread_id, active_run=run.id).update(active_run="")
        run.status = "queued"
        RunTurn(run).ledger.event("queued", {"run_id": run.id, "thread_id": run.thread_id})
    return True


def wake_next(thread_id: str) -> None:
    """Have the thread's first queued run executed, if there is one."""
    with connection.cursor() as cursor:  # The ORM takes as long to spell this as the database to answer it.
        cursor.execute(
            "SELECT id FROM memory_run WHERE thread_id = %s AND status = 'queued' ORDER BY created_at, id LIMIT 1",
            [thread_id],
        )
        queued = cursor.fetchone()
    if queued is not None:
        dispatch(queued[0])


def dispatch(run_id: str) -> None:
    """Have a queued run executed: here if that may be, else by whoever is woken for its job."""
    if may_run_here():
        runner().offer(run_id)
    else:
        queue.send(RUN_TASK, job_id_of(run_id), queue="runs")


def job_id_of(run_id: str) -> str:
    return f"job_{run_id.removeprefix('run_')}"


def close_job(turn: RunTurn) -> None:
    """Say on the job of a run, if it has one, how it ended; where another process has both, it says so."""
    if isinstance(turn.error, RunLost):
        return
    error = storable(str(turn.error or ""))[:2000]
    ended = {"status": "failed" if error else "done", "error": error, "finished_at": timezone.now()}
    update_rows(Job, {"id": job_id_of(turn.run.id), "status": "running"}, **ended)


# Leases


def lease(now: datetime) -> datetime:
    """How long a run of this process is its own without a sign of life."""
    return now + timedelta(seconds=settings.COMPAT_ADMIN_RUN_LEASE_S)


def renew_leases(run_ids: Sequence[str]) -> int:
    """Move the leases of runs that this process is at forward; how many there are. Any other one is to expire."""
    until = lease(timezone.now())
    return sum(
        Run.objects.filter(id__in=run_ids[at : at + 500], owner=OWNER, finished_at=None).update(lease_until=until)
        for at in range(0, len(run_ids), 500)
    )


def cancelled_elsewhere() -> list[str]:
    """Runs of this process that some other process was asked to cancel."""
    asked = Run.objects.filter(owner=OWNER, finished_at=None).exclude(cancel_asked_at=None)
    return list(asked.values_list("id", flat=True))
