"""What the pretend models answer: an echo, tool calls, reasoning; whole and streamed."""

import json
from typing import Any

import pytest

from memory.sandbox.answers import ECHO_CHARS, Tool, compose, sample
from tests.sandbox.conftest import Caller

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 2},
        "unit": {"enum": ["C", "F"]},
        "place": {"$ref": "#/$defs/Place"},
        "note": {"type": "string"},
    },
    "required": ["city", "days", "unit", "place"],
    "$defs": {"Place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}},
}
ARGUMENTS = {"city": "example", "days": 2, "unit": "C", "place": {"lat": 1}}
NAMES = ("get_weather", "get_time", "get")
ANTHROPIC_TOOLS = [{"name": name, "description": "", "input_schema": CITY} for name in NAMES]
OPENAI_TOOLS = [{"type": "function", "function": {"name": name, "parameters": CITY}} for name in NAMES]


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def anthropic_calls(reply: dict[str, Any]) -> list[str]:
    return [block["name"] for block in reply["content"] if block["type"] == "tool_use"]


def openai_calls(reply: dict[str, Any]) -> list[str]:
    return [call["function"]["name"] for call in reply["choices"][0]["message"].get("tool_calls", [])]


class TestText:
    def test_repeats_the_last_words_of_the_user(self, anthropic: Caller) -> None:
        reply = anthropic.accepted(messages=[*said("One"), {"role": "assistant", "content": "Yes."}, *said("Two ✓")])

        assert reply["id"].startswith("msg_")
        assert (reply["type"], reply["role"], reply["model"]) == ("message", "assistant", "claude-sonnet-4-5")
        assert reply["content"] == [{"type": "text", "text": "You said: Two ✓"}]
        assert (reply["stop_reason"], reply["stop_sequence"]) == ("end_turn", None)
        assert reply["usage"]["input_tokens"] > 0 and reply["usage"]["output_tokens"] > 0

    @pytest.mark.parametrize("caller", ["openai", "cerebras"])
    def test_repeats_in_the_chat_protocol(self, caller: str, request: pytest.FixtureRequest) -> None:
        reply = request.getfixturevalue(caller).accepted(messages=said("Two"))

        assert reply["id"].startswith("chatcmpl-")
        assert reply["object"] == "chat.completion"
        assert reply["choices"][0]["message"]["content"] == "You said: Two"
        assert reply["choices"][0]["finish_reason"] == "stop"
        usage = reply["usage"]
        assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]

    def test_is_the_same_for_the_same_request(self, anthropic: Caller) -> None:
        assert anthropic.post(messages=said("One")).content == anthropic.post(messages=said("One")).content
        assert anthropic.accepted(messages=said("One"))["id"] != anthropic.accepted(messages=said("Two"))["id"]

    def test_is_cut(self) -> None:
        assert compose("x" * 1000, "", []).text == "You said: " + "x" * ECHO_CHARS + "…"


