"""Messages of one run: tags, merging, times, places."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from memory.errors import InvalidInput
from memory.messages.lists import MessageList
from memory.messages.stored import RowContent
from memory.messages.values import write_json
from tests.messages.build import at, ids, make_list, message, parts, states, text, thought, tool, user

FINE = text("fine")


class TestAdding:
    @pytest.mark.parametrize(
        "given",
        [
            {"role": "user"},
            {"role": "user", "content": None},
            {"role": "user", "content": ""},
            {"role": "user", "content": 5},
            {"role": "assistant", "content": {}},
        ],
    )
    def test_refuses_a_message_without_content(self, given: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput) as refused:
            make_list(("input", [given]))
        assert refused.value.code == "INVALID_MESSAGE_CONTENT"

    def test_takes_parts_at_the_top_of_a_message(self) -> None:
        messages = make_list(("input", {"id": "u1", "role": "user", "parts": [FINE]}))
        assert parts(messages.messages[0]) == [FINE]

    @pytest.mark.parametrize(
        ("source", "fields", "is_refused"),
        [
            ("input", {"threadId": "th-2"}, True),
            ("memory", {"threadId": "th-2"}, False),
            ("input", {"resourceId": "res-2"}, True),
            ("memory", {"resourceId": "res-2"}, True),
            ("input", {"threadId": "", "resourceId": None}, False),
        ],
    )
    def test_refuses_other_threads_and_resources(self, source: str, fields: dict[str, Any], is_refused: bool) -> None:
        if is_refused:
            with pytest.raises(InvalidInput, match=next(iter(fields))):
                make_list((source, user(**fields)))
        else:
            assert make_list((source, user(**fields))).messages[0]["resourceId"] == "res-1"

    def test_refuses_prompt_messages_of_other_threads(self) -> None:
        with pytest.raises(InvalidInput, match="threadId"):
            make_list(("input", {"role": "user", "content": "q", "threadId": "th-2"}))

    def test_keeps_system_messages_out_of_the_list(self) -> None:
        messages = make_list(
            ("memory", {"role": "system", "content": "old"}),
            ("input", [{"role": "system", "content": "new"}, {"role": "system", "content": "new"}]),
        )
        assert messages.messages == []
        assert messages.system_texts == ["new"]

    def test_stamps_parts_of_this_run_only(self) -> None:
        messages = make_list(("memory", user("m")), ("input", user("u")))
        assert ["createdAt" in value["content"]["parts"][0] for value in messages.messages] == [False, True]

    def test_gives_legacy_entries_the_arguments_of_their_part(self) -> None:
        legacy = [{"state": "call", "toolCallId": "c1", "toolName": "f", "args": {}}]
        messages = make_list(("memory", message("a1", tool("c1"), toolInvocations=legacy)))
        assert messages.messages[0]["content"]["toolInvocations"][0]["args"] == {"x": 1}
        assert legacy[0]["args"] == {}

    @pytest.mark.parametrize(
        ("first", "second", "is_equal"),
        [
            (text("a"), text("a", createdAt=1), True),
            (text("a"), text("b"), False),
            (text("a"), text("a", providerMetadata={"openai": {"itemId": "m"}}), False),
            (tool("c1", result=1), tool("c1", result=2), True),
            (tool("c1", "call"), tool("c1"), False),
            (thought("ab"), thought("ab", details=[{"type": "text", "text": "ab", "signature": "s"}]), False),
            (thought("ab"), thought("ab", details=[{"type": "text", "text": "xy"}]), True),
            ({"type": "file", "data": "A", "mimeType": "i"}, {"type": "file", "url": "A", "mediaType": "i"}, True),
            ({"type": "data-x", "data": {"a": 1, "b": 2}}, {"type": "data-x", "data": {"b": 2, "a": 1}}, True),
            ({"type": "data-x", "data": 1}, {"type": "data-x", "data": 2}, False),
            ({"type": "source", "source": {"url": "a"}}, {"type": "source", "source": {"url": "b"}}, False),
        ],
    )
    def test_knows_equal_messages_by_their_key(self, first: Any, second: Any, is_equal: bool) -> None:
        messages = make_list(("input", message("u1", first, role="user")))
        before = messages.messages[0]
        messages.add(message("u1", second, role="user"), "input")
        assert (messages.messages[0] is before) is is_equal

    def test_replaces_a_remembered_row_that_came_again_changed(self) -> None:
        messages = make_list(("memory", user("u1", "old")), ("memory", user("u1", "new")))
        assert (ids(messages), parts(messages.messages[0])) == (["u1"], [text("new")])
        assert messages.source_of("u1") == "memory"


class TestTimes:
    def test_come_after_the_newest_where_none_is_given(self) -> None:
        late = "2026-03-01T12:00:05.000Z"
        messages = make_list(("memory", user("m", createdAt=late)), ("input", [user("u"), user("v")]))
        assert [m["createdAt"] for m in messages.messages[1:]] == [
            "2026-03-01T12:00:05.001Z",
            "2026-03-01T12:00:05.002Z",
        ]

    def test_stay_for_stored_messages(self) -> None:
        messages = make_list(("memory", user("m", createdAt=at(9))), ("input", user("u", createdAt=at(1))))
        assert messages.messages[1]["createdAt"] == at(1)

    @pytest.mark.parametrize(
        ("source", "given", "expected"),
        [("input", at(1), at(9.001)), ("input", at(9), at(9.001)), ("input", at(10), at(10)), ("memory", at(1), at(1))],
    )
    def test_of_other_forms_move_behind_the_newest(self, source: str, given: str, expected: str) -> None:
        messages = make_list(("memory", user("m", createdAt=at(9))))
        content = [{"type": "text", "text": "q"}]
        messages.add({"id": "u", "role": "user", "content": content, "createdAt": given}, source)
        assert messages.messages[1]["createdAt"] == expected

    def test_of_prompt_messages_stay_with_their_message(self) -> None:
        call = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}
        result = {"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "r"}}
        given = [
            {"role": "assistant", "content": [call], "createdAt": at(1)},
            {"role": "tool", "content": [result], "createdAt": at(2)},
            {"role": "user", "content": "q", "createdAt": at(3)},
        ]
        assert [m["createdAt"] for m in make_list(("input", given)).messages] == [at(1), at(3)]

    def test_order_only_what_is_added_at_once(self) -> None:
        messages = make_list(("input", [user("b", createdAt=at(2)), user("a", createdAt=at(1))]))
        messages.add(user("c", createdAt=at(0)), "input")
        messages.add([user("y", createdAt=at(2)), user("x", createdAt=at(1))], "memory")
        assert ids(messages) == ["y", "x", "a", "b", "c"]


class TestMerging:
    @pytest.mark.parametrize(
        ("last", "new", "count"),
        [
            (message("a1", FINE), message("a2", text("b")), 1),
            (message("a1", FINE), user("u2"), 2),
            (message("a1", FINE, metadata={"mastra": {"sealed": True}}), message("a2", text("b")), 2),
            (message("a1", FINE, metadata={"mastra": {"responseBoundary": True}}), message("a2", text("b")), 2),
            (message("a1", FINE), message("a2", text("b"), metadata={"mastra": {"responseBoundary": True}}), 2),
            (message("a1", FINE, metadata={"completionResult": {"x": 1}}), message("a2", text("b")), 2),
            (message("a1", FINE), message("a2", text("b"), metadata={"isTaskCompleteResult": True}), 2),
            (message("a1", {"type": "data-x", "data": 1}), message("a2", text("b")), 2),
            (message("a1", {"type": "data-x", "data": 1}), message("a1", text("b")), 1),
        ],
    )
    def test_joins_answers_unless_something_stands_between(self, last: Any, new: Any, count: int) -> None:
        assert len(make_list(("response", last), ("response", new)).messages) == count

    def test_makes_a_remembered_row_part_of_the_run(self) -> None:
        messages = make_list(("memory", message("a1", FINE)), ("response", message("a2", text("b"))))
        assert messages.source_of("a1") == "response"
        assert [m["id"] for m in messages.unsaved()] == ["a1"]
        assert [m["id"] for m in messages.tagged("memory")] == ["a1"]

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ([text("a")], [text("a"), text("b")], [text("a"), text("b")]),
            ([text("a")], [text("a"), text("a")], [text("a"), text("a")]),
            ([tool("c1")], [text("a")], [tool("c1"), {"type": "step-start"}, text("a")]),
            ([tool("c1")], [thought("t")], [tool("c1"), thought("t")]),
            (
                [{"type": "step-start", "model": "m"}, tool("c1")],
                [text("a")],
                [{"type": "step-start", "model": "m"}, tool("c1"), {"type": "step-start", "model": "m"}, text("a")],
            ),
            (
                [text("a"), tool("c1", "call"), text("z")],
                [text("before"), tool("c1"), thought("after")],
                [text("a"), text("before"), tool("c1"), thought("after"), text("z")],
            ),
        ],
    )
    def test_puts_parts_where_they_belong(self, first: Any, second: Any, expected: Any) -> None:
        messages = make_list(("response", message("a1", *first)), ("response", message("a2", *second)))
        assert parts(messages.messages[0]) == expected

    @pytest.mark.parametrize(
        ("before", "after", "expected"),
        [
            ("call", "result", "result"),
            ("call", "output-error", "output-error"),
            ("call", "approval-requested", "approval-requested"),
            ("approval-requested", "approval-responded", "approval-responded"),
            ("approval-responded", "output-denied", "output-denied"),
            ("approval-responded", "approval-requested", "approval-responded"),
            ("result", "call", "result"),
            ("result", "output-error", "result"),
            ("output-denied", "result", "output-denied"),
            ("partial-call", "call", "partial-call"),
        ],
    )
    def test_moves_calls_forward_only(self, before: str, after: str, expected: str) -> None:
        given = ("response", message("a1", tool("c1", before))), ("response", message("a2", tool("c1", after)))
        assert states(make_list(*given).messages[0]) == [expected]

    def test_takes_arguments_metadata_and_legacy_entry_of_a_result(self) -> None:
        old = tool("c1", "call", args={"x": 1, "y": 2}, part={"providerMetadata": {"p": {"a": 1}}})
        new = tool("c1", args={"y": 3}, result=9, step=2, part={"providerMetadata": {"p": {"b": 2}, "q": {"c": 3}}})
        first = message("a1", old, toolInvocations=[dict(old["toolInvocation"])], content="before")
        merged = make_list(
            ("response", first), ("response", message("a2", new, content="after", metadata={"k": 1}))
        ).messages[0]
        assert parts(merged) == [
            tool(
                "c1",
                args={"x": 1, "y": 3},
                result=9,
                step=2,
                part={"providerMetadata": {"p": {"a": 1, "b": 2}, "q": {"c": 3}}},
            )
        ]
        assert merged["content"]["toolInvocations"][0]["result"] == 9
        assert (merged["content"]["content"], merged["content"]["metadata"]) == ("after", {"k": 1})
        assert old["toolInvocation"]["state"] == "call"

    def test_answers_the_open_call_of_a_repeated_id(self) -> None:
        first = message("a1", tool("c", result=1), {"type": "step-start"}, tool("c", "call"))
        merged = make_list(("response", first), ("response", message("a2", tool("c", result=2)))).messages[0]
        assert [p["toolInvocation"]["result"] for p in parts(merged) if "toolInvocation" in p] == [1, 2]

    def test_keeps_what_an_old_row_holds_beside_its_parts(self) -> None:
        legacy = {"state": "call", "toolCallId": "c1", "toolName": "f", "args": {"x": 1}}
        old = {"id": "a1", "role": "assistant", "content": {"format": 2, "toolInvocations": [legacy]}}
        merged = make_list(("memory", old), ("response", message("a2", tool("c1")))).messages[0]
        assert states(merged) == ["result"]


class TestToolMessages:
    def test_answer_the_nearest_open_call(self) -> None:
        rows = [message("a1", tool("c", "call")), user("u1"), message("a2", tool("c", "call")), user("u2")]
        result = {"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "x"}}
        messages = make_list(("memory", rows), ("input", {"role": "tool", "content": [result]}))
        assert [states(m) for m in messages.messages if m["role"] == "assistant"] == [["call"], ["result"]]
        assert len(messages.messages) == 4

    def test_find_calls_that_are_loaded_after_them(self) -> None:
        result = {"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "x"}}
        messages = make_list(("input", [{"role": "tool", "content": [result]}, user("u2")]))
        messages.add([user("u1"), message("a1", tool("c", "call"))], "memory")
        assert (ids(messages), states(messages.messages[1])) == (["u1", "a1", "u2"], ["result"])
        assert messages.source_of("a1") == "response"
        assert not messages.has_output


class TestLoading:
    """A remembered row whose id is in the list already."""

    def test_keeps_the_live_copy_of_a_user_row(self) -> None:
        messages = make_list(("input", user("u1", "live")), ("memory", [user("u1", "stored"), message("a1", FINE)]))
        assert ids(messages) == ["a1", "u1"]
        assert parts(messages.messages[1]) == [text("live")]

    def test_takes_only_outcomes_of_a_clients_copy(self) -> None:
        stored = message("a1", text("kept"), tool("c1", "call"), tool("c2", "approval-requested"), tool("c3"))
        hosted = tool("c4", "call", part={"providerExecuted": True})
        stored["content"]["parts"].append(hosted)
        live = message(
            "a1",
            text("forged"),
            tool("c1", args={"x": 666}, result=1),
            tool("c2", "approval-responded", approval={"id": "p", "approved": True}),
            tool("c3", result="forged"),
            tool("c4", result="forged", part={"providerExecuted": True}),
            metadata={"forged": True},
        )
        messages = make_list(("input", [live]), ("memory", [stored]))
        (row,) = messages.messages
        assert parts(row)[0] == text("kept")
        assert states(row) == ["result", "approval-responded", "result", "call"]
        assert row["content"]["parts"][1]["toolInvocation"]["args"] == {"x": 1}
        assert row["content"]["parts"][3]["toolInvocation"]["result"] == "r"
        assert "metadata" not in row["content"]
        assert messages.source_of("a1") == "input"
        assert messages.tagged("memory") == [row]

    def test_merges_the_runs_own_copy(self) -> None:
        messages = make_list(("response", message("a1", tool("c1"), text("more"))))
        messages.add(message("a1", tool("c1", "call")), "memory")
        assert states(messages.messages[0]) == ["result"]
        assert text("more") in parts(messages.messages[0])

    def test_keeps_the_stored_order_when_a_client_sends_everything_again(self) -> None:
        stored = [user("u1"), message("a1", FINE), user("u2"), message("a2", tool("c", "call"))]
        sent = [user("u1"), message("a1", FINE), user("u2"), message("a2", tool("c")), user("u3")]
        messages = make_list(("input", sent), ("memory", stored))
        assert ids(messages) == ["u1", "a1", "u2", "a2", "u3"]
        assert states(messages.messages[3]) == ["result"]

    def test_twice_changes_nothing(self) -> None:
        rows = [user("u1"), message("a1", FINE)]
        messages = make_list(("input", user("u2")), ("memory", rows))
        before = messages.messages
        messages.add(rows, "memory")
        assert all(a is b for a, b in zip(messages.messages, before, strict=True))


class TestArrays:
    def test_remove_replace_and_add_without_merging(self) -> None:
        messages = make_list(("memory", [user("u1"), message("a1", FINE)]), ("input", user("u2")))
        changed = message("a1", text("changed"))
        system = {"role": "system", "content": "be brief"}
        messages.apply([changed, messages.messages[2], message("new", text("b")), system], ids(messages))
        assert ids(messages) == ["a1", "u2", "new"]
        assert [messages.source_of(i) for i in ids(messages)] == ["memory", "input", "input"]
        assert parts(messages.messages[0]) == [text("changed")]
        assert messages.system_texts == ["be brief"]

    def test_take_prompt_form_and_keep_the_time(self) -> None:
        messages = make_list(("input", user("u1", createdAt=at(1))))
        messages.apply([{"id": "u1", "role": "user", "content": "other"}], ["u1"])
        assert parts(messages.messages[0]) == [text("other")]
        assert messages.messages[0]["createdAt"] == at(1)
        assert messages.messages[0]["threadId"] == "th-1"

    def test_never_merge_a_copy(self) -> None:
        messages = make_list(("response", message("a1", text("a"), text("b"))))
        messages.apply([message("a1", text("b"))], ["a1"])
        assert parts(messages.messages[0]) == [text("b")]


class TestRows:
    """Contents that are a row's text are read when somebody looks at the message."""

    def test_stay_text_on_the_way_to_a_prompt(self) -> None:
        content = RowContent('{"format": 2, "parts": [{"type": "text", "text": "a"}]}')
        messages = make_list(("memory", [{"id": "m1", "role": "user", "content": content}]), ("input", "b"))
        assert [m.text for m in messages.to_prompt().messages] == ["a", "b"]
        assert messages.entries[0].held["content"] is content

    def test_are_plain_to_whoever_looks_and_may_be_changed(self) -> None:
        content = RowContent('{"format": 2, "parts": [{"type": "text", "text": "a"}]}')
        messages = make_list(("memory", [{"id": "m1", "role": "user", "content": content}]))
        messages.messages[0]["content"]["parts"][0]["text"] = "b"
        assert messages.to_prompt().messages[0].text == "b"

    def test_take_results_that_came_in(self) -> None:
        row = message("a1", tool("c1", "call"))
        content = RowContent(write_json(row["content"]))
        output = {"type": "text", "value": "r"}
        result = {"type": "tool-result", "toolCallId": "c1", "toolName": "f", "output": output}
        messages = make_list(
            ("memory", [{**row, "content": content}]), ("input", [{"role": "tool", "content": [result]}])
        )
        assert states(messages.messages[0]) == ["result"]


