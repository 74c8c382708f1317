import hashlib
import html
import re
import zlib
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone

from compat_admin.dashboard import runs
from compat_admin.dashboard.runs import scale
from memory import bodies
from memory.fragments import cut
from memory.models import Run
from memory.queries import attempts_of
from memory.services.bundles import read_bundle
from tests.make import make_agent, make_attempt, make_run, make_thread


def failed_run(**fields: Any) -> Run:
    """A run of three attempts: refused and repaired, overloaded and waited for, given up."""
    start = timezone.now() - timedelta(minutes=5)
    run = make_run(
        make_thread(title="a thread"),
        status="failed",
        attempt_count=3,
        error_class="overloaded",
        error_message="Overloaded",
        finished_at=timezone.now(),
        **fields,
    )
    outcomes: list[dict[str, Any]] = [
        {"status": 400, "error_message": "bad id", "decision": "retry", "reason": "the ids were repaired"},
        {
            "status": 529,
            "decision": "retry",
            "reason": "the provider asked for it",
            "delay_wanted_ms": 8000,
            "delay_granted_ms": 8000,
            "slept_ms": 8003,
        },
        {"status": 529, "decision": "give-up", "reason": "the budget is used up"},
    ]
    for i, outcome in enumerate(outcomes):
        began = start + timedelta(seconds=(0, 1, 11)[i])
        make_attempt(
            run,
            started_at=began,
            finished_at=began + timedelta(seconds=1),
            asked_by="stream-error-retry-processor",
            request_body=zlib.compress(b'{"model":"m","n":123456789012345678901234567890}'),
            request_size=48,
            response_body=zlib.compress(b"<html><script>alert(1)</script>"),
            response_size=31,
            **outcome,
        )
    return run


def body(*messages: dict[str, str]) -> bytes:
    return msgspec.json.encode({"model": "m", "messages": messages})


def kept(run: Run, content: bytes, **fields: Any) -> None:
    """An attempt that sent this."""
    made = cut(content)
    with transaction.atomic():
        bodies.keep(made)
    digest = hashlib.sha256(content).hexdigest()
    values = {"request_record": made.record, "request_size": len(content), "request_sha256": digest, "status": 200}
    make_attempt(run, **{**values, **fields})


class TestRunList:
    def test_filters_by_state(self, pages: Client) -> None:
        failed = failed_run()
        fine = make_run(make_thread(), status="succeeded")

        shown = pages.get("/runs/?status=failed").content.decode()

        assert failed.id in shown
        assert fine.id not in shown
        assert "Nothing failed" in pages.get("/runs/?status=failed&thread=none").content.decode()

    def test_filters_by_who_when_and_how_it_went(self, pages: Client) -> None:
        agent = make_agent()
        plain = make_run(make_thread())
        odd = make_run(
            make_thread(),
            agent=agent,
            provider="openai",
            model_id="gpt-5",
            status="failed",
            error_class="rate-limit",
            attempt_count=3,
            created_at=timezone.now() - timedelta(days=2),
        )
        for query in (
            f"agent={agent.id}",
            "provider=openai",
            "model=gpt-5",
            "error=rate-limit",
            "retries=yes",
            "since=week&error=rate-limit",
        ):
            shown = pages.get(f"/runs/?{query}").content.decode()
            assert odd.id in shown and plain.id not in shown, query
        shown = pages.get("/runs/?since=day").content.decode()
        assert plain.id in shown and odd.id not in shown
        assert "Remove filter Since" in shown

    def test_keep_their_filters_from_page_to_page(self, pages: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runs, "PER_PAGE", 1)
        failed_run(), failed_run()
        first = pages.get("/runs/?status=failed").content.decode()
        older = re.search(r'href="(/runs/\?status=failed&amp;cursor=[^"]+)"', first)
        assert older is not None and ">Newest</a>" not in first
        second = pages.get(html.unescape(older[1])).content.decode()
        assert '<a class="btn" href="/runs/?status=failed">Newest</a>' in second and ">Older</a>" not in second

    def test_costs_the_same_number_of_queries_with_more_rows(
        self, pages: Client, django_assert_num_queries: Any
    ) -> None:
        failed_run()
        with django_assert_num_queries(6):
            pages.get("/runs/")
        for _ in range(4):
            failed_run()
        with django_assert_num_queries(6):
            pages.get("/runs/")


