"""Stored messages to a prompt: what is kept, what is cut where, what nobody may see."""

from typing import Any

import pytest
from hypothesis import given, settings

from memory.messages.convert import to_prompt
from memory.messages.prompt import ToolCall, ToolResult, prompt_to_json
from memory.messages.stored import RowContent
from memory.messages.values import write_json
from tests import strategies
from tests.messages.build import message, text, thought, tool, user

STEP = {"type": "step-start"}
ITEM = {"providerMetadata": {"openai": {"itemId": "m1"}}}


def prompt_of(*messages: Any, **options: Any) -> list[dict[str, Any]]:
    """The prompt without ids."""
    made = prompt_to_json(to_prompt(messages, **options))
    return [{key: value for key, value in m.items() if key != "id"} for m in made]


def shape(*messages: Any) -> list[tuple[str, list[str]]]:
    return [(m["role"], [part["type"] for part in m["content"]]) for m in prompt_of(*messages)]


HOSTED = {"part": {"providerExecuted": True}}


class TestParts:
    def test_shows_signals_as_user_messages(self) -> None:
        signal = message("s1", text("reminder"), role="signal")
        assert prompt_of(signal) == [{"role": "user", "content": [text("reminder")]}]

    @pytest.mark.parametrize(
        ("part", "content", "expected"),
        [
            (tool("c1"), {"toolInvocations": [tool("c2")["toolInvocation"]]}, ["c1"]),
            (text(), {"toolInvocations": [tool("c2")["toolInvocation"]]}, ["c2"]),
        ],
    )
    def test_uses_the_legacy_list_only_without_tool_parts(self, part: Any, content: Any, expected: Any) -> None:
        row = message("a1", part)
        row["content"] |= content
        calls = [p["toolCallId"] for m in prompt_of(row) for p in m["content"] if p["type"] == "tool-call"]
        assert calls == expected

    def test_uses_legacy_reasoning_and_attachments_only_without_parts_of_their_kind(self) -> None:
        row = user("u1")
        row["content"] |= {"experimental_attachments": [{"url": "https://x.invalid/a.png", "contentType": "image/png"}]}
        assert shape(row) == [("user", ["file", "text"])]
        row["content"]["parts"].append({"type": "file", "mimeType": "image/png", "data": "AA=="})
        assert shape(row) == [("user", ["text", "file"])]
        answer = message("a1", text("x"))
        answer["content"]["reasoning"] = "old"
        assert shape(answer) == [("assistant", ["reasoning", "text"])]

    @pytest.mark.parametrize(
        ("part", "output"),
        [
            (tool(result="r"), {"type": "text", "value": "r"}),
            (tool(result={"a": 1}), {"type": "json", "value": {"a": 1}}),
            (tool(result=None), {"type": "json", "value": None}),
            (tool(result={"value": "r"}), {"type": "text", "value": "r"}),
            (tool(result={"type": "content", "value": "r"}), {"type": "text", "value": "r"}),
            (tool(result={"type": "content", "value": [text("r")]}), {"type": "content", "value": [text("r")]}),
            (
                tool(result={"content": [{"type": "image", "data": "AA", "mimeType": "image/png"}, text("t")]}),
                {"type": "content", "value": [{"type": "media", "data": "AA", "mediaType": "image/png"}, text("t")]},
            ),
            (tool(result={"content": [text("t")]}), {"type": "json", "value": {"content": [text("t")]}}),
            (tool(state="output-error", errorText="no"), {"type": "error-text", "value": "no"}),
            (tool(state="output-error"), {"type": "error-text", "value": ""}),
            (tool(state="output-denied", approval={"id": "p", "reason": "no"}), {"type": "text", "value": "no"}),
            (tool(state="output-denied"), {"type": "text", "value": "Tool call was not approved by the user"}),
            (
                tool(part={"providerMetadata": {"mastra": {"modelOutput": {"type": "text", "value": "short"}}}}),
                {"type": "text", "value": "short"},
            ),
            (tool(part={"providerMetadata": {"mastra": {"modelOutput": "short"}}}), {"type": "text", "value": "short"}),
        ],
    )
    def test_gives_every_outcome_its_output(self, part: Any, output: Any) -> None:
        (_, results) = prompt_of(message("a1", part))
        assert results["content"][0]["output"] == output

    @pytest.mark.parametrize("state", ["partial-call", "call", "approval-requested", "approval-responded"])
    def test_keeps_calls_without_an_outcome(self, state: str) -> None:
        (answer,) = prompt_of(message("a1", tool("c1", state)))
        assert answer["content"][0]["pending"] is True

    def test_gives_metadata_to_call_and_result(self) -> None:
        made = prompt_of(message("a1", tool(part={"providerMetadata": {"p": {"k": 1}}})))
        assert [m["content"][0]["providerOptions"] for m in made] == [{"p": {"k": 1}}] * 2

    @pytest.mark.parametrize(
        ("part", "expected"),
        [
            (thought("hm"), "hm"),
            ({"type": "reasoning", "details": [text("a"), {"type": "redacted", "data": "x"}, text("b")]}, "ab"),
            ({"type": "reasoning", "reasoning": "", "details": [{"type": "redacted", "data": "x"}]}, ""),
            ({"type": "reasoning", "reasoning": "", "details": []}, None),
        ],
    )
    def test_keeps_reasoning_that_says_or_seals_something(self, part: Any, expected: str | None) -> None:
        made = [p for m in prompt_of(message("a1", part, text())) for p in m["content"] if p["type"] == "reasoning"]
        assert made == ([] if expected is None else [{"type": "reasoning", "text": expected}])

    @pytest.mark.parametrize(
        ("role", "fields", "expected"),
        [
            ("user", {"data": "https://x.invalid/a", "mimeType": "a/b"}, ("a/b", "https://x.invalid/a")),
            ("user", {"url": "AA==", "mediaType": "a/b"}, ("a/b", "AA==")),
            ("user", {"data": "data:a/b;base64,AA=="}, ("a/b", "AA==")),
            ("user", {"data": "data:text/plain,a%20b"}, ("text/plain", "YSBi")),
            ("user", {"data": "data:a/b;base64,AA==", "mimeType": "c/d"}, ("c/d", "AA==")),
            ("user", {"data": "AA=="}, ("image/png", "AA==")),
            ("assistant", {"data": "data:a/b;base64,AA=="}, ("a/b", "data:a/b;base64,AA==")),
        ],
    )
    def test_reads_files(self, role: str, fields: Any, expected: tuple[str, str]) -> None:
        ((part,),) = (m["content"] for m in prompt_of(message("m1", {"type": "file", **fields}, role=role)))
        assert (part["mediaType"], part["data"]) == expected

    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            ([], [text("said")]),
            ([thought("t")], [{"type": "reasoning", "text": "t"}, text("said")]),
            ([text("own")], [text("own")]),
            ([{"type": "file", "data": "AA", "mimeType": "a/b"}], [{"type": "file", "mediaType": "a/b", "data": "AA"}]),
        ],
    )
    def test_uses_the_plain_text_where_no_part_says_anything(self, parts: Any, expected: Any) -> None:
        assert prompt_of(message("a1", *parts, content="said"))[0]["content"] == expected

    def test_drops_what_no_model_may_see(self) -> None:
        hidden = [
            {"type": "data-x", "data": 1},
            {"type": "source", "source": {"url": "u"}},
            {"type": "source-document"},
        ]
        assert prompt_of(message("a1", *hidden), message("a2", STEP)) == []


