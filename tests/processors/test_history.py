"""MessageHistory: what is recalled, what is saved, for whom."""

import itertools
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.errors import InvalidInput, InvalidOption, NotFound
from memory.processors import Chain, MemoryStorage, MessageHistory, MessageList, ProcessInputArgs
from memory.processors.base import ProcessOutputResultArgs, TurnEnd
from memory.processors.history import storable
from tests.messages.build import at, ids, make_list, message, text, tool, user
from tests.processors.fakes import Run, failure

RESULT = {"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "r"}}


def stored(*messages: Any, resource: str = "res-1", **thread: Any) -> MemoryStorage:
    storage = MemoryStorage()
    row = {"id": "th-1", "resourceId": resource, "title": "T", "metadata": {"k": 1}, "updatedAt": "", **thread}
    storage.create_thread(row)
    storage.save_messages("th-1", None, [{"threadId": "th-1", "resourceId": resource, **m} for m in messages])
    storage.threads["th-1"]["updatedAt"] = ""
    return storage


def recall(storage: MemoryStorage, messages: MessageList, *, context: Any = None, **options: Any) -> MessageList:
    history = MessageHistory(storage=storage, **options)
    return history.process_input(ProcessInputArgs(messages=[], message_list=messages, request_context=context or {}))


def save(storage: MemoryStorage, messages: MessageList, *, context: Any = None, reason: str = "stop") -> None:
    args = ProcessOutputResultArgs(
        messages=messages.messages,
        message_list=messages,
        request_context=context or {},
        result=TurnEnd(finish_reason=reason),
    )
    assert MessageHistory(storage=storage).process_output_result(args) is messages


def rows(storage: MemoryStorage) -> list[dict[str, Any]]:
    return storage.load_messages("th-1", None, last=None)


class TestOptions:
    @pytest.mark.parametrize("value", [-1, 1.5, "2", True, float("nan")])
    def test_refuses_odd_windows(self, value: Any) -> None:
        with pytest.raises(InvalidOption, match="last_messages"):
            MessageHistory(storage=MemoryStorage(), last_messages=value)

    @pytest.mark.parametrize("value", [1, "yes", None])
    def test_refuses_odd_steadiness(self, value: Any) -> None:
        with pytest.raises(InvalidOption, match="steady_prefix"):
            MessageHistory(storage=MemoryStorage(), steady_prefix=value)

    def test_needs_a_storage(self) -> None:
        with pytest.raises(InvalidOption, match="storage"):
            MessageHistory()


class TestPlace:
    @pytest.mark.parametrize(
        ("context", "words"),
        [
            ("x", "Invalid MemoryRequestContext: expected object, got string"),
            ({"thread": 5}, "thread: expected object, got number"),
            ({"thread": {}}, "thread.id: expected string, got undefined"),
            ({"thread": {"id": 5}}, "thread.id: expected string, got number"),
            ({"resourceId": True}, "resourceId: expected string, got boolean"),
            ({"memoryConfig": []}, "memoryConfig: expected object, got object"),
        ],
    )
    def test_refuses_wrong_types(self, context: Any, words: str) -> None:
        with pytest.raises(InvalidInput, match=words):
            recall(MemoryStorage(), make_list(), context={"MastraMemory": context})

    def test_beats_the_lists_own(self) -> None:
        messages = MessageList(thread_id="other")
        recall(stored(user("m1")), messages, context={"MastraMemory": {"thread": {"id": "th-1"}}})
        assert ids(messages) == ["m1"]

    def test_is_not_needed(self) -> None:
        messages = MessageList()
        messages.add("q", "input")
        storage = MemoryStorage()
        assert recall(storage, messages) is messages
        save(storage, messages)
        assert storage.threads == {}


class Uncounted(MemoryStorage):
    """A storage that doesn't say how many messages a thread has."""

    def load_thread(self, thread_id: str) -> dict[str, Any] | None:
        thread = super().load_thread(thread_id)
        return thread and {key: value for key, value in thread.items() if key != "messageCount"}


class TestSteadyWindow:
    @settings(max_examples=60, deadline=None)
    @given(
        window=st.integers(1, 24),
        turns=st.lists(st.lists(st.sampled_from(["assistant", "result"]), max_size=3), min_size=1, max_size=40),
        is_counted=st.booleans(),
    )
    def test_moves_once_in_a_quarter(self, window: int, turns: list[list[str]], is_counted: bool) -> None:
        storage = MemoryStorage() if is_counted else Uncounted()
        storage.create_thread({"id": "th-1", "resourceId": "res-1", "title": "", "metadata": {}, "updatedAt": ""})
        begins: list[tuple[int, str]] = []
        written = 0
        for turn in turns:
            for role in ["user", *turn]:
                made = user(f"m{written:03}") if role == "user" else message(f"m{written:03}", text())
                storage.save_messages("th-1", None, [{"threadId": "th-1", "resourceId": "res-1", **made}])
                written += 1
                found = ids(recall(storage, make_list(), last_messages=window, steady_prefix=True))
                assert found == [f"m{n:03}" for n in range(int(found[0][1:]), written)]
                assert len(found) <= window
                if written <= window:
                    assert found[0] == "m000"
                begins.append((written, found[0]))
        moves = [count for (_, before), (count, after) in itertools.pairwise(begins) if before != after]
        quarter = max(1, window // 4)
        assert all(later - earlier >= quarter for earlier, later in itertools.pairwise(moves))

    def test_begins_with_a_turn(self) -> None:
        turns = [m for n in range(12) for m in (user(f"u{n}"), message(f"a{n}", text()), message(f"b{n}", text()))]
        for count in range(17, len(turns)):
            found = ids(recall(stored(*turns[:count]), make_list(), last_messages=16, steady_prefix=True))
            assert found[0].startswith("u")
            assert 16 - 4 - 2 <= len(found) <= 16


class TestRecall:
    @pytest.mark.parametrize(
        ("last", "expected"),
        [(2, ["b", "c"]), (None, ["a", "b", "c"]), (False, ["a", "b", "c"]), (0, []), (9, ["a", "b", "c"])],
    )
    def test_gives_the_newest_before_the_input(self, last: Any, expected: list[str]) -> None:
        storage = stored(user("a"), message("b", text()), user("c"))
        assert ids(recall(storage, make_list(("input", user("u"))), last_messages=last)) == [*expected, "u"]

    def test_is_not_cut_at_a_page_of_forty(self) -> None:
        assert len(recall(stored(*(user(f"m{i}") for i in range(90))), make_list()).messages) == 90

    def test_lets_system_rows_use_up_the_window(self) -> None:
        storage = stored(user("a"), user("b"), message("s", text(), role="system"))
        assert ids(recall(storage, make_list(), last_messages=2)) == ["b"]

    def test_goes_by_stored_order_not_by_clock(self) -> None:
        storage = stored(user("a", createdAt=at(9)))
        storage.save_messages("th-1", None, [user("b", createdAt=at(1))])
        assert ids(recall(storage, make_list(), last_messages=1)) == ["b"]

    def test_loads_pending_calls_as_stored(self) -> None:
        messages = recall(stored(message("a", tool(state="call"), text())), make_list())
        assert [p["type"] for p in messages.messages[0]["content"]["parts"]] == ["tool-invocation", "text"]

    def test_sees_nothing_of_another_resource(self) -> None:
        storage = stored(user("a"), resource="res-2")
        assert recall(storage, make_list()).messages == []

    def test_passes_storage_errors_on(self) -> None:
        class Broken(MemoryStorage):
            def load_messages(self, *_: Any, **__: Any) -> Any:
                raise OSError("down")

        with pytest.raises(OSError, match="down"):
            recall(Broken(), make_list())


class TestSaving:
    def test_writes_input_then_response_and_nothing_else(self) -> None:
        storage = stored(user("m"))
        messages = make_list(("memory", user("m")), ("input", user("u")), ("context", user("x")))
        messages.add(message("a", text()), "response")
        save(storage, messages)
        assert [row["id"] for row in rows(storage)] == ["m", "u", "a"]

    def test_makes_a_missing_thread_once(self) -> None:
        storage = MemoryStorage()
        messages = MessageList()
        messages.add("q", "input")
        save(storage, messages, context={"MastraMemory": {"thread": {"id": "th-9"}}})
        thread = storage.threads["th-9"]
        assert (thread["resourceId"], thread["title"], thread["metadata"]) == ("th-9", "", {})
        (row,) = storage.load_messages("th-9", None, last=None)
        assert (row["threadId"], row["resourceId"]) == ("th-9", "th-9")

    def test_moves_only_the_time_of_an_existing_thread(self) -> None:
        storage = stored()
        save(storage, make_list(("input", user())))
        assert (storage.threads["th-1"]["title"], storage.threads["th-1"]["metadata"]) == ("T", {"k": 1})
        assert storage.threads["th-1"]["updatedAt"] != ""

    def test_stamps_rows_with_the_owner_of_their_thread(self) -> None:
        storage = stored()
        messages = MessageList()
        messages.add(user("u"), "input")
        save(storage, messages, context={"MastraMemory": {"thread": {"id": "th-1"}}})
        assert [row["resourceId"] for row in storage.load_messages("th-1", "res-1", last=None)] == ["res-1"]

    def test_refuses_the_thread_of_another_resource(self) -> None:
        storage = stored(resource="res-2")
        with pytest.raises(NotFound):
            save(storage, make_list(("input", user())))
        assert rows(storage) == []

    def test_leaves_everything_alone_where_memory_is_read_only(self) -> None:
        storage = stored()
        context = {"MastraMemory": {"thread": {"id": "th-1"}, "memoryConfig": {"readOnly": True}}}
        save(storage, make_list(("input", user())), context=context)
        assert (rows(storage), storage.threads["th-1"]["updatedAt"]) == ([], "")

    @pytest.mark.parametrize(("with_output", "count"), [(False, 0), (True, 2)])
    def test_of_a_failed_turn_needs_output(self, with_output: bool, count: int) -> None:
        storage = stored()
        messages = make_list(("input", user()))
        if with_output:
            messages.add(message("a", text("half")), "response")
        save(storage, messages, reason="error")
        assert len(rows(storage)) == count

    def test_counts_results_of_the_caller_as_no_output(self) -> None:
        storage = stored(user("u0"), message("a0", tool("c", "call")))
        messages = make_list(("input", [{"role": "tool", "content": [RESULT]}]))
        recall(storage, messages)
        save(storage, messages, reason="error")
        assert rows(storage)[1]["content"]["parts"][0]["toolInvocation"]["state"] == "call"
        save(storage, messages)
        assert rows(storage)[1]["content"]["parts"][0]["toolInvocation"]["state"] == "result"

    def test_counts_an_answer_merged_into_the_input_as_output(self) -> None:
        storage = stored()
        messages = make_list(("input", [user(), message("a", text("pre"))]))
        messages.add(message("b", text("fill")), "response")
        save(storage, messages, reason="error")
        assert len(rows(storage)) == 2

    def test_passes_storage_errors_on(self) -> None:
        class Broken(MemoryStorage):
            def save_messages(self, *_: Any, **__: Any) -> None:
                raise OSError("full")

        with pytest.raises(OSError, match="full"):
            save(Broken(), make_list(("input", user())))


WM = "<working_memory>secret</working_memory>"


class TestStorable:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ([tool(state="partial-call")], None),
            ([tool(state="partial-call"), text("a")], [text("a")]),
            ([tool(state="call")], [tool(state="call")]),
            ([tool(toolName="updateWorkingMemory")], None),
            ([tool(toolName="setWorkingMemory")], [tool(toolName="setWorkingMemory")]),
            ([text(f"a {WM} b ")], [text("a  b")]),
            ([text(f"{WM}a{WM}")], [text("a")]),
            ([text(" a ")], [text(" a ")]),
            ([text("a <working_memory>open")], [text("a <working_memory>open")]),
            ([{"type": "text"}], [text("")]),
            (
                [{"type": "step-start"}, {"type": "data-x", "data": 1}],
                [{"type": "step-start"}, {"type": "data-x", "data": 1}],
            ),
            ([], None),
        ],
    )
    def test_keeps_what_is_finished_and_meant_to_stay(self, given: Any, expected: Any) -> None:
        kept = storable(message("a", *given))
        assert (kept and kept["content"]["parts"]) == expected

    def test_keeps_a_message_whose_text_stands_beside_its_parts(self) -> None:
        kept = storable(message("u", role="user", content=f"{WM} hi "))
        assert kept is not None
        assert (kept["content"]["content"], kept["content"]["parts"]) == ("hi", [])
        assert storable(message("u", role="user", content=" ")) is None

    def test_cleans_the_legacy_list_too(self) -> None:
        legacy = [tool("c1", "partial-call")["toolInvocation"], tool("c2")["toolInvocation"]]
        kept = storable(message("a", text(), toolInvocations=legacy))
        assert kept is not None
        assert [entry["toolCallId"] for entry in kept["content"]["toolInvocations"]] == ["c2"]
        old = {"id": "a", "role": "assistant", "content": {"format": 2, "toolInvocations": legacy[:1]}}
        assert storable(old) is None

    def test_leaves_out_system_rows_and_passing_signals(self) -> None:
        passing = message("s", text(), role="signal", metadata={"signal": {"transient": True}})
        staying = message("s", text(), role="signal", metadata={"signal": {"type": "x"}})
        assert storable(passing) is None
        assert storable(staying) is not None
        assert storable(message("s", text(), role="system")) is None

    def test_changes_nothing_given(self) -> None:
        given = message("a", text(WM), tool(state="partial-call"), content=WM)
        before = repr(given)
        storable(given)
        assert repr(given) == before


class TestInARun:
    def test_saves_at_the_end_and_recalls_in_the_next_one(self) -> None:
        storage = MemoryStorage()
        for name in ("u1", "u2"):
            history = MessageHistory(storage=storage)
            Run()(Chain(input=[history], output=[history]), messages=make_list(("input", user(name))))
        assert [row["role"] for row in rows(storage)] == ["user", "assistant"] * 2

    def test_leaves_the_thread_as_it_was_when_no_answer_came(self) -> None:
        storage = stored(user("u0"))
        history = MessageHistory(storage=storage)
        run = Run(failure(400))
        with pytest.raises(Exception, match="overloaded"):
            run(Chain(input=[history], output=[history]))
        assert [row["id"] for row in rows(storage)] == ["u0"]

    def test_can_be_asked_from_two_threads(self) -> None:
        storage = MemoryStorage()
        history = MessageHistory(storage=storage)
        chain = [Chain(input=[history], output=[history]) for _ in range(4)]
        threads = [
            threading.Thread(target=Run(), args=(c,), kwargs={"messages": make_list(("input", user(f"u{i}")))})
            for i, c in enumerate(chain)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(rows(storage)) == 8
