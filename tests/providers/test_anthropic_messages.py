from __future__ import annotations

from typing import Any

import pytest

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult, prompt_to_json
from memory.providers.anthropic_messages import MAX_TOKENS, decode_reply, decode_request, encode_request
from memory.providers.wire import Settings, Tool
from tests.providers.payloads import at, body_of, payload
from tests.recordings.compare import differences


def encode(*messages: Message, settings: Settings | None = None) -> dict[str, Any]:
    return body_of(encode_request(Prompt(messages), settings or Settings("m"), provider="anthropic"))


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


class TestRoundTrip:
    def test_every_block_comes_back_as_it_was(self) -> None:
        sent = payload("anthropic", "every_block")
        imported = decode_request(sent, provider="anthropic")
        again = body_of(encode_request(imported.prompt, imported.settings, provider="anthropic"))
        assert differences("anthropic-messages", sent, again) == []
        # Beside the tolerances of the comparison: the shape of the list of messages is the same too.
        assert [m["role"] for m in again["messages"]] == [m["role"] for m in sent["messages"]]

    def test_results_first_is_one_message_again(self) -> None:
        sent = {
            "model": "m",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": "b"}],
                },
            ],
        }
        imported = decode_request(sent, provider="anthropic")
        assert [m.role for m in imported.prompt.messages] == ["user", "assistant", "tool", "user"]
        assert len(encode(*imported.prompt.messages)["messages"]) == 3

    def test_a_user_message_of_its_own_stays_one(self) -> None:
        result = Message("tool", (ToolResult("t", "n", Output("text", "r")),))
        body = encode(user(Text("a")), assistant(ToolCall("t", "n", {})), result, user(Text("b")))
        assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user", "user"]

    def test_what_only_conversion_parted_is_one_message(self) -> None:
        hosted = ToolCall("srvtoolu_1", "web_search", {}, True)
        parted = Message("assistant", (Text("found"),), parted=True)
        assert len(encode(user(Text("a")), assistant(hosted), parted)["messages"]) == 2
        assert len(encode(user(Text("a")), assistant(hosted), assistant(Text("found")))["messages"]) == 3

    def test_a_system_turn_between_the_turns_stays_in_place(self) -> None:
        sent = {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}
        prompt = decode_request(sent, provider="anthropic").prompt
        assert prompt_to_json(prompt)[1]["role"] == "user"
        assert [m["role"] for m in encode(*prompt.messages)["messages"]] == ["user", "system"]

    def test_a_reply_goes_back_as_it_came(self) -> None:
        reply = payload("anthropic", "reply")
        parts = decode_reply(reply, provider="anthropic").parts
        assert encode(user(Text("a")), assistant(*parts))["messages"][1]["content"] == reply["content"]