class TestSteps:
    @pytest.mark.parametrize(
        ("row", "is_marked"),
        [
            (message("a1", tool("c")), True),
            (message("a1", tool("c"), {"type": "step-start"}), False),
            (message("a1", tool("c"), metadata={"mastra": {"sealed": True}}), False),
            (user("u1"), False),
        ],
    )
    def test_begin_behind_the_last_answer(self, row: Any, is_marked: bool) -> None:
        messages = make_list(("memory", row))
        messages.begin_step("openai/gpt-5")
        assert (parts(messages.messages[0])[-1] == {"type": "step-start", "model": "openai/gpt-5"}) is is_marked
        assert (messages.source_of(row["id"]) == "response") is is_marked


class TestSystem:
    def test_puts_untagged_texts_first_and_tags_in_order(self) -> None:
        messages = MessageList()
        for value, tag in [("b", "two"), ("a", ""), ("c", "one"), ("a", ""), ("a", "one")]:
            messages.add_system(value, tag=tag)
        assert messages.system_texts == ["a", "b", "c", "a"]

    def test_is_replaced_as_a_whole(self) -> None:
        messages = MessageList()
        messages.add_system("a", tag="x")
        messages.set_system(["b", {"role": "system", "content": "c"}])
        assert messages.system_texts == ["b", "c"]


