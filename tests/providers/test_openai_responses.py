from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import memory.sandbox
from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers import openai_chat
from memory.providers.http import Client, Connection
from memory.providers.openai_responses import (
    as_stream,
    decode_error,
    decode_reply,
    decode_request,
    decode_stream,
    encode_request,
)
from memory.providers.wire import Finished, ReasoningDelta, Settings, TextDelta, Tool, ToolInputDelta
from tests.providers.payloads import at, body_of, payload
from tests.recordings.compare_openai_responses import differences


def encode(*messages: Message, provider: str = "openai", settings: Settings | None = None) -> dict[str, Any]:
    return body_of(encode_request(Prompt(messages), settings or Settings("m"), provider=provider))


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def every_item() -> dict[str, Any]:
    return payload("openai", "responses_every_item")


def own(part: Any) -> dict[str, Any]:
    options: dict[str, Any] = part.options["openai"]
    return options


class TestRoundTrip:
    def test_every_item_comes_back_as_it_was(self) -> None:
        sent = every_item()
        imported = decode_request(sent, provider="openai")
        again = body_of(encode_request(imported.prompt, imported.settings, provider="openai"))
        assert differences(sent, again) == []

    def test_also_when_stored_in_between(self) -> None:
        sent = every_item()
        imported = decode_request(sent, provider="openai")
        system = tuple(message for message in imported.prompt.messages if message.role == "system")
        stored = Prompt(system + to_prompt(from_prompt(imported.prompt)).messages)
        again = body_of(encode_request(stored, imported.settings, provider="openai"))
        assert differences(sent, again, was_stored=True) == []

    def test_every_key_of_an_item_counts(self) -> None:
        sent = every_item()
        for number, item in enumerate(sent["input"]):
            for key in item.keys() - {"type", "role"}:
                changed = every_item()
                changed["input"][number][key] = "other"
                assert (differences(sent, changed) != []) == (item[key] != "other"), (number, key)

    def test_a_reply_goes_back_as_it_came(self) -> None:
        body = payload("openai", "responses_reply")
        parts = decode_reply(body, provider="openai").parts
        again = encode(assistant(*parts))
        output = [{**item} for item in body["output"]]
        del output[2]["content"][0]["logprobs"]
        assert differences({"model": "m", "input": output}, again) == []

    def test_big_numbers_stay_exact(self) -> None:
        prompt = decode_request(every_item(), provider="openai").prompt
        call = next(part for message in prompt.messages for part in message.parts if isinstance(part, ToolCall))
        assert call.input["big"] == 12345678901234567890123

    def test_a_text_is_a_message_of_the_user(self) -> None:
        prompt = decode_request({"model": "m", "input": "Hello"}, provider="openai").prompt
        assert prompt.messages == (Message("user", (Text("Hello"),)),)


class TestPlaces:
    def test_every_part_has_one_that_leads_to_it(self) -> None:
        imported = decode_request(every_item(), provider="openai")
        encoded = encode_request(imported.prompt, imported.settings, provider="openai")
        body = body_of(encoded)
        for i, message in enumerate(imported.prompt.messages):
            for j, part in enumerate(message.parts):
                found = at(body, encoded.places[i, j])
                if isinstance(part, Text) and part.text:
                    assert part.text in msgspec.json.encode(found).decode(), (i, j)
                if isinstance(part, ToolCall):
                    assert found["type"].endswith("_call"), (i, j)
        assert encoded.places[0, 0] == "/instructions"

    def test_parts_of_a_turn_are_items(self) -> None:
        parts = (Reasoning("why", {"openai": {"itemId": "rs_1"}}), Text("a"), ToolCall("c", "n", {}))
        encoded = encode_request(Prompt((user(Text("q")), assistant(*parts))), Settings("m"), provider="openai")
        assert [encoded.places[1, j] for j in (-1, 0, 1, 2)] == [
            "/input/1",
            "/input/1/summary/0",
            "/input/2/content",
            "/input/3",
        ]


