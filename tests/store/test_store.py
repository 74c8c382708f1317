"""Messages into rows and back."""

import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.errors import Conflict, InvalidInput, NotFound
from memory.messages.stored import read_content
from memory.models import Message, Thread
from memory.store import DjangoStorage, check_messages, stamp_of, summary_of
from tests.make import START, add_messages, make_agent, make_thread, message, text, tool_call

BIG = 12345678901234567890123


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [m["content"]["parts"][0]["text"] for m in messages]


def statements(captured: CaptureQueriesContext) -> list[str]:
    """What was sent, without what begins and ends a transaction."""
    words = ("BEGIN", "COMMIT", "SAVEPOINT", "RELEASE")
    return [query["sql"] for query in captured.captured_queries if not query["sql"].startswith(words)]


@pytest.mark.django_db
class TestLoading:
    def test_gives_back_what_was_saved(self) -> None:
        thread = make_thread("ada")
        part = {"type": "text", "text": "æ 日本 \U0001f600", "unknown": {"z": 1, "a": BIG}}
        add_messages(thread, message(part, id="a", createdAt="2026-01-02T03:04:05.678Z"))
        [loaded] = DjangoStorage().load_messages(thread.id, "ada", last=None)
        assert loaded == {
            "id": "a",
            "role": "assistant",
            "createdAt": "2026-01-02T03:04:05.678Z",
            "threadId": thread.id,
            "resourceId": "ada",
            "type": "text",
            "content": {"format": 2, "parts": [part]},
        }
        assert list(loaded["content"]["parts"][0]["unknown"]) == ["z", "a"]

    @pytest.mark.parametrize(("last", "expected"), [(None, [0, 1, 2, 3]), (2, [2, 3]), (0, []), (9, [0, 1, 2, 3])])
    def test_gives_the_newest_window_oldest_first(self, last: int | None, expected: list[int]) -> None:
        thread = make_thread(messages=4)
        loaded = DjangoStorage().load_messages(thread.id, None, last=last)
        assert texts(loaded) == [f"message {i}" for i in expected]

    def test_a_foreign_thread_looks_absent(self) -> None:
        thread = make_thread("ada", messages=2)
        storage = DjangoStorage()
        assert len(storage.load_messages(thread.id, "ada", last=None)) == 2
        assert storage.load_messages(thread.id, "bob", last=None) == []
        assert storage.load_messages(thread.id, "", last=None) == []
        assert storage.load_messages("nowhere", "bob", last=None) == []

    def test_a_text_that_is_no_json_breaks_nothing(self) -> None:
        thread = make_thread(messages=2)
        Message.objects.filter(seq=1).update(content="{broken")
        broken, whole = DjangoStorage().load_messages(thread.id, None, last=None)
        assert broken["content"]["parts"][0]["type"] == "data-unreadable"
        assert texts([whole]) == ["message 1"]

    def test_asks_once_however_many_there_are(self) -> None:
        thread = make_thread(messages=30)
        with CaptureQueriesContext(connection) as captured:
            DjangoStorage().load_messages(thread.id, thread.resource_id, last=None)
        assert len(captured) == 1


