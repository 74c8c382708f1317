"""Streamed answers: whatever the chunking, they come to what an unstreamed call would have given, or to an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from memory.errors import ProviderError
from memory.messages.prompt import Message, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers import anthropic_messages, openai_chat
from memory.providers.wire import Chunk, Finished, ReasoningDelta, Reply, Settings, TextDelta, ToolInputDelta
from tests.providers.payloads import body_of, payload

PROMPT = Prompt((Message("user", (Text("Hello"),)),))
SIZES = (1, 7, 4096)


def cut(raw: bytes, size: int) -> list[bytes]:
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + msgspec.json.encode({"type": kind, **data}) + b"\n\n"


def begun(index: int, **block: Any) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def fragment(index: int, kind: str, **values: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": kind, **values})


def closed(index: int) -> bytes:
    return event("content_block_stop", index=index)


HEAD = event("message_start", message={"id": "msg_1", "model": "claude-sonnet-4-5", "content": [], "usage": {}})
END = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7}) + event("message_stop")


def anthropic(*events: bytes) -> list[Chunk]:
    return list(anthropic_messages.decode_stream(events, provider="anthropic"))


def reply_of(chunks: list[Chunk]) -> Reply:
    last = chunks[-1]
    assert isinstance(last, Finished)
    return last.reply


class TestMessages:
    @pytest.mark.parametrize("size", SIZES)
    def test_come_to_the_unstreamed_reply(self, size: int) -> None:
        body = payload("anthropic", "reply")
        opened = {**body, "content": [], "stop_reason": None, "usage": {**body["usage"], "output_tokens": 1}}
        ended = {"stop_reason": "tool_use", "stop_sequence": None}
        stream = b"".join(
            (
                event("message_start", message=opened),
                begun(0, type="thinking", thinking="", signature=""),
                fragment(0, "thinking_delta", thinking="A tr"),
                b": a comment\n\n",
                fragment(0, "thinking_delta", thinking="ain.", estimated_tokens=3),
                fragment(0, "signature_delta", signature="c2ln"),
                closed(0),
                event("ping"),
                begun(1, type="text", text=""),
                fragment(1, "text_delta", text="At 08"),
                fragment(1, "text_delta", text=":05."),
                closed(1),
                begun(2, type="tool_use", id="toolu_9", name="seat", input={}, caller={"type": "direct"}),
                fragment(2, "input_json_delta", partial_json=""),
                fragment(2, "input_json_delta", partial_json='{"ro'),
                fragment(2, "input_json_delta", partial_json='w": 4}'),
                closed(2),
                event("message_delta", delta=ended, usage={"output_tokens": 7}),
                event("message_stop"),
            )
        )
        chunks = anthropic(*cut(stream, size))
        assert chunks == [
            ReasoningDelta("A tr"),
            ReasoningDelta("ain."),
            TextDelta("At 08"),
            TextDelta(":05."),
            ToolInputDelta("toolu_9", "seat", ""),
            ToolInputDelta("toolu_9", "seat", '{"ro'),
            ToolInputDelta("toolu_9", "seat", 'w": 4}'),
            Finished(anthropic_messages.decode_reply(body, provider="anthropic")),
        ]

    def test_keep_what_a_provider_ran_itself(self) -> None:
        found = [{"type": "web_search_result", "url": "https://a.invalid", "encrypted_content": "eA=="}]
        source = {"type": "web_search_result_location", "url": "https://a.invalid", "encrypted_index": "eQ=="}
        reply = reply_of(
            anthropic(
                HEAD,
                begun(0, type="server_tool_use", id="srvtoolu_1", name="web_search", input={}),
                fragment(0, "input_json_delta", partial_json='{"query":"a"}'),
                closed(0),
                begun(1, type="web_search_tool_result", tool_use_id="srvtoolu_1", content=found),
                closed(1),
                begun(2, type="text", text="", citations=[]),
                fragment(2, "citations_delta", citation=source),
                fragment(2, "text_delta", text="Found."),
                closed(2),
                END,
            )
        )
        call, result, text = reply.parts
        assert isinstance(call, ToolCall) and isinstance(result, ToolResult) and isinstance(text, Text)
        assert (call.id, call.input, call.provider_executed) == ("srvtoolu_1", {"query": "a"}, True)
        assert (result.call_id, result.output.value) == ("srvtoolu_1", found)
        assert text == Text("Found.", {"anthropic": {"citations": [source]}})

    def test_keep_blocks_and_fragments_of_new_kinds(self) -> None:
        reply = reply_of(
            anthropic(
                HEAD,
                event("weather", wind=3),
                begun(0, type="compaction", content=None),
                fragment(0, "compaction_delta", content="So "),
                fragment(0, "compaction_delta", content="far.", marks=[1]),
                closed(0),
                END,
            )
        )
        block = {"type": "compaction", "content": "So far.", "marks": [1]}
        assert reply.parts == (Text("So far.", {"anthropic": {"block": block}}),)

    def test_may_begin_with_whole_calls(self) -> None:
        call = {"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"player": "p"}}
        head = event("message_start", message={"id": "msg_1", "content": [call], "stop_reason": "tool_use"})
        chunks = anthropic(head, event("message_stop"))
        assert chunks[0] == ToolInputDelta("toolu_1", "roll", '{"player":"p"}')
        assert reply_of(chunks).parts == (ToolCall("toolu_1", "roll", {"player": "p"}),)
        assert reply_of(chunks).finish_reason == "tool-calls"

    def test_keep_arguments_that_the_limit_cut_off(self) -> None:
        reply = reply_of(
            anthropic(
                HEAD,
                begun(0, type="tool_use", id="toolu_1", name="seat", input={}),
                fragment(0, "input_json_delta", partial_json='{"row": '),
                closed(0),
                event("message_delta", delta={"stop_reason": "max_tokens"}, usage={}),
                event("message_stop"),
            )
        )
        assert reply.parts == (ToolCall("toolu_1", "seat", '{"row": '),)
        assert reply.finish_reason == "length"

    def test_are_not_read_past_their_end(self) -> None:
        def pieces() -> Iterator[bytes]:
            yield HEAD + END
            raise AssertionError("read on")

        chunks = list(anthropic_messages.decode_stream(pieces(), provider="anthropic"))
        assert reply_of(chunks).usage.output_tokens == 7

    def test_come_as_they_arrive(self) -> None:
        arrived: list[str] = []

        def pieces() -> Iterator[bytes]:
            for name, piece in (("head", HEAD + begun(0, type="text", text="")), ("end", closed(0) + END)):
                arrived.append(name)
                yield piece + (fragment(0, "text_delta", text="a") if name == "head" else b"")

        chunks = anthropic_messages.decode_stream(pieces(), provider="anthropic")
        assert next(chunks) == TextDelta("a")
        assert arrived == ["head"]


BROKEN = (
    HEAD,
    begun(0, type="text", text=""),
    fragment(0, "text_delta", text="Half"),
    closed(0),
    begun(1, type="tool_use", id="toolu_1", name="seat", input={}),
    fragment(1, "input_json_delta", partial_json='{"row":'),
)


class TestBrokenMessages:
    def test_that_end_early_are_worth_another_try(self) -> None:
        with pytest.raises(ProviderError, match="ended before the answer was complete") as caught:
            anthropic(*BROKEN)
        error = caught.value
        assert (error.error_class, error.is_retryable, error.status_code) == ("transient", True, None)
        # The call that the end cut off is no part of it.
        assert error.partial.parts == (Text("Half"),)
        assert error.partial.finish_reason == "error"

    def test_whose_end_mark_alone_is_missing_are_broken_too(self) -> None:
        with pytest.raises(ProviderError):
            anthropic(HEAD, event("message_delta", delta={"stop_reason": "end_turn"}, usage={}))

    @pytest.mark.parametrize(
        ("kind", "error_class", "is_retryable"),
        [
            ("overloaded_error", "overloaded", True),
            ("rate_limit_error", "rate-limit", True),
            ("api_error", "transient", True),
            ("invalid_request_error", "bad-request", False),
        ],
    )
    def test_by_an_error_event_are_classified(self, kind: str, error_class: str, is_retryable: bool) -> None:
        with pytest.raises(ProviderError, match=r"^Said so$") as caught:
            anthropic(*BROKEN, event("error", error={"type": kind, "message": "Said so"}))
        assert (caught.value.error_class, caught.value.is_retryable) == (error_class, is_retryable)
        assert caught.value.partial.parts == (Text("Half"),)

    def test_by_their_connection_keep_its_error(self) -> None:
        broken = ProviderError("gone", error_class="connection", error_code="ECONNRESET")

        def pieces() -> Iterator[bytes]:
            yield b"".join(BROKEN)
            raise broken

        with pytest.raises(ProviderError) as caught:
            list(anthropic_messages.decode_stream(pieces(), provider="anthropic"))
        assert caught.value is broken
        assert broken.partial.parts == (Text("Half"),)

    @pytest.mark.parametrize("events", [(), (HEAD,), (b"{}",), (b"<html>",)])
    def test_before_anything_came_have_no_part(self, events: tuple[bytes, ...]) -> None:
        with pytest.raises(ProviderError) as caught:
            anthropic(*events)
        assert caught.value.partial is None

    @pytest.mark.parametrize("data", [b"data: {\n\n", b"data: 3\n\n", fragment(5, "text_delta", text="a")])
    def test_that_cannot_be_read_say_so(self, data: bytes) -> None:
        with pytest.raises(ProviderError, match="can't be read") as caught:
            anthropic(HEAD, data)
        assert caught.value.error_class == "transient"


def chunk(*choices: dict[str, Any], **top: Any) -> bytes:
    return b"data: " + msgspec.json.encode({"id": "c-1", "model": "m", "choices": choices, **top}) + b"\n\n"


def delta(finish: str | None = None, **values: Any) -> bytes:
    return chunk({"index": 0, "delta": values, "finish_reason": finish})


def call(text: str = "", **fields: Any) -> dict[str, Any]:
    """A fragment of a call: `name` goes into its function."""
    function = {"name": fields.pop("name")} if "name" in fields else {}
    return {**fields, "function": {**function, "arguments": text}}


DONE = b"data: [DONE]\n\n"


def chat(*pieces: bytes, provider: str = "openai") -> list[Chunk]:
    return list(openai_chat.decode_stream(pieces, provider=provider))


def calls_of(*fragments: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Id, name and input of the calls that these fragments, one a chunk, make."""
    stream = [delta(tool_calls=[one]) for one in fragments]
    reply = reply_of(chat(*stream, delta("tool_calls"), DONE))
    assert reply.finish_reason == "tool-calls"
    return [(part.id, part.name, part.input) for part in reply.parts if isinstance(part, ToolCall)]


