"""Long work with a row of its own: taken by a conditional update, held by a lease, tried again after a crash.

A task only says that a job is there. Whoever takes the job writes its name and a lease on the row, and everything it
writes later asks whether the row still says so: work that was taken over by somebody else writes nothing any more.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q
from django.utils import timezone
from msgspec import Struct

from memory import audit, marks, queue
from memory.access import Principal
from memory.errors import Conflict, EncodingError, Forbidden, InvalidInput, NotFound
from memory.messages.halves import storable
from memory.models import Job, JobFile, Run
from memory.principal import SCOPES, can_be_looked_up
from memory.services.runner import OWNER, RUN_TASK
from memory.services.secrets import without_keys

log = logging.getLogger(__name__)

WORK_TASK = "memory.work"
RUN_KIND = "run"
ACTIVE = ("queued", "running")
WAKE_AGAIN_S = 15
_WOKEN_AT_ONCE = 200
"""So many are called for again in a sweep, the longest due first: what is called twice waits in the queue twice."""
_WRITE_EVERY_S = 0.5
_MAX_BACKOFF_S = 300
_SHOWN_ERROR = 2000
_SHOWN_TRACEBACK = 16_000

_FINAL = (InvalidInput, NotFound, Forbidden, Conflict, EncodingError)

T = TypeVar("T")


class JobLost(BaseException):
    """The lease ran out and somebody else has the job, or it is gone: nothing more may be written.

    No Exception, so that nothing on the way takes it for a failure of the work and goes on.
    """


class JobCancelled(BaseException):
    """Somebody asked for the job's end. No Exception either."""


class Kind(Struct, frozen=True):
    """A sort of job: what does it, from which queue, and how often it may be begun."""

    work: Callable[[Work], Mapping[str, Any] | None]
    queue: str
    title: str
    max_attempts: int = 3


Kinds = Mapping[str, Kind]


# Making and changing


def add_job(
    caller: Principal,
    kind: str,
    arguments: Mapping[str, Any],
    *,
    queue_name: str,
    title: str = "",
    file: tuple[str, bytes] | None = None,
    key: str = "",
) -> Job:
    """A job that is done as soon as somebody is free, in the present transaction. `file` is what it reads.

    Of a kind there is one job with the same `key`: who asks again, such as the clock of another worker, gets that one.
    """
    with transaction.atomic():
        job, is_new = Job.objects.get_or_create(
            id=job_id(kind, key) if key else f"job_{uuid.uuid4().hex}",
            defaults={
                "kind": kind,
                "queue": queue_name,
                "title": title[:200],
                "arguments": dict(arguments),
                "made_by": caller.name[:200],
                "resource_id": caller.resource_id,
            },
        )
        if not is_new:
            return job
        if file is not None:
            JobFile.objects.create(job=job, name=file[0][:200], content=zlib.compress(file[1], 1))
        _wake(job)
    return job


def job_id(kind: str, key: str) -> str:
    """The id of the one job of a kind with this key."""
    return f"job_{kind}_{key}"[:64]


def job_for(caller: Principal, job_id: str) -> Job:
    """The job, if the caller may act for its resource. Raises NotFound."""
    job = Job.objects.filter(id=job_id).first() if can_be_looked_up(job_id) else None
    if job is None or not caller.may_act_for(job.resource_id):
        raise NotFound("no such job")
    return job


def cancel_job(caller: Principal, job_id: str) -> Job:
    """End a job: a queued one now, a running one at its next step. Raises Conflict for one that is over, and for a
    turn's, which is cancelled by its run."""
    job = job_for(caller, job_id)
    if job.kind == RUN_KIND:
        raise Conflict("this is a turn: cancel its run", code="is_run", run_id=str(job.arguments.get("run_id", "")))
    now = timezone.now()
    with transaction.atomic():
        is_ended = Job.objects.filter(id=job.id, status="queued").update(status="cancelled", finished_at=now)
        is_asked = is_ended or Job.objects.filter(id=job.id, status="running").update(cancel_asked_at=now)
        if not is_asked:
            job.refresh_from_db()
            raise Conflict(f"this job is {job.status} already", code="job_over")
        audit.record(caller.name, "job.cancel", "job", job.id)
    job.refresh_from_db()
    return job


