"""Every refusal that is known by its words is repaired, or can't be met by what is sent from here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from memory.messages.convert import to_prompt
from memory.messages.names import ModelRef
from memory.processors.compat.faults import faults_by_refusal, known_faults
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.patterns import NO_REPAIR, PATTERNS
from memory.profiles import profile_for
from memory.providers.classify import classify
from tests import nasty
from tests.processors.test_oracle import TARGETS, Target, encoded, rewritten

some = settings(max_examples=30, suppress_health_check=list(HealthCheck))


def bodies(thread: list[dict[str, Any]], protocol: str) -> Iterator[tuple[Target, dict[str, Any]]]:
    for target in TARGETS:
        if target[1] == protocol:
            sent = rewritten(to_prompt(thread), target)
            yield target, msgspec.json.decode(encoded(sent, target).body)


class TestWords:
    def test_lead_to_a_repair_or_to_the_reason_why_there_is_none(self) -> None:
        assert set(PATTERNS) == set(faults_by_refusal()) | set(NO_REPAIR)
        assert not set(faults_by_refusal()) & set(NO_REPAIR)

    def test_name_faults_that_a_pass_repairs(self) -> None:
        passes = {step.fault for step in CATALOGUE}
        assert {fault for faults in faults_by_refusal().values() for fault in faults} <= passes

    @pytest.mark.parametrize(
        ("provider", "said", "keys"),
        [
            ("anthropic", "messages.65.content.1.tool_use.text: Extra inputs are not permitted", ["text"]),
            ("fireworks", "Extra inputs are not permitted, field: 'messages[1].index'", ["index"]),
            ("cerebras", "property 'messages.2.assistant.audio' is unsupported", ["audio"]),
            ("openai", "Unknown parameter: 'messages[0].left_over'.", ["left_over"]),
            ("gemini", """Unknown name "index" at 'contents[1].parts[0]': Cannot find field.""", ["index"]),
            ("cohere", "invalid request: unknown field messages[1].foo.", ["foo"]),
            ("bedrock", "#/messages/0/content/1: extraneous key [type] is not permitted", ["type"]),
            ("deepseek", "unknown field `foo`, expected one of `role`, `content`", ["foo"]),
            ("together", "Unrecognized key(s) in object: 'left_over'", ["left_over"]),
        ],
    )
    def test_name_the_key_that_is_unknown(self, provider: str, said: str, keys: list[str]) -> None:
        found = [faults for _, faults in known_faults([said], profile_for(ModelRef(provider, "m")))]
        assert ("unknown-field", *(f"unknown-field:{key}" for key in keys)) in found

    def test_about_reasoning_take_reasoning_out(self) -> None:
        said = "'messages.1' : property 'reasoning_content' is unsupported"
        found = dict(known_faults([said], profile_for(ModelRef("groq", "m"))))
        assert found["groq-unsupported-property"] == ("reasoning",)


class TestWhatIsNeverSent:
    """The reasons in `NO_REPAIR`, proven for any thread."""

    @some
    @given(thread=nasty.threads())
    def test_is_an_empty_list_of_calls(self, thread: list[dict[str, Any]]) -> None:
        for target, body in bodies(thread, "openai-chat"):
            assert [message for message in body["messages"] if message.get("tool_calls") == []] == [], target

    @some
    @given(thread=nasty.threads())
    def test_is_a_text_of_the_wrong_side(self, thread: list[dict[str, Any]]) -> None:
        for target, body in bodies(thread, "openai-responses"):
            for item in body.get("input", []):
                parts = item.get("content") if isinstance(item.get("content"), list) else []
                kinds = {part["type"] for part in parts if item.get("type", "message") == "message"}
                assert not kinds & ({"input_text", "text"} if item.get("role") == "assistant" else {"output_text"}), (
                    target
                )

    @some
    @given(thread=nasty.threads())
    def test_is_a_message_beside_results_at_cohere(self, thread: list[dict[str, Any]]) -> None:
        for _, body in bodies(thread, "cohere-v2"):
            assert not body.keys() & {"message", "chat_history", "tool_results"}

    @some
    @given(thread=nasty.threads())
    def test_is_a_call_or_result_without_a_name_at_gemini(self, thread: list[dict[str, Any]]) -> None:
        for _, body in bodies(thread, "gemini-contents"):
            parts = [part for content in body["contents"] for part in content["parts"]]
            named = [part.get("functionCall") or part.get("functionResponse") for part in parts]
            assert all(one["name"] for one in named if one)

    def test_stays_in_its_wrapping(self) -> None:
        raw = json.dumps({"message": "messages 参数非法。请检查文档。", "code": "1214"})
        wrapped = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
        assert classify("openrouter", 400, {}, json.dumps(wrapped)).message == "messages 参数非法。请检查文档。"
