"""The database refuses what would make the ledger untrue, raw SQL included."""

from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from memory.append_only import REFUSED
from memory.models import Attempt, Run, RunEvent, Thread
from memory.services import threads
from tests.make import caller, make_attempt, make_run, make_thread

pytestmark = pytest.mark.django_db


def attempt(**fields: Any) -> Attempt:
    return make_attempt(make_run(make_thread()), **fields)


def event() -> RunEvent:
    return RunEvent.objects.create(run=make_run(make_thread()), seq=1, type="message")


def refused(rows: Any, **values: Any) -> None:
    """An update of these rows, or without values their deletion, is refused and changes nothing."""
    before = list(rows.values())
    with pytest.raises(DatabaseError, match=REFUSED), transaction.atomic():
        if values:
            rows.update(**values)
        else:
            rows._raw_delete(rows.db)
    assert list(rows.values()) == before


class TestAttempts:
    @pytest.mark.parametrize(
        "values",
        [
            {"number": 2},
            {"request_sha256": "0" * 64},
            {"request_record": b"x"},
            {"request_body": b"x"},
            {"request_headers": {"a": "b"}},
            {"setup_record": b"x"},
            {"url": "http://elsewhere"},
            {"decision": "give-up"},
            {"reason": "another"},
            {"status": 500},
            {"response_body": b"x"},
            {"finished_at": None},
        ],
    )
    def test_a_completed_one_stays_as_it_is(self, values: dict[str, Any]) -> None:
        made = attempt()
        refused(Attempt.objects.filter(pk=made.pk), **values)

    @pytest.mark.parametrize("values", [{"request_record": b"x"}, {"request_size": 5}, {"provider": "openai"}])
    def test_what_an_open_one_sent_stays_as_it_is(self, values: dict[str, Any]) -> None:
        made = attempt(decision="open", finished_at=None)
        refused(Attempt.objects.filter(pk=made.pk), **values)

    def test_an_open_one_is_completed_once(self) -> None:
        rows = Attempt.objects.filter(pk=attempt(decision="open", finished_at=None).pk)
        rows.update(decision="retry", reason="r", status=429, response_body=b"x", finished_at=timezone.now())
        refused(rows, decision="answered")

    def test_changes_are_told_once_even_after_the_answer(self) -> None:
        rows = Attempt.objects.filter(pk=attempt().pk)
        rows.update(changes='[{"rule":"r"}]', findings_record=b"x")
        refused(rows, changes="[]")
        refused(rows, findings_record=b"")

    def test_the_sleep_is_told_once(self) -> None:
        rows = Attempt.objects.filter(pk=attempt().pk)
        rows.update(slept_ms=5.0)
        refused(rows, slept_ms=None)

    def test_none_is_deleted(self) -> None:
        refused(Attempt.objects.filter(pk=attempt().pk))
        with pytest.raises(DatabaseError, match=REFUSED), transaction.atomic():
            Run.objects.all().delete()
        assert Attempt.objects.exists()

    def test_raw_sql_is_no_way_round(self) -> None:
        attempt()
        for statement in ("UPDATE memory_attempt SET decision = 'x'", "DELETE FROM memory_attempt"):
            with (
                pytest.raises(DatabaseError, match=REFUSED),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(statement)

    def test_of_a_run_that_is_removed_the_decision_stays(self) -> None:
        made = attempt(request_record=b"x", response_body=b"y", changes="[1]", reason="r")
        Run.objects.update(removed_at=timezone.now())
        rows = Attempt.objects.filter(pk=made.pk)
        rows.update(request_record=b"", response_body=b"", changes="[]", request_headers={})
        refused(rows, reason="another")
        refused(rows, request_size=9)


class TestEvents:
    def test_none_is_changed_or_deleted(self) -> None:
        rows = RunEvent.objects.filter(pk=event().pk)
        refused(rows, data='{"a":1}')
        refused(rows)

    def test_of_a_run_that_is_removed_they_may_go_but_not_change(self) -> None:
        rows = RunEvent.objects.filter(pk=event().pk)
        Run.objects.update(removed_at=timezone.now())
        refused(rows, data="{}  ")
        assert rows._raw_delete(rows.db) == 1


def test_a_thread_is_deleted_with_its_ledger() -> None:
    run = make_run(make_thread())
    make_attempt(run)
    RunEvent.objects.create(run=run, seq=1, type="message")
    counts = threads.delete_thread(caller(), Thread.objects.get())
    assert {name: counts[name] for name in ("attempts", "events", "runs")} == {"attempts": 1, "events": 1, "runs": 1}
    assert not (Attempt.objects.exists() or RunEvent.objects.exists() or Run.objects.exists())
