"""A prompt to stored messages."""

from typing import Any

import pytest

from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import prompt_from_json, prompt_to_json


def call(call_id: str = "c", **fields: Any) -> dict[str, Any]:
    return {"type": "tool-call", "toolCallId": call_id, "toolName": "f", "input": {"x": 1}, **fields}


def result(call_id: str = "c", value: Any = "r", **fields: Any) -> dict[str, Any]:
    output = value if isinstance(value, dict) else {"type": "text", "value": value}
    return {"type": "tool-result", "toolCallId": call_id, "toolName": "f", "output": output, **fields}


def said(*content: Any, role: str = "assistant") -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **fields}


def stored(*messages: Any) -> list[Any]:
    return from_prompt(prompt_from_json(messages))


def invocations(*messages: Any) -> list[dict[str, Any]]:
    rows = stored(*messages)
    return [p["toolInvocation"] for m in rows for p in m["content"]["parts"] if p["type"] == "tool-invocation"]


class TestResults:
    def test_update_their_call_in_the_turn_before(self) -> None:
        assert invocations(said(call()), said(result(), role="tool")) == [
            {"state": "result", "toolCallId": "c", "toolName": "f", "args": {"x": 1}, "result": "r"}
        ]

    def test_take_arguments_of_the_nearest_open_call(self) -> None:
        late = invocations(
            said(call(input={"x": 1})),
            said(text("a"), role="user"),
            said(call(input={"x": 2})),
            said(text("b"), role="user"),
            said(result(), role="tool"),
        )[-1]
        assert late["args"] == {"x": 2}

    def test_of_one_id_in_one_turn_go_to_the_calls_in_order(self) -> None:
        made = invocations(said(call(), call()), said(result(value="1"), result(value="2"), role="tool"))
        assert [i["result"] for i in made] == ["1", "2"]

    @pytest.mark.parametrize(
        ("given", "name", "args"),
        [(result(), "f", {}), (result(toolName=""), "unknown_tool", {}), (result(input={"y": 2}), "f", {"y": 2})],
    )
    def test_without_a_call_stand_alone(self, given: Any, name: str, args: Any) -> None:
        (row,) = stored(said(given, role="tool"))
        (part,) = row["content"]["parts"]
        assert (part["toolInvocation"]["toolName"], part["toolInvocation"]["args"]) == (name, args)
        assert part["providerMetadata"]["mastra"]["orphanResult"] is True

    def test_bring_a_compact_output_for_the_model(self) -> None:
        compact = {"type": "text", "value": "short"}
        (row,) = stored(said(call()), said(result(modelOutput=compact), role="tool"))
        assert row["content"]["parts"][0]["providerMetadata"] == {"mastra": {"modelOutput": compact}}
        assert row["content"]["parts"][0]["toolInvocation"]["result"] == "r"
        assert prompt_to_json(to_prompt([row]))[1]["content"][0]["output"] == compact


class TestTexts:
    def test_are_joined_beside_the_parts(self) -> None:
        (row,) = stored(said(text("a"), text("b")))
        assert row["content"]["content"] == "a\nb"

    @pytest.mark.parametrize(
        ("given", "count"), [([text(""), text("a")], 1), ([text("")], 1), ([text(""), call()], 1), ([text(" ")], 1)]
    )
    def test_that_are_empty_go_when_something_else_remains(self, given: Any, count: int) -> None:
        assert len(stored(said(*given))[0]["content"]["parts"]) == count


ROUND_TRIPS = {
    "plain": [said(text("q"), role="user"), said(text("a"))],
    "parallel calls": [said(call("a"), call("b")), said(result("a"), result("b"), role="tool")],
    "hosted pair": [said(call(providerExecuted=True), result())],
    "late result": [said(call()), said(text("q"), role="user"), said(result(), role="tool")],
    "orphan": [said(result(), role="tool")],
    "result alone in an assistant message": [said(text("q"), role="user"), said(result())],
    "one id twice": [said(call()), said(result(), role="tool")] * 2,
    "value in a result": [said(call()), said(result(value={"type": "json", "value": {"value": 1}}), role="tool")],
    "error": [said(call()), said(result(value={"type": "error-text", "value": "no"}), role="tool")],
    "content": [said(call()), said(result(value={"type": "content", "value": [text("t")]}), role="tool")],
    "options": [said(text("a", providerOptions={"p": {"k": 1}}))],
}


@pytest.mark.parametrize("prompt", ROUND_TRIPS.values(), ids=ROUND_TRIPS)
def test_comes_back_as_the_same_prompt(prompt: list[Any]) -> None:
    given = prompt_from_json(prompt)
    again = to_prompt(from_prompt(given))
    # What every result carries beside it: its call's arguments, and that it is alone.
    assert [_bare(m) for m in prompt_to_json(again)] == [_bare(m) for m in prompt_to_json(given)]


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    content = []
    for part in message["content"]:
        part = {key: value for key, value in part.items() if key not in ("input", "pending", "providerOptions")} | (
            {"input": part["input"]} if part["type"] == "tool-call" else {}
        )
        content.append(part)
    return {"role": message["role"], "content": content}
