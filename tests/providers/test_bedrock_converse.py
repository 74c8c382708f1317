from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers import anthropic_messages, wire_module
from memory.providers.bedrock_converse import (
    PROTOCOL,
    as_stream,
    decode_error,
    decode_reply,
    decode_request,
    decode_stream,
    encode_request,
)
from memory.providers.wire import Finished, ReasoningDelta, Settings, TextDelta, Tool, ToolInputDelta
from tests.providers.frames import event, exception, frame, stream, text_header
from tests.providers.payloads import at, body_of, payload
from tests.recordings.compare_bedrock_converse import differences

MARKER = {"type": "default"}


def encode(*messages: Message, settings: Settings | None = None) -> dict[str, Any]:
    return body_of(encode_request(Prompt(messages), settings or Settings("m"), provider="bedrock"))


def user(*parts: Any, **options: Any) -> Message:
    return Message("user", parts, {"bedrock": options} if options else None)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def result(call_id: str = "t", output: Output | None = None, **options: Any) -> ToolResult:
    return ToolResult(call_id, "n", output or Output("text", "r"), options={"bedrock": options} if options else None)


def body(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"messages": list(messages)}


class TestRoundTrip:
    def test_every_block_comes_back_as_it_was(self) -> None:
        sent = payload("bedrock", "every_block")
        imported = decode_request(sent, provider="bedrock")
        assert imported.settings.model_id == sent.pop("modelId")
        again = encode_request(imported.prompt, imported.settings, provider="bedrock")
        assert differences(sent, body_of(again)) == []

    def test_every_block_survives_the_store(self) -> None:
        sent = payload("bedrock", "every_block")
        imported = decode_request(sent, provider="bedrock")
        system = tuple(message for message in imported.prompt.messages if message.role == "system")
        stored = msgspec.json.decode(msgspec.json.encode(from_prompt(imported.prompt)))
        prompt = Prompt(system + to_prompt(stored).messages)
        again = body_of(encode_request(prompt, imported.settings, provider="bedrock"))
        # The turn with the provider's own tool is parted there; both halves are the assistant's.
        assert [m["role"] for m in again["messages"]] == ["user", "assistant", "user"]
        del sent["modelId"]
        assert differences(sent, again, was_stored=True) == []

    def test_every_part_has_its_place(self) -> None:
        sent = payload("bedrock", "every_block")
        imported = decode_request(sent, provider="bedrock")
        encoded = encode_request(imported.prompt, imported.settings, provider="bedrock")
        again = body_of(encoded)
        for i, message in enumerate(imported.prompt.messages):
            for j, part in enumerate(message.parts):
                block = at(again, encoded.places[i, j])
                if isinstance(part, ToolCall):
                    assert block["toolUse"]["toolUseId"] == part.id
                elif isinstance(part, Text) and not part.options and message.role != "system":
                    assert block == {"text": part.text}
        assert at(again, encoded.places[2, -1])["role"] == "user"

    def test_words_before_results_stay_before_them(self) -> None:
        sent = body(
            {"role": "user", "content": [{"text": "a"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "n", "input": {}}}]},
            {
                "role": "user",
                "content": [{"text": "b"}, {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}],
            },
        )
        prompt = decode_request(sent, provider="bedrock").prompt
        assert [message.role for message in prompt.messages] == ["user", "assistant", "user", "tool"]
        assert encode(*prompt.messages) == sent

    def test_messages_of_one_role_stay_apart_as_they_came(self) -> None:
        one = {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}]}
        sent = body(
            one, {"role": "user", "content": [{"text": "b"}]}, {"role": "user", "content": [{"text": "c"}]}, one
        )
        assert encode(*decode_request(sent, provider="bedrock").prompt.messages) == sent

    def test_two_markers_in_a_row_stay_two(self) -> None:
        marker = {"cachePoint": MARKER}
        for first in ({"text": "a"}, {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}):
            sent = body({"role": "user", "content": [first, marker, marker, {"text": "b"}]})
            assert encode(*decode_request(sent, provider="bedrock").prompt.messages) == sent
        sent = body({"role": "user", "content": [marker, {"text": "a"}]})
        assert encode(*decode_request(sent, provider="bedrock").prompt.messages) == sent

    def test_a_reply_goes_back_as_it_came(self) -> None:
        reply = payload("bedrock", "reply")
        parts = decode_reply(reply, provider="bedrock").parts
        assert encode(assistant(*parts))["messages"][0] == reply["output"]["message"]

    @pytest.mark.parametrize("value", [[1, 2], "text", 5, None])
    def test_json_that_is_no_object_comes_back(self, value: Any) -> None:
        content = [{"toolResult": {"toolUseId": "t", "content": [{"json": value}]}}]
        sent = body({"role": "user", "content": content})
        assert encode(*decode_request(sent, provider="bedrock").prompt.messages) == sent