class TestCalls:
    def test_are_made_when_the_user_names_a_tool(self, anthropic: Caller, openai: Caller) -> None:
        reply = anthropic.accepted(messages=said("Please get_weather now"), tools=ANTHROPIC_TOOLS)

        assert reply["stop_reason"] == "tool_use"
        (block,) = reply["content"]
        assert block["id"].startswith("toolu_")
        assert (block["name"], block["input"]) == ("get_weather", ARGUMENTS)
        choice = openai.accepted(messages=said("Please get_weather now"), tools=OPENAI_TOOLS)["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        (call,) = choice["message"]["tool_calls"]
        assert call["id"].startswith("call_") and call["type"] == "function"
        assert json.loads(call["function"]["arguments"]) == ARGUMENTS

    def test_are_parallel_when_the_user_names_two(self, anthropic: Caller, openai: Caller) -> None:
        words = said("Use get_time and get_weather")

        assert anthropic_calls(anthropic.accepted(messages=words, tools=ANTHROPIC_TOOLS)) == ["get_time", "get_weather"]
        assert openai_calls(openai.accepted(messages=words, tools=OPENAI_TOOLS)) == ["get_time", "get_weather"]
        alone = {"type": "auto", "disable_parallel_tool_use": True}
        one = anthropic.accepted(messages=words, tools=ANTHROPIC_TOOLS, tool_choice=alone)
        assert anthropic_calls(one) == ["get_time"]
        one = openai.accepted(messages=words, tools=OPENAI_TOOLS, parallel_tool_calls=False)
        assert openai_calls(one) == ["get_time"]

    def test_are_not_made_without_cause(self, anthropic: Caller, openai: Caller) -> None:
        assert anthropic_calls(anthropic.accepted(messages=said("Hello"), tools=ANTHROPIC_TOOLS)) == []
        assert openai_calls(openai.accepted(messages=said("get_time"), tools=OPENAI_TOOLS, tool_choice="none")) == []
        assert openai_calls(openai.accepted(messages=said("get_time"))) == []

    @pytest.mark.parametrize(
        ("theirs", "ours", "made"),
        [
            ({"type": "any"}, "required", "get_weather"),
            (
                {"type": "tool", "name": "get_time"},
                {"type": "function", "function": {"name": "get_time"}},
                "get_time",
            ),
        ],
    )
    def test_are_made_when_forced(self, anthropic: Caller, openai: Caller, theirs: Any, ours: Any, made: str) -> None:
        reply = anthropic.accepted(messages=said("Hello"), tools=ANTHROPIC_TOOLS, tool_choice=theirs)
        assert anthropic_calls(reply) == [made]
        reply = openai.accepted(messages=said("Hello"), tools=OPENAI_TOOLS, tool_choice=ours)
        assert openai_calls(reply) == [made]

    def test_end_when_their_results_are_in(self, anthropic: Caller, openai: Caller) -> None:
        words = said("Please get_weather now")
        reply = anthropic.accepted(messages=words, tools=ANTHROPIC_TOOLS)
        result = {"type": "tool_result", "tool_use_id": reply["content"][0]["id"], "content": "12 C"}
        loop = [*words, {"role": "assistant", "content": reply["content"]}, {"role": "user", "content": [result]}]
        last = anthropic.accepted(messages=loop, tools=ANTHROPIC_TOOLS)
        assert last["content"] == [{"type": "text", "text": "You said: Please get_weather now"}]
        assert last["stop_reason"] == "end_turn"

        message = openai.accepted(messages=words, tools=OPENAI_TOOLS)["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "12 C"}
        last = openai.accepted(messages=[*words, message, result], tools=OPENAI_TOOLS)
        assert openai_calls(last) == []

    def test_go_by_whole_names(self) -> None:
        tools = [Tool("get", {}), Tool("get_time", {})]

        assert [call.name for call in compose("", "get_time", tools).calls] == ["get_time"]
        assert [call.name for call in compose("", "请get吧", tools).calls] == ["get"]

    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"type": "array"},
            {"$ref": "#"},
            {"properties": {"a": {"$ref": "#"}}, "required": ["a"]},
            None,
            {"type": []},
        ],
    )
    def test_have_arguments_for_any_schema(self, schema: Any) -> None:
        assert isinstance(sample(schema), dict)


class TestReasoning:
    def test_of_cerebras_comes_beside_the_content(self, cerebras: Caller) -> None:
        message = cerebras.accepted(messages=said("Hello"))["choices"][0]["message"]

        assert message["reasoning"] and message["content"] == "You said: Hello"
        cerebras.accepted(messages=[*said("Hello"), message, *said("Again")])

    def test_of_cerebras_is_absent_where_it_is_off(self, cerebras: Caller) -> None:
        off = cerebras.accepted(messages=said("Hello"), model="zai-glm-4.7", reasoning_effort="none")
        plain = cerebras.accepted(messages=said("Hello"), model="qwen-3-coder-480b")

        assert "reasoning" not in off["choices"][0]["message"]
        assert "reasoning" not in plain["choices"][0]["message"]

    def test_of_anthropic_leads_the_calls(self, anthropic: Caller) -> None:
        thinking = {"type": "enabled", "budget_tokens": 1024}

        reply = anthropic.accepted(messages=said("get_time"), tools=ANTHROPIC_TOOLS, thinking=thinking)

        assert [block["type"] for block in reply["content"]] == ["thinking", "tool_use"]
        assert len(reply["content"][0]["signature"]) >= 40


class TestStreams:
    def test_refuse_before_they_start(self, anthropic: Caller) -> None:
        assert anthropic.refusal(messages=[], stream=True) == "messages: at least one message is required"
