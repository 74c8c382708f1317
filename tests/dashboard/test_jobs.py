"""Pages of jobs: what is listed, how one is begun, cancelled and begun again, and what is kept of a failure."""

import json
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.models import AuditEvent, Job, JobFile, Thread
from memory.services import jobs
from memory.services.job_kinds import KINDS
from tests.make import make_thread

pytestmark = pytest.mark.django_db


def make_job(**fields: object) -> Job:
    number = Job.objects.count() + 1
    return Job.objects.create(**{"id": f"job-{number}", "kind": "import", "queue": "imports", **fields})


def lines_of(*texts: str) -> bytes:
    bodies = [{"model": "gpt-4o", "messages": [{"role": "user", "content": text}]} for text in texts]
    return "\n".join(json.dumps(body) for body in bodies).encode()


class TestList:
    def test_tells_state_progress_and_failure(self, pages: Client) -> None:
        make_job(title="Half way", status="running", done_count=30, total_count=60)
        make_job(title="Broken", status="failed", error="ValueError: <b>no</b>", finished_at=timezone.now())
        html = pages.get(reverse("jobs")).content.decode()
        assert 'value="30"' in html and 'max="60"' in html
        assert "ValueError: &lt;b&gt;no&lt;/b&gt;" in html

    def test_polls_only_while_something_goes_on(self, pages: Client) -> None:
        job = make_job(status="running")
        assert 'hx-trigger="every' in pages.get(reverse("jobs")).content.decode()
        Job.objects.filter(id=job.id).update(status="done")
        assert 'hx-trigger="every' not in pages.get(reverse("jobs")).content.decode()

    def test_says_when_nobody_is_called_for_what_is_due(self, pages: Client) -> None:
        long_ago = timezone.now() - timedelta(minutes=2)
        make_job(status="running", due_at=long_ago)
        make_job(due_at=timezone.now() + timedelta(hours=1))
        make_job()
        called = make_job(due_at=long_ago, woken_at=timezone.now())
        assert "no worker has been called" not in pages.get(reverse("jobs")).content.decode()
        make_job(due_at=long_ago)
        Job.objects.filter(id=called.id).update(woken_at=long_ago)
        html = pages.get(reverse("jobs")).content.decode()
        assert "2 jobs" in html and "no worker has been called" in html and "serve worker" in html

    def test_can_be_narrowed(self, pages: Client) -> None:
        make_job(title="this one", status="failed")
        make_job(title="the other one", status="done")
        html = pages.get(reverse("jobs"), {"status": "failed"}).content.decode()
        assert "this one" in html and "the other one" not in html
        assert "No job matches" in pages.get(reverse("jobs"), {"kind": "preview"}).content.decode()

    def test_pages_by_key_with_as_many_queries_as_for_one(
        self, pages: Client, django_assert_num_queries: object
    ) -> None:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        make_job()
        with CaptureQueriesContext(connection) as one:
            pages.get(reverse("jobs"))
        for _ in range(45):
            make_job()
        with CaptureQueriesContext(connection) as many:
            page = pages.get(reverse("jobs"))
        assert len(many) == len(one)
        older = page.context["older"]
        assert len(page.context["page"].items) == 40
        assert len(pages.get(reverse("jobs") + older).context["page"].items) == 6


