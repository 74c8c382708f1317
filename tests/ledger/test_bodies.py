"""Fragments as rows: written once, read back whole, and what is wrong with one is said."""

import hashlib
import zlib
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from memory import bodies, queries
from memory.fragments import cut
from memory.models import Attempt, Fragment
from tests.ledger.test_fragments import body_of, messages
from tests.make import make_attempt, make_run, make_thread

pytestmark = pytest.mark.django_db


def kept(body: bytes) -> bytes:
    """The record of a body that is kept."""
    made = cut(body)
    with transaction.atomic():
        bodies.keep(made)
    return made.record


def attempt_with(body: bytes) -> Attempt:
    made = make_attempt(
        make_run(make_thread()),
        request_record=kept(body),
        request_size=len(body),
        request_sha256=hashlib.sha256(body).hexdigest(),
    )
    return made


class TestKeep:
    def test_what_is_there_is_not_written_again(self) -> None:
        listed = messages(300)
        kept(body_of(listed[:298]))
        before = Fragment.objects.count()
        with CaptureQueriesContext(connection) as seen:
            record = kept(body_of(listed))
        assert len([query for query in seen if "memory_fragment" in query["sql"]]) == 2
        assert Fragment.objects.count() - before <= 6
        assert bodies.read({"it": (record, "")})["it"].content == body_of(listed)

    def test_the_same_body_takes_one_look_and_no_write(self) -> None:
        kept(body_of(messages(300)))
        with CaptureQueriesContext(connection) as seen:
            kept(body_of(messages(300)))
        assert len([query for query in seen if "memory_fragment" in query["sql"]]) == 1

    def test_more_than_a_statement_holds(self) -> None:
        listed = messages(2500)
        record = kept(body_of(listed))
        assert bodies.read({"it": (record, "")})["it"].content == body_of(listed)

    def test_old_fragments_are_made_young_with_all_that_they_hold(self) -> None:
        listed = messages(300)
        kept(body_of(listed))
        today = timezone.now().date()
        Fragment.objects.update(used_on=today - timedelta(days=20))
        record = kept(body_of(listed))
        assert set(Fragment.objects.values_list("used_on", flat=True)) == {today}
        assert bodies.read({"it": (record, "")})["it"].problem == ""


class TestRead:
    def test_gives_the_very_bytes(self) -> None:
        body = body_of(messages(50), big=123456789012345678901234567890)
        attempt = attempt_with(body)
        found = queries.attempt_bodies(attempt.run_id, 1)
        assert (found.sent.content, found.sent.problem) == (body, "")

    def test_says_when_a_fragment_is_another_one(self) -> None:
        attempt = attempt_with(body_of(messages(50)))
        key = next(key for key, content in cut(body_of(messages(50))).contents.items() if b"assistant" in content)
        Fragment.objects.filter(key=key).update(kind=0, data=b'{"role":"user","content":"forged"}')
        found = queries.attempt_bodies(attempt.run_id, 1)
        assert b"forged" in found.sent.content
        assert "another one" in found.sent.problem

    def test_says_when_a_fragment_is_gone(self) -> None:
        attempt = attempt_with(body_of(messages(50)))
        Fragment.objects.filter(key=next(iter(cut(body_of(messages(50))).contents))).delete()
        found = queries.attempt_bodies(attempt.run_id, 1)
        assert "1 of its pieces can't be found" in found.sent.problem
        assert found.sent.content.startswith(b'{"model":"m","messages":[')

    def test_an_older_row_is_read_as_it_is(self) -> None:

        attempt = make_attempt(
            make_run(make_thread()), request_body=zlib.compress(b"{}"), request_size=2, request_sha256="0" * 64
        )
        found = queries.attempt_bodies(attempt.run_id, 1)
        assert (found.sent.content, found.is_sent_kept) == (b"{}", True)
        assert "another one" in found.sent.problem

    def test_takes_as_many_statements_for_many_attempts(self) -> None:
        run = make_run(make_thread())
        for count in (40, 42):
            make_attempt(run, request_record=kept(body_of(messages(count))))
        with CaptureQueriesContext(connection) as few:
            queries.bodies_of(run.id)
        for count in range(44, 60, 2):
            make_attempt(run, request_record=kept(body_of(messages(count))))
        with CaptureQueriesContext(connection) as many:
            assert len(queries.bodies_of(run.id)) == 10
        assert len(few) == len(many)
