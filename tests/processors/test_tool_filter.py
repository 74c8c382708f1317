"""ToolCallFilter: out of sight, never out of storage."""

from typing import Any

import pytest

from memory.errors import InvalidOption
from memory.messages.prompt import ToolCall, prompt_to_json
from memory.processors import (
    Chain,
    MemoryStorage,
    MessageHistory,
    ProcessInputArgs,
    ProcessInputStepArgs,
    ProcessLLMRequestArgs,
    ToolCallFilter,
)
from memory.processors.tool_filter import output_text
from tests.messages.build import make_list, message, parts, text, thought, tool, user
from tests.processors.fakes import Run


def out_of(output: Any) -> dict[str, Any]:
    return {"part": {"providerMetadata": {"mastra": {"modelOutput": output}}}}


def filtered(*messages: Any, **options: Any) -> list[dict[str, Any]]:
    given = make_list(("memory", list(messages)))
    return list(ToolCallFilter(**options).process_input(ProcessInputArgs(messages=[], message_list=given)))


def prompted(*messages: Any, **options: Any) -> list[dict[str, Any]]:
    """The prompt after the input hook and the prompt hook, as a chain asks them."""
    given = make_list(("memory", list(messages)))
    chain = Chain(input=[ToolCallFilter(**options)])
    chain.process_input(given)
    before = [dict(m) for m in given.messages]
    made = prompt_to_json(chain.process_llm_request(given.to_prompt(), given, model=None).prompt)
    assert given.messages == before
    return made


def call_ids(prompt: Any) -> list[str]:
    return [p["toolCallId"] for m in prompt for p in m["content"] if p["type"] == "tool-call"]


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "name"),
        [
            ({"exclude": "f"}, "exclude"),
            ({"exclude": {"f": 1}}, "exclude"),
            ({"exclude": [1]}, "exclude"),
            ({"filter_after_tool_steps": 1.5}, "filter_after_tool_steps"),
            ({"filter_after_tool_steps": True}, "filter_after_tool_steps"),
            ({"preserve_model_output": 1}, "preserve_model_output"),
        ],
    )
    def test_are_checked(self, options: Any, name: str) -> None:
        with pytest.raises(InvalidOption, match=name):
            ToolCallFilter(**options)

    def test_count_fewer_steps_than_none_as_none(self) -> None:
        assert ToolCallFilter(filter_after_tool_steps=-3).filter_after_tool_steps == 0


OTHER = tool("c2", toolName="g")


class TestInput:
    @pytest.mark.parametrize(
        ("row", "options", "expected"),
        [
            (message("a", tool()), {}, None),
            (message("a", text(), tool()), {}, [text()]),
            (message("a", tool(), content="said"), {}, []),
            (message("a", tool(), content=" "), {}, None),
            (message("a", tool(), OTHER), {"exclude": ["f"]}, [OTHER]),
            (message("a", tool(), OTHER), {"exclude": ["f", "g"]}, None),
            (message("a", tool(), OTHER), {"exclude": []}, [tool(), OTHER]),
            (message("a", tool()), {"exclude": ["F"]}, [tool()]),
            (message("a", tool("c1"), tool("c1", toolName="h")), {"exclude": ["f"]}, None),
            (message("a", thought(), tool(), {"type": "step-start"}), {}, [thought(), {"type": "step-start"}]),
            *(
                (message("a", tool(state=state), OTHER), {"exclude": ["f"]}, [OTHER])
                for state in ("partial-call", "call", "approval-requested", "output-error", "output-denied")
            ),
            (message("a"), {}, []),
        ],
    )
    def test_drops_tool_parts(self, row: Any, options: Any, expected: Any) -> None:
        made = filtered(row, **options)
        assert [parts(m) for m in made] == ([] if expected is None else [expected])

    def test_drops_results_that_stand_in_another_row(self) -> None:
        made = filtered(
            message("a", tool(state="call")), user(), message("b", tool(toolName="unknown_tool")), exclude=["f"]
        )
        assert [m["id"] for m in made] == ["u1"]

    @pytest.mark.parametrize(
        ("exclude", "expected"), [(None, None), (["f"], ["g"]), (["f", "g"], None), (["h"], ["f", "g"])]
    )
    def test_takes_entries_out_of_the_legacy_list(self, exclude: Any, expected: Any) -> None:
        legacy = [tool()["toolInvocation"], OTHER["toolInvocation"]]
        (row,) = filtered(message("a", text(), tool(), OTHER, toolInvocations=legacy), exclude=exclude)
        left = row["content"].get("toolInvocations")
        assert (left and [entry["toolName"] for entry in left]) == expected

    def test_returns_rows_without_tool_parts_as_they_are(self) -> None:
        rows = [
            user(),
            message("e"),
            {"id": "l", "role": "assistant", "content": {"toolInvocations": [tool()["toolInvocation"]]}},
        ]
        given = make_list(("memory", rows))
        made = ToolCallFilter().process_input(ProcessInputArgs(messages=[], message_list=given))
        assert all(a is b for a, b in zip(made, given.messages, strict=True))

    def test_works_on_messages_without_a_list(self) -> None:
        made = ToolCallFilter().process_input(ProcessInputArgs(messages=[user(), message("a", tool())]))
        assert [m["id"] for m in made] == ["u1"]