class TestTidying:
    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            ([text("a", **ITEM), text("b", **ITEM)], ["ab"]),
            ([text("a", **ITEM), {"type": "source", "source": {}}, text("b", **ITEM)], ["ab"]),
            ([text("a", **ITEM), text("b")], ["a", "b"]),
            ([text("a"), text("b")], ["a", "b"]),
        ],
    )
    def test_joins_texts_of_one_item(self, parts: Any, expected: list[str]) -> None:
        assert [p["text"] for p in prompt_of(message("a1", *parts))[0]["content"]] == expected


class TestSplitting:
    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            ([tool(), text()], [("assistant", ["tool-call"]), ("tool", ["tool-result"]), ("assistant", ["text"])]),
            ([text(), tool()], [("assistant", ["text", "tool-call"]), ("tool", ["tool-result"])]),
            (
                [tool("c1"), tool("c2")],
                [("assistant", ["tool-call", "tool-call"]), ("tool", ["tool-result", "tool-result"])],
            ),
            (
                [tool("c1"), STEP, tool("c2")],
                [("assistant", ["tool-call"]), ("tool", ["tool-result"])] * 2,
            ),
            ([tool("c1", **HOSTED), text()], [("assistant", ["tool-call", "tool-result"]), ("assistant", ["text"])]),
            (
                [tool("c1"), tool("c2", **HOSTED)],
                [("assistant", ["tool-call"]), ("tool", ["tool-result"]), ("assistant", ["tool-call", "tool-result"])],
            ),
            ([tool("c1"), tool("c2", "call", **HOSTED)], [("assistant", ["tool-call"] * 2), ("tool", ["tool-result"])]),
            ([text("a"), STEP, text("b")], [("assistant", ["text"]), ("assistant", ["text"])]),
            ([tool(part={"providerMetadata": {"mastra": {"orphanResult": True}}})], [("tool", ["tool-result"])]),
        ],
    )
    def test_cuts_at_steps_and_behind_tools(self, parts: Any, expected: Any) -> None:
        assert shape(message("a1", *parts)) == expected

    def test_gives_message_metadata_to_the_last_of_its_role(self) -> None:
        made = prompt_of(message("a1", tool(), text(), tool("c2"), providerMetadata={"p": {"k": 1}}))
        assert [("providerOptions" in m, m["role"]) for m in made] == [
            (False, "assistant"),
            (False, "tool"),
            (True, "assistant"),
            (False, "tool"),
        ]

    @pytest.mark.parametrize(
        ("rows", "expected"),
        [
            ([message("a1", tool(args={"x": 1}))], {"x": 1}),
            ([message("a1", tool(args={"x": 1})), message("a2", tool(args={}))], {"x": 1}),
            (
                [message("a1", tool(args={"x": 1})), message("a2", tool(args={"x": 2})), message("a3", tool(args={}))],
                {"x": 2},
            ),
            ([message("a1", tool(args={}))], {}),
        ],
    )
    def test_gives_results_the_arguments_of_their_call(self, rows: Any, expected: Any) -> None:
        assert prompt_of(*rows)[-1]["content"][0]["input"] == expected

    def test_puts_system_texts_first_and_stored_system_rows_nowhere(self) -> None:
        row = message("s", text("stored"), role="system")
        assert prompt_of(row, user(), system=["be brief"])[0] == {"role": "system", "content": "be brief"}
        assert len(prompt_of(row, user())) == 1

    def test_changes_nothing_stored(self) -> None:
        rows = [user(), message("a1", tool(args=None), thought(), text())]
        before = repr(rows)
        to_prompt(rows)
        assert repr(rows) == before