class TestReasoning:
    def test_texts_of_an_item_are_parts_with_one_seal(self) -> None:
        parts = decode_request(every_item(), provider="openai").prompt.messages[5].parts[:2]
        assert [part.text for part in parts if isinstance(part, Reasoning)] == [
            "Look at the picture.",
            "Then ask the timetable.",
        ]
        assert [own(part).get("reasoningEncryptedContent") for part in parts] == ["gAAAAone", None]

    def test_neighbours_with_one_id_are_one_item(self) -> None:
        first = Reasoning("a", {"openai": {"itemId": "rs_1"}})
        last = Reasoning("b", {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "s"}})
        other = Reasoning("c", {"openai": {"itemId": "rs_2"}})
        assert encode(assistant(first, last, other))["input"] == [
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
                "encrypted_content": "s",
            },
            {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "c"}]},
        ]

    def test_kept_under_azures_own_name_is_found(self) -> None:
        part = Reasoning("", {"azure": {"itemId": "rs_1", "reasoningEncryptedContent": "s"}})
        assert encode(assistant(part), provider="azure")["input"] == [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "s"}
        ]


class TestEncode:
    def test_an_assistants_text_without_an_id_is_plain(self) -> None:
        assert encode(assistant(Text("a"), Text("b")))["input"] == [
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"},
        ]

    def test_one_with_an_id_is_a_whole_item(self) -> None:
        parts = (Text("a", {"openai": {"itemId": "msg_1"}}), Text("b", {"openai": {"itemId": "msg_1"}}))
        assert encode(assistant(*parts))["input"] == [
            {
                "type": "message",
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "a", "annotations": []},
                    {"type": "output_text", "text": "b", "annotations": []},
                ],
                "id": "msg_1",
                "status": "completed",
            }
        ]

    def test_a_result_is_an_item_with_the_id_of_its_call(self) -> None:
        turn = assistant(ToolCall("c", "n", {"a": 1}))
        results = Message("tool", (ToolResult("c", "n", Output("json", {"k": 1})),))
        assert encode(turn, results)["input"] == [
            {"type": "function_call", "call_id": "c", "name": "n", "arguments": '{"a":1}'},
            {"type": "function_call_output", "call_id": "c", "output": '{"k":1}'},
        ]

    def test_a_result_of_our_own_answers_in_the_calls_type(self) -> None:
        prompt = decode_request(every_item(), provider="openai").prompt
        call = next(p for m in prompt.messages for p in m.parts if isinstance(p, ToolCall) and p.name == "sql")
        answer = Message("tool", (ToolResult(call.id, "sql", Output("text", "1")),))
        assert encode(assistant(call), answer)["input"][1] == {
            "type": "custom_tool_call_output",
            "call_id": "call_3",
            "output": "1",
        }

    def test_a_hosted_call_known_by_its_id_alone_is_named(self) -> None:
        options = {"openai": {"itemId": "ws_1"}}
        call = ToolCall("ws_1", "web_search", {}, True, options=options)
        result = ToolResult("ws_1", "web_search", Output("json", {"a": 1}), options=options)
        assert encode(assistant(call, result))["input"] == [{"type": "item_reference", "id": "ws_1"}]

    @pytest.mark.parametrize(
        ("messages", "place"),
        [
            ((assistant(ToolCall("srv", "web_search", {}, True)),), "messages[0].content[0]"),
            ((assistant(ToolResult("srv", "web_search", Output("json", []))),), "messages[0].content[0]"),
            ((user(Text("a"), ToolCall("c", "n", {})),), "messages[0].content[1]"),
            ((user(File("video/mp4", "AAAA")),), "messages[0].content[0]"),
            ((assistant(File("image/png", "AAAA")),), "messages[0].content[0]"),
            ((Message("tool", (Text("a"),)),), "messages[0].content[0]"),
        ],
    )
    def test_names_what_it_cannot_say(self, messages: tuple[Message, ...], place: str) -> None:
        with pytest.raises(EncodingError) as caught:
            encode(*messages)
        assert caught.value.place == place

    def test_knows_no_stop_texts(self) -> None:
        with pytest.raises(EncodingError, match=r"settings\.stop"):
            encode(user(Text("a")), settings=Settings("m", stop=("x",)))

    def test_a_key_that_is_set_already_is_no_further_one(self) -> None:
        with pytest.raises(EncodingError, match=r"settings\.extra\.input"):
            encode(user(Text("a")), settings=Settings("m", extra={"input": []}))

    def test_a_plain_tool_is_not_strict(self) -> None:
        tools = (Tool("n", "d", {"type": "object"}), Tool("", raw={"type": "web_search"}))
        assert encode(user(Text("a")), settings=Settings("m", tools=tools))["tools"] == [
            {"strict": False, "type": "function", "name": "n", "description": "d", "parameters": {"type": "object"}},
            {"type": "web_search"},
        ]

    @pytest.mark.parametrize(
        "raw",
        [
            {"type": "web_search_20250305", "name": "web_search"},
            {"type": "custom", "custom": {"name": "n"}},
            {"googleSearch": {}},
        ],
    )
    def test_refuses_tools_of_other_protocols(self, raw: dict[str, Any]) -> None:
        with pytest.raises(EncodingError, match=r"tools\[0\]"):
            encode(user(Text("a")), settings=Settings("m", tools=(Tool("", raw=raw),)))

    def test_a_streamed_request_asks_for_it(self) -> None:
        encoded = encode_request(Prompt((user(Text("a")),)), Settings("m"), provider="openai")
        assert body_of(as_stream(encoded, provider="openai")) == {**body_of(encoded), "stream": True}