@pytest.mark.django_db
class TestSaving:
    def test_a_turn_takes_two_statements(self) -> None:
        thread = make_thread(messages=4)
        with CaptureQueriesContext(connection) as captured:
            add_messages(thread, text("hi", id="a"), text("hello", role="assistant", id="b"))
        update, insert = statements(captured)
        assert update.startswith("UPDATE memory_thread")
        assert insert.startswith("INSERT INTO memory_message")

    def test_orders_by_time_within_a_save_and_by_arrival_across(self) -> None:
        thread = make_thread()
        add_messages(
            thread,
            text("second", createdAt="2026-01-02T00:00:00Z"),
            text("first", createdAt="2026-01-01T00:00:00Z"),
            text("third", createdAt="2026-01-02T00:00:00Z"),
        )
        add_messages(thread, text("back-dated", createdAt="2020-01-01T00:00:00Z"))
        loaded = DjangoStorage().load_messages(thread.id, None, last=None)
        assert texts(loaded) == ["first", "second", "third", "back-dated"]
        assert loaded[-1]["createdAt"] == "2020-01-01T00:00:00.000Z"

    def test_moves_the_counters(self) -> None:
        now = datetime(2026, 5, 1, tzinfo=UTC)
        thread = make_thread(title="kept", metadata={"kept": True})
        stamped = {"provider": "anthropic.messages", "protocol": "anthropic-messages", "modelId": "claude-opus-4-6"}
        turn = [text("hi"), text("ho", role="assistant", metadata=stamped), text("so")]
        DjangoStorage(clock=lambda: now).save_messages(thread.id, None, turn)
        thread.refresh_from_db()
        rows = list(Message.objects.order_by("seq"))
        assert (thread.message_count, thread.byte_count) == (3, sum(len(row.content.encode()) for row in rows))
        assert (thread.last_provider, thread.last_model) == ("anthropic", "claude-opus-4-6")
        assert (thread.last_activity_at, thread.updated_at) == (now, now)
        assert (thread.title, thread.metadata) == ("kept", {"kept": True})
        assert [(row.provider, row.protocol) for row in rows][1] == ("anthropic", "anthropic-messages")

    def test_replaces_by_id_and_counts_once(self) -> None:
        thread = make_thread()
        add_messages(thread, text("one", id="a"), text("two", id="b"))
        add_messages(thread, text("one, longer", id="a"), text("two", id="b"), text("three", id="c"))
        loaded = DjangoStorage().load_messages(thread.id, None, last=None)
        assert texts(loaded) == ["one, longer", "two", "three"]
        thread.refresh_from_db()
        rows = list(Message.objects.order_by("seq"))
        assert (thread.message_count, thread.byte_count) == (3, sum(len(row.content.encode()) for row in rows))
        assert [row.version for row in rows] == [2, 1, 1]
        assert all(row.byte_count == len(row.content) for row in rows)

    def test_a_text_that_equals_the_stored_one_writes_no_message(self) -> None:
        thread = make_thread()
        add_messages(thread, text("one", id="a"))
        before = Message.objects.values().get()
        DjangoStorage(written_by="other").save_messages(thread.id, None, [text("one", id="a")])
        assert Message.objects.values().get() == before

    def test_an_id_is_the_thread_s_own(self) -> None:
        one, other = make_thread("ada"), make_thread("bob")
        add_messages(one, text("ada's", id="same"))
        add_messages(other, text("bob's", id="same"))
        assert texts(DjangoStorage().load_messages(one.id, None, last=None)) == ["ada's"]

    def test_the_last_one_of_an_id_counts(self) -> None:
        thread = make_thread()
        add_messages(thread, text("one", id="a"), text("two", id="a"))
        assert texts(DjangoStorage().load_messages(thread.id, None, last=None)) == ["two"]
        thread.refresh_from_db()
        assert thread.message_count == 1

    @pytest.mark.parametrize("thread_id", ["the thread", "nowhere"])
    def test_refuses_a_thread_of_another_resource_like_an_absent_one(self, thread_id: str) -> None:
        make_thread("ada", id="the thread")
        with pytest.raises(NotFound, match=r"^no such thread$"):
            DjangoStorage().save_messages(thread_id, "bob", [text("hi")])
        assert not Message.objects.exists()

    def test_cleans_what_no_database_takes_and_says_so(self) -> None:
        thread = make_thread()
        odd = {"type": "te\x00xt", "text": "a\x00b \ud800", "number": float("nan")}
        stamp = {"provider": "open\x00ai", "modelId": "m" * 500}
        add_messages(thread, message(odd, id="a", metadata=stamp, type="da\x00ta"))
        row = Message.objects.get()
        assert read_content(row.content)["parts"] == [{"type": "te\ufffdxt", "text": "a\ufffdb \ufffd", "number": None}]
        assert row.reason.startswith("cleaned: /parts/0/type: 1 x U+0000 replaced; ")
        assert (row.provider, len(row.model_id), row.type) == ("open\ufffdai", 200, "da\ufffdta")
        assert row.summary[0][0] == "te\ufffdxt"

    @pytest.mark.parametrize(
        ("args", "made"),
        [('{"a": 1}', {"a": 1}), ("{broken", {"_raw": "{broken"}), ([], {}), ("", {}), (7, {"value": 7})],
    )
    def test_makes_objects_of_arguments_and_keeps_what_came(self, args: Any, made: Any) -> None:
        thread = make_thread()
        part = tool_call("c1", "call")
        part["toolInvocation"]["args"] = args
        add_messages(thread, message(part, id="a"))
        row = Message.objects.get()
        invocation = read_content(row.content)["parts"][0]["toolInvocation"]
        assert (invocation["args"], invocation["rawInput"]) == (made, args)
        assert row.reason == "cleaned: arguments that were no object became one"

    @pytest.mark.parametrize("mark", [{"openai": {"custom": True}}, {"groq": {"rawArguments": True}}])
    def test_leaves_arguments_that_are_marked_as_text(self, mark: Any) -> None:
        part = tool_call("c1", "call")
        part["toolInvocation"]["args"] = "free text"
        add_messages(make_thread(), message({**part, "providerMetadata": mark}, id="a"))
        row = Message.objects.get()
        assert read_content(row.content)["parts"][0]["toolInvocation"]["args"] == "free text"
        assert row.reason == ""

    @pytest.mark.parametrize("bad", ["", "x" * 256, "a\x00b", "a\ud800", None, 7])
    def test_refuses_an_id_that_no_row_can_hold(self, bad: Any) -> None:
        thread = make_thread()
        with pytest.raises(InvalidInput) as caught:
            add_messages(thread, text("fine"), text("odd", id=bad))
        assert caught.value.errors[0].field == "messages[1].id"
        assert not Message.objects.exists()

    def test_refuses_content_that_is_nested_too_deeply(self) -> None:
        deep: dict[str, Any] = {}
        for _ in range(5000):
            deep = {"a": deep}
        with pytest.raises(InvalidInput, match="nested"):
            add_messages(make_thread(), message({"type": "data-x", "data": deep}))

    def test_takes_more_messages_than_one_statement_does(self) -> None:
        thread = make_thread(messages=1203)
        rows = Message.objects.order_by("seq").values_list("seq", "content")
        assert [seq for seq, _ in rows] == list(range(1, 1204))
        assert "message 1202" in rows[1202][1]
        assert thread.message_count == 1203

    def test_nothing_is_saved_when_one_of_them_fails(self) -> None:
        thread = make_thread()
        with pytest.raises(InvalidInput):
            add_messages(thread, text("fine"), text("odd", id=""))
        thread.refresh_from_db()
        assert (thread.message_count, thread.last_seq) == (0, 0)