class TestClaude:
    def test_signed_reasoning_is_claudes_on_every_platform(self) -> None:
        reasoning, *_ = decode_reply(payload("bedrock", "reply"), provider="bedrock").parts
        prompt = Prompt((user(Text("a")), assistant(reasoning)))
        there = anthropic_messages.encode_request(prompt, Settings("claude"), provider="anthropic")
        thinking = {"type": "thinking", "thinking": "Where?", "signature": "c2lnbmF0dXJl"}
        assert body_of(there)["messages"][1]["content"] == [thinking]
        back = {"messages": [{"role": "assistant", "content": [thinking]}]}
        here = anthropic_messages.decode_request(back, provider="anthropic").prompt
        assert encode(*here.messages)["messages"][0]["content"] == [
            {"reasoningContent": {"reasoningText": {"text": "Where?", "signature": "c2lnbmF0dXJl"}}}
        ]

    def test_sealed_reasoning_of_anthropic_is_carried_as_bytes(self) -> None:
        part = Reasoning("", {"anthropic": {"redactedData": "sealed"}})
        assert encode(assistant(part))["messages"][0]["content"] == [
            {"reasoningContent": {"redactedContent": "c2VhbGVk"}}
        ]

    def test_sealed_reasoning_of_bedrock_is_not_taken_for_claudes(self) -> None:
        content = [{"reasoningContent": {"redactedContent": "c2VhbGVk"}}]
        sent = body({"role": "assistant", "content": content})
        (message,) = decode_request(sent, provider="bedrock").prompt.messages
        (part,) = message.parts
        assert part.options == {"bedrock": {"redactedContent": "c2VhbGVk"}}

    def test_a_signature_without_text_is_kept(self) -> None:
        thought = {"reasoningContent": {"reasoningText": {"signature": "c2ln"}}}
        answer = {"output": {"message": {"role": "assistant", "content": [thought]}}, "stopReason": "end_turn"}
        (part,) = decode_reply(answer, provider="bedrock").parts
        assert part == Reasoning("", {"anthropic": {"signature": "c2ln"}})
        assert encode(assistant(part))["messages"][0]["content"] == [
            {"reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln"}}}
        ]


