from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers import wire_module
from memory.providers.cohere_v2 import (
    PROTOCOL,
    as_stream,
    decode_error,
    decode_reply,
    decode_request,
    decode_stream,
    encode_request,
)
from memory.providers.wire import Finished, ReasoningDelta, Settings, TextDelta, Tool, ToolInputDelta
from tests.providers.payloads import at, body_of, payload
from tests.recordings.compare_cohere_v2 import differences


def encode(*messages: Message, settings: Settings | None = None) -> dict[str, Any]:
    return body_of(encode_request(Prompt(messages), settings or Settings("m"), provider="cohere"))


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


class TestRoundTrip:
    def test_every_part_comes_back_as_it_was(self) -> None:
        sent = payload("cohere", "every_part")
        imported = decode_request(sent, provider="cohere")
        again = body_of(encode_request(imported.prompt, imported.settings, provider="cohere"))
        assert differences(sent, again) == []

    def test_every_part_survives_the_store(self) -> None:
        sent = payload("cohere", "every_part")
        imported = decode_request(sent, provider="cohere")
        system = tuple(message for message in imported.prompt.messages if message.role == "system")
        stored = msgspec.json.decode(msgspec.json.encode(from_prompt(imported.prompt)))
        prompt = Prompt(system + to_prompt(stored).messages)
        assert differences(sent, body_of(encode_request(prompt, imported.settings, provider="cohere"))) == []

    def test_every_part_has_its_place(self) -> None:
        imported = decode_request(payload("cohere", "every_part"), provider="cohere")
        encoded = encode_request(imported.prompt, imported.settings, provider="cohere")
        again = body_of(encoded)
        seen = 0
        for i, message in enumerate(imported.prompt.messages):
            for j, part in enumerate(message.parts):
                found = at(again, encoded.places[i, j])
                match part:
                    case ToolCall():
                        assert found["id"] == part.id
                    case ToolResult():
                        assert found["tool_call_id"] == part.call_id
                    case Reasoning() if found != part.text:
                        assert found == {"type": "thinking", "thinking": part.text}
                    case Text() if isinstance(found, str):
                        assert found == part.text
                seen += 1
        assert seen == 15

    def test_a_reply_goes_back_as_it_came(self) -> None:
        reply = payload("cohere", "reply")
        parts = decode_reply(reply, provider="cohere").parts
        assert encode(assistant(*parts))["messages"][0] == reply["message"]


class TestEncode:
    def test_a_lone_text_is_a_string(self) -> None:
        made = encode(user(Text("a")), assistant(Text("b")), assistant(Reasoning("r"), Text("b")))
        assert [message["content"] for message in made["messages"]] == [
            "a",
            "b",
            [{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "b"}],
        ]

    def test_calls_need_no_text(self) -> None:
        (message,) = encode(assistant(ToolCall("t", "n", {})))["messages"]
        assert message.keys() == {"role", "tool_calls"}
        assert encode(assistant())["messages"] == [{"role": "assistant", "content": ""}]

    @pytest.mark.parametrize(
        ("output", "content"),
        [
            (Output("text", "x"), "x"),
            (Output("json", {"a": 10**24 + 1}), '{"a":1000000000000000000000001}'),
            (Output("error-text", "x"), "x"),
            (Output("content", [{"type": "text", "text": "x"}]), [{"type": "text", "text": "x"}]),
        ],
    )
    def test_an_outcome_is_written(self, output: Output, content: Any) -> None:
        (message,) = encode(Message("tool", (ToolResult("t", "n", output),)))["messages"]
        assert message == {"role": "tool", "tool_call_id": "t", "content": content}

    def test_each_result_is_a_message(self) -> None:
        results = tuple(ToolResult(call_id, "n", Output("text", "r")) for call_id in "ab")
        assert [message["tool_call_id"] for message in encode(Message("tool", results))["messages"]] == ["a", "b"]

    @pytest.mark.parametrize(("choice", "made"), [("auto", None), ("none", "NONE"), ("required", "REQUIRED")])
    def test_a_choice_is_written(self, choice: str, made: str | None) -> None:
        settings = Settings("m", tools=(Tool("t"),), tool_choice=choice)
        assert encode(user(Text("a")), settings=settings).get("tool_choice") == made

    def test_foreign_blocks_are_not_sent(self) -> None:
        foreign = Text("", {"anthropic": {"block": {"type": "container_upload"}}})
        assert encode(user(foreign, Text("a")))["messages"][0]["content"] == [{"type": "text", "text": "a"}]

    def test_a_stream_is_asked_for_in_the_body(self) -> None:
        encoded = as_stream(
            encode_request(Prompt((user(Text("a")),)), Settings("m"), provider="cohere"), provider="cohere"
        )
        assert (encoded.path, body_of(encoded)["stream"]) == ("/chat", True)

    @pytest.mark.parametrize(
        "message",
        [
            user(ToolCall("t", "n", {})),
            user(Reasoning("r")),
            user(File("application/pdf", "eA==")),
            assistant(ToolCall("t", "web_search", {}, True)),
            assistant(ToolResult("t", "n", Output("text", "r"))),
            Message("tool", (Text("a"),)),
            Message("tool", (ToolResult("t", "n", Output("content", [{"type": "media"}])),)),
        ],
    )
    def test_what_the_protocol_cannot_say_raises_with_its_place(self, message: Message) -> None:
        with pytest.raises(EncodingError) as raised:
            encode(message)
        assert raised.value.place == "messages[0].content[0]"

    @pytest.mark.parametrize(
        ("settings", "place"),
        [
            (Settings("m", tools=(Tool("t"),), tool_choice={"type": "tool", "toolName": "t"}), "settings.tool_choice"),
            (Settings("m", tools=(Tool("", raw={"type": "web_search"}),)), "tools[0]"),
            (Settings("m", extra={"messages": []}), "settings.extra.messages"),
        ],
    )
    def test_settings_it_cannot_say_raise(self, settings: Settings, place: str) -> None:
        with pytest.raises(EncodingError) as raised:
            encode(user(Text("a")), settings=settings)
        assert raised.value.place == place


