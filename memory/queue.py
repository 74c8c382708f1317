"""Queueing by name, so that services need not import tasks."""

from __future__ import annotations

from celery import current_app
from django.db import transaction

QUEUES = ("celery", "runs", "imports", "maintenance")
"""What workers consume from: sweeps, turns, long work that somebody waits for, and long work that nobody does."""


def send(task_name: str, row_id: str, *, queue: str | None = None) -> None:
    """Queue a task for a row once the present transaction is committed (at once when there is none).

    A broker that can't be reached is logged and nothing more: the row is the truth, and a sweep finds it.
    """

    def tell() -> None:
        current_app.send_task(task_name, args=(row_id,), queue=queue)

    transaction.on_commit(tell, robust=True)  # which names the function in the log where it fails