class TestEncode:
    def test_the_model_stands_in_the_path(self) -> None:
        encoded = encode_request(Prompt((user(Text("a")),)), Settings("us.amazon.nova-lite-v1:0"), provider="bedrock")
        assert encoded.path == "/model/us.amazon.nova-lite-v1%3A0/converse"
        assert as_stream(encoded, provider="bedrock").path == "/model/us.amazon.nova-lite-v1%3A0/converse-stream"
        assert as_stream(encoded, provider="bedrock").body == encoded.body
        with pytest.raises(EncodingError, match="needs a model"):
            encode_request(Prompt(()), Settings(), provider="bedrock")

    def test_results_and_what_follows_are_one_message(self) -> None:
        made = encode(
            assistant(ToolCall("t", "n", {}), ToolCall("u", "n", {})),
            Message("tool", (result("t"),)),
            Message("tool", (result("u"),)),
            user(Text("b")),
        )
        assert [list(block) for block in made["messages"][1]["content"]] == [["toolResult"], ["toolResult"], ["text"]]

    def test_user_messages_are_not_merged(self) -> None:
        assert len(encode(user(Text("a")), user(Text("b")))["messages"]) == 2

    def test_what_only_conversion_parted_is_one_message(self) -> None:
        parted = Message("assistant", (Text("found"),), parted=True)
        assert len(encode(assistant(Text("a")), parted)["messages"]) == 1
        assert len(encode(assistant(Text("a")), assistant(Text("found")))["messages"]) == 2

    @pytest.mark.parametrize(
        ("output", "content", "status"),
        [
            (Output("text", "x"), [{"text": "x"}], None),
            (Output("json", {"a": 10**24 + 1}), [{"json": {"a": 10**24 + 1}}], None),
            (Output("json", [1]), [{"text": "[1]"}], None),
            (Output("json", "x"), [{"text": '"x"'}], None),
            (Output("error-text", "x"), [{"text": "x"}], "error"),
            (Output("error-json", {"a": 1}), [{"text": '{"a":1}'}], "error"),
            (Output("content", [{"type": "text", "text": "x"}]), [{"text": "x"}], None),
            (Output("content", []), [], None),
        ],
    )
    def test_an_outcome_is_written(self, output: Output, content: Any, status: str | None) -> None:
        block = encode(Message("tool", (result("t", output),)))["messages"][0]["content"][0]["toolResult"]
        assert (block["content"], block.get("status")) == (content, status)

    @pytest.mark.parametrize(
        ("media_type", "data", "block"),
        [
            ("image/jpeg", "eA==", {"image": {"format": "jpeg", "source": {"bytes": "eA=="}}}),
            ("", "data:image/webp;base64,eA==", {"image": {"format": "webp", "source": {"bytes": "eA=="}}}),
            ("video/mp4", "s3://b/k", {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}}),
            ("audio/mpeg", "eA==", {"audio": {"format": "mp3", "source": {"bytes": "eA=="}}}),
        ],
    )
    def test_a_file_is_written(self, media_type: str, data: str, block: dict[str, Any]) -> None:
        assert encode(user(File(media_type, data)))["messages"][0]["content"] == [block]

    @pytest.mark.parametrize(
        ("filename", "name"),
        [
            ("Report (1)", "Report (1)"),
            ("my_report.v2.pdf", "my-report-v2"),
            (None, "document 0-0"),
            ("….pdf", "document 0-0"),
        ],
    )
    def test_a_document_has_a_name_in_its_alphabet(self, filename: str | None, name: str) -> None:
        (block,) = encode(user(File("application/pdf", "eA==", filename)))["messages"][0]["content"]
        assert block["document"]["name"] == name

    def test_a_cache_marker_stands_behind_its_part(self) -> None:
        marked = Text("a", {"bedrock": {"cachePoint": MARKER}})
        made = encode(user(marked, Text("b")), Message("assistant", (Text("c"),), {"bedrock": {"cachePoint": MARKER}}))
        point = {"cachePoint": MARKER}
        assert made["messages"][0]["content"] == [{"text": "a"}, point, {"text": "b"}]
        assert made["messages"][1]["content"] == [{"text": "c"}, point]

    def test_a_shared_cache_marker_stands_where_it_came_from(self) -> None:
        shared = {"bedrock": {"cachePoint": MARKER, "cacheOnResult": True}}
        call = ToolCall("t", "n", {}, options=shared)
        made = encode(assistant(call), Message("tool", (ToolResult("t", "n", Output("text", "r"), options=shared),)))
        assert [len(message["content"]) for message in made["messages"]] == [1, 2]

    def test_foreign_blocks_are_not_sent(self) -> None:
        foreign = Text("", {"anthropic": {"block": {"type": "container_upload"}}})
        assert encode(user(foreign, Text("a")))["messages"][0]["content"] == [{"text": "a"}]

    def test_a_renamed_tool_keeps_its_further_keys(self) -> None:
        raw = {"toolSpec": {"name": "old", "inputSchema": {"json": {"type": "object"}}, "strict": True}}
        made = encode(user(Text("a")), settings=Settings("m", tools=(Tool("new", "", {"type": "object"}, raw),)))
        spec = {"name": "new", "inputSchema": {"json": {"type": "object"}}, "strict": True}
        assert made["toolConfig"] == {"tools": [{"toolSpec": spec}]}

    @pytest.mark.parametrize(("choice", "made"), [("auto", {"auto": {}}), ("required", {"any": {}})])
    def test_a_choice_is_written(self, choice: str, made: dict[str, Any]) -> None:
        settings = Settings("m", tools=(Tool("t"),), tool_choice=choice)
        assert encode(user(Text("a")), settings=settings)["toolConfig"]["toolChoice"] == made

    @pytest.mark.parametrize(
        ("message", "place"),
        [
            (user(ToolCall("t", "n", {})), "messages[0].content[0]"),
            (user(Reasoning("r")), "messages[0].content[0]"),
            (assistant(ToolCall("t", "web_search", {}, True)), "messages[0].content[0]"),
            (assistant(result()), "messages[0].content[0]"),
            (Message("tool", (File("image/png", "eA=="),)), "messages[0].content[0]"),
            (user(Text("a"), File("image/tiff", "eA==")), "messages[0].content[1]"),
            (user(File("image/png", "https://example.org/a.png")), "messages[0].content[0]"),
            (Message("tool", (result("t", Output("content", [{"type": "other"}])),)), "messages[0].content[0]"),
        ],
    )
    def test_what_converse_cannot_say_raises_with_its_place(self, message: Message, place: str) -> None:
        with pytest.raises(EncodingError) as raised:
            encode(message)
        assert raised.value.place == place

    @pytest.mark.parametrize(
        ("settings", "place"),
        [
            (Settings("m", tools=(Tool("t"),), tool_choice="none"), "settings.tool_choice"),
            (Settings("m", tools=(Tool("", raw={"type": "web_search"}),)), "tools[0]"),
            (
                Settings("m", max_tokens=5, extra={"inferenceConfig": {"maxTokens": 6}}),
                "settings.extra.inferenceConfig.maxTokens",
            ),
            (Settings("m", extra={"messages": []}), "settings.extra.messages"),
        ],
    )
    def test_settings_it_cannot_say_raise(self, settings: Settings, place: str) -> None:
        with pytest.raises(EncodingError) as raised:
            encode(user(Text("a")), settings=settings)
        assert raised.value.place == place

    def test_a_system_message_between_the_turns_raises(self) -> None:
        with pytest.raises(EncodingError, match="stand before"):
            encode(user(Text("a")), Message("system", "b"))


