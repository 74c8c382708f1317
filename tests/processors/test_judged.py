"""What vendors' own types and recorded histories spoke against, and what the passes make of it."""

from __future__ import annotations

from typing import Any

import pytest

from memory.errors import EncodingError
from memory.messages.convert import to_prompt
from memory.messages.names import ModelRef
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.processors import Switches
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from memory.providers.calls import request_for
from memory.providers.wire import Settings, Tool

HELLO = Message("user", (Text("Hello"),))
GO_ON = Message("user", (Text("Go on."),))
MARK = {"type": "ephemeral"}
CLAUDE = ("anthropic", "anthropic-messages", "claude-sonnet-4-5")
RESPONSES = ("openai", "openai-responses", "gpt-5")
CHAT = ("openai", "openai-chat", "gpt-4o")
OPUS = ("anthropic", "anthropic-messages", "claude-opus-4-8")


def sent(target: tuple[str, str, str], *messages: Message) -> tuple[Message, ...]:
    """The messages as they go out; the same objects where no rule acts."""
    provider, protocol, model = target
    prompt = Prompt(messages)
    profile = profile_for(ModelRef(provider, model), protocol)
    out, changes, _, _ = run_steps(CATALOGUE, prompt, profile, Switches(), call=Call(model, {}, frozenset()))
    assert bool(changes) == (out is not prompt)
    return out.messages


def options_of(message: Message) -> list[Any]:
    return [part.options for part in message.parts]


class TestCacheMarkers:
    @pytest.mark.parametrize(
        "target",
        [CLAUDE, ("deepseek", "anthropic-messages", "deepseek-v4-pro"), ("moonshot", "anthropic-messages", "k")],
    )
    def test_stand_on_no_reasoning(self, target: tuple[str, str, str]) -> None:
        seal = {} if target != CLAUDE else {"signature": "c2Vh"}
        thought = Reasoning("Hm.", {"anthropic": {**seal, "cacheControl": MARK}})
        said = Text("Yes.", {"anthropic": {"cacheControl": MARK}})

        out = sent(target, HELLO, Message("assistant", (thought, said)), GO_ON)

        assert options_of(out[1]) == [{"anthropic": seal}, said.options]

    def test_of_a_message_that_ends_in_reasoning_goes(self) -> None:
        thought = Reasoning("Hm.", {"anthropic": {"signature": "c2Vh"}})
        out = sent(OPUS, HELLO, Message("assistant", (thought,), {"anthropic": {"cacheControl": MARK}}), GO_ON)

        assert out[1] == Message("assistant", (thought,), {"anthropic": {}})


class TestFurtherKeys:
    @pytest.mark.parametrize(
        ("target", "part", "kept"),
        [
            (RESPONSES, ToolCall("a", "f", {}, options={"openai": {"call": {"status": "completed"}}}), True),
            (RESPONSES, ToolCall("a", "f", {}, options={"openai": {"call": {"status": "failed"}}}), False),
            (CLAUDE, ToolCall("a", "f", {}, options={"anthropic": {"call": {"caller": {"type": "direct"}}}}), True),
            (CLAUDE, ToolCall("a", "f", {}, options={"anthropic": {"call": {"caller": "direct"}}}), False),
        ],
    )
    def test_of_a_call_say_what_the_target_reads(self, target: Any, part: ToolCall, kept: bool) -> None:
        messages = (HELLO, Message("assistant", (part,)), Message("tool", (ToolResult("a", "f", Output("text", "b")),)))
        out = sent(target, *messages)

        name = next(iter(part.options or ()))
        assert options_of(out[1]) == [part.options if kept else {name: {"call": {}}}]

    @pytest.mark.parametrize(
        ("target", "data", "holder", "detail", "kept"),
        [
            (RESPONSES, "iVBORw0KGgoA", "content", "original", True),
            (RESPONSES, "iVBORw0KGgoA", "content", "huge", False),
            (RESPONSES, "JVBERi0xLjQK", "content", "original", False),  # no image, as its bytes show
            (CHAT, "iVBORw0KGgoA", "inner", "low", True),
            (CHAT, "JVBERi0xLjQK", "inner", "low", False),
        ],
    )
    def test_of_a_file_go_by_what_it_is(self, target: Any, data: str, holder: str, detail: str, kept: bool) -> None:
        file = File("image/png", data, options={"openai": {holder: {"detail": detail}}})
        out = sent(target, Message("user", (Text("What is it?"), file)))

        assert options_of(out[0])[1] == (file.options if kept else {"openai": {holder: {}}})


class TestTheEnd:
    def test_may_be_a_system_message_where_one_stands_behind_the_user(self) -> None:
        told = Message("user", (Text("Be brief."),), {"anthropic": {"role": "system"}})

        assert sent(OPUS, HELLO, told) == (HELLO, told)

    def test_is_no_reasoning_that_led_nowhere(self) -> None:
        """As of an answer that was cut off: Responses refuses it once it knows its id."""
        thought = Reasoning("Hm.", {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "gAAAAb"}})
        said = Text("Yes.", {"openai": {"itemId": "msg_1"}})

        assert sent(RESPONSES, HELLO, Message("assistant", (thought,), id="m1"), GO_ON) == (HELLO, GO_ON)
        whole = Message("assistant", (thought, said), id="m1")
        assert sent(RESPONSES, HELLO, whole, GO_ON) == (HELLO, whole, GO_ON)


