"""Runs on their way through a process: waits without threads, cancelling, one run a thread, crashes, other models.

Everything is real here: threads, rows that other threads see, a provider over HTTP. Waits are ended by the runs' own
events, never by sleeping.
"""

import gc
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memory.errors import Busy, Conflict, InvalidInput, RunCancelled
from memory.models import Attempt, Job, Message, Run, RunEvent, Thread
from memory.sandbox import Sandbox
from memory.services import agents, leases, runs, streams
from memory.services.feed import feed_of
from memory.services.ledger import RunLost
from memory.services.runner import OWNER, claim_queued, close_job, renew_leases, runner
from memory.services.runs import GenerateRequest
from memory.services.turns import RunTurn
from memory.store import delete_thread
from tests.make import caller, streamed
from tests.services.test_streams import read, text_of

pytestmark = pytest.mark.django_db(transaction=True)
PATIENT = {
    "id": "patient",
    "name": "Patient",
    "model": "anthropic/claude-sonnet-4-5",
    "error_processors": [{"id": "stream-error-retry-processor", "options": {"max_retries": 3}}],
    "input_processors": ["message-history", "provider-history-compat"],
    "output_processors": ["message-history"],
}
LONG = "one two three four five six seven eight nine ten"


@pytest.fixture
def sandbox(transactional_db: None, running_sandbox: Sandbox, settings: Any) -> Iterator[Sandbox]:
    """The sandbox, for tests whose rows other threads have to see; runs that a test leaves are ended after it."""
    from memory.models import Provider

    running_sandbox.clear()
    settings.SANDBOX_URL = running_sandbox.url
    for provider, protocol in (("anthropic", "anthropic-messages"), ("openai", "openai-chat")):
        Provider.objects.create(id=provider, protocol=protocol, base_url=f"sandbox:{provider}")
    agents.create_agent(caller(), PATIENT)
    yield running_sandbox
    for run_id in Run.objects.filter(finished_at=None).values_list("id", flat=True):
        try:
            runs.cancel_run(caller(), run_id)
        except Conflict:
            continue
        streams.wait_until_over(run_id)


def start(**more: Any) -> Run:
    values = {"messages": "hello", "thread_id": "t", **more}
    return streamed("patient", **values)


def events_until(run_id: str, type: str) -> list[tuple[int, str, Any]]:
    """The run's events up to the first of a type, as a reader gets them."""
    found = []
    for event in streams.read_events(run_id):
        if event is not None:
            found.append((event[0], event[1], json.loads(event[2])))
            if event[1] == type:
                break
    return found


def park(sandbox: Sandbox, seconds: int = 3600, **more: Any) -> Run:
    """A run that waits for its second attempt."""
    sandbox.script("anthropic", status=429, headers={"retry-after": str(seconds)})
    run = start(**more)
    events_until(run.id, "attempt")
    until(run, lambda: Run.objects.filter(id=run.id).exclude(due_at=None).exists())
    return run


def until(run: Run, is_so: Callable[[], bool]) -> None:
    """Look until the run has come so far, or ended."""
    feed = feed_of(run.id)
    assert feed is not None
    while not is_so():
        assert not feed.wait_until_over(0.005), "it ended before"