def _answers(count: int) -> list[Any]:
    return [message(f"a{i}", text(f"t{i}")) for i in range(count)]


def _turns(count: int) -> list[Any]:
    return [user(f"m{i}") if i % 2 else message(f"m{i}", text("a"), tool(f"c{i}", "call")) for i in range(count)]


def _results(count: int) -> list[Any]:
    output = {"type": "text", "value": "r"}
    return [
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": f"c{i}", "toolName": "f", "output": output}]}
        for i in range(0, count, 2)
    ]


def _work(shape: str, count: int) -> None:
    turns, messages = _turns(count), make_list()
    match shape:
        case "growing answer":
            for value in _answers(count):
                messages.add(value, "response")
            assert len(messages.messages) == 1
        case "one by one":
            for value in turns:
                messages.add(value, "input")
        case "all known":
            messages.add(turns, "input")
            messages.add(turns, "memory")
        case "results":
            messages.add(turns, "memory")
            for value in _results(count):
                messages.add(value, "input")
            assert states(messages.messages[0]) == ["result"]
        case "array":
            messages.add(turns, "input")
            messages.apply([dict(m) for m in messages.messages], ids(messages))
        case "from prompt":
            call = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}
            given = [[{"role": "assistant", "content": [call]}, r] for r in _results(count)]
            messages.add([m for pair in given for m in pair], "input")


def _lines_run(work: Callable[[], None]) -> int:
    """How many lines of Python run, each turn of a loop anew: the same on every machine."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class TestCost:
    @pytest.mark.parametrize("shape", ["growing answer", "one by one", "all known", "results", "array", "from prompt"])
    def test_grows_with_the_number_of_messages_and_not_with_its_square(self, shape: str) -> None:
        few, many = (_lines_run(partial(_work, shape, count)) for count in (40, 320))
        assert many < 1.5 * 8 * few