class TestResults:
    @pytest.mark.parametrize("target", [CHAT, ("mistral", "openai-chat", "mistral-large-latest")])
    def test_follow_their_call_when_the_assistant_went_on(self, target: tuple[str, str, str]) -> None:
        call = Message("assistant", (ToolCall("abcdefghi", "f", {}),), id="m1")
        more = Message("assistant", (Text("And so on."),), id="m2")
        result = Message("tool", (ToolResult("abcdefghi", "f", Output("text", "b")),), id="m3")

        assert [message.role for message in sent(target, HELLO, call, more, result)][:4] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ]

    def test_of_geminis_own_tools_keep_their_signature(self) -> None:
        def turn(signature: str) -> Message:
            marks = {"type": "toolCall", "resultPart": {"thoughtSignature": signature}}
            call = ToolCall("a", "GOOGLE_SEARCH_WEB", {}, True, options={"google": {"type": "toolCall"}})
            result = ToolResult("a", "GOOGLE_SEARCH_WEB", Output("json", {}), {}, {"google": marks})
            return Message("assistant", (call, result, Text("Sunny.")))

        target = ("gemini", "gemini-contents", "gemini-3-flash-preview")
        own, no_seal = turn("c2VhbA=="), turn("!")

        assert sent(target, HELLO, own, GO_ON) == (HELLO, own, GO_ON)
        assert options_of(sent(target, HELLO, no_seal, GO_ON)[1])[1] == {
            "google": {"type": "toolCall", "resultPart": {}}
        }

    def test_hold_no_block_that_only_claude_reads(self) -> None:
        block = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
        item = {"type": "text", "text": "", "providerOptions": {"anthropic": {"block": block}}}
        messages = (
            HELLO,
            Message("assistant", (ToolCall("a", "f", {}),)),
            Message("tool", (ToolResult("a", "f", Output("content", [item])),)),
        )

        assert sent(CLAUDE, *messages) == messages
        told = sent(("moonshot", "anthropic-messages", "kimi-k2.5"), *messages)[2].parts[0]
        assert isinstance(told, ToolResult)
        assert told.output == Output("text", "[document]")


class TestChoices:
    """Which tool to call, where nobody declared any."""

    @pytest.mark.parametrize("choice", ["auto", "none"])
    @pytest.mark.parametrize("target", [CLAUDE, CHAT, RESPONSES, ("bedrock", "bedrock-converse", "m")])
    def test_that_say_nothing_are_not_sent(self, target: tuple[str, str, str], choice: str) -> None:
        def body(settings: Settings, **needs: Any) -> bytes:
            return request_for(target[0], target[1], Prompt((HELLO,)), settings, needs=needs).body

        assert body(Settings("m", 10, tool_choice=choice)) == body(Settings("m", 10))
        assert b"hoice" in body(Settings("m", 10, tool_choice="auto", tools=(Tool("f"),)))

    def test_forbid_the_tools_of_the_history_where_that_can_be_said(self) -> None:
        def body(provider: str, protocol: str) -> bytes:
            settings = Settings("m", 10, tool_choice="none")
            return request_for(provider, protocol, Prompt((HELLO,)), settings, needs={"declare_tools": ["f"]}).body

        assert b'"tool_choice":{"type":"none"}' in body("anthropic", "anthropic-messages")
        assert b"toolChoice" not in body("bedrock", "bedrock-converse")

    def test_of_a_tool_need_one(self) -> None:
        with pytest.raises(EncodingError, match="no tools to choose from"):
            settings = Settings("m", 10, tool_choice="required")
            request_for("bedrock", "bedrock-converse", Prompt((HELLO,)), settings)


def test_no_sealed_thought_without_data() -> None:
    part = {
        "type": "reasoning",
        "reasoning": "Hm.",
        "details": [],
        "providerMetadata": {"anthropic": {"redactedData": ""}},
    }
    stored = [
        {"id": "m1", "role": "assistant", "content": {"format": 2, "parts": [part, {"type": "text", "text": "A"}]}}
    ]
    body = request_for("deepseek", "anthropic-messages", to_prompt(stored), Settings("m", 10)).body

    assert b'{"type":"thinking","thinking":"Hm."}' in body
    assert b"redacted" not in body


def test_an_id_that_goes_does_not_come_back_from_another_namespace() -> None:
    call = ToolCall("a", "f", {}, options={"openai": {"itemId": "rs_1"}, "azure": {"itemId": "rs_1"}})
    messages = (HELLO, Message("assistant", (call,)), Message("tool", (ToolResult("a", "f", Output("text", "b")),)))

    assert options_of(sent(RESPONSES, *messages)[1]) == [{"openai": {}}]
