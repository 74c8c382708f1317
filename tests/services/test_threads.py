"""Threads made, changed, deleted and added to by callers."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.errors import Conflict, Forbidden, InvalidInput, NotFound
from memory.models import Attempt, AuditEvent, Message, MessageVersion, Run, RunEvent, Thread
from memory.services.threads import append_messages, create_thread, delete_thread, update_thread
from memory.store import DjangoStorage
from tests.make import (
    START,
    add_messages,
    caller,
    make_agent,
    make_attempt,
    make_run,
    make_thread,
    message,
    text,
    tool_call,
)

pytestmark = pytest.mark.django_db


def fields_of(action: Callable[[], object]) -> list[str]:
    """The fields that the action is refused for."""
    with pytest.raises(InvalidInput) as caught:
        action()
    return [error.field for error in caught.value.errors]


class TestCreating:
    def test_makes_what_is_asked_for(self) -> None:
        agent = make_agent()
        made = create_thread(
            caller(), resource_id="ada", thread_id="t-1", title="Trains", metadata={"a": 1}, agent_id=agent.id
        )
        row = Thread.objects.get()
        assert made == row
        assert (row.id, row.resource_id, row.title, row.metadata, row.agent_id) == (
            "t-1",
            "ada",
            "Trains",
            {"a": 1},
            agent.id,
        )

    def test_takes_the_caller_s_resource_and_a_new_id(self) -> None:
        one, other = create_thread(caller("ada")), create_thread(caller("ada"))
        assert one.resource_id == other.resource_id == "ada"
        assert one.id.startswith("thr_")
        assert one.id != other.id

    def test_for_another_resource_is_forbidden(self) -> None:
        with pytest.raises(Forbidden):
            create_thread(caller("ada"), resource_id="bob")
        assert not Thread.objects.exists()

    @pytest.mark.parametrize("owner", ["ada", "bob"])
    def test_an_id_that_is_taken_is_told_alike_whoever_has_it(self, owner: str) -> None:
        make_thread(owner, id="t-1", title="kept")
        with pytest.raises(Conflict, match=r"^this thread id is taken$") as caught:
            create_thread(caller("ada"), thread_id="t-1")
        assert caught.value.code == "id_taken"
        assert Thread.objects.values_list("title", "resource_id").get() == ("kept", owner)

    def test_names_what_does_not_fit(self) -> None:
        assert fields_of(lambda: create_thread(caller(), thread_id="a/b")) == ["resource_id", "id"]
        assert fields_of(lambda: create_thread(caller("ada"), title="x" * 501)) == ["title"]
        assert fields_of(lambda: create_thread(caller("ada"), agent_id="nobody")) == ["agent_id"]
        assert fields_of(lambda: create_thread(caller("ada"), agent_id="\x00")) == ["agent_id"]
        deep: dict[str, Any] = {}
        for _ in range(5000):
            deep = {"a": deep}
        assert fields_of(lambda: create_thread(caller("ada"), metadata=deep)) == ["metadata"]
        assert not Thread.objects.exists()

    def test_cleans_what_no_database_takes(self) -> None:
        create_thread(caller("ada"), title="a\x00\ud800", metadata={"k\x00": "v\ud800", "n": float("inf")})
        assert Thread.objects.values_list("title", "metadata").get() == (
            "a\ufffd\ufffd",
            {"k\ufffd": "v\ufffd", "n": None},
        )


class TestUpdating:
    def test_replaces_what_is_given_and_nothing_else(self) -> None:
        thread = make_thread(title="old", metadata={"a": 1}, messages=2, agent=make_agent())
        stale = Thread.objects.get()
        add_messages(thread, text("meanwhile"))
        update_thread(stale, title="new")
        row = Thread.objects.get()
        assert (row.title, row.metadata, row.agent_id, row.message_count) == ("new", {"a": 1}, thread.agent_id, 3)
        updated = update_thread(row, metadata={"b": 2}, agent_id=None)
        row = Thread.objects.get()
        assert (row.title, row.metadata, row.agent_id) == ("new", {"b": 2}, None)
        assert (updated.metadata, updated.updated_at) == (row.metadata, row.updated_at)
        assert row.updated_at > thread.updated_at

    def test_a_thread_that_is_gone_is_not_found(self) -> None:
        thread = make_thread()
        Thread.objects.all().delete()
        with pytest.raises(NotFound):
            update_thread(thread, title="new")
        assert not Thread.objects.exists()


class TestDeleting:
    def test_takes_all_that_hangs_on_it_and_only_that(self) -> None:
        kept = make_thread(messages=2)
        make_run(kept)
        thread = make_thread("ada", messages=2)
        add_messages(thread, text("first", id="a"))
        add_messages(thread, text("second", id="a"))
        run = make_run(thread)
        make_attempt(run)
        RunEvent.objects.create(run=run, seq=1, type="start")
        assert MessageVersion.objects.count() == 1

        counts = delete_thread(caller("ada"), thread)

        assert counts == {
            "versions": 1,
            "messages": 3,
            "rule_uses": 0,
            "attempts": 1,
            "events": 1,
            "runs": 1,
            "threads": 1,
        }
        assert Thread.objects.get() == kept
        assert (Message.objects.count(), Run.objects.count()) == (2, 1)
        assert not (MessageVersion.objects.exists() or Attempt.objects.exists() or RunEvent.objects.exists())
        event = AuditEvent.objects.get(action="thread.deleted")
        assert (event.actor, event.target_id) == ("tester", thread.id)
        assert event.detail == {"resource_id": "ada", "deleted": counts}

    def test_twice_is_not_found_and_recorded_once(self) -> None:
        thread = make_thread()
        delete_thread(caller(), thread)
        with pytest.raises(NotFound):
            delete_thread(caller(), thread)
        assert AuditEvent.objects.count() == 1

    def test_waits_for_no_run_but_refuses_while_one_is_held(self) -> None:
        thread = make_thread(messages=1)
        run = make_run(thread, status="running", lease_until=timezone.now() + timedelta(minutes=1))
        with pytest.raises(Conflict) as caught:
            delete_thread(caller(), thread)
        assert caught.value.code == "run_active"
        assert (Message.objects.count(), AuditEvent.objects.count()) == (1, 0)
        Run.objects.filter(id=run.id).update(lease_until=timezone.now() - timedelta(seconds=1))
        delete_thread(caller(), thread)
        assert not Run.objects.exists()


class TestAppending:
    def test_adds_in_order_with_the_caller_as_author(self) -> None:
        thread = make_thread()
        ids = append_messages(
            caller(name="importer"),
            thread,
            [
                {"id": "a", "role": "user", "content": "bare text", "createdAt": START.isoformat()},
                {"role": "assistant", "content": {"parts": [{"type": "text", "text": "hello"}]}},
            ],
        )
        rows = list(Message.objects.order_by("seq"))
        assert [row.message_id for row in rows] == ids
        assert ids[0] == "a"
        assert ids[1].startswith("msg_")
        assert [row.content for row in rows] == ['"bare text"', '{"parts":[{"type":"text","text":"hello"}]}']
        assert {row.written_by for row in rows} == {"importer"}
        assert rows[0].created_at == START
        loaded = DjangoStorage().load_messages(thread.id, None, last=None)
        assert loaded[0]["content"]["parts"] == [{"type": "text", "text": "bare text"}]
        thread.refresh_from_db()
        assert thread.message_count == 2

    def test_names_every_place_that_does_not_fit_and_saves_nothing(self) -> None:
        thread = make_thread()
        values: list[Any] = [
            {"id": "a", "role": "user", "content": "fine"},
            {"id": "a", "role": "system", "content": {"parts": "x"}},
            {"id": "b", "role": "assistant", "content": {"parts": [{"type": "tool-invocation"}]}},
        ]
        assert fields_of(lambda: append_messages(caller(), thread, values)) == [
            "messages[1].role",
            "messages[1].content.parts",
            "messages[2].content.parts[0].toolInvocation",
            "messages[1].id",
        ]
        assert not Message.objects.exists()

    def test_the_same_message_again_changes_nothing(self) -> None:
        thread = make_thread()
        values = [text("hello", id="a"), text("again", id="b")]
        append_messages(caller(), thread, values)
        rows, before = list(Message.objects.values()), Thread.objects.values().get()
        assert append_messages(caller(), thread, values) == ["a", "b"]
        assert (list(Message.objects.values()), Thread.objects.values().get()) == (rows, before)

    def test_known_and_new_together_add_the_new(self) -> None:
        thread = make_thread()
        append_messages(caller(), thread, [text("hello", id="a")])
        append_messages(caller(), thread, [text("hello", id="a"), text("again", id="b")])
        thread.refresh_from_db()
        rows = list(Message.objects.order_by("seq"))
        assert [row.message_id for row in rows] == ["a", "b"]
        assert (thread.message_count, thread.byte_count) == (2, sum(row.byte_count for row in rows))

    @pytest.mark.parametrize("other", [text("other", id="a"), text("hello", role="assistant", id="a")])
    def test_an_id_with_another_content_or_role_is_a_conflict_and_nothing_is_saved(self, other: dict[str, Any]) -> None:
        thread = make_thread()
        append_messages(caller(), thread, [text("hello", id="a")])
        rows, before = list(Message.objects.values()), Thread.objects.values().get()
        with pytest.raises(Conflict) as caught:
            append_messages(caller(), thread, [text("new", id="b"), other])
        assert caught.value.code == "message_exists"
        assert (list(Message.objects.values()), Thread.objects.values().get()) == (rows, before)
        assert not MessageVersion.objects.exists()

    def test_ids_are_the_thread_s_own(self) -> None:
        one, other = make_thread("ada"), make_thread("bob")
        append_messages(caller(), one, [text("hers", id="a")])
        append_messages(caller(), other, [text("his", id="a")])
        assert Message.objects.filter(message_id="a").count() == 2

    def test_a_waiting_call_stays_open(self) -> None:
        append_messages(caller(), make_thread(), [message(tool_call())])
        assert Message.objects.get().is_open

    def test_a_thread_that_is_gone_is_not_found(self) -> None:
        thread = make_thread()
        Thread.objects.all().delete()
        with pytest.raises(NotFound):
            append_messages(caller(), thread, [text("hello")])

    def test_what_is_nested_too_deeply_is_refused(self) -> None:
        deep: list[Any] = []
        for _ in range(5000):
            deep = [deep]
        values = [message({"type": "data-x", "data": deep})]
        assert fields_of(lambda: append_messages(caller(), make_thread(), values)) == ["messages[0].content"]