def as_rows(rows: list[Any]) -> list[Any]:
    """The same messages as a database gives them: contents as text."""
    return [{**row, "content": RowContent(write_json(row["content"]))} for row in rows]


ODD = [
    {"format": 2, "parts": [text("a"), None, 5, {"type": 5}, {"text": "b"}]},
    {"format": 2, "parts": [{"type": "text", "text": 5}, {"type": "text"}, {"type": "text", "text": None}]},
    {"format": 2, "parts": [{"type": "reasoning", "details": "odd"}, {"type": "reasoning", "reasoning": "r"}]},
    {"format": 2, "parts": [{"type": "tool-invocation", "toolInvocation": "odd"}, {"type": "data-x", "data": [1]}]},
    {"format": 2, "parts": [{"type": "tool-invocation", "toolInvocation": {"toolCallId": 5, "state": "call"}}]},
    {"format": 2, "parts": [{**text("a"), "providerMetadata": ["odd"]}], "metadata": {"provider": 5}},
    {"format": 2, "parts": [], "content": "beside", "metadata": "odd"},
    {"format": 2, "parts": [{"type": "file", "data": 5}, {"type": "file", "url": "https://x.invalid/a"}]},
    {"format": 2, "parts": "odd", "content": ["odd"], "toolInvocations": [tool("c1")["toolInvocation"], 5]},
    {"content": "old", "reasoning": "r", "experimental_attachments": [{"url": "https://x.invalid/a.png"}, 5]},
    "a bare text",
    ["no content"],
]


class TestRows:
    @settings(max_examples=200, deadline=None)
    @given(rows=strategies.threads())
    def test_make_the_prompt_that_their_values_make(self, rows: Any) -> None:
        assert to_prompt(as_rows(rows)) == to_prompt(rows)

    @pytest.mark.parametrize("content", ODD)
    @pytest.mark.parametrize("role", ["user", "assistant"])
    def test_may_hold_anything(self, content: Any, role: str) -> None:
        rows = [{"id": "m", "role": role, "content": content}]
        assert to_prompt(as_rows(rows)) == to_prompt(rows)

    def test_that_are_no_json_make_no_prompt_and_no_error(self) -> None:
        assert to_prompt([{"id": "m", "role": "user", "content": RowContent("{")}, user()]) == to_prompt([user()])

    def test_keep_arguments_and_results_as_they_are_spelt(self) -> None:
        spelt = '{"b": 1E400, "a": 1.50, "n": 123456789012345678901234567890}'
        part = f'{{"toolCallId": "c", "toolName": "f", "state": "result", "args": {spelt}, "result": {spelt}}}'
        content = RowContent(f'{{"parts": [{{"type": "tool-invocation", "toolInvocation": {part}}}]}}')
        (asked, answered) = to_prompt([{"id": "m", "role": "assistant", "content": content}]).messages
        assert (
            isinstance(call := asked.parts[0], ToolCall) and write_json({"input": call.input}) == f'{{"input":{spelt}}}'
        )
        assert isinstance(result := answered.parts[0], ToolResult) and write_json(result.output.value) == spelt