def retry_job(caller: Principal, job_id: str) -> Job:
    """Begin a failed or cancelled job once more, with all its attempts. Raises Conflict for another one."""
    job = job_for(caller, job_id)
    if job.kind == RUN_KIND:
        raise Conflict("this is a turn: run it again from its run", code="is_run")
    again = {"status": "queued", "attempt_count": 0, "due_at": timezone.now(), "finished_at": None}
    with transaction.atomic():
        over = Job.objects.filter(id=job.id, status__in=("failed", "cancelled"))
        if not over.update(**again, cancel_asked_at=None, owner="", lease_until=None, woken_at=None):
            raise Conflict(f"this job is {job.status}", code="job_not_over")
        audit.record(caller.name, "job.retry", "job", job.id)
        job.refresh_from_db()
        _wake(job)
    return job


# Doing


class Work:
    """A job as whoever does it sees it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.arguments: Mapping[str, Any] = job.arguments
        # What it may do was asked when the job was made.
        self.caller = Principal(job.made_by, None, job.resource_id, frozenset(SCOPES))
        self.is_lost = threading.Event()
        self._written_at = 0.0

    @property
    def state(self) -> dict[str, Any]:
        """Where an earlier attempt got to, as it was kept."""
        return dict(self.job.state)

    def file(self) -> tuple[str, bytes]:
        """Name and content of what the job was given to read. Raises InvalidInput when there is nothing."""
        found = JobFile.objects.filter(job=self.job.id).first()
        if found is None:
            raise InvalidInput("this job's file is gone", field="file")
        return found.name, zlib.decompress(found.content)

    def progress(self, done: int, total: int | None = None, *, note: str = "") -> None:
        """Say how far it is; now and then this is written. Raises JobLost and JobCancelled."""
        marks.passed("job step")
        if self.is_lost.is_set():
            raise JobLost(self.job.id)
        if time.monotonic() - self._written_at < _WRITE_EVERY_S:
            return
        self._written_at = time.monotonic()
        self._write(done_count=done, total_count=total, note=storable(note)[:300])
        if Job.objects.filter(id=self.job.id).exclude(cancel_asked_at=None).exists():
            raise JobCancelled(self.job.id)

    @contextmanager
    def step(self, **state: Any) -> Iterator[None]:
        """A transaction in which something is done exactly once: it is undone if the job is no longer ours, and with
        it `state` is kept, from which another attempt goes on. Raises JobLost."""
        with transaction.atomic():
            self._write(state=state)  # First: who waits for the row sees what the other one did.
            yield
        self.job.state = state

    def each(self, things: Iterable[T], *, total: int | None = None, note: str = "") -> Iterator[T]:
        """The things one by one, with progress. Raises as `progress` does."""
        for number, thing in enumerate(things):
            self.progress(number, total, note=note)
            yield thing

    def _write(self, **values: Any) -> None:
        if not _held(self.job).update(**values):
            self.is_lost.set()
            raise JobLost(self.job.id)


def do_job(job_id: str, kinds: Kinds) -> bool:
    """Do a queued job that is due, in this thread; whether it was there to be done.

    A job that somebody has or had is left alone, so a task that comes twice does nothing twice.
    """
    job = _claimed(job_id)
    if job is None:
        return False
    work = Work(job)
    with _renewing(work):
        try:
            kind = kinds.get(job.kind)
            if kind is None:
                raise InvalidInput(f"nobody here knows jobs of the kind {job.kind!r}", field="kind")
            result = dict(kind.work(work) or {})
        except JobLost:
            log.warning("job %s was taken over by somebody else", job.id)
        except JobCancelled:
            _close(job, "cancelled")
        except Exception as error:  # noqa: BLE001 - it is kept on the job, with its traceback
            _failed(job, error, kinds)
        else:
            _close(job, "done", result=result, error="", traceback="")
            marks.passed("job done")
    return True


def _claimed(job_id: str) -> Job | None:
    now = timezone.now()
    free = Job.objects.filter(id=job_id, status="queued", due_at__lte=now).exclude(kind=RUN_KIND)
    owner = f"{OWNER}#{uuid.uuid4().hex[:8]}"
    taken = {"status": "running", "owner": owner, "lease_until": _lease(now), "started_at": now}
    if not free.update(**taken, attempt_count=F("attempt_count") + 1):
        return None
    return Job.objects.get(id=job_id)


def _held(job: Job) -> Any:
    return Job.objects.filter(id=job.id, owner=job.owner, status="running")


def _close(job: Job, status: str, **values: Any) -> None:
    values |= {"status": status, "finished_at": timezone.now(), "lease_until": None}
    with transaction.atomic():
        if _held(job).update(**values) and status == "done":
            JobFile.objects.filter(job=job.id).delete()


def _failed(job: Job, error: Exception, kinds: Kinds) -> None:
    kept = {
        "error": without_keys(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)[
            :_SHOWN_ERROR
        ],
        "traceback": without_keys("".join(traceback.format_exception(error)))[-_SHOWN_TRACEBACK:],
    }
    kind = kinds.get(job.kind)
    # What was asked for can't be done: another time it can't either.
    is_final = isinstance(error, _FINAL) or kind is None or job.attempt_count >= kind.max_attempts
    log.warning("job %s (%s) failed at attempt %s: %s", job.id, job.kind, job.attempt_count, kept["error"])
    if is_final:
        _close(job, "failed", **kept)
    else:
        _held(job).update(**kept, **_queued_again(job.attempt_count))


def _queued_again(attempt_count: int) -> dict[str, Any]:
    pause = min(2.0**attempt_count, _MAX_BACKOFF_S)
    due_at = timezone.now() + timedelta(seconds=pause)
    return {"status": "queued", "owner": "", "lease_until": None, "woken_at": None, "due_at": due_at}


@contextmanager
def _renewing(work: Work) -> Iterator[None]:
    """Keeps the lease while the work is done, however long its steps are."""
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(settings.COMPAT_ADMIN_JOB_LEASE_S / 3):
            try:
                if not _held(work.job).update(lease_until=_lease(timezone.now())):
                    work.is_lost.set()
                    return
            except Exception:
                log.exception("the lease of job %s could not be renewed", work.job.id)
            finally:
                connection.close()

    keeper = threading.Thread(target=renew, name=f"lease of {work.job.id}", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()


def _lease(now: datetime) -> datetime:
    return now + timedelta(seconds=settings.COMPAT_ADMIN_JOB_LEASE_S)


# Sweeping


def sweep(kinds: Kinds, *, now: datetime | None = None) -> int:
    """Queue orphaned jobs again, and call somebody for those that are due and that nobody took. How many were called.

    Only the rows are looked at, so it does not matter what a broker has lost or keeps for later.
    """
    at = now or timezone.now()
    for job in Job.objects.filter(status="running", lease_until__lt=at).exclude(kind=RUN_KIND):
        _orphaned(job, kinds, at)
    _end_jobs_of_runs()
    count = 0
    unheard = Q(woken_at=None) | Q(woken_at__lt=at - timedelta(seconds=WAKE_AGAIN_S))
    for job in Job.objects.filter(unheard, status="queued", finished_at=None, due_at__lte=at).order_by("due_at")[
        :_WOKEN_AT_ONCE
    ]:
        if Job.objects.filter(unheard, id=job.id, status="queued").update(woken_at=at):
            _call(job)
            count += 1
    return count


def _orphaned(job: Job, kinds: Kinds, at: datetime) -> None:
    kind = kinds.get(job.kind)
    expired = _held(job).filter(lease_until__lt=at)
    error = f"Whoever did it was gone at attempt {job.attempt_count}: its lease ran out."
    if job.cancel_asked_at is not None:
        expired.update(status="cancelled", finished_at=at, lease_until=None)
    elif kind is not None and job.attempt_count < kind.max_attempts:
        # Nothing is known to be wrong with the job itself, so it need not wait.
        expired.update(error=error, **{**_queued_again(0), "due_at": at})
    else:
        expired.update(status="failed", error=error, finished_at=at, lease_until=None)


def _end_jobs_of_runs() -> None:
    """Close the jobs of turns that ended while nobody could write it on the job: the run is what counts."""
    waiting = Job.objects.filter(kind=RUN_KIND, status__in=ACTIVE, arguments__has_key="run_id")
    run_ids = dict(waiting.order_by("created_at").values_list("arguments__run_id", "id")[:1000])
    over = Run.objects.filter(id__in=run_ids).exclude(finished_at=None)
    for run_id, status, error, finished_at in over.values_list("id", "status", "error_message", "finished_at"):
        told = "done" if status in ("succeeded", "waiting") else "cancelled" if status == "cancelled" else "failed"
        ended = {"status": told, "error": error[:_SHOWN_ERROR], "finished_at": finished_at}
        Job.objects.filter(id=run_ids[run_id], status__in=ACTIVE).update(**ended)


def _wake(job: Job) -> None:
    """Call somebody now, with the commit; a sweep does not call again at once."""
    Job.objects.filter(id=job.id).update(woken_at=timezone.now())
    _call(job)


def _call(job: Job) -> None:
    queue.send(RUN_TASK if job.kind == RUN_KIND else WORK_TASK, job.id, queue=job.queue)