class TestDecode:
    @pytest.mark.parametrize(
        ("sent", "field"),
        [
            ({"messages": {}}, "messages"),
            ({"messages": ["a"]}, "messages[0]"),
            ({"messages": [{"role": "system", "content": []}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": "a"}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": [1]}]}, "messages[0].content[0]"),
            (
                {"messages": [{"role": "assistant", "content": [{"toolUse": {}}]}]},
                "messages[0].content[0].toolUse.toolUseId",
            ),
            ({"messages": [], "inferenceConfig": {"maxTokens": "5"}}, "maxTokens"),
            ({"messages": [], "toolConfig": {"tools": [1]}}, "toolConfig.tools[0]"),
        ],
    )
    def test_names_the_place_of_what_does_not_fit(self, sent: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInput) as raised:
            decode_request(sent, provider="bedrock")
        assert raised.value.errors[0].field == field

    def test_what_the_provider_ran_says_so(self) -> None:
        turn = decode_request(payload("bedrock", "every_block"), provider="bedrock").prompt.messages[3]
        hosted = [part for part in turn.parts if isinstance(part, ToolCall) and part.provider_executed]
        assert [call.name for call in hosted] == ["nova_code_interpreter"]
        assert [part.name for part in turn.parts if isinstance(part, ToolResult)] == ["nova_code_interpreter"]

    def test_others_can_read_what_we_do_not_know(self) -> None:
        turn = decode_request(payload("bedrock", "every_block"), provider="bedrock").prompt.messages[2]
        assert "Is it harmful?" in turn.text
        assert [part.filename for part in turn.parts if isinstance(part, File)][2:4] == ["Report (final)", "Notes"]


class TestReply:
    def test_counts_the_cache_as_input(self) -> None:
        reply = decode_reply(payload("bedrock", "reply"), provider="bedrock")
        assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (113, 100, 20)
        assert reply.finish_reason == "tool-calls"

    @pytest.mark.parametrize(
        ("answer", "error_class"),
        [
            (
                {"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"},
                "transient",
            ),
            ({"__type": "ThrottlingException", "message": "Too many requests"}, "rate-limit"),
            ({"output": {}}, "transient"),
            ({"output": {"message": {"content": [5]}}}, "transient"),
        ],
    )
    def test_an_error_that_came_as_an_answer_raises(self, answer: dict[str, Any], error_class: str) -> None:
        with pytest.raises(ProviderError) as raised:
            decode_reply(answer, provider="bedrock")
        assert raised.value.error_class == error_class


def streamed(raw: bytes, size: int = 4096) -> list[Any]:
    return list(decode_stream(in_pieces(raw, size), provider="bedrock"))


def in_pieces(raw: bytes, size: int) -> Iterator[bytes]:
    return (raw[start : start + size] for start in range(0, len(raw), size))