class TestRun:
    def test_begins_with_what_happened_and_tells_every_decision(self, pages: Client) -> None:
        run = failed_run()

        shown = pages.get(f"/runs/{run.id}/").content.decode()

        for words in (
            "Failed after 3 attempts: Overloaded",
            "at once: the ids were repaired",
            "after 8 s: the provider asked for it",
            "wanted 8 s, granted 8 s",
            "Given up",
            "the budget is used up",
            "stream-error-retry-processor",
        ):
            assert words in shown

    def test_says_which_attempt_answered(self, pages: Client) -> None:
        run = make_run(make_thread(), status="succeeded", attempt_count=2)
        make_attempt(run, decision="retry", status=529, error_class="overloaded")
        make_attempt(run, decision="answered", status=200)

        assert "Answered on the second attempt, after an overload." in pages.get(f"/runs/{run.id}/").content.decode()

    def test_shows_the_bodies_without_running_them_and_gives_the_exact_bytes(self, pages: Client) -> None:
        run = failed_run()

        shown = pages.get(f"/runs/{run.id}/?attempt=1").content.decode()

        assert "<script>alert" not in shown
        assert "123456789012345678901234567890" in shown
        file = pages.get(f"/runs/{run.id}/attempts/1/response/")
        assert file.content == b"<html><script>alert(1)</script>"
        assert file["Content-Type"].startswith("text/plain")
        assert file["Content-Disposition"].startswith("attachment")
        assert pages.get(f"/runs/{run.id}/attempts/9/response/").status_code == 404
        assert pages.get(f"/runs/{run.id}/attempts/1/key/").status_code == 404

    @pytest.mark.parametrize(("status", "polls"), [("queued", True), ("running", True), ("failed", False)])
    def test_asks_again_only_while_it_is_going_on(self, pages: Client, status: str, polls: bool) -> None:
        run = make_run(make_thread(), status=status)

        shown = pages.get(f"/runs/{run.id}/", headers={"HX-Request": "true"}).content.decode()

        assert ('hx-trigger="every 2s"' in shown) is polls
        assert ("Run again" in shown) is (status == "failed")

    def test_is_run_again_by_a_form_only(self, pages: Client) -> None:
        run = failed_run()

        assert pages.get(f"/runs/{run.id}/again/").status_code == 405
        # Its agent is gone, so nothing is run.
        assert pages.post(f"/runs/{run.id}/again/").status_code == 409
        assert Run.objects.count() == 1