class TestJob:
    def test_shows_the_traceback_without_keys(self, pages: Client) -> None:
        def breaks(work: jobs.Work) -> None:
            raise RuntimeError("refused: Authorization: Bearer sk-ant-very-secret-key-1234567890")

        job = make_job(kind="breaks")
        kind = jobs.Kind(breaks, "imports", "Breaks", max_attempts=1)
        assert jobs.do_job(job.id, {"breaks": kind})
        html = pages.get(reverse("job", args=[job.id])).content.decode()
        assert "Traceback (most recent call last)" in html and "in breaks" in html
        assert "very-secret" not in html and "[key]" in html
        job.refresh_from_db()
        assert (job.status, job.attempt_count) == ("failed", 1)
        assert "very-secret" not in job.error + job.traceback

    def test_that_failed_is_begun_again(self, pages: Client) -> None:
        job = make_job(status="failed", attempt_count=3, finished_at=timezone.now())
        assert pages.post(reverse("job-retry", args=[job.id])).status_code == 302
        job.refresh_from_db()
        assert (job.status, job.attempt_count, job.finished_at) == ("queued", 0, None)
        assert AuditEvent.objects.get().action == "job.retry"

    def test_that_is_done_is_not(self, pages: Client) -> None:
        job = make_job(status="done", finished_at=timezone.now())
        page = pages.post(reverse("job-retry", args=[job.id]), follow=True)
        assert "It was not begun again: this job is done." in page.content.decode()
        assert Job.objects.get().status == "done"

    def test_that_is_queued_is_cancelled_at_once_and_a_running_one_asked(self, pages: Client) -> None:
        queued, running = make_job(), make_job(status="running", owner="somebody")
        for job in (queued, running):
            pages.post(reverse("job-cancel", args=[job.id]))
        queued.refresh_from_db()
        running.refresh_from_db()
        assert (queued.status, running.status) == ("cancelled", "running")
        assert running.cancel_asked_at is not None
        assert "It ends at its next step." in pages.get(reverse("job", args=[running.id])).content.decode()

    def test_of_a_turn_names_its_run_and_is_left_to_it(self, pages: Client) -> None:
        job = make_job(kind="run", arguments={"run_id": "run_1"})
        html = pages.get(reverse("job", args=[job.id])).content.decode()
        assert reverse("run", args=["run_1"]) in html and "job-cancel" not in html and ">Cancel<" not in html
        pages.post(reverse("job-cancel", args=[job.id]))
        assert Job.objects.get().status == "queued"

    def test_that_is_not_there_is_404(self, pages: Client) -> None:
        assert pages.get(reverse("job", args=["nothing"])).status_code == 404


class TestImport:
    def test_of_a_file_becomes_threads(self, pages: Client) -> None:
        upload = SimpleUploadedFile("given.jsonl", lines_of("one?", "two?"))
        page = pages.post(reverse("job-import"), {"file": upload, "resource_id": "ada", "format": ""})
        job = Job.objects.get()
        assert page.headers["Location"] == reverse("job", args=[job.id])
        assert (job.queue, job.made_by, job.file.name) == ("imports", "operator", "given.jsonl")
        assert jobs.do_job(job.id, KINDS)
        job.refresh_from_db()
        assert (job.status, job.result["threads made"], job.result["left out"]) == ("done", 2, 0)
        assert Thread.objects.filter(resource_id="ada").count() == 2
        assert not JobFile.objects.exists()
        assert "Threads made" in pages.get(reverse("job", args=[job.id])).content.decode()

    def test_without_a_file_or_owner_says_so(self, pages: Client) -> None:
        page = pages.post(reverse("job-import"), {"resource_id": "ada"})
        assert page.status_code == 422 and "choose a file" in page.content.decode()
        empty = SimpleUploadedFile("x.json", b"{}")
        page = pages.post(reverse("job-import"), {"file": empty, "resource_id": " "})
        assert page.status_code == 422 and "say whose threads these become" in page.content.decode()
        assert not Job.objects.exists()


class TestPreview:
    def test_counts_what_all_threads_would_need(self, pages: Client) -> None:
        make_thread("ada", messages=2)
        make_thread("ada", messages=3)
        page = pages.post(reverse("job-preview"), {"model": "anthropic/claude-opus-4-6", "agent_id": ""})
        job = Job.objects.get()
        assert page.headers["Location"] == reverse("job", args=[job.id])
        assert jobs.do_job(job.id, KINDS)
        job.refresh_from_db()
        assert job.result["threads"] == 2
        assert job.result["as stored"] + job.result["changed"] + job.result["refused"] == 2

    def test_refuses_a_model_of_nobody(self, pages: Client) -> None:
        page = pages.post(reverse("job-preview"), {"model": "nobody/x", "agent_id": ""})
        assert page.status_code == 422 and not Job.objects.exists()