class TestForeignBlocks:
    def test_go_back_to_their_host_only(self) -> None:
        sent = {"input": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x"}]}
        prompt = decode_request(sent, provider="openai").prompt
        assert encode(*prompt.messages)["input"] == sent["input"]
        assert "input" not in encode(*prompt.messages, provider="deepseek")

    def test_of_the_chat_protocol_are_not_sent(self) -> None:
        sent = {"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "u"}}]}]}
        prompt = openai_chat.decode_request(sent, provider="openai").prompt
        assert encode(*prompt.messages)["input"] == [{"role": "user", "content": []}]

    def test_further_keys_of_the_chat_protocol_are_not_sent(self) -> None:
        sent = {
            "messages": [
                {"role": "user", "name": "ada", "content": [{"type": "text", "text": "a", "cache_control": {}}]},
                {"role": "assistant", "content": None, "refusal": "No."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{"}, "extra_content": 1}
                    ],
                },
            ]
        }
        prompt = openai_chat.decode_request(sent, provider="openai").prompt
        assert encode(*prompt.messages)["input"] == [
            {"role": "user", "content": "a"},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
            {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{"},
        ]


class TestDecodeRequest:
    @pytest.mark.parametrize(
        ("body", "place"),
        [
            ({"input": 1}, "input"),
            ({"input": [1]}, "input[0]"),
            ({"input": [{"role": "tool", "content": "a"}]}, "input[0].role"),
            ({"input": [{"role": "user", "content": 1}]}, "input[0].content"),
            ({"input": [{"type": "function_call", "call_id": "c"}]}, "input[0].name"),
            ({"input": [{"type": "function_call_output", "call_id": "c", "output": 1}]}, "input[0].output"),
            ({"input": [], "max_output_tokens": "1"}, "max_output_tokens"),
        ],
    )
    def test_names_the_place_of_what_does_not_fit(self, body: dict[str, Any], place: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            decode_request(body, provider="openai")
        assert caught.value.errors[0].field == place

    def test_state_at_the_provider_is_a_further_key(self) -> None:
        settings = decode_request(every_item(), provider="openai").settings
        assert {"previous_response_id", "store", "reasoning", "text", "include"} <= settings.extra.keys()
        assert settings.max_tokens == 500
        assert settings.tool_choice == {"type": "tool", "toolName": "timetable"}

    def test_hosted_calls_hold_what_was_asked_and_what_came(self) -> None:
        prompt = decode_request(every_item(), provider="openai").prompt
        parts = [part for message in prompt.messages for part in message.parts]
        calls = {part.name: part for part in parts if isinstance(part, ToolCall)}
        results = {part.name: part for part in parts if isinstance(part, ToolResult)}
        assert calls["code_interpreter"].input == {"code": "1+1", "container_id": "cntr_1"}
        assert results["code_interpreter"].output.value["outputs"] == [{"type": "logs", "logs": "2"}]
        assert (calls["shorten"].input, results["shorten"].output.value["output"]) == ({"url": "u"}, "s")
        hosted = {name for name, call in calls.items() if call.provider_executed}
        assert hosted == {"web_search", "code_interpreter", "file_search", "shorten", "shell"}
        assert calls["local_shell"].provider_executed is None


class TestDecodeReply:
    def test_reads_parts_reason_and_cost(self) -> None:
        reply = decode_reply(payload("openai", "responses_reply"), provider="openai")
        assert [type(part).__name__ for part in reply.parts] == [
            "Reasoning",
            "ToolCall",
            "ToolResult",
            "Text",
            "ToolCall",
        ]
        assert (reply.finish_reason, reply.response_id, reply.model_id) == (
            "tool-calls",
            "resp_1",
            "gpt-5.4-2026-03-05",
        )
        usage = reply.usage
        assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens) == (
            40,
            30,
            20,
            12,
        )

    @pytest.mark.parametrize(
        ("keys", "reason"),
        [
            ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length"),
            ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content-filter"),
            ({"status": "incomplete"}, "other"),
            ({"status": "queued", "output": []}, "other"),
            (
                {
                    "output": [
                        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No"}]}
                    ]
                },
                "refusal",
            ),
            (
                {
                    "output": [
                        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
                    ]
                },
                "stop",
            ),
        ],
    )
    def test_says_why_it_ended(self, keys: dict[str, Any], reason: str) -> None:
        body = payload("openai", "responses_reply") | keys
        assert decode_reply(body, provider="openai").finish_reason == reason

    def test_raises_the_error_that_came_as_an_answer(self) -> None:
        body = {"status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "Slow down."}}
        with pytest.raises(ProviderError) as caught:
            decode_reply(body, provider="openai")
        assert (caught.value.message, caught.value.error_class) == ("Slow down.", "rate-limit")
        assert caught.value.is_retryable

    @pytest.mark.parametrize(
        "body", [{}, {"output": None}, {"output": [1]}, {"output": [{"type": "reasoning", "summary": 1}]}]
    )
    def test_raises_for_what_is_no_answer(self, body: dict[str, Any]) -> None:
        with pytest.raises(ProviderError) as caught:
            decode_reply(body, provider="openai")
        assert caught.value.is_retryable

    def test_errors_are_classified(self) -> None:
        body = '{"error": {"message": "The encrypted content gAAA... could not be verified.", "code": "x"}}'
        error = decode_error(400, {"x-request-id": "r"}, body, provider="openai")
        assert (error.error_class, error.request_id, error.is_retryable) == ("bad-request", "r", False)


def stream(*events: dict[str, Any] | str) -> list[bytes]:
    texts = [event if isinstance(event, str) else msgspec.json.encode(event).decode() for event in events]
    return ["".join(f"data: {text}\n\n" for text in texts).encode()]


def added(at: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": at, "item": item}


def done(at: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": at, "item": item}


def delta(kind: str, at: int, text: str, **keys: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": at, "delta": text, **keys}


MESSAGE = {"type": "message", "id": "msg_1", "role": "assistant"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "n"}
TEXT = {"type": "output_text", "text": "Hello"}
END = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": []}}


class TestDecodeStream:
    def test_gives_fragments_and_the_whole(self) -> None:
        *chunks, last = decode_stream(
            stream(
                added(0, type="reasoning", id="rs_1", summary=[]),
                delta("reasoning_summary_text", 0, "Why", summary_index=0),
                done(0, type="reasoning", id="rs_1", summary=[{"type": "summary_text", "text": "Why"}]),
                added(1, **MESSAGE, content=[]),
                delta("output_text", 1, "Hel", content_index=0),
                delta("output_text", 1, "lo", content_index=0),
                done(1, **MESSAGE, content=[TEXT]),
                added(2, **CALL, arguments=""),
                delta("function_call_arguments", 2, '{"a"'),
                delta("function_call_arguments", 2, ":1}"),
                done(2, **CALL, arguments='{"a":1}'),
                END,
                "[DONE]",
            ),
            provider="openai",
        )
        assert chunks == [
            ReasoningDelta("Why"),
            TextDelta("Hel"),
            TextDelta("lo"),
            ToolInputDelta("call_1", "n", ""),
            ToolInputDelta("call_1", "n", '{"a"'),
            ToolInputDelta("call_1", "n", ":1}"),
        ]
        assert isinstance(last, Finished)
        assert (last.reply.finish_reason, last.reply.response_id, len(last.reply.parts)) == ("tool-calls", "resp_1", 3)

    def test_an_item_that_comes_at_once_is_shown(self) -> None:
        items = [done(0, **MESSAGE, content=[TEXT]), done(1, **CALL, arguments="{}")]
        chunks = list(decode_stream(stream(*items, END), provider="xai"))
        assert chunks[:-1] == [TextDelta("Hello"), ToolInputDelta("call_1", "n", "{}")]

    def test_the_end_counts_where_it_says_more(self) -> None:
        end = {**END, "response": {"status": "completed", "output": [{**MESSAGE, "content": [TEXT]}]}}
        last = list(decode_stream(stream(end), provider="openai"))[-1]
        assert isinstance(last, Finished)
        assert [part.text for part in last.reply.parts if isinstance(part, Text)] == ["Hello"]

    @pytest.mark.parametrize(
        ("event", "error_class", "message"),
        [
            ({"type": "error", "code": "server_error", "message": "Broke."}, "transient", "Broke."),
            ({"type": "error", "error": {"type": "rate_limit_error", "message": "Slow."}}, "rate-limit", "Slow."),
            (
                {
                    "type": "response.failed",
                    "response": {"status": "failed", "error": {"code": "context_length_exceeded", "message": "Long."}},
                },
                "context-length",
                "Long.",
            ),
            ("oops", "transient", None),
            (None, "transient", None),
        ],
    )
    def test_what_came_before_an_error_is_kept(
        self, event: dict[str, Any] | str | None, error_class: str, message: str | None
    ) -> None:
        begun = [
            added(0, **MESSAGE, content=[]),
            delta("output_text", 0, "Hel", content_index=0),
            added(1, **CALL, arguments=""),
            delta("function_call_arguments", 1, '{"a"'),
        ]
        with pytest.raises(ProviderError) as caught:
            list(decode_stream(stream(*begun, *([event] if event else [])), provider="openai"))
        error = caught.value
        assert error.error_class == error_class
        assert message is None or error.message == message
        assert [part.text for part in error.partial.parts] == ["Hel"]
        assert error.partial.finish_reason == "error"

    def test_nothing_came_before_the_first_event(self) -> None:
        with pytest.raises(ProviderError) as caught:
            list(decode_stream([], provider="openai"))
        assert caught.value.partial is None


@pytest.fixture(scope="module")
def sandbox() -> Iterator[memory.sandbox.Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


class TestAgainstTheSandbox:
    def test_a_turn_with_reasoning_and_a_call_is_answered_and_continued(self, sandbox: memory.sandbox.Sandbox) -> None:
        connection = Connection("openai", "openai-responses", f"{sandbox.url}/openai/v1", "any-key")
        tools = (Tool("look_up", "", {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}),)
        extra = {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"], "store": False}
        settings = Settings("gpt-5", tools=tools, extra=extra)
        asked = user(Text("Please look_up"))
        with Client() as client:
            encoded = encode_request(Prompt((asked,)), settings, provider="openai")
            exchange = client.call(connection, encoded)
            reply = decode_reply(msgspec.json.decode(exchange.body), provider="openai")
            streamed = client.call(connection, as_stream(encoded, provider="openai"))
            last = list(decode_stream([streamed.body], provider="openai"))[-1]
            assert isinstance(last, Finished)
            assert len(last.reply.parts) == len(reply.parts) == 2
            call = reply.parts[1]
            assert isinstance(call, ToolCall)
            history = Prompt(
                (
                    asked,
                    Message("assistant", reply.parts),
                    Message("tool", (ToolResult(call.id, call.name, Output("text", "done")),)),
                )
            )
            stored = to_prompt(from_prompt(history))
            answered = client.call(connection, encode_request(stored, settings, provider="openai"))
        assert answered.status == 200, answered.text
        assert decode_reply(msgspec.json.decode(answered.body), provider="openai").finish_reason == "stop"