class TestDecode:
    @pytest.mark.parametrize(
        ("sent", "field"),
        [
            ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
            ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].tool_call_id"),
            ({"messages": [{"role": "assistant", "tool_calls": [{"id": "t"}]}]}, "messages[0].tool_calls[0].function"),
            ({"messages": [], "tools": [{"type": "function"}]}, "tools[0].function"),
            ({"messages": [], "p": "0.5"}, "p"),
        ],
    )
    def test_names_the_place_of_what_does_not_fit(self, sent: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInput) as raised:
            decode_request(sent, provider="cohere")
        assert raised.value.errors[0].field == field

    def test_a_plan_is_reasoning_and_results_know_their_call(self) -> None:
        messages = decode_request(payload("cohere", "every_part"), provider="cohere").prompt.messages
        turn, results = messages[4], messages[5]
        assert [part.text for part in turn.parts if isinstance(part, Reasoning)] == ["I will look twice.", "Two pages."]
        assert [part.name for part in results.parts if isinstance(part, ToolResult)] == ["look_up", "look_up"]


class TestReply:
    def test_counts_the_tokens_that_were_read(self) -> None:
        reply = decode_reply(payload("cohere", "reply"), provider="cohere")
        assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (900, 128, 30)
        assert (reply.finish_reason, reply.response_id) == ("tool-calls", "c14c80c3-18eb-4519-9460-6c92edd8cfb4")

    @pytest.mark.parametrize("arguments", ["null", ""])
    def test_no_arguments_are_an_empty_object(self, arguments: str) -> None:
        reply = payload("cohere", "reply")
        reply["message"]["tool_calls"][0]["function"]["arguments"] = arguments
        call = decode_reply(reply, provider="cohere").parts[1]
        assert isinstance(call, ToolCall)
        assert (call.input, call.options) == ({}, None)

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ({"id": "x", "message": "too many tokens"}, "too many tokens"),
            ({"message": {"tool_calls": [1]}}, "can't be read"),
        ],
    )
    def test_an_error_that_came_as_an_answer_raises(self, answer: dict[str, Any], said: str) -> None:
        with pytest.raises(ProviderError, match=said):
            decode_reply(answer, provider="cohere")


def event(name: str, **data: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode({"type": name, **data}))


def in_pieces(raw: bytes, size: int) -> Iterator[bytes]:
    return (raw[start : start + size] for start in range(0, len(raw), size))


def streamed(raw: bytes, size: int = 4096) -> list[Any]:
    return list(decode_stream(in_pieces(raw, size), provider="cohere"))


def failing(raw: bytes) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        streamed(raw, 50)
    return raised.value


def fragment(index: int, text: str) -> bytes:
    function = {"function": {"arguments": text}}
    return event("tool-call-delta", index=index, delta={"message": {"tool_calls": function}})


