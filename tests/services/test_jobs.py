"""Jobs: taken once, held by a lease, queued again when nobody holds them, and what is kept of failures."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memory.errors import Conflict, InvalidInput, NotFound
from memory.models import Job, Thread
from memory.services import jobs
from memory.services.jobs import JobLost, Kind, Kinds, Work
from memory.services.secrets import without_keys
from tests.make import caller, make_run, make_thread

pytestmark = pytest.mark.django_db(transaction=True)


def kinds(work: Callable[[Work], Mapping[str, Any] | None], max_attempts: int = 3) -> Kinds:
    return {"some": Kind(work, "imports", "Something", max_attempts)}


def add(**arguments: Any) -> Job:
    return jobs.add_job(caller(), "some", arguments, queue_name="imports")


def again(job: Job) -> Job:
    job.refresh_from_db()
    return job


def later(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def orphan(job: Job) -> None:
    """As whoever was at it left the job when it was killed."""
    gone = {"status": "running", "owner": "gone#1", "attempt_count": 1, "lease_until": later(-1)}
    Job.objects.filter(id=job.id).update(**gone)


class TestDoing:
    def test_is_done_once_however_often_it_is_asked_for(self) -> None:
        seen: list[Mapping[str, Any]] = []
        job = add(n=1)
        known = kinds(lambda work: seen.append(work.arguments))
        assert [jobs.do_job(job.id, known) for _ in range(3)] == [True, False, False]
        assert seen == [{"n": 1}]
        assert (again(job).status, job.attempt_count, job.error) == ("done", 1, "")

    def test_of_many_at_once_one_takes_it(self) -> None:
        count: list[int] = []
        job = add()
        ready = threading.Barrier(6)

        def take() -> None:
            try:
                ready.wait()
                jobs.do_job(job.id, kinds(lambda work: count.append(1)))
            finally:
                connection.close()

        takers = [threading.Thread(target=take) for _ in range(6)]
        for taker in takers:
            taker.start()
        for taker in takers:
            taker.join()
        assert count == [1]

    def test_keeps_its_result_and_says_how_far_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "_WRITE_EVERY_S", 0)
        seen = []

        def work(work: Work) -> dict[str, int]:
            for number in work.each(range(3), total=3, note="counting"):
                row = Job.objects.get()
                seen.append((number, row.done_count, row.total_count, row.note))
            return {"sum": 3}

        job = add()
        jobs.do_job(job.id, kinds(work))
        assert seen == [(n, n, 3, "counting") for n in range(3)]
        assert again(job).result == {"sum": 3}

    def test_is_not_begun_before_it_is_due(self) -> None:
        job = add()
        Job.objects.update(due_at=later(60))
        assert not jobs.do_job(job.id, kinds(lambda work: None))
        assert again(job).status == "queued"

    def test_of_a_key_is_made_once(self) -> None:
        first, second = (
            jobs.add_job(caller(), "some", {"n": n}, queue_name="maintenance", key="2026-03-01") for n in range(2)
        )
        other = jobs.add_job(caller(), "some", {}, queue_name="maintenance", key="2026-03-02")
        assert (first.id, second.arguments) == (second.id, {"n": 0})
        assert set(Job.objects.values_list("id", flat=True)) == {first.id, other.id}


class TestFailing:
    def test_is_tried_again_after_a_pause_that_grows_and_then_given_up(self) -> None:
        def fail(work: Work) -> None:
            raise OSError(f"disk, time {work.job.attempt_count}")

        job, pauses = add(), []
        for _ in range(3):
            assert jobs.do_job(job.id, kinds(fail))
            pauses.append((again(job).due_at - timezone.now()).total_seconds())
            Job.objects.filter(status="queued").update(due_at=later(-1))
        assert 1 < pauses[0] <= 2 and 3 < pauses[1] <= 4
        assert (job.status, job.attempt_count, job.error) == ("failed", 3, "OSError: disk, time 3")
        assert "in fail" in job.traceback and job.finished_at is not None

    def test_what_was_asked_wrongly_is_not_tried_again(self) -> None:
        def refuse(work: Work) -> None:
            raise InvalidInput("no such thing")

        job = add()
        jobs.do_job(job.id, kinds(refuse))
        assert (again(job).status, job.attempt_count) == ("failed", 1)

    def test_a_kind_that_nobody_knows_fails(self) -> None:
        job = add()
        assert jobs.do_job(job.id, {})
        assert again(job).status == "failed"

    def test_succeeding_later_forgets_the_failure(self) -> None:
        def once(work: Work) -> None:
            if work.job.attempt_count == 1:
                raise OSError("disk")

        job = add()
        for _ in range(2):
            jobs.do_job(job.id, kinds(once))
            Job.objects.filter(status="queued").update(due_at=later(-1))
        assert (again(job).status, job.error, job.traceback) == ("done", "", "")


class TestLeases:
    def test_that_ran_out_give_the_job_to_somebody_else(self) -> None:
        job = add()
        orphan(job)
        assert jobs.sweep(kinds(lambda work: None)) == 1
        assert (again(job).status, job.attempt_count) == ("queued", 1)
        assert "its lease ran out" in job.error
        assert jobs.do_job(job.id, kinds(lambda work: None))
        assert (again(job).status, job.attempt_count, job.error) == ("done", 2, "")

    def test_that_ran_out_too_often_end_it(self) -> None:
        job = add()
        orphan(job)
        assert jobs.sweep(kinds(lambda work: None, max_attempts=1)) == 0
        assert (again(job).status, "lease ran out" in job.error) == ("failed", True)

    def test_are_kept_while_it_is_worked_on(self, settings: Any) -> None:
        settings.COMPAT_ADMIN_JOB_LEASE_S = 0.2
        renewed = threading.Event()

        def work(work: Work) -> None:
            first = Job.objects.get().lease_until
            while Job.objects.get().lease_until == first:
                renewed.wait(0.01)
            assert jobs.sweep(kinds(lambda work: None)) == 0

        job = add()
        jobs.do_job(job.id, kinds(work))
        assert again(job).status == "done"

    def test_whoever_lost_it_writes_nothing_any_more(self) -> None:
        def work(work: Work) -> None:
            Job.objects.update(owner="somebody else")
            with pytest.raises(JobLost), work.step(at=1):
                make_thread(id="never")
            work.progress(1)

        job = add()
        jobs.do_job(job.id, kinds(work))
        assert (again(job).status, job.owner, job.state) == ("running", "somebody else", {})
        assert not Thread.objects.exists()

    def test_a_step_is_kept_with_where_to_go_on(self) -> None:
        begun = []

        def work(work: Work) -> None:
            begun.append(work.state.get("done", 0))
            for number in range(work.state.get("done", 0), 4):
                with work.step(done=number + 1):
                    make_thread(id=f"t{number}")
                if number == 1 and work.job.attempt_count == 1:
                    raise OSError("killed")

        job = add()
        for _ in range(2):
            jobs.do_job(job.id, kinds(work))
            Job.objects.filter(status="queued").update(due_at=later(-1))
        assert again(job).status == "done" and begun == [0, 2]
        assert Thread.objects.count() == 4


class TestSweep:
    def test_calls_once_in_a_while_for_what_is_due(self) -> None:
        job = add()
        known = kinds(lambda work: None)
        assert jobs.sweep(known) == 0  # It was called for when it was made.
        at = later(jobs.WAKE_AGAIN_S + 1)
        assert jobs.sweep(known, now=at) == 1
        assert jobs.sweep(known, now=at) == 0
        Job.objects.update(due_at=at + timedelta(hours=1), woken_at=None)
        assert jobs.sweep(known, now=at) == 0
        assert again(job).status == "queued"

    def test_closes_the_jobs_of_turns_that_are_over(self) -> None:
        over = make_run(make_thread(), status="interrupted", error_message="gone")
        going = make_run(make_thread(), status="running")
        for run in (over, going):
            Job.objects.create(id=f"job-{run.id}", kind="run", status="running", arguments={"run_id": run.id})
        jobs.sweep({})
        assert dict(Job.objects.values_list("id", "status")) == {
            f"job-{over.id}": "failed",
            f"job-{going.id}": "running",
        }
        assert Job.objects.get(id=f"job-{over.id}").error == "gone"


class TestCancelling:
    def test_ends_it_at_its_next_step(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jobs, "_WRITE_EVERY_S", 0)
        done = []

        def work(work: Work) -> None:
            for number in work.each(range(5)):
                done.append(number)
                jobs.cancel_job(caller(), work.job.id)

        job = add()
        jobs.do_job(job.id, kinds(work))
        assert again(job).status == "cancelled" and done == [0]
        with pytest.raises(Conflict):
            jobs.cancel_job(caller(), job.id)

    def test_of_an_orphan_is_done_by_the_sweep(self) -> None:
        job = add()
        orphan(job)
        jobs.cancel_job(caller(), job.id)
        jobs.sweep(kinds(lambda work: None))
        assert again(job).status == "cancelled"


def test_a_job_of_another_resource_is_not_there() -> None:
    job = jobs.add_job(caller("ada"), "some", {}, queue_name="imports")
    assert jobs.job_for(caller("ada"), job.id).id == job.id
    for outsider in (lambda: jobs.job_for(caller("eve"), job.id), lambda: jobs.job_for(caller(), "no\x00job")):
        with pytest.raises(NotFound):
            outsider()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key sk-ant-api03-abcdefghijklmnop failed", "key [key] failed"),
        ("Authorization: Bearer abc.def-ghi123", "Authorization: Bearer [key]"),
        ("{'x-api-key': 'abcdef123456'}", "{'x-api-key': '[key]'}"),
        ("amqp://me:hunter2!@host/x", "amqp://me:[key]@host/x"),
        ("the token count is 12", "the token count is 12"),
    ],
)
def test_keys_are_hidden_and_other_words_are_not(text: str, shown: str) -> None:
    assert without_keys(text) == shown


def test_the_keys_of_connections_are_hidden_whatever_they_look_like(monkeypatch: pytest.MonkeyPatch) -> None:
    from memory.models import Provider

    monkeypatch.setenv("ODD_KEY", "correct horse battery")
    Provider.objects.create(id="other", protocol="openai-chat", base_url="http://x.test", key_ref="env:ODD_KEY")
    assert without_keys("said: correct horse battery!") == "said: [key]!"