class TestCompletions:
    @pytest.mark.parametrize("size", SIZES)
    def test_come_to_the_unstreamed_reply(self, size: int) -> None:
        body = payload("openai", "reply")
        message = body["choices"][0]["message"]
        head = {"id": body["id"], "model": body["model"]}
        first = call("", index=0, id="call_9", type="function", name="seat")
        stream = b"".join(
            (
                chunk(id="", model="", prompt_filter_results=[]),
                chunk({"index": 0, "delta": {"role": "assistant", "content": "", "refusal": None}}, **head),
                chunk({"index": 0, "delta": {"content": "Look"}, "finish_reason": None}, **head),
                chunk({"index": 0, "delta": {"content": "ing.", "annotations": message["annotations"]}}, **head),
                chunk({"index": 0, "delta": {"tool_calls": [first]}}, **head),
                chunk({"index": 0, "delta": {"tool_calls": [call('{"row"', index=0)]}}, **head),
                chunk({"index": 0, "delta": {"tool_calls": [call(":4}", index=0)]}}, **head),
                chunk({"index": 0, "delta": {}, "finish_reason": "tool_calls"}, **head, usage=None),
                chunk(**head, usage=body["usage"]),
                DONE,
            )
        )
        assert chat(*cut(stream, size)) == [
            TextDelta("Look"),
            TextDelta("ing."),
            ToolInputDelta("call_9", "seat", ""),
            ToolInputDelta("call_9", "seat", '{"row"'),
            ToolInputDelta("call_9", "seat", ":4}"),
            Finished(openai_chat.decode_reply(body, provider="openai")),
        ]

    def test_tell_calls_apart_by_index(self) -> None:
        assert calls_of(
            call(index=0, id="a", name="one"),
            call(index=1, id="b", name="two"),
            call("{}", index=0),
            call('{"k":1}', index=1),
        ) == [("a", "one", {}), ("b", "two", {"k": 1})]

    def test_tell_calls_apart_where_every_index_is_0(self) -> None:
        assert calls_of(
            call("{", index=0, id="a", name="one"),
            call("}", index=0),
            call("{}", index=0, id="b", name="one"),
        ) == [("a", "one", {}), ("b", "one", {})]

    def test_tell_calls_apart_without_ids(self) -> None:
        assert calls_of(
            call("{}", index=0, id="", name="one"),
            call("{", index=0, id="", name="two"),
            call("}", index=0, id="", name="two"),
        ) == [("", "one", {}), ("", "two", {})]

    def test_take_whole_calls_without_index(self) -> None:
        assert calls_of(call("{}", id="a", name="one"), call('{"k":1}', id="b", name="two")) == [
            ("a", "one", {}),
            ("b", "two", {"k": 1}),
        ]

    def test_take_names_and_ids_that_are_repeated(self) -> None:
        again = {"index": 0, "id": "a", "name": "one"}
        assert calls_of(call("{", **again), call("}", **again), call("", index=0, id="")) == [("a", "one", {})]

    def test_take_arguments_that_are_an_object(self) -> None:
        whole = {"index": 0, "id": "a", "function": {"name": "one", "arguments": {"k": 1}}}
        assert calls_of(whole) == [("a", "one", {"k": 1})]

    def test_keep_what_a_host_adds_to_a_call(self) -> None:
        signed = call("{}", index=0, id="a", name="one", extra_content={"google": {"thought_signature": "c2ln"}})
        (part,) = reply_of(chat(delta(tool_calls=[signed]), DONE, provider="gemini")).parts
        written = openai_chat.encode_request(Prompt((Message("assistant", (part,)),)), Settings("m"), provider="gemini")
        assert body_of(written)["messages"][0]["tool_calls"][0]["extra_content"] == signed["extra_content"]

    @pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
    def test_give_reasoning_under_either_name(self, field: str) -> None:
        chunks = chat(delta(**{field: "Be"}), delta(**{field: "cause."}), delta("stop", content="a"), DONE)
        assert chunks[:3] == [ReasoningDelta("Be"), ReasoningDelta("cause."), TextDelta("a")]
        reasoning, text = reply_of(chunks).parts
        assert isinstance(reasoning, Reasoning) and reasoning.text == "Because."
        assert text == Text("a")

    def test_say_reasoning_once_that_comes_under_both_names(self) -> None:
        chunks = chat(delta("stop", reasoning="Why", reasoning_content="Why", content="a"), DONE, provider="vllm")
        assert chunks[:2] == [ReasoningDelta("Why"), TextDelta("a")]
        assert [part for part in reply_of(chunks).parts if isinstance(part, Reasoning)] == [Reasoning("Why")]

    def test_join_reasoning_details_of_one_entry(self) -> None:
        def told(text: str, **more: Any) -> bytes:
            detail = {"type": "reasoning.text", "text": text, "index": 0, **more}
            return delta(reasoning=text, reasoning_details=[detail])

        sealed = {"type": "reasoning.encrypted", "data": "eA==", "index": 1}
        reply = reply_of(
            chat(
                told("Be", format=None),
                told("cause.", signature="c2ln"),
                delta(reasoning_details=[sealed]),
                delta("stop", content="a"),
                DONE,
                provider="openrouter",
            )
        )
        joined = {"type": "reasoning.text", "text": "Because.", "index": 0, "format": None, "signature": "c2ln"}
        assert reply.parts[0] == Reasoning(
            "Because.", {"openrouter": {"extra": {"reasoning_details": [joined, sealed]}}}
        )

    def test_join_thinking_parts_and_the_text_behind(self) -> None:
        def thought(text: str) -> bytes:
            return delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": text}]}])

        reference = {"type": "reference", "reference_ids": [1]}
        chunks = chat(
            thought("2 and "),
            thought("2."),
            delta(content="It is "),
            delta(content=[{"type": "text", "text": "4"}, reference]),
            delta("stop", content=""),
            DONE,
            provider="mistral",
        )
        assert [type(one) for one in chunks[:4]] == [ReasoningDelta, ReasoningDelta, TextDelta, TextDelta]
        content = [
            {"type": "thinking", "thinking": [{"type": "text", "text": "2 and 2."}]},
            {"type": "text", "text": "It is 4"},
            reference,
        ]
        body = {"id": "c-1", "model": "m", "choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
        assert reply_of(chunks) == openai_chat.decode_reply(body, provider="mistral")

    def test_give_a_refusal(self) -> None:
        chunks = chat(delta(content="", refusal="I c"), delta("stop", refusal="an't."), DONE)
        assert chunks[:2] == [TextDelta("I c"), TextDelta("an't.")]
        assert reply_of(chunks).parts == (Text("I can't.", {"openai": {"refusal": True}}),)
        assert reply_of(chunks).finish_reason == "refusal"

    def test_give_the_transcript_of_speech(self) -> None:
        spoken = [{"id": "a", "transcript": "Good "}, {"transcript": "day"}]
        chunks = chat(*(delta(audio=one) for one in spoken), delta("stop"), DONE)
        assert reply_of(chunks).parts == (Text("Good day"),)

    @pytest.mark.parametrize(
        "last",
        [
            chunk(usage={"prompt_tokens": 5, "completion_tokens": 2}),
            chunk(x_groq={"usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
            chunk({"index": 0, "delta": {}, "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
            chunk(usage={"prompt_tokens": 5, "completion_tokens": 2}) + chunk(usage=None),
        ],
    )
    def test_read_the_usage_wherever_it_stands(self, last: bytes) -> None:
        usage = reply_of(chat(delta("stop", content="a"), last, DONE)).usage
        assert (usage.input_tokens, usage.output_tokens) == (5, 2)

    def test_are_those_of_the_first_choice(self) -> None:
        both = [{"index": n, "delta": {"content": text}, "finish_reason": "stop"} for n, text in enumerate("ab")]
        assert chat(chunk(*reversed(both)), DONE)[0] == TextDelta("a")

    def test_need_no_finish_reason_before_their_end_mark(self) -> None:
        reply = reply_of(chat(delta(content="a"), DONE, provider="other"))
        assert (reply.parts, reply.finish_reason) == ((Text("a"),), "other")

    def test_need_no_end_mark_after_a_finish_reason(self) -> None:
        assert reply_of(chat(delta("stop", content="a"))).finish_reason == "stop"

    def test_are_not_read_past_their_end(self) -> None:
        def pieces() -> Iterator[bytes]:
            yield delta("stop", content="a") + DONE
            raise AssertionError("read on")

        assert reply_of(list(openai_chat.decode_stream(pieces(), provider="openai"))).parts == (Text("a"),)


HALF = (
    delta(content="Half"),
    delta(tool_calls=[call("{}", index=0, id="a", name="one")]),
    delta(tool_calls=[call("{", index=1, id="b", name="two")]),
)


class TestBrokenCompletions:
    def test_that_end_early_are_worth_another_try(self) -> None:
        with pytest.raises(ProviderError, match="ended before the answer was complete") as caught:
            chat(*HALF)
        assert (caught.value.error_class, caught.value.is_retryable) == ("transient", True)
        text, made = caught.value.partial.parts
        assert (text, made.id) == (Text("Half"), "a")
        assert caught.value.partial.finish_reason == "error"

    @pytest.mark.parametrize(
        ("last", "message", "status", "error_class"),
        [
            (chunk(error={"code": 502, "message": "Upstream"}), "Upstream", 502, "transient"),
            (
                chunk({"delta": {}, "finish_reason": "error"}, error={"code": 429, "message": "Slow"}),
                "Slow",
                429,
                "rate-limit",
            ),
            (chunk({"delta": {}, "error": {"code": 502, "message": "Upstream"}}), "Upstream", 502, "transient"),
            (b'data: {"error": "Model is loading"}\n\n', "Model is loading", 200, "transient"),
            (b'event: error\ndata: {"message": "Wrong", "status_code": 400}\n\n', "Wrong", 400, "bad-request"),
            (b"event: error\ndata: Upstream is gone\n\n", "Upstream is gone", 200, "transient"),
            (b'data: {"object": "error", "message": "Too long", "code": 400}\n\n', "Too long", 400, "bad-request"),
            (
                b'data: {"choices": null, "base_resp": {"status_code": 1002, "status_msg": "rate limit"}}\n\n',
                "rate limit",
                429,
                "rate-limit",
            ),
        ],
    )
    def test_by_an_error_are_classified(self, last: bytes, message: str, status: int, error_class: str) -> None:
        with pytest.raises(ProviderError) as caught:
            chat(*HALF, last, DONE)
        error = caught.value
        assert (error.message, error.status_code, error.error_class) == (message, status, error_class)
        assert error.partial.parts[0] == Text("Half")

    def test_by_an_error_without_a_name_are_errors_too(self) -> None:
        with pytest.raises(ProviderError, match="not named") as caught:
            chat(*HALF, delta("error"), DONE)
        assert caught.value.is_retryable
        assert caught.value.partial.parts[0] == Text("Half")

    def test_by_an_error_behind_the_finish_reason_are_errors_too(self) -> None:
        with pytest.raises(ProviderError, match="Token limit"):
            chat(delta("length", content="a"), chunk(error={"code": 400, "message": "Token limit"}), DONE)

    @pytest.mark.parametrize("pieces", [(), (DONE,), (chunk(), DONE), (b'{"id": "c-1"}',)])
    def test_before_anything_came_have_no_part(self, pieces: tuple[bytes, ...]) -> None:
        with pytest.raises(ProviderError) as caught:
            chat(*pieces)
        assert caught.value.partial is None and caught.value.is_retryable

    @pytest.mark.parametrize("data", [b"data: {\n\n", b"data: 3\n\n", delta(tool_calls=["a"])])
    def test_that_cannot_be_read_say_so(self, data: bytes) -> None:
        with pytest.raises(ProviderError, match="can't be read"):
            chat(delta(content="a"), data, DONE)


class TestAsStream:
    @pytest.mark.parametrize(
        ("module", "provider", "added"),
        [
            (anthropic_messages, "anthropic", {"stream": True}),
            (openai_chat, "openai", {"stream": True, "stream_options": {"include_usage": True}}),
            (openai_chat, "cerebras", {"stream": True, "stream_options": {"include_usage": True}}),
            (openai_chat, "mistral", {"stream": True}),
            (openai_chat, "fireworks", {"stream": True}),
        ],
    )
    def test_adds_what_asks_for_a_stream(self, module: Any, provider: str, added: dict[str, Any]) -> None:
        encoded = module.encode_request(PROMPT, Settings("m", temperature=1), provider=provider)
        streamed = module.as_stream(encoded, provider=provider)
        assert body_of(streamed) == {**body_of(encoded), **added}
        assert (streamed.path, dict(streamed.places)) == (encoded.path, dict(encoded.places))

    def test_says_once_what_the_settings_say_too(self) -> None:
        settings = Settings("m", extra={"stream": True, "stream_options": {"include_usage": False}})
        encoded = openai_chat.encode_request(PROMPT, settings, provider="openai")
        body = openai_chat.as_stream(encoded, provider="openai").body
        assert (body.count(b'"stream"'), body.count(b'"stream_options"')) == (1, 1)
