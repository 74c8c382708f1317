"""Celery's workers in one process: one for each queue, none of which needs the others."""

import pytest

from memory.models import Job
from tests.e2e.processes import Process
from tests.e2e.test_brokers import add_import, assert_once
from tests.e2e.test_demo import until

START = """
import sys, threading
import django; django.setup()
from celery import current_app
from compat_admin.inprocess import Workers
from memory import queue
from memory.services import jobs
workers = Workers({"imports": 1, "runs": 1, "maintenance": 1})
"""
FIRST_ONLY = """
threading.Thread(target=workers.work_on, args=("imports",), daemon=True).start()
"""
BREAKING = """
workers.start()
with current_app.producer_or_acquire() as producer:
    queued = current_app.amqp.queues["imports"]
    headers = {"id": "1", "task": jobs.WORK_TASK, "lang": "py", "argsrepr": "", "kwargsrepr": ""}
    told = {"exchange": queued.exchange, "routing_key": queued.routing_key, "declare": [queued]}
    producer.publish(["neither", "arguments"], serializer="json", headers=headers, correlation_id="1", **told)
"""
SEND = """
queue.send(jobs.WORK_TASK, sys.argv[1], queue="imports")
print("sent", flush=True)
threading.Event().wait()
"""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "begun",
    [
        pytest.param(FIRST_ONLY, id="while the workers of other queues are not up yet"),
        pytest.param(BREAKING, id="behind a message that broke its worker"),
    ],
)
def test_a_task_is_done(begun: str) -> None:
    job = add_import("early", 3)
    environment = {"DJANGO_SETTINGS_MODULE": "compat_admin.settings", "CELERY_BROKER_URL": "memory://"}
    one = Process("-c", START + begun + SEND, job.id, **environment)
    try:
        until(lambda: Job.objects.filter(id=job.id, status="done").exists(), within_s=30)
    finally:
        one.kill()
    assert_once(job, 3)