def delta(index: int, **value: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": value, "p": "abc"}}


def stop(index: int) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


USE = {
    "contentBlockStart": {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "weather"}}}
}
REPLY: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    delta(0, reasoningContent={"text": "Whe"}),
    delta(0, reasoningContent={"text": "re?"}),
    delta(0, reasoningContent={"signature": "c2lnbmF0dXJl"}),
    stop(0),
    delta(1, text="I "),
    delta(1, text="look."),
    stop(1),
    USE,
    delta(2, toolUse={"input": '{"city":'}),
    delta(2, toolUse={"input": '"Oslo"}'}),
    stop(2),
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": payload("bedrock", "reply")["usage"], "metrics": {"latencyMs": 1}}},
]


class TestStream:
    def test_ends_with_the_reply_of_an_unstreamed_call(self) -> None:
        chunks = streamed(stream(REPLY))
        assert chunks[:-1] == [
            ReasoningDelta("Whe"),
            ReasoningDelta("re?"),
            TextDelta("I "),
            TextDelta("look."),
            ToolInputDelta("tooluse_1", "weather", ""),
            ToolInputDelta("tooluse_1", "weather", '{"city":'),
            ToolInputDelta("tooluse_1", "weather", '"Oslo"}'),
        ]
        assert chunks[-1] == Finished(decode_reply(payload("bedrock", "reply"), provider="bedrock"))

    @pytest.mark.parametrize("size", [1, 7])
    def test_reads_alike_in_any_pieces(self, size: int) -> None:
        assert streamed(stream(REPLY), size) == streamed(stream(REPLY))

    def test_does_not_wait_for_what_comes_behind_the_end(self) -> None:
        def held() -> Iterator[bytes]:
            yield stream(REPLY)
            raise AssertionError("nothing more is read")

        assert isinstance(list(decode_stream(held(), provider="bedrock"))[-1], Finished)

    def test_needs_no_usage(self) -> None:
        assert streamed(stream(REPLY[:-1]))[-1].reply.usage.output_tokens == 0

    @pytest.mark.parametrize(
        ("events", "block"),
        [
            ([delta(0, text="a"), delta(0, citation={"title": "t"}), delta(0, text="b")],
             {"citationsContent": {"content": [{"text": "ab"}], "citations": [{"title": "t"}]}}),
            ([delta(0, reasoningContent={"redactedContent": piece}) for piece in ("YQ==", "Yg==")],
             {"reasoningContent": {"redactedContent": "YWI="}}),
            ([{"contentBlockStart": {"contentBlockIndex": 0, "start": {"image": {"format": "png"}}}},
              delta(0, image={"source": {"bytes": "eA=="}})],
             {"image": {"format": "png", "source": {"bytes": "eA=="}}}),
            ([delta(0, hologram={"depth": 3})], {"hologram": {"depth": 3}}),
        ],
    )  # fmt: skip
    def test_puts_other_blocks_together(self, events: list[dict[str, Any]], block: dict[str, Any]) -> None:
        raw = stream([*events, stop(0), {"messageStop": {"stopReason": "end_turn"}}])
        parts = streamed(raw)[-1].reply.parts
        assert encode(assistant(*parts))["messages"][0]["content"] == [block]

    def test_joins_the_fragments_of_a_hosted_result(self) -> None:
        start = {"contentBlockIndex": 1, "start": {"toolResult": {"toolUseId": "t", "type": "r", "status": "error"}}}
        use = {"toolUseId": "t", "name": "code", "type": "server_tool_use"}
        raw = stream(
            [
                {"contentBlockStart": {"contentBlockIndex": 0, "start": {"toolUse": use}}},
                stop(0),
                {"contentBlockStart": start},
                delta(1, toolResult=[{"text": "no "}]),
                delta(1, toolResult=[{"text": "way"}]),
                stop(1),
                {"messageStop": {"stopReason": "end_turn"}},
            ]
        )
        call, outcome = streamed(raw)[-1].reply.parts
        assert (call.input, call.provider_executed) == ({}, True)
        assert (outcome.name, outcome.output) == ("code", Output("error-text", "no way"))

    def test_arguments_that_are_no_json_stay_a_text(self) -> None:
        raw = stream(
            [USE, delta(2, toolUse={"input": '{"city'}), stop(2), {"messageStop": {"stopReason": "max_tokens"}}]
        )
        (call,) = streamed(raw)[-1].reply.parts
        assert call.input == '{"city'


