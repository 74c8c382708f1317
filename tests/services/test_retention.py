"""What runs have kept goes when its time is over; what was decided stays, and what others still need."""

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from memory import bodies, queries
from memory.errors import Conflict, RunFailed
from memory.fragments import cut
from memory.models import Attempt, Fragment, Run, RunEvent, Thread
from memory.sandbox import Sandbox
from memory.services import agents, runs
from memory.services.retention import Removed, remove_expired
from memory.services.runs import GenerateRequest, generate
from tests.ledger.test_fragments import body_of, messages
from tests.make import add_messages, caller, make_attempt, make_run, make_thread, text


def after(days: float) -> datetime:
    return timezone.now() + timedelta(days=days)


@pytest.fixture
def agent_id(sandbox: Sandbox) -> str:
    values = {"id": "plain", "name": "Plain", "model": "anthropic/claude-sonnet-4-5", "settings": {"max_tokens": 90}}
    return agents.create_agent(caller(), values).id


@pytest.fixture
def answered(agent_id: str) -> Run:
    result = generate(caller(), agent_id, GenerateRequest(messages="What of order 12?", thread_id="t-1"))
    return Run.objects.get(id=result.run_id)


@pytest.fixture
def failed(agent_id: str, sandbox: Sandbox) -> Run:
    sandbox.script("anthropic", status=401)
    with pytest.raises(RunFailed) as raised:
        generate(caller(), agent_id, GenerateRequest(messages="Another matter", thread_id="t-2"))
    return Run.objects.get(id=raised.value.run_id)


class TestRuns:
    def test_stay_whole_until_their_time(self, answered: Run) -> None:
        assert remove_expired(now=after(6.9)) == Removed(0, 0, 0)
        answered.refresh_from_db()
        assert answered.removed_at is None
        assert queries.attempt_bodies(answered.id, 1).sent.content

    def test_lose_what_was_said_and_keep_what_was_decided(self, answered: Run) -> None:
        before = Attempt.objects.values("decision", "status", "request_size", "request_sha256", "response_size").get()
        removed = remove_expired(now=after(7.1))
        assert (removed.runs, removed.events) == (1, 4)
        assert Attempt.objects.values(*before).get() == before
        row = Attempt.objects.get()
        assert not any(bytes(getattr(row, name)) for name in ("request_record", "setup_record", "response_body"))
        assert (row.request_headers, row.response_headers, row.changes) == ({}, {}, "[]")
        answered.refresh_from_db()
        assert (answered.input, answered.settings, answered.state) == ("[]", "{}", "{}")
        assert answered.removed_at is not None
        assert not RunEvent.objects.exists()
        found = queries.attempt_bodies(answered.id, 1)
        assert (found.is_sent_kept, found.is_came_kept) == (False, False)

    def test_are_removed_once(self, answered: Run) -> None:
        remove_expired(now=after(8))
        assert remove_expired(now=after(8)).runs == 0

    def test_that_failed_stay_longer(self, answered: Run, failed: Run) -> None:
        assert remove_expired(now=after(29.9)).runs == 1
        failed.refresh_from_db()
        assert (failed.removed_at, failed.input != "[]") == (None, True)
        assert remove_expired(now=after(30.1)).runs == 1

    def test_stay_for_good_where_that_is_set(self, answered: Run, failed: Run, settings: Any) -> None:
        settings.COMPAT_ADMIN_KEEP_ANSWERED_DAYS = 0
        assert remove_expired(now=after(5000)).runs == 1
        answered.refresh_from_db()
        assert answered.removed_at is None
        assert queries.attempt_bodies(answered.id, 1).sent.problem == ""

    def test_that_go_on_are_left_alone(self, agent_id: str) -> None:
        run = make_run(make_thread(), status="running", input='["kept"]')
        assert remove_expired(now=after(400)).runs == 0
        run.refresh_from_db()
        assert run.input == '["kept"]'

    def test_that_wait_for_tool_results_keep_their_state(self, db: None) -> None:
        run = make_run(make_thread(), status="waiting", finished_at=timezone.now(), state='{"steps":1}')
        assert remove_expired(now=after(8)).runs == 1
        run.refresh_from_db()
        assert run.state == '{"steps":1}'

    def test_cannot_be_run_again(self, failed: Run) -> None:
        remove_expired(now=after(31))
        with pytest.raises(Conflict, match="was removed on"):
            runs.rerun(caller(), failed.id)

    def test_come_in_batches(self, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memory.services.retention._BATCH", 3)
        thread = make_thread()
        for _ in range(8):
            run = make_run(thread)
            make_attempt(run)
            RunEvent.objects.create(run=run, seq=1, type="finished")
        removed = remove_expired(now=after(8))
        assert (removed.runs, removed.events) == (8, 8)
        assert Run.objects.filter(removed_at=None).count() == 0


class TestFragments:
    def test_go_when_nothing_is_made_of_them(self, answered: Run) -> None:
        assert Fragment.objects.exists()
        assert remove_expired(now=after(8)).fragments == 0
        assert remove_expired(now=after(11)).fragments > 0
        assert not Fragment.objects.exists()

    def test_stay_while_a_failed_run_is_kept(self, answered: Run, failed: Run) -> None:
        for day in range(5, 30, 3):
            remove_expired(now=after(day))
        found = queries.attempt_bodies(failed.id, 1)
        assert (found.sent.problem, found.is_sent_kept) == ("", True)
        assert found.setup
        for day in range(31, 45, 3):
            remove_expired(now=after(day))
        assert not Fragment.objects.exists()

    def test_stay_however_rarely_anybody_sweeps(self, failed: Run) -> None:
        remove_expired(now=after(29))
        assert queries.attempt_bodies(failed.id, 1).sent.problem == ""

    def test_of_a_thread_that_lives_on_stay(self, agent_id: str) -> None:
        make_thread("u-1", id="t-1")
        add_messages(Thread.objects.get(id="t-1"), *(text(f"{i} " + "word " * 30) for i in range(60)))
        Fragment.objects.all().delete()
        generate(caller(), agent_id, GenerateRequest(messages="one", thread_id="t-1"))
        Fragment.objects.update(used_on=timezone.now().date() - timedelta(days=8))
        second = generate(caller(), agent_id, GenerateRequest(messages="two", thread_id="t-1"))
        remove_expired(now=after(5))
        assert queries.attempt_bodies(second.run_id, 1).sent.problem == ""

    def test_that_went_are_written_again(self, db: None) -> None:
        made = cut(body_of(messages(40)))
        with transaction.atomic():
            bodies.keep(made)
        remove_expired(now=after(20))
        assert not Fragment.objects.exists()
        with transaction.atomic():
            bodies.keep(made)
        assert bodies.read({"it": (made.record, "")})["it"].content == body_of(messages(40))

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.skipif("connection.vendor == 'sqlite'", reason="SQLite has one writer at a time")
    def test_that_somebody_is_about_to_need_are_left(self) -> None:
        made = cut(body_of(messages(40)))
        with transaction.atomic():
            bodies.keep(made)
        Fragment.objects.update(used_on=timezone.now().date() - timedelta(days=60))
        swept: list[Removed] = []

        def sweep() -> None:
            try:
                swept.append(remove_expired())
            finally:
                connection.close()

        with transaction.atomic():
            bodies.keep(made)
            sweeper = threading.Thread(target=sweep)
            sweeper.start()
            sweeper.join(20)
            assert swept == [Removed(0, 0, 0)]
        remove_expired()
        assert bodies.read({"it": (made.record, "")})["it"].content == body_of(messages(40))