class TestPrompt:
    def test_is_free_of_remembered_rows_made_of_tool_parts(self) -> None:
        assert [m["role"] for m in prompted(user(), message("a", tool()), user("u2"))] == ["user", "user"]

    def test_is_free_of_calls_in_old_rows(self) -> None:
        old = {"id": "l", "role": "assistant", "content": {"format": 2, "toolInvocations": [tool()["toolInvocation"]]}}
        assert call_ids(prompted(user(), old)) == []

    def test_keeps_calls_of_other_turns_under_the_same_id(self) -> None:
        rows = [message("a", tool("c")), user(), message("b", tool("c", toolName="g"))]
        assert len(call_ids(prompted(*rows))) == 0
        assert call_ids(prompted(*rows, exclude=["nothing"])) == ["c", "c"]

    @pytest.mark.parametrize(
        ("given", "options", "expected"),
        [
            (out_of({"type": "text", "value": "short"}), {"preserve_model_output": True}, ["f result:\nshort"]),
            (out_of({"type": "text", "value": "short"}), {}, []),
            (out_of(None), {"preserve_model_output": True}, []),
            ({}, {"preserve_model_output": True}, []),
        ],
    )
    def test_holds_compact_output_where_the_call_was(self, given: Any, options: Any, expected: Any) -> None:
        made = prompted(message("a", text("x"), tool(**given), text("y")), **options)
        texts = [p["text"] for m in made for p in m["content"]]
        assert texts == ["x", *expected, "y"]

    def test_gives_each_call_of_a_repeated_id_its_own_output(self) -> None:
        asked = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}

        def answered(value: str) -> dict[str, Any]:
            options = {"mastra": {"modelOutput": value}}
            output = {"type": "text", "value": "raw"}
            part = {
                "type": "tool-result",
                "toolCallId": "c",
                "toolName": "f",
                "output": output,
                "providerOptions": options,
            }
            return {"role": "tool", "content": [part]}

        prompt = [
            {"role": "assistant", "content": [asked]},
            answered("one"),
            {"role": "assistant", "content": [asked]},
            answered("two"),
        ]
        answer = ToolCallFilter(preserve_model_output=True).process_llm_request(ProcessLLMRequestArgs(prompt=prompt))
        assert answer is not None
        assert [m["content"][0]["text"] for m in answer.prompt] == ["f result:\none", "f result:\ntwo"]

    def test_keeps_the_spelling_of_what_it_left_alone(self) -> None:
        odd = {"role": "user", "content": [{"type": "text", "text": "q", "providerMetadata": {"p": 1}}], "note": 1}
        asked = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}
        prompt = [odd, {"role": "assistant", "content": [asked]}]
        answer = ToolCallFilter().process_llm_request(ProcessLLMRequestArgs(prompt=prompt))
        assert answer is not None
        assert answer.prompt == [odd]

    def test_keeps_what_came_after_the_first_prompt(self) -> None:
        rows = [message("a", tool("c1")), message("b", tool("c2"))]
        made: list[Any] = []
        state: dict[str, Any] = {}
        for count in (1, 2):
            prompt = make_list(("memory", rows[:count])).to_prompt()
            answer = ToolCallFilter().process_llm_request(ProcessLLMRequestArgs(prompt=prompt, state=state))
            assert answer is not None
            made.append(call_ids(prompt_to_json(answer.prompt)))
        assert made == [[], ["c2"]]

    @pytest.mark.parametrize(("steps", "expected"), [(0, []), (1, ["c3"]), (2, ["c2", "c3"]), (9, ["c1", "c2", "c3"])])
    def test_keeps_the_last_steps_of_a_prompt(self, steps: int, expected: list[str]) -> None:
        prompt = make_list(("memory", [message(f"a{i}", tool(f"c{i}")) for i in (1, 2, 3)])).to_prompt()
        answer = ToolCallFilter(filter_after_tool_steps=steps).process_llm_request(ProcessLLMRequestArgs(prompt=prompt))
        assert call_ids(prompt_to_json(answer.prompt if answer else prompt)) == expected