class TestBrokenStream:
    def test_without_its_end_mark_raises_with_what_came(self) -> None:
        error = failing(stream(REPLY[:-3]))
        assert (error.error_class, error.is_retryable, error.error_code) == ("transient", True, "stream_ended_early")
        # The call's arguments may go on, so it is no part of what came.
        assert [type(part) for part in error.partial.parts] == [Reasoning, Text]
        assert error.partial.finish_reason == "error"

    def test_that_says_nothing_has_no_partial(self) -> None:
        assert failing(b"").partial is None
        assert failing(stream(REPLY[:1])).partial is None

    @pytest.mark.parametrize(
        ("kind", "error_class", "is_retryable"),
        [
            ("throttlingException", "rate-limit", True),
            ("serviceUnavailableException", "overloaded", True),
            ("internalServerException", "transient", True),
            ("modelStreamErrorException", "transient", True),
            ("validationException", "bad-request", False),
        ],
    )
    def test_an_exception_is_classified(self, kind: str, error_class: str, is_retryable: bool) -> None:
        error = failing(stream(REPLY[:7]) + exception(kind, {"message": "What happened."}))
        assert (error.error_class, error.is_retryable, error.message) == (error_class, is_retryable, "What happened.")
        assert error.error_code == kind
        assert error.response_body == '{"message":"What happened."}'
        assert [part.text for part in error.partial.parts] == ["Where?", "I look."]

    def test_an_error_the_service_does_not_model_is_classified(self) -> None:
        headers = [(":message-type", "error"), (":error-code", "InternalServerException"), (":error-message", "Oh.")]
        error = failing(frame(b"".join(text_header(*header) for header in headers), b""))
        assert (error.message, error.error_class, error.status_code) == ("Oh.", "transient", 500)

    @pytest.mark.parametrize(
        "raw",
        [
            b'{"message": "no frames but an answer of another kind"}',
            event("contentBlockDelta", {"delta": {"text": "a"}}),
            stream([delta(0, toolUse={"input": "{}"})]),
            frame(text_header(":event-type", "messageStop"), b"{"),
            frame(text_header(":event-type", "messageStop"), b"[]"),
        ],
    )
    def test_what_cannot_be_read_raises(self, raw: bytes) -> None:
        error = failing(stream(REPLY[:7]) + raw)
        assert (error.error_class, error.is_retryable) == ("transient", True)
        assert len(error.partial.parts) == 2

    def test_a_broken_connection_keeps_what_came(self) -> None:
        def breaking() -> Iterator[bytes]:
            yield stream(REPLY[:7])
            raise ProviderError("gone", error_class="connection", error_code="ECONNRESET")

        error = failing(breaking())
        assert error.error_code == "ECONNRESET"
        assert len(error.partial.parts) == 2


def failing(pieces: bytes | Iterable[bytes]) -> ProviderError:
    with pytest.raises(ProviderError) as raised:
        list(decode_stream(in_pieces(pieces, 50) if isinstance(pieces, bytes) else pieces, provider="bedrock"))
    return raised.value


class TestErrors:
    def test_take_their_kind_from_the_header(self) -> None:
        headers = {
            "x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral/",
            "x-amzn-RequestId": "r1",
        }
        error = decode_error(400, headers, '{"message":"Too many tokens, please wait."}', provider="bedrock")
        assert (error.error_class, error.is_retryable, error.error_code) == ("rate-limit", True, "ThrottlingException")
        assert (error.request_id, error.data) == ("r1", {"message": "Too many tokens, please wait."})

    def test_take_their_kind_from_the_body(self) -> None:
        said = '{"__type":"com.amazon.coral#AccessDeniedException","Message":"No."}'
        error = decode_error(400, {}, said, provider="bedrock")
        assert (error.error_class, error.message) == ("authentication", "No.")

    def test_an_overflow_is_one(self) -> None:
        said = '{"message":"Input is too long for requested model."}'
        error = decode_error(400, {"x-amzn-errortype": "ValidationException"}, said, provider="bedrock")
        assert error.error_class == "context-length"

    def test_a_page_is_classified_by_its_status(self) -> None:
        assert decode_error(503, {}, "<html></html>", provider="bedrock").is_retryable


def test_the_protocol_is_listed() -> None:
    assert wire_module(PROTOCOL).decode_reply is decode_reply
