"""Pages by key: their order, their cursors, what they cost and what they never show."""

import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory import queries
from memory.errors import InvalidInput, NotFound
from memory.models import Message, Thread
from memory.queries import Page
from memory.store import DjangoStorage
from tests.make import START, add_messages, caller, make_agent, make_attempt, make_run, make_thread, of, text

pytestmark = pytest.mark.django_db


def walk(page_after: Callable[[str | None], Page[Any]]) -> list[list[str]]:
    """The ids of every page, in the order they come."""
    pages, cursor = [], None
    while True:
        page = page_after(cursor)
        pages.append([item.id for item in page.items])
        cursor = page.next_cursor
        if cursor is None:
            return pages


def asked(action: Callable[[], object]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        action()
    return [query["sql"] for query in captured.captured_queries]


class TestThreadPages:
    def test_go_by_newest_activity_and_id_without_gap_or_repeat(self) -> None:
        for name, minutes in (("c", 1), ("a", 2), ("b", 2), ("e", 2), ("d", 3)):
            make_thread(id=name, last_activity_at=START + timedelta(minutes=minutes))
        pages = walk(lambda cursor: queries.threads_page(caller(), cursor=cursor, limit=2))
        assert pages == [["d", "e"], ["b", "a"], ["c"]]

    def test_a_full_last_page_has_no_next_one(self) -> None:
        make_thread(), make_thread()
        assert queries.threads_page(caller(), limit=2).next_cursor is None

    def test_a_thread_that_comes_in_meanwhile_moves_nothing(self) -> None:
        for i in range(4):
            make_thread(id=f"t{i}", last_activity_at=START - timedelta(minutes=i))
        first = queries.threads_page(caller(), limit=2)
        make_thread(id="new", last_activity_at=START + timedelta(minutes=1))
        second = queries.threads_page(caller(), cursor=first.next_cursor, limit=2)
        assert [item.id for item in second.items] == ["t2", "t3"]

    def test_show_a_caller_its_own_resource_only(self) -> None:
        hers = make_thread("ada")
        make_thread("bob")
        assert walk(lambda c: queries.threads_page(caller("ada"), cursor=c)) == [[hers.id]]
        assert walk(lambda c: queries.threads_page(caller("ada"), cursor=c, resource_id="bob")) == [[]]
        assert len(queries.threads_page(caller()).items) == 2

    def test_filter_by_resource_provider_agent_and_error(self) -> None:
        agent = make_agent()
        make_thread("ada", id="plain", last_provider="openai")
        make_thread("bob", id="failed", last_error="503", agent=agent)

        def ids(**wanted: Any) -> list[str]:
            return [item.id for item in queries.threads_page(caller(), **wanted).items]

        assert ids(resource_id="ada") == ["plain"]
        assert ids(provider="openai") == ["plain"]
        assert ids(agent_id=agent.id) == ["failed"]
        assert ids(has_error=True) == ["failed"]
        assert ids(has_error=False) == ["plain"]
        assert ids(resource_id="a\x00") == ids(provider="\ud800") == []

    @pytest.mark.parametrize(
        ("wanted", "index"),
        [
            ({}, "thread_by_activity"),
            ({"resource_id": "ada"}, "thread_by_resource"),
            ({"provider": "openai"}, "thread_by_provider"),
            ({"agent_id": "a"}, "thread_by_agent"),
            ({"has_error": True}, "thread_with_error"),
        ],
    )
    def test_read_an_index_in_its_order(self, wanted: dict[str, Any], index: str) -> None:
        if connection.vendor != "sqlite":
            pytest.skip("PostgreSQL's choice depends on the number of rows")
        make_thread(last_activity_at=START), make_thread(last_activity_at=START)
        cursor = queries.threads_page(caller(), limit=1).next_cursor
        [sql] = asked(lambda: queries.threads_page(caller(), cursor=cursor, limit=1, **wanted))
        with connection.cursor() as db:
            db.execute(f"EXPLAIN QUERY PLAN {sql}")
            plan = " ".join(row[-1] for row in db.fetchall())
        assert index in plan
        assert "TEMP B-TREE" not in plan

    def test_cost_the_same_with_more_rows_and_load_no_body(self) -> None:
        def page() -> object:
            return queries.threads_page(caller(), limit=20)

        make_thread(messages=2)
        few = asked(page)
        for _ in range(10):
            make_thread(messages=2)
        many = asked(page)
        assert len(few) == len(many) == 1
        assert "content" not in many[0]
        assert "count" not in many[0].lower().replace("message_count", "").replace("byte_count", "")


class TestCursors:
    @pytest.mark.parametrize("bad", ["x", "x.y", "é\ud800", "a.b.c", "\x00"])
    def test_that_nobody_gave_out_are_refused(self, bad: str) -> None:
        thread = make_thread()
        for page in (
            lambda: queries.threads_page(caller(), cursor=bad),
            lambda: queries.runs_page(caller(), cursor=bad),
            lambda: queries.messages_page(thread, cursor=bad),
        ):
            with pytest.raises(InvalidInput) as caught:
                page()
            assert caught.value.code == "bad_cursor"

    def test_of_another_list_are_refused(self) -> None:
        thread = make_thread(messages=3)
        make_thread()
        cursor = queries.threads_page(caller(), limit=1).next_cursor
        assert cursor
        with pytest.raises(InvalidInput):
            queries.runs_page(caller(), cursor=cursor)
        with pytest.raises(InvalidInput):
            queries.messages_page(thread, cursor=cursor)
        with pytest.raises(InvalidInput):
            queries.threads_page(caller(), cursor=cursor[:-1] + ("A" if cursor[-1] != "A" else "B"))

    def test_fit_into_an_address(self) -> None:
        make_thread(id="日本 " * 20), make_thread(id="語 " * 20)
        cursor = queries.threads_page(caller(), limit=1).next_cursor
        assert cursor is not None
        assert cursor.replace(".", "").replace("-", "").replace("_", "").isalnum()
        assert cursor.isascii()

    @pytest.mark.parametrize("limit", [0, -1, 201])
    def test_odd_limits_are_refused(self, limit: int) -> None:
        with pytest.raises(InvalidInput) as caught:
            queries.threads_page(caller(), limit=limit)
        assert caught.value.errors[0].field == "limit"


class TestMessagePages:
    def seqs(self, page: Page[Any]) -> list[int]:
        return [item.seq for item in page.items]

    def test_newest_page_first_and_each_oldest_first(self) -> None:
        thread = make_thread(messages=5)
        first = queries.messages_page(thread, limit=2)
        second = queries.messages_page(thread, cursor=first.next_cursor, limit=2)
        third = queries.messages_page(thread, cursor=second.next_cursor, limit=2)
        assert [self.seqs(page) for page in (first, second, third)] == [[4, 5], [2, 3], [1]]
        assert third.next_cursor is None

    def test_go_on_forward_after_a_seq(self) -> None:
        thread = make_thread(messages=5)
        first = queries.messages_page(thread, after=1, limit=2)
        second = queries.messages_page(thread, cursor=first.next_cursor, limit=2)
        assert [self.seqs(page) for page in (first, second)] == [[2, 3], [4, 5]]
        assert second.next_cursor is None
        assert self.seqs(queries.messages_page(thread, before=3)) == [1, 2]

    def test_bring_the_stored_text_and_who_wrote_it(self) -> None:
        thread = make_thread()
        add_messages(thread, text("hello", id="a"), run_id="run-1")
        [item] = queries.messages_page(thread).items
        assert (item.id, item.content) == ("a", Message.objects.get().content)
        assert (item.version, item.written_by, item.run_id, item.summary[0][0]) == (1, "tester", "run-1", "text")

    def test_leave_out_what_is_too_large(self) -> None:
        thread = make_thread()
        add_messages(thread, text("x" * 1000), text("small"))
        large, small = queries.messages_page(thread, max_bytes=500).items
        assert large.content is None
        assert large.summary[0][1] > 1000
        assert "small" in str(small.content)

    def test_hold_this_thread_s_only(self) -> None:
        make_thread(messages=3)
        assert queries.messages_page(make_thread()).items == []

    def test_cost_one_query(self) -> None:
        thread = make_thread(messages=30)
        assert len(asked(lambda: queries.messages_page(thread, limit=20))) == 1


class TestRuns:
    def test_go_newest_first_by_filter_and_resource(self) -> None:
        ada, bob = make_thread("ada"), make_thread("bob")
        agent = make_agent()
        for i, (thread, status) in enumerate([(ada, "completed"), (bob, "failed"), (ada, "failed")]):
            make_run(thread, id=f"r{i}", status=status, created_at=START + timedelta(minutes=i), agent=agent)
        assert walk(lambda c: queries.runs_page(caller(), cursor=c, limit=1)) == [["r2"], ["r1"], ["r0"]]
        assert walk(lambda c: queries.runs_page(caller("ada"), cursor=c)) == [["r2", "r0"]]
        assert walk(lambda c: queries.runs_page(caller("ada"), cursor=c, thread_id=bob.id)) == [[]]
        assert walk(lambda c: queries.runs_page(caller(), cursor=c, status="failed")) == [["r2", "r1"]]
        assert walk(lambda c: queries.runs_page(caller(), cursor=c, agent_id=agent.id, limit=3)) == [["r2", "r1", "r0"]]

    def test_in_a_list_bring_no_input_and_cost_the_same(self) -> None:
        thread = make_thread()
        make_run(thread)
        few = asked(lambda: queries.runs_page(caller()))
        make_run(thread), make_run(thread)
        many = asked(lambda: queries.runs_page(caller()))
        assert len(few) == len(many) == 1
        assert '"input"' not in many[0]

    def test_calls_go_newest_first_without_those_of_callers(self) -> None:
        run = make_run(make_thread())
        for status in (429, 200):
            make_attempt(run, status=status)
        make_attempt(make_run(make_thread(), is_own_call=True))
        few = asked(lambda: queries.newest_calls(limit=10))
        assert len(few) == 1 and '"request_body"' not in few[0]
        assert [call.status for call in queries.newest_calls(limit=10)] == [200, 429]
        # The limit is of what is looked at.
        assert [call.status for call in queries.newest_calls(limit=2)] == [200]

    def test_in_full_come_with_their_attempts_in_order(self) -> None:
        run = make_run(make_thread("ada"), input='["hi"]', message_ids=["a"])
        make_attempt(run, number=2, status=200)
        make_attempt(run, number=1, status=429, decision="retry", delay_wanted_ms=1500.0)
        detail = queries.run_detail(caller("ada"), run.id)
        assert (detail.run.id, detail.input, detail.message_ids) == (run.id, '["hi"]', ["a"])
        assert [(a.number, a.status, a.decision) for a in detail.attempts] == [(1, 429, "retry"), (2, 200, "answered")]
        for other, run_id in ((caller("bob"), run.id), (caller(), "nowhere"), (caller(), "\x00")):
            with pytest.raises(NotFound, match=r"^no such run$"):
                queries.run_detail(other, run_id)

    def test_bodies_of_an_attempt_come_as_they_were(self) -> None:
        run = make_run(make_thread())
        make_attempt(run, request_body=zlib.compress(b'{"a":1}'))
        found = queries.attempt_bodies(run.id, 1)
        assert (found.sent.content, found.sent.problem, found.came) == (b'{"a":1}', "", b"")
        with pytest.raises(NotFound):
            queries.attempt_bodies(run.id, 2)


class TestVersions:
    def test_come_newest_first_and_their_texts_one_by_one(self) -> None:
        thread = make_thread()
        add_messages(thread, text("one", id="a"))
        for value in ("two", "three"):
            DjangoStorage(written_by="Ada").repair_messages(of(thread, text(value, id="a")), rule="r", reason=value)
        found = queries.versions_of(thread, "a")
        assert [(v.version, v.written_by, v.reason) for v in found] == [(2, "Ada", "two"), (1, "tester", "")]
        texts = [queries.message_text(thread, "a", version=version) for version in (1, 2, 3, None)]
        assert ["one" in texts[0], "two" in texts[1], "three" in texts[2], texts[3] == texts[2]] == [True] * 4

    def test_of_another_thread_or_none_are_not_found(self) -> None:
        thread = make_thread()
        add_messages(thread, text("one", id="a"))
        other = Thread(id="other")
        assert queries.versions_of(other, "a") == []
        for where, message_id, version in (
            (other, "a", 1),
            (thread, "a", 2),
            (thread, "b", None),
            (thread, "\x00", None),
        ):
            with pytest.raises(NotFound):
                queries.message_text(where, message_id, version=version)