class TestBodies:
    @pytest.mark.parametrize(
        ("words", "said", "size"),
        [(20, "whole", "155 B"), (40_000, "long texts cut", "200 KB"), (80_000, "first 64 KB shown", "400 KB")],
    )
    def test_say_how_much_of_them_is_shown(self, pages: Client, words: int, said: str, size: str) -> None:
        run = make_run(make_thread())
        kept(run, body({"role": "user", "content": "word " * words}))

        shown = pages.get(f"/runs/{run.id}/").content.decode()

        assert f"{size}, {said}, sha256" in shown
        assert len(shown) < 200_000

    def test_show_what_differs_from_the_attempt_before(self, pages: Client) -> None:
        run = make_run(make_thread(), attempt_count=2)
        same = {"role": "user", "content": "the same"}
        kept(run, body(same, {"role": "user", "content": "old <b>text</b>"}), decision="retry")
        kept(run, body(same, {"role": "user", "content": "new <b>text</b>"}))

        shown = pages.get(f"/runs/{run.id}/").content.decode()

        assert "What differs from 1" in shown
        assert "1 piece changed. All else is byte for byte the same." in shown
        assert "<b>messages[1]</b> changed" in shown
        assert "old &lt;b&gt;text" in shown.split("<del>")[1]
        assert "new &lt;b&gt;text" in shown.split("<ins>")[1]
        assert "What differs" not in pages.get(f"/runs/{run.id}/?attempt=1").content.decode()

    def test_that_are_the_same_are_said_to_be(self, pages: Client) -> None:
        run = make_run(make_thread(), attempt_count=2)
        for _ in range(2):
            kept(run, body({"role": "user", "content": "x"}))

        assert "Byte for byte the same request." in pages.get(f"/runs/{run.id}/").content.decode()

    def test_that_are_not_what_was_sent_are_marked(self, pages: Client) -> None:
        run = make_run(make_thread())
        kept(run, body({"role": "user", "content": "x"}), request_sha256="0" * 64)

        assert "these are not the bytes that were sent" in pages.get(f"/runs/{run.id}/").content.decode()

    def test_that_were_removed_are_said_to_be_with_the_day(self, pages: Client) -> None:
        day = datetime(2026, 12, 8, tzinfo=UTC)
        run = make_run(make_thread(), status="failed", removed_at=day)
        make_attempt(run, request_size=500, response_size=20, decision="give-up", reason="the budget is used up")

        shown = pages.get(f"/runs/{run.id}/").content.decode()

        assert "Bodies removed on 2026-12-08" in shown
        assert "the budget is used up" in shown
        assert "Run again" not in shown

    def test_that_were_never_kept_are_told_from_empty_ones(self, pages: Client) -> None:
        run = make_run(make_thread())
        make_attempt(run, request_size=500)

        shown = pages.get(f"/runs/{run.id}/").content.decode()

        assert "Not kept: its agent is set to keep no bodies." in shown
        assert "Nothing." in shown

    def test_come_in_a_bundle(self, pages: Client) -> None:
        run = make_run(make_thread())
        kept(run, body({"role": "user", "content": "x"}))

        file = pages.get(f"/runs/{run.id}/bundle/")

        assert file["Content-Disposition"] == f'attachment; filename="{run.id}.json"'
        assert read_bundle(file.content).attempts[0].request.body.content == body({"role": "user", "content": "x"})
        assert pages.get("/runs/absent/bundle/").status_code == 404


class TestCapture:
    def test_is_chosen_on_the_agents_page(self, pages: Client) -> None:
        agent = make_agent(name="<b>Helper</b>")
        assert "&lt;b&gt;Helper" in pages.get("/agents/").content.decode()

        answer = pages.post(f"/agents/{agent.id}/capture/", {"capture": "changes"}, follow=True)

        assert "changes only" in answer.content.decode()
        agent.refresh_from_db()
        assert agent.capture == "changes"
        assert pages.post(f"/agents/{agent.id}/capture/", {"capture": "some"}).status_code == 400
        assert pages.post("/agents/absent/capture/", {"capture": "off"}).status_code == 404
        assert pages.get(f"/agents/{agent.id}/capture/").status_code == 405


@pytest.mark.django_db
class TestScale:
    def test_is_in_percent_of_the_whole_with_the_waits_in_it(self) -> None:
        drawn = scale(attempts_of(failed_run().id))

        assert drawn is not None
        assert drawn.total_s == pytest.approx(12)
        assert drawn.waits_s == pytest.approx(9)
        assert [bar.x for bar in drawn.bars if bar.number] == ["0.00%", "8.33%", "91.67%"]
        assert [bar.label for bar in drawn.bars if not bar.number] == ["waited 9 s"]

    def test_is_not_drawn_where_there_is_nothing_to_draw(self) -> None:
        assert scale([]) is None
