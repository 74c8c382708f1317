"""Queueing by name, so that services need not import tasks."""

from __future__ import annotations

from functools import partial

from celery import current_app
from django.db import transaction


def send(task_name: str, row_id: str) -> None:
    """Queue a task for a row once the present transaction is committed (at once when there is none).

    A broker that can't be reached is logged and nothing more: the row is the truth, and a sweep finds it.
    """
    transaction.on_commit(partial(current_app.send_task, task_name, args=(row_id,)), robust=True)