class TestWait:
    def test_is_on_the_row_and_takes_no_thread(self, sandbox: Sandbox) -> None:
        def call_threads() -> set[str]:
            return {thread.name for thread in threading.enumerate() if thread.name.startswith("run call")}

        first = park(sandbox, thread_id="t0")
        before = call_threads()
        waiting = [first, *(park(sandbox, thread_id=f"t{number}") for number in range(1, 12))]
        assert call_threads() == before
        row = Run.objects.get(id=first.id)
        assert (row.status, row.owner, row.due_at is not None) == ("running", OWNER, True)
        assert timedelta(seconds=25) < row.due_at - timezone.now() <= timedelta(seconds=30)
        for run in waiting:
            runs.cancel_run(caller(), run.id)
            assert read(run.id)[-1][2] == {"status": "cancelled"}

    def test_ends_with_the_next_attempt_and_says_how_long_it_was(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=429, headers={"retry-after": "1"})
        run = start()
        assert read(run.id)[-1][2] == {"status": "succeeded"}
        refused, answered = Attempt.objects.filter(run=run.id).order_by("number")
        assert (refused.decision, answered.decision) == ("retry", "answered")
        assert refused.slept_ms is not None and refused.slept_ms >= 950
        assert [row["status"] for row in sandbox.requests()] == [429, 200]
        assert refused.request_sha256 == answered.request_sha256

    def test_of_a_process_that_is_gone_goes_on_elsewhere(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        runner().leave(run.id)  # As if the process had ended: nobody knows of the run but its row.
        gone = timezone.now() - timedelta(seconds=1)
        Run.objects.filter(id=run.id).update(owner="gone:1", lease_until=gone, due_at=timezone.now())
        assert runs.close_expired_runs() == 1
        assert read(run.id)[-1][2] == {"status": "succeeded"}
        assert list(Attempt.objects.filter(run=run.id).order_by("number").values_list("decision", flat=True)) == [
            "retry",
            "answered",
        ]
        assert Message.objects.filter(thread_id="t").count() == 2


class TestCancel:
    def test_ends_a_wait_at_once(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        assert runs.cancel_run(caller(), run.id).id == run.id
        assert read(run.id)[-1][2] == {"status": "cancelled"}
        assert Thread.objects.get(id="t").active_run == ""
        assert len(sandbox.requests()) == 1
        with pytest.raises(Conflict):
            runs.cancel_run(caller(), run.id)

    def test_ends_a_stream_and_keeps_what_came_once(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", pace_s=0.5)
        run = start(messages=LONG)
        seen = events_until(run.id, "text-delta")
        runs.cancel_run(caller(), run.id)
        events = read(run.id)
        assert events[-1][2] == {"status": "cancelled"}
        row = Message.objects.get(thread_id="t", role="assistant")
        content = json.loads(row.content)
        assert content["metadata"]["incomplete"] is True
        assert content["parts"][0]["text"] == text_of(events) != ""
        assert text_of(events).startswith(text_of(seen))
        assert Attempt.objects.get().decision == "cancelled"

    def test_ends_a_silent_call(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", delay_s=60)
        run = start()
        until(run, lambda: bool(sandbox.requests()))
        runs.cancel_run(caller(), run.id)
        assert read(run.id)[-1][2] == {"status": "cancelled"}
        assert Message.objects.count() == 0

    def test_asked_of_another_process_is_seen_on_the_row(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        Run.objects.filter(id=run.id).update(cancel_asked_at=timezone.now())
        assert read(run.id)[-1][2] == {"status": "cancelled"}

    def test_of_a_queued_run_calls_nobody(self, sandbox: Sandbox) -> None:
        first = park(sandbox)
        queued = start(when_busy="queue")
        assert runs.cancel_run(caller(), queued.id).status == "cancelled"
        assert Job.objects.get().status == "cancelled"
        runs.cancel_run(caller(), first.id)
        assert read(first.id)[-1][1] == "finished"
        assert len(sandbox.requests()) == 1

    def test_is_what_a_caller_that_waits_is_told(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=429, headers={"retry-after": "3600"})
        told: list[BaseException] = []

        def ask() -> None:
            try:
                runs.generate(caller(), "patient", GenerateRequest(messages="hello", thread_id="t"))
            except RunCancelled as error:
                told.append(error)
            finally:
                connection.close()

        asking = threading.Thread(target=ask)
        asking.start()
        while not (ids := list(Run.objects.exclude(due_at=None).values_list("id", flat=True))):
            asking.join(0.01)
        runs.cancel_run(caller(), ids[0])
        asking.join(10)
        assert [error.run_id for error in told if isinstance(error, RunCancelled)] == ids


class TestOneRunAThread:
    def test_a_second_one_is_told_which_is_in_the_way(self, sandbox: Sandbox) -> None:
        first = park(sandbox)
        for ask in (
            start,
            lambda: runs.start_background(caller(), "patient", GenerateRequest(messages="x", thread_id="t")),
        ):
            with pytest.raises(Conflict) as raised:
                ask()
            assert (raised.value.code, raised.value.run_id) == ("run_active", first.id)
        assert Run.objects.count() == 1

    def test_queued_ones_start_in_order(self, sandbox: Sandbox) -> None:
        first = park(sandbox)
        queued = [start(messages=f"question {number}", when_busy="queue") for number in range(3)]
        assert {Run.objects.get(id=run.id).status for run in queued} == {"queued"}
        runs.cancel_run(caller(), first.id)
        for run in queued:
            assert read(run.id)[-1][2] == {"status": "succeeded"}
        asked = [
            json.loads(content)["parts"][0]["text"]
            for content in Message.objects.filter(thread_id="t", role="user")
            .order_by("seq")
            .values_list("content", flat=True)
        ]
        assert asked == ["question 0", "question 1", "question 2"]
        assert set(Job.objects.values_list("status", flat=True)) == {"done"}

    def test_nobody_passes_a_queued_one(self, sandbox: Sandbox) -> None:
        first = park(sandbox)
        queued = start(when_busy="queue")
        Thread.objects.filter(id="t").update(active_run="")
        with pytest.raises(Conflict) as raised:
            start()
        assert raised.value.run_id == queued.id
        runs.cancel_run(caller(), first.id)
        assert read(queued.id)[-1][2] == {"status": "succeeded"}

    def test_one_whose_thread_came_free_before_it_was_there_to_be_seen_starts_too(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        read(start().id)
        monkeypatch.setattr(runs, "claim_thread", lambda *args: False)
        run = start(when_busy="queue")
        assert read(run.id)[-1][2] == {"status": "succeeded"}

    def test_queued_ones_start_after_a_crash_too(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", delay_s=60)
        first = start()
        queued = start(when_busy="queue")
        Run.objects.filter(id=first.id).update(owner="gone:1", lease_until=timezone.now() - timedelta(seconds=1))
        assert runs.close_expired_runs() == 1
        assert Run.objects.get(id=first.id).status == "interrupted"
        assert read(queued.id)[-1][2] == {"status": "succeeded"}
        runner().cancel(first.id)

    def test_many_at_once_leave_one(self, sandbox: Sandbox) -> None:
        first = start(thread_id="t")
        read(first.id)
        sandbox.script("anthropic", times=9, status=429, headers={"retry-after": "3600"})
        begun: list[str] = []
        refused: list[str] = []

        def ask() -> None:
            try:
                begun.append(start().id)
            except Conflict as error:
                refused.append(error.run_id)
            finally:
                connection.close()

        asking = [threading.Thread(target=ask) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join(30)
        assert len(begun) == 1 and refused == begun * 7


class TestCrash:
    def test_keeps_the_pieces_of_an_answer_that_was_coming_in(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", delay_s=60)
        run = start()
        until(run, lambda: bool(sandbox.requests()))
        pieces = [("reasoning-delta", "hm"), ("text-delta", "Half "), ("text-delta", "an ans")]
        for seq, (type, text) in enumerate(pieces, 2):
            RunEvent.objects.create(run=run, seq=seq, type=type, data=json.dumps({"text": text}))
        Run.objects.filter(id=run.id).update(owner="gone:1", lease_until=timezone.now() - timedelta(seconds=1))
        assert runs.close_expired_runs() == 1
        row = Message.objects.get(thread_id="t", role="assistant")
        content = json.loads(row.content)
        assert [part.get("text") or part.get("reasoning") for part in content["parts"]] == ["hm", "Half an ans"]
        assert (content["metadata"]["incomplete"], content["metadata"]["provider"]) == (True, "anthropic")
        assert Attempt.objects.get().decision == "interrupted"
        assert runs.close_expired_runs(now=timezone.now() + timedelta(days=1)) == 0
        assert Message.objects.filter(thread_id="t").count() == 2
        # Should its process still be there after all, it leaves the run as it is.
        feed = feed_of(run.id)
        runner().cancel(run.id)
        assert feed is not None and feed.wait_until_over(10)
        assert Run.objects.get(id=run.id).status == "interrupted"
        assert Attempt.objects.get().decision == "interrupted"

    def test_what_was_claimed_and_never_called_is_queued_again(self, sandbox: Sandbox) -> None:
        run = park_queued()
        assert claim_queued(run.id) is not None
        leave(run)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leases, "wake_next", lambda thread_id: None)
            assert runs.close_expired_runs() == 1
        assert (Run.objects.get(id=run.id).status, Job.objects.get().status) == ("queued", "queued")
        runs.run_job(Job.objects.get().id)
        assert read(run.id)[-1][2] == {"status": "succeeded"}
        assert len(sandbox.requests()) == 1

    def test_who_was_only_late_leaves_the_run_to_the_one_that_has_it(self, sandbox: Sandbox) -> None:
        run = park_queued()
        late = claim_queued(run.id)
        assert late is not None
        Run.objects.filter(id=run.id).update(owner="other:1")
        turn = RunTurn(late)
        assert turn.next_call() is None
        assert isinstance(turn.error, RunLost)
        close_job(turn)
        assert (Run.objects.get(id=run.id).status, Job.objects.get().status) == ("running", "running")
        assert not Attempt.objects.exists()
        leave(run)
        assert runs.close_expired_runs() == 1
        assert read(run.id)[-1][2] == {"status": "succeeded"}

    def test_a_run_that_ends_its_process_again_and_again_is_closed(self, sandbox: Sandbox) -> None:
        run = park_queued()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(leases, "wake_next", lambda thread_id: None)
            for _ in range(3):
                assert claim_queued(run.id) is not None
                leave(run)
                assert runs.close_expired_runs() == 1
        assert Run.objects.get(id=run.id).status == "interrupted"

    def test_one_that_is_deleted_meanwhile_keeps_nobody_else_waiting(self, sandbox: Sandbox) -> None:
        left = [park_queued(thread_id=thread_id) for thread_id in ("deleted", "kept")]
        for run in left:
            assert claim_queued(run.id) is not None
            leave(run)

        def delete_behind_its_claim(execute: Callable[..., Any], sql: str, params: Any, *rest: Any) -> Any:
            done = execute(sql, params, *rest)
            if sql.startswith('UPDATE "memory_run"') and left[0].id in params:
                delete_thread("deleted")
            return done

        with connection.execute_wrapper(delete_behind_its_claim):
            assert runs.close_expired_runs() == 2
        assert not Run.objects.filter(id=left[0].id).exists()
        assert read(left[1].id)[-1][2] == {"status": "succeeded"}


def park_queued(*, thread_id: str = "t") -> Run:
    """A run in the queue whose wake-up call was lost."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "dispatch", lambda run_id: None)
        return runs.start_background(caller(), "patient", GenerateRequest(messages="hello", thread_id=thread_id))


def leave(run: Run) -> None:
    """As if the run's process had died some time ago."""
    Run.objects.filter(id=run.id).update(owner="gone:1", lease_until=timezone.now() - timedelta(seconds=1))


class TestFallback:
    def test_models_are_tried_in_order_each_with_its_own_attempts(self, sandbox: Sandbox) -> None:
        values = {"fallback_models": ["openai/gpt-4o", "anthropic/claude-opus-4-1"]}
        agents.update_agent(caller(), "patient", values)
        sandbox.script("anthropic", status=401)
        sandbox.script("openai", times=4, status=503)
        run = start()
        assert read(run.id)[-1][2] == {"status": "succeeded"}
        tried = list(Attempt.objects.filter(run=run.id).order_by("number").values_list("model_id", "decision"))
        assert tried == [
            ("claude-sonnet-4-5", "fallback"),
            *[("gpt-4o", "retry")] * 3,
            ("gpt-4o", "fallback"),
            ("claude-opus-4-1", "answered"),
        ]
        reasons = list(Attempt.objects.filter(decision="fallback").order_by("number").values_list("reason", flat=True))
        assert reasons == [
            "No processor asked for a retry. openai/gpt-4o is tried next.",
            "No processor asked for a retry. anthropic/claude-opus-4-1 is tried next.",
        ]
        assert json.loads(Message.objects.get(role="assistant").content)["metadata"]["modelId"] == "claude-opus-4-1"

    def test_one_that_cannot_be_called_is_passed_over(self, sandbox: Sandbox) -> None:
        agents.update_agent(caller(), "patient", {"fallback_models": ["mistral/large", "openai/gpt-4o"]})
        sandbox.script("anthropic", status=401)
        assert read(start().id)[-1][2] == {"status": "succeeded"}

    def test_with_none_left_the_last_error_is_the_runs(self, sandbox: Sandbox) -> None:
        agents.update_agent(caller(), "patient", {"fallback_models": ["openai/gpt-4o"]})
        sandbox.script("anthropic", status=401)
        sandbox.script("openai", status=401)
        run = start()
        assert read(run.id)[-1][2] == {"status": "failed"}
        assert [a.decision for a in Attempt.objects.filter(run=run.id).order_by("number")] == ["fallback", "give-up"]
        assert Message.objects.count() == 0


class TestBackground:
    def test_a_run_can_be_read_as_it_goes(self, sandbox: Sandbox) -> None:
        run = runs.start_background(caller(), "patient", GenerateRequest(messages=LONG, thread_id="t"))
        events = read(run.id)
        assert [type for _, type, _ in events][:2] == ["queued", "started"]
        assert events[-1][2] == {"status": "succeeded"}
        assert Run.objects.get(id=run.id).status == "succeeded"

    def test_is_left_to_others_by_a_process_for_the_dashboard(self, sandbox: Sandbox, settings: Any) -> None:
        settings.COMPAT_ADMIN_ROLE = "web"
        run = start()
        assert (run.status, feed_of(run.id)) == ("queued", None)
        settings.COMPAT_ADMIN_ROLE = "worker"
        runs.run_job(Job.objects.get().id)
        assert read(run.id)[-1][2] == {"status": "succeeded"}


class TestLeases:
    def test_a_run_that_was_only_late_goes_on(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        Run.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
        assert runs.close_expired_runs() == 0
        row = Run.objects.get(id=run.id)
        assert row.status == "running" and row.lease_until is not None and row.lease_until > timezone.now()

    def test_are_renewed_for_runs_that_are_going_on_only(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        dropped = park(sandbox, thread_id="dropped")
        runner().leave(dropped.id)
        Run.objects.update(lease_until=timezone.now())
        assert renew_leases(list(runner()._going)) == 1
        now = timezone.now()
        assert list(Run.objects.filter(lease_until__gt=now).values_list("id", flat=True)) == [run.id]
        assert runs.close_expired_runs() == 1
        assert runner().cancel(dropped.id)  # It is one of this process again.
        assert read(dropped.id)[-1][2] == {"status": "cancelled"}


class TestReaders:
    def test_hold_no_connection_while_they_wait(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        assert Run.objects.get(id=run.id).status == "running" and connection.connection is not None
        events = streams.read_events(run.id)
        assert next(events) is not None
        assert connection.connection is None
        events.close()

    def test_get_a_sign_of_life_while_nothing_happens(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        run = park(sandbox)
        monkeypatch.setattr(streams, "HEARTBEAT_S", 0.01)
        events = streams.read_events(run.id)
        assert None in [next(events) for _ in range(6)]
        events.close()

    def test_are_no_more_than_the_process_takes(self, sandbox: Sandbox, settings: Any) -> None:
        gc.collect()  # readers that other tests left behind give their places back
        settings.COMPAT_ADMIN_MAX_READERS = 1
        run = start()
        first = streams.Reading(run.id)
        with pytest.raises(Busy):
            streams.Reading(run.id)
        first.close()
        first.close()
        second = streams.Reading(run.id)
        assert list(second)[-1][1] == "finished"
        del second
        streams.Reading(run.id).close()

    @pytest.fixture
    def may_begin(self, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
        """Runs of the test begin when it is set."""
        may_begin, begin = threading.Event(), RunTurn.next_call
        monkeypatch.setattr(RunTurn, "next_call", lambda turn: may_begin.wait(20) and begin(turn))
        return may_begin

    def test_are_told_of_a_run_before_its_call_is_prepared(self, sandbox: Sandbox, may_begin: threading.Event) -> None:
        with closing(runs.start_stream(caller(), "patient", GenerateRequest(messages="hello", thread_id="t"))) as told:
            first = next(told)
            assert first is not None and first[:2] == (1, "started")
            assert Run.objects.get().status == "running"
            assert not Attempt.objects.exists()
            may_begin.set()
            assert [event[0] for event in told if event is not None] == list(range(2, RunEvent.objects.count() + 1))
        assert Attempt.objects.get().decision == "answered"

    def test_without_a_place_get_no_run(self, sandbox: Sandbox, settings: Any) -> None:
        gc.collect()  # readers that other tests left behind give their places back
        settings.COMPAT_ADMIN_MAX_READERS = 1
        with closing(streams.Reading(park(sandbox).id)), pytest.raises(Busy):
            runs.start_stream(caller(), "patient", GenerateRequest(messages="hello", thread_id="other"))
        assert Run.objects.count() == 1

    def test_give_their_place_back_when_there_is_no_run(self, sandbox: Sandbox, settings: Any) -> None:
        gc.collect()
        settings.COMPAT_ADMIN_MAX_READERS = 1
        for _ in range(2):
            with pytest.raises(InvalidInput):
                runs.start_stream(caller(), "patient", GenerateRequest(messages=" ", thread_id="t"))

    def test_of_a_run_that_was_cancelled_before_it_began_see_that(
        self, sandbox: Sandbox, may_begin: threading.Event
    ) -> None:
        with closing(runs.start_stream(caller(), "patient", GenerateRequest(messages="hello", thread_id="t"))) as told:
            next(told)
            runs.cancel_run(caller(), told.run_id)
            may_begin.set()
            assert [event[1:] for event in told if event is not None] == [("finished", '{"status":"cancelled"}')]
        assert sandbox.requests() == []

    def test_go_on_where_they_were_whoever_has_the_run(self, sandbox: Sandbox) -> None:
        run = park(sandbox)
        seen = events_until(run.id, "attempt")
        feed = feed_of(run.id)
        assert feed is not None
        told, _ = feed.after(0, 0)
        rows = list(RunEvent.objects.filter(run=run.id).order_by("seq").values_list("seq", "type"))
        assert [(number, type) for number, type, _ in seen] == rows
        assert [(number, type) for number, type, _ in told or ()] == rows
        runs.cancel_run(caller(), run.id)
        assert [number for number, _, _ in read(run.id, after=seen[-1][0])] == [seen[-1][0] + 1]
