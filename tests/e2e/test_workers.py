"""Celery's workers in one process: one for each queue, none of which needs the others."""

import pytest

from memory.models import Job
from tests.e2e.processes import Process
from tests.e2e.test_brokers import add_import, assert_once
from tests.e2e.test_demo import until

FIRST_ONLY = """
import sys, threading
import django; django.setup()
from compat_admin.inprocess import Workers
from memory import queue
from memory.services import jobs
workers = Workers({"imports": 1, "runs": 1, "maintenance": 1})
threading.Thread(target=workers._workers[0].start, daemon=True).start()
queue.send(jobs.WORK_TASK, sys.argv[1], queue="imports")
print("sent", flush=True)
threading.Event().wait()
"""


@pytest.mark.django_db(transaction=True)
def test_a_task_is_done_while_the_workers_of_other_queues_are_not_up_yet() -> None:
    job = add_import("early", 3)
    one = Process(
        "-c", FIRST_ONLY, job.id, DJANGO_SETTINGS_MODULE="compat_admin.settings", CELERY_BROKER_URL="memory://"
    )
    try:
        until(lambda: Job.objects.filter(id=job.id, status="done").exists(), within_s=30)
    finally:
        one.kill()
    assert_once(job, 3)