@pytest.mark.django_db
class TestThreads:
    def test_are_made_and_read_in_the_stored_form(self) -> None:
        storage = DjangoStorage()
        stored = {
            "id": "t",
            "resourceId": "ada",
            "title": "Trains",
            "metadata": {"n": BIG},
            "createdAt": "2026-01-02T03:04:05.678Z",
            "updatedAt": "2026-01-03T00:00:00.000Z",
        }
        storage.create_thread(stored)
        assert storage.load_thread("t") == {**stored, "messageCount": 0}
        assert storage.load_thread("nowhere") is None

    def test_an_id_of_another_resource_is_taken_and_stays_as_it_was(self) -> None:
        storage = DjangoStorage()
        storage.create_thread({"id": "t", "resourceId": "ada", "title": "hers"})
        with pytest.raises(Conflict) as caught:
            storage.create_thread({"id": "t", "resourceId": "bob", "title": "his"})
        assert caught.value.code == "id_taken"
        storage.create_thread({"id": "t", "resourceId": "ada", "title": "made twice at once"})
        assert Thread.objects.values_list("resource_id", "title").get() == ("ada", "hers")

    @pytest.mark.parametrize("bad", ["", "a/b", "..", "a\x00b", "x" * 129])
    def test_an_id_that_no_path_can_hold_is_refused(self, bad: str) -> None:
        with pytest.raises(InvalidInput):
            DjangoStorage().create_thread({"id": bad, "resourceId": "ada"})


@pytest.mark.django_db(transaction=True)
class TestAtOnce:
    def test_two_saves_to_a_thread_get_numbers_of_their_own(self) -> None:
        thread = make_thread()
        together = threading.Barrier(2)
        errors: list[BaseException] = []

        def save(name: str) -> None:
            try:
                together.wait(10)
                for i in range(10):
                    add_messages(thread, text(name, id=f"{name}-{i}"), text(name, id=f"{name}-{i}-answer"))
            except BaseException as error:  # noqa: BLE001 (told to the test below)
                errors.append(error)
            finally:
                connection.close()

        workers = [threading.Thread(target=save, args=(name,)) for name in ("one", "other")]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(30)
        assert errors == []
        rows = list(Message.objects.order_by("seq").values_list("seq", "message_id"))
        assert [seq for seq, _ in rows] == list(range(1, 41))
        for (_, first), (_, second) in zip(rows[::2], rows[1::2], strict=True):
            assert second == f"{first}-answer"
        thread.refresh_from_db()
        assert (thread.message_count, thread.last_seq) == (40, 40)


class TestWhatARowHolds:
    def test_the_summary_has_an_entry_a_part(self) -> None:
        content = {"parts": [{"type": "text", "text": "æ"}, {"type": "step-start"}, "junk", {"text": 1}]}
        assert summary_of(content) == [["text", 27], ["step-start", 21], ["None", 10]]
        assert summary_of({"content": "bare"}) == [["text", 29]]
        assert summary_of({}) == []

    def test_the_stamp_is_the_turn_s_origin(self) -> None:
        assert stamp_of({"metadata": {"provider": "openai-chat", "modelId": "gpt"}}) == ("openai", "openai-chat", "gpt")
        assert stamp_of({"metadata": "none"}) == ("", "", "")

    def test_checking_names_the_places(self) -> None:
        values = [
            {"role": "system", "content": "x"},
            {"role": "user", "content": {"parts": "x"}, "id": "", "createdAt": "later", "type": 7},
            "junk",
            {"role": "user", "content": "fine", "createdAt": START.isoformat()},
        ]
        assert [error.field for error in check_messages(values)] == [
            "messages[0].role",
            "messages[1].id",
            "messages[1].createdAt",
            "messages[1].type",
            "messages[1].content.parts",
            "messages[2]",
        ]
        assert check_messages({"role": "user"})[0].field == "messages"


@pytest.mark.django_db
def test_an_agent_that_goes_leaves_its_threads() -> None:
    agent = make_agent()
    thread = make_thread(agent=agent)
    agent.delete()
    thread.refresh_from_db()
    assert thread.agent_id is None