def opened(index: int, call_id: str) -> bytes:
    call = {"id": call_id, "type": "function", "function": {"name": "weather", "arguments": ""}}
    return event("tool-call-start", index=index, delta={"message": {"tool_calls": call}})


START = event("message-start", id=payload("cohere", "reply")["id"], delta={"message": {"role": "assistant"}})
PLAN = b"".join(
    event("tool-plan-delta", delta={"message": {"tool_plan": text}}) for text in ("I will ", "ask for the weather.")
)
CALL = opened(0, "weather_1") + fragment(0, '{"city":') + fragment(0, '"Oslo"}')
CLOSED = event("tool-call-end", index=0)
END = event("message-end", delta={"finish_reason": "TOOL_CALL", "usage": payload("cohere", "reply")["usage"]})


class TestStream:
    def test_ends_with_the_reply_of_an_unstreamed_call(self) -> None:
        chunks = streamed(START + PLAN + CALL + CLOSED + END)
        assert chunks == [
            ReasoningDelta("I will "),
            ReasoningDelta("ask for the weather."),
            ToolInputDelta("weather_1", "weather", ""),
            ToolInputDelta("weather_1", "weather", '{"city":'),
            ToolInputDelta("weather_1", "weather", '"Oslo"}'),
            Finished(decode_reply(payload("cohere", "reply"), provider="cohere")),
        ]

    @pytest.mark.parametrize("size", [1, 7])
    def test_reads_alike_in_any_pieces(self, size: int) -> None:
        raw = START + PLAN + CALL + CLOSED + END
        assert streamed(raw, size) == streamed(raw)

    def test_keeps_thinking_text_and_citations_apart(self) -> None:
        citation = {"start": 0, "end": 1, "text": "a", "sources": []}
        raw = (
            START
            + event("content-start", index=0, delta={"message": {"content": {"type": "thinking", "thinking": ""}}})
            + event("content-delta", index=0, delta={"message": {"content": {"thinking": "hm"}}})
            + event("content-start", index=1, delta={"message": {"content": {"type": "text", "text": "a"}}})
            + event("content-delta", index=1, delta={"message": {"content": {"text": "b"}}})
            + event("citation-start", index=0, delta={"message": {"citations": citation}})
            + event("something-new", index=0)
            + event("message-end", delta={"finish_reason": "MAX_TOKENS"})
            + b"data: [DONE]\n\n"
        )
        *chunks, last = streamed(raw)
        assert chunks == [ReasoningDelta("hm"), TextDelta("a"), TextDelta("b")]
        assert last.reply.parts == (Reasoning("hm", {"cohere": {}}), Text("ab", {"cohere": {"citations": [citation]}}))
        assert last.reply.finish_reason == "length"


class TestBrokenStream:
    def test_without_its_end_mark_raises_with_what_came(self) -> None:
        error = failing(START + PLAN + CALL + CLOSED + opened(1, "weather_2") + fragment(1, '{"ci'))
        assert (error.error_class, error.is_retryable) == ("transient", True)
        assert [type(part) for part in error.partial.parts] == [Reasoning, ToolCall]

    def test_an_error_inside_is_classified(self) -> None:
        error = failing(START + PLAN + b'event: error\ndata: {"message":"rate limit exceeded, too many requests"}\n\n')
        assert error.message == "rate limit exceeded, too many requests"
        assert error.partial.parts[0].text == "I will ask for the weather."

    def test_an_end_that_names_an_error_raises(self) -> None:
        error = failing(START + PLAN + event("message-end", delta={"finish_reason": "ERROR", "error": "it broke"}))
        assert (error.message, error.is_retryable) == ("it broke", True)

    def test_arguments_without_a_call_raise(self) -> None:
        assert failing(START + fragment(0, "{}")).error_class == "transient"


class TestErrors:
    @pytest.mark.parametrize(
        ("status", "said", "error_class"),
        [
            (400, "invalid request: all elements in history must have a message.", "bad-request"),
            (401, "invalid api token", "authentication"),
            (429, "Please wait and try again later", "rate-limit"),
            (500, "internal server error", "transient"),
        ],
    )
    def test_are_classified(self, status: int, said: str, error_class: str) -> None:
        error = decode_error(status, {}, msgspec.json.encode({"id": "x", "message": said}).decode(), provider="cohere")
        assert (error.message, error.error_class) == (said, error_class)


def test_the_protocol_is_listed() -> None:
    assert wire_module(PROTOCOL).decode_reply is decode_reply