class TestSteps:
    def test_change_nothing_without_the_option(self) -> None:
        assert ToolCallFilter().process_input_step(ProcessInputStepArgs(messages=[message("a", tool())])) is None

    @pytest.mark.parametrize(
        ("count", "expected"),
        [(0, [[], [], [], []]), (1, [[], ["c1"], ["c1"], ["c2", "c3"]]), (2, [[], ["c1"], ["c1"], ["c1", "c2", "c3"]])],
    )
    def test_count_only_when_they_produced_calls(self, count: int, expected: Any) -> None:
        history = message("h", tool("h1"))
        run = [[], [tool("c1")], [tool("c1"), text()], [tool("c1"), text(), tool("c2"), tool("c3")]]
        processor, state, seen = ToolCallFilter(filter_after_tool_steps=count), dict[str, Any](), []
        for number, content in enumerate(run):
            messages = make_list(("memory", [history, user()]))
            if content:
                messages.add(message("a", *content), "response")
            args = ProcessInputStepArgs(
                messages=messages.messages, message_list=messages, step_number=number, state=state
            )
            view = processor.process_input_step(args)
            assert view is not None
            seen.append([p["toolInvocation"]["toolCallId"] for m in view for p in parts(m) if "toolInvocation" in p])
        assert seen == expected

    def test_count_every_tool_and_filter_only_the_named(self) -> None:
        messages = make_list(("response", message("a", tool("c1", toolName="g"), tool("c2"))))
        state: dict[str, Any] = {}
        processor = ToolCallFilter(exclude=["f"], filter_after_tool_steps=1)
        args = {"messages": messages.messages, "message_list": messages, "state": state}
        processor.process_input_step(ProcessInputStepArgs(**args))
        messages.add(message("b", tool("c3", toolName="g")), "response")
        args["messages"] = messages.messages
        (row,) = processor.process_input_step(ProcessInputStepArgs(**args)) or ()
        assert [p["toolInvocation"]["toolCallId"] for p in parts(row) if "toolInvocation" in p] == ["c1", "c3"]

    def test_give_the_same_prompts_in_one_run_and_over_requests(self) -> None:
        asks = [[ToolCall(f"c{i}", "f", {})] for i in (1, 2, 3)]
        whole, state = Run(*asks), dict[str, Any]()
        chain = Chain(input=[ToolCallFilter(filter_after_tool_steps=1)])
        whole(chain, messages=make_list(("input", user())), execute_tool=lambda call: "r", max_steps=4)
        storage = MemoryStorage()
        history = MessageHistory(storage=storage)
        prompts, given = [], user()
        for step, script in enumerate([*asks, "done"]):
            one = Run(script)
            chain = Chain(input=[history, ToolCallFilter(filter_after_tool_steps=1)], output=[history], state=state)
            turn = one(chain, messages=make_list(("input", given)), first_step=step)
            prompts += one.model.prompts
            results = [
                {
                    "type": "tool-result",
                    "toolCallId": c.id,
                    "toolName": c.name,
                    "output": {"type": "text", "value": "r"},
                }
                for c in turn.tool_calls
            ]
            given = {"role": "tool", "content": results}
        assert (
            [call_ids(p) for p in prompts] == [call_ids(p) for p in whole.model.prompts] == [[], ["c1"], ["c2"], ["c3"]]
        )

    def test_leave_storage_whole(self) -> None:
        storage = MemoryStorage()
        history = MessageHistory(storage=storage)
        run = Run([ToolCall("c1", "f", {})], [ToolCall("c2", "f", {})])
        chain = Chain(input=[history, ToolCallFilter(filter_after_tool_steps=0)], output=[history])
        run(chain, messages=make_list(("input", user())), execute_tool=lambda call: "r")
        rows = storage.load_messages("th-1", None, last=None)
        assert [p["toolInvocation"]["state"] for m in rows for p in parts(m) if "toolInvocation" in p] == ["result"] * 2


class TestOutputText:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("a", "a"),
            (None, ""),
            (True, "true"),
            (7, "7"),
            (["a", None, "b"], "a\nb"),
            ([None], "[null]"),
            ([], "[]"),
            ({"type": "text", "value": "a"}, "a"),
            ({"type": "text", "text": "a"}, "a"),
            ({"type": "json", "value": {"k": [1, 2]}}, '{"k":[1,2]}'),
            (
                {"type": "content", "value": [text("a"), {"type": "media", "data": "AAAA", "mediaType": "image/png"}]},
                "a\n[image/png]",
            ),
            ({"text": "a", "more": 1}, "a"),
            ({"value": None}, ""),
            ({"k": 1}, '{"k":1}'),
            (object(), ""),
        ],
    )
    def test_says_what_the_model_would_have_read(self, value: Any, expected: str) -> None:
        assert output_text(value) == expected
