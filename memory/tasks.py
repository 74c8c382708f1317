"""Celery tasks: each makes one service call. Rows are the truth; a task that comes twice does nothing twice."""

from __future__ import annotations

from celery import shared_task
from django.db import close_old_connections

from memory.services import retention, runs


@shared_task(name="memory.close_expired_runs")
def close_expired_runs() -> None:
    """Close runs whose process is gone, and wake somebody up for jobs that nobody took."""
    close_old_connections()
    runs.close_expired_runs()
    runs.requeue_jobs()


@shared_task(name=runs.RUN_TASK)
def run_in_background(job_id: str) -> None:
    """Answer a queued turn."""
    close_old_connections()
    runs.run_job(job_id)


@shared_task(name="memory.remove_expired_bodies")
def remove_expired_bodies() -> None:
    """Remove what runs have kept for as long as they are to."""
    close_old_connections()
    retention.remove_expired()