class TestEncode:
    def test_reasoning_without_a_signature_stays_without(self) -> None:
        body = encode(user(Text("a")), assistant(Reasoning("why"), Text("b")))
        assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "why"}

    def test_an_empty_signature_is_kept(self) -> None:
        body = encode(assistant(Reasoning("", {"anthropic": {"signature": ""}})))
        assert body["messages"][0]["content"][0] == {"type": "thinking", "thinking": "", "signature": ""}

    @pytest.mark.parametrize(
        ("output", "content", "is_error"),
        [
            (Output("text", "x"), "x", None),
            (Output("json", {"a": 10**24 + 1}), '{"a":1000000000000000000000001}', None),
            (Output("error-text", "x"), "x", True),
            (Output("error-json", {"a": 1}), '{"a":1}', True),
            (Output("content", [{"type": "text", "text": "x"}]), [{"type": "text", "text": "x"}], None),
        ],
    )
    def test_an_outcome_is_written(self, output: Output, content: Any, is_error: bool | None) -> None:
        block = encode(Message("tool", (ToolResult("t", "n", output),)))["messages"][0]["content"][0]
        assert (block["content"], block.get("is_error")) == (content, is_error)

    def test_the_output_limit_is_required_by_the_protocol(self) -> None:
        assert encode(user(Text("a")))["max_tokens"] == MAX_TOKENS
        assert encode(user(Text("a")), settings=Settings("m", max_tokens=5))["max_tokens"] == 5

    def test_a_cache_marker_of_a_message_stands_on_its_last_block(self) -> None:
        marker = {"type": "ephemeral"}
        body = encode(Message("user", (Text("a"), Text("b")), {"anthropic": {"cacheControl": marker}}))
        assert [block.get("cache_control") for block in body["messages"][0]["content"]] == [None, marker]

    def test_a_shared_cache_marker_stands_where_it_came_from(self) -> None:
        shared = {"anthropic": {"cacheControl": {"type": "ephemeral"}, "cacheOnResult": True}}
        result = ToolResult("t", "n", Output("text", "r"), options=shared)
        body = encode(assistant(ToolCall("t", "n", {}, options=shared)), Message("tool", (result,)))
        assert "cache_control" not in body["messages"][0]["content"][0]
        assert "cache_control" in body["messages"][1]["content"][0]

    def test_a_renamed_tool_keeps_its_further_keys(self) -> None:
        tool = Tool("new", "", {"type": "object"}, {"name": "old", "input_schema": {"type": "object"}, "strict": True})
        assert encode(user(Text("a")), settings=Settings("m", tools=(tool,)))["tools"] == [
            {"name": "new", "input_schema": {"type": "object"}, "strict": True}
        ]

    def test_a_block_of_another_protocol_is_its_text(self) -> None:
        said = Text("seen", {"openai": {"block": {"type": "video_url"}}})
        unseen = Text("", {"openai": {"block": {"type": "video_url"}}})
        assert encode(user(said, unseen))["messages"][0]["content"] == [{"type": "text", "text": "seen"}]

    def test_further_keys_never_replace_known_ones(self) -> None:
        text = Text("a", {"anthropic": {"extra": {"type": "image", "text": "b", "kept": 1}}})
        assert encode(user(text))["messages"][0]["content"] == [{"type": "text", "text": "a", "kept": 1}]

    def test_how_it_travels_is_not_its_matter(self) -> None:
        assert "stream" not in encode(user(Text("a")), settings=Settings("m", extra={"stream": True}))

    @pytest.mark.parametrize(
        ("message", "place"),
        [
            (user(Text("a"), File("audio/mpeg", "SUQz")), r"messages\[0\].content\[1\]"),
            (user(File("text/plain", "no base64!")), r"messages\[0\].content\[0\]"),
            (user(Reasoning("a")), r"messages\[0\].content\[0\]"),
            (assistant(ToolResult("t", "n", Output("json", {}))), r"messages\[0\].content\[0\]"),
            (user(Text("half \ud83d")), "JSON"),
        ],
    )
    def test_names_the_place_of_what_it_cannot_say(self, message: Message, place: str) -> None:
        with pytest.raises(EncodingError, match=place):
            encode(message)

    def test_places_point_at_their_parts(self) -> None:
        imported = decode_request(payload("anthropic", "every_block"), provider="anthropic")
        encoded = encode_request(imported.prompt, imported.settings, provider="anthropic")
        body = body_of(encoded)
        for i, message in enumerate(imported.prompt.messages):
            assert at(body, encoded.places[i, -1])
            for j, part in enumerate(message.parts):
                block = at(body, encoded.places[i, j])
                match part:
                    case Text() if part.text:
                        assert part.text in (block.get("text"), block.get("content"))
                    case ToolCall():
                        assert block["id"] == part.id
                    case ToolResult():
                        assert block["tool_use_id"] == part.call_id


class TestDecode:
    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"messages": 3}, "messages"),
            ({"messages": ["a"]}, "messages[0]"),
            ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages[0].content[0].text"),
            ({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}, "messages[0].content[0].id"),
            ({"messages": [], "max_tokens": "many"}, "max_tokens"),
            ({"messages": [], "tools": [1]}, "tools[0]"),
            ({"messages": [], "system": 1}, "system"),
        ],
    )
    def test_names_the_place_of_what_is_wrong(self, body: dict[str, Any], field: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            decode_request(body, provider="anthropic")
        assert caught.value.errors[0].field == field

    def test_unsigned_thinking_still_says_whose_it_is(self) -> None:
        body = {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "a"}]}]}
        part = decode_request(body, provider="anthropic").prompt.messages[0].parts[0]
        assert part.options == {"anthropic": {}}

    def test_a_result_knows_name_and_arguments_of_its_call(self) -> None:
        messages = decode_request(payload("anthropic", "every_block"), provider="anthropic").prompt.messages
        result = next(m for m in messages if m.role == "tool").parts[0]
        assert isinstance(result, ToolResult)
        assert (result.name, result.input) == ("timetable", {"to": "Bergen", "big": 10**24 + 1})


class TestReply:
    def test_counts_what_the_cache_gave_as_input(self) -> None:
        reply = decode_reply(payload("anthropic", "reply"), provider="anthropic")
        usage = (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens)
        assert (usage, reply.finish_reason, reply.response_id) == ((115, 100, 7), "tool-calls", "msg_1")

    @pytest.mark.parametrize(
        ("reason", "finish"),
        [
            ("end_turn", "stop"),
            ("max_tokens", "length"),
            ("refusal", "refusal"),
            ("pause_turn", "pause"),
            (None, "other"),
        ],
    )
    def test_says_why_it_ended(self, reason: str | None, finish: str) -> None:
        assert decode_reply({"content": [], "stop_reason": reason}, provider="anthropic").finish_reason == finish

    def test_an_error_that_came_as_an_answer_is_one(self) -> None:
        body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        with pytest.raises(ProviderError, match="Overloaded") as caught:
            decode_reply(body, provider="anthropic")
        assert caught.value.error_class == "overloaded"

    @pytest.mark.parametrize("body", [{}, {"content": "text"}, {"content": [3]}, {"content": [{"type": "tool_use"}]}])
    def test_an_answer_that_cannot_be_read_is_an_error(self, body: dict[str, Any]) -> None:
        with pytest.raises(ProviderError, match="can't be read") as caught:
            decode_reply(body, provider="anthropic")
        assert caught.value.is_retryable
