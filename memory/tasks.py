"""Celery tasks: each makes one service call. Rows are the truth; a task that comes twice does nothing twice."""

from __future__ import annotations

from celery import shared_task
from django.db import close_old_connections

from memory.services import idempotency, jobs, keys, retention, runs
from memory.services.job_kinds import KINDS


@shared_task(name="memory.sweep")
def sweep() -> None:
    """Close runs whose process is gone, queue jobs again whose worker is, and wake somebody up for what is due."""
    close_old_connections()
    runs.close_expired_runs()
    jobs.sweep(KINDS)


@shared_task(name="memory.forget_old")
def forget_old() -> None:
    """Delete kept answers of a day ago, and tokens that ended long ago."""
    close_old_connections()
    idempotency.forget_old_answers()
    keys.forget_ended_tokens()


@shared_task(name=runs.RUN_TASK)
def run_in_background(job_id: str) -> None:
    """Answer a queued turn."""
    close_old_connections()
    runs.run_job(job_id)


@shared_task(name=jobs.WORK_TASK)
def work(job_id: str) -> None:
    """Do a job."""
    close_old_connections()
    jobs.do_job(job_id, KINDS)


@shared_task(name="memory.remove_expired_bodies")
def remove_expired_bodies() -> None:
    """Remove what runs have kept for as long as they are to."""
    close_old_connections()
    retention.remove_expired()
