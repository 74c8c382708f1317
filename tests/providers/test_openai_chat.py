from __future__ import annotations

from typing import Any

import pytest

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers.openai_chat import decode_reply, decode_request, encode_request
from memory.providers.wire import Settings, Tool
from tests.providers.payloads import at, body_of, payload
from tests.recordings.compare import differences


def encode(*messages: Message, provider: str = "openai", settings: Settings | None = None) -> dict[str, Any]:
    return body_of(encode_request(Prompt(messages), settings or Settings("m"), provider=provider))


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


class TestRoundTrip:
    @pytest.mark.parametrize(("provider", "name"), [("openai", "every_part"), ("cerebras", "reasoning")])
    def test_every_part_comes_back_as_it_was(self, provider: str, name: str) -> None:
        sent = payload(provider, name)
        imported = decode_request(sent, provider=provider)
        again = body_of(encode_request(imported.prompt, imported.settings, provider=provider))
        assert differences("openai-chat", sent, again) == []

    def test_invalid_arguments_go_back_letter_by_letter(self) -> None:
        messages = decode_request(payload("openai", "every_part"), provider="openai").prompt.messages
        call = next(m for m in messages if m.role == "assistant").parts[1]
        assert isinstance(call, ToolCall)
        assert call.input == '{"row": 4'
        written = encode(assistant(call))["messages"][0]["tool_calls"][0]
        assert written["function"]["arguments"] == '{"row": 4'

    def test_arguments_that_were_repaired_are_written_as_json(self) -> None:
        call = ToolCall("c", "n", {"row": 4}, options={"openai": {"rawArguments": True}})
        assert encode(assistant(call))["messages"][0]["tool_calls"][0]["function"]["arguments"] == '{"row":4}'

    def test_neighbouring_results_are_one_message_of_the_prompt(self) -> None:
        messages = decode_request(payload("openai", "every_part"), provider="openai").prompt.messages
        assert [len(m.parts) for m in messages if m.role == "tool"] == [3]

    def test_a_late_developer_message_stays_in_place(self) -> None:
        sent = {"messages": [{"role": "user", "content": "a"}, {"role": "developer", "content": "b"}]}
        prompt = decode_request(sent, provider="openai").prompt
        assert [m.role for m in prompt.messages] == ["user", "user"]
        assert [m["role"] for m in encode(*prompt.messages)["messages"]] == ["user", "developer"]

    def test_a_part_we_do_not_know_goes_back_to_its_provider_only(self) -> None:
        sent = {
            "messages": [
                {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://a.invalid"}}]}
            ]
        }
        prompt = decode_request(sent, provider="qwen").prompt
        assert encode(*prompt.messages, provider="qwen")["messages"] == sent["messages"]
        assert encode(*prompt.messages, provider="cerebras")["messages"][0]["content"] == []

    def test_a_reply_goes_back_as_it_came(self) -> None:
        parts = decode_reply(payload("cerebras", "reply"), provider="cerebras").parts
        assert encode(assistant(*parts), provider="cerebras")["messages"] == [
            {"role": "assistant", "content": "7", "reasoning": "4 + 3."}
        ]


class TestReasoning:
    @pytest.mark.parametrize(
        ("provider", "key"),
        [("cerebras", "reasoning"), ("deepseek", "reasoning_content"), ("openai", None), ("mistral", None)],
    )
    def test_is_spelt_as_the_provider_wants_it(self, provider: str, key: str | None) -> None:
        message = encode(assistant(Reasoning("why"), Text("a")), provider=provider)["messages"][0]
        assert message == {"role": "assistant", "content": "a"} | ({key: "why"} if key else {})

    def test_another_spelling_goes_back_to_its_provider_only(self) -> None:
        sent = {"messages": [{"role": "assistant", "content": "a", "reasoning_content": "why"}]}
        prompt = decode_request(sent, provider="cerebras").prompt
        assert encode(*prompt.messages, provider="cerebras")["messages"] == sent["messages"]
        assert encode(*prompt.messages, provider="groq")["messages"][0]["reasoning"] == "why"

    def test_a_stored_name_reaches_no_other_key(self) -> None:
        part = Reasoning("why", {"cerebras": {"field": "tool_calls"}})
        assert "tool_calls" not in encode(assistant(part, Text("a")), provider="cerebras")["messages"][0]


class TestEncode:
    def test_a_lone_text_is_a_string(self) -> None:
        assert encode(user(Text("a")))["messages"][0]["content"] == "a"
        assert encode(user(Text("a"), Text("b")))["messages"][0]["content"] == [
            {"type": "text", "text": "a"},
            {"type": "text", "text": "b"},
        ]

    def test_a_turn_of_calls_has_null_content(self) -> None:
        message = encode(assistant(ToolCall("c", "n", {})))["messages"][0]
        assert message["content"] is None

    def test_each_result_is_a_message(self) -> None:
        results = [ToolResult(f"c{k}", "n", Output("json", {"k": k})) for k in range(2)]
        assert encode(Message("tool", tuple(results)))["messages"] == [
            {"role": "tool", "tool_call_id": "c0", "content": '{"k":0}'},
            {"role": "tool", "tool_call_id": "c1", "content": '{"k":1}'},
        ]

    @pytest.mark.parametrize(
        ("file", "part"),
        [
            (File("image/png", "AAAA"), {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
            (
                File("image/*", "https://a.invalid/b"),
                {"type": "image_url", "image_url": {"url": "https://a.invalid/b"}},
            ),
            (File("audio/wav", "AAAA"), {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
            (
                File("application/pdf", "AAAA", "t.pdf"),
                {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "t.pdf"}},
            ),
        ],
    )
    def test_a_file_is_written_by_its_type(self, file: File, part: dict[str, Any]) -> None:
        assert encode(user(Text("a"), file))["messages"][0]["content"][1] == part

    def test_the_output_limit_has_the_providers_name(self) -> None:
        settings = Settings("m", max_tokens=5)
        assert encode(user(Text("a")), settings=settings)["max_completion_tokens"] == 5
        assert encode(user(Text("a")), settings=settings, provider="deepseek")["max_tokens"] == 5

    def test_a_tool_from_another_protocol_is_written_from_its_fields(self) -> None:
        raw = {"name": "n", "input_schema": {"type": "object"}, "defer_loading": True}
        tool = Tool("n", "d", {"type": "object"}, raw)
        assert encode(user(Text("a")), settings=Settings("m", tools=(tool,)))["tools"] == [
            {"type": "function", "function": {"name": "n", "description": "d", "parameters": {"type": "object"}}}
        ]

    def test_a_tool_another_provider_runs_is_refused(self) -> None:
        tool = Tool("", raw={"type": "web_search_20250305", "name": "web_search"})
        with pytest.raises(EncodingError, match=r"tools\[0\]"):
            encode(user(Text("a")), settings=Settings("m", tools=(tool,)))

    @pytest.mark.parametrize(
        ("message", "place"),
        [
            (assistant(Text("a"), ToolCall("c", "web_search", {}, True)), r"messages\[0\].content\[1\]"),
            (assistant(File("image/png", "AAAA")), r"messages\[0\].content\[0\]"),
            (user(File("application/pdf", "https://a.invalid/b.pdf")), r"messages\[0\].content\[0\]"),
            (user(ToolCall("c", "n", {})), r"messages\[0\].content\[0\]"),
            (Message("tool", (Text("a"),)), r"messages\[0\].content\[0\]"),
            (assistant(ToolCall("c", "n", {"half": "\ud83d"})), r"messages\[0\].content\[0\]"),
        ],
    )
    def test_names_the_place_of_what_it_cannot_say(self, message: Message, place: str) -> None:
        with pytest.raises(EncodingError, match=place):
            encode(message)

    def test_places_point_at_their_parts(self) -> None:
        imported = decode_request(payload("openai", "every_part"), provider="openai")
        encoded = encode_request(imported.prompt, imported.settings, provider="openai")
        body = body_of(encoded)
        for i, message in enumerate(imported.prompt.messages):
            assert at(body, encoded.places[i, -1])["role"]
            for j, part in enumerate(message.parts):
                value = at(body, encoded.places[i, j])
                match part:
                    case Text() if part.text and message.role != "system":
                        assert part.text in (value, value["text"] if isinstance(value, dict) else value)
                    case ToolCall():
                        assert value["id"] == part.id
                    case ToolResult():
                        assert value["tool_call_id"] == part.call_id

    def test_reasoning_that_is_not_sent_has_no_place(self) -> None:
        prompt = Prompt((assistant(Reasoning("why"), Text("a")),))
        places = encode_request(prompt, Settings("m"), provider="openai").places
        assert dict(places) == {(0, -1): "/messages/0", (0, 1): "/messages/0/content"}


class TestDecode:
    @pytest.mark.parametrize(
        ("messages", "field"),
        [
            ([{"role": "function", "content": "a"}], "messages[0].role"),
            ([{"role": "user", "content": 3}], "messages[0].content"),
            ([{"role": "tool", "content": "a"}], "messages[0].tool_call_id"),
            ([{"role": "assistant", "tool_calls": [{}]}], "messages[0].tool_calls[0].function"),
            ([{"role": "assistant", "tool_calls": "x"}], "messages[0].tool_calls"),
        ],
    )
    def test_names_the_place_of_what_is_wrong(self, messages: list[Any], field: str) -> None:
        with pytest.raises(InvalidInput) as caught:
            decode_request({"messages": messages}, provider="openai")
        assert caught.value.errors[0].field == field


class TestReply:
    def test_reads_text_calls_and_usage(self) -> None:
        reply = decode_reply(payload("openai", "reply"), provider="openai")
        text, call = reply.parts
        assert isinstance(text, Text)
        assert text.options is not None and text.options["openai"]["annotations"]
        assert call == ToolCall("call_9", "seat", {"row": 4})
        usage = reply.usage
        assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens) == (50, 9, 40, 3)
        assert reply.finish_reason == "tool-calls"

    @pytest.mark.parametrize(
        ("message", "reason", "finish"),
        [
            ({"content": "a"}, "stop", "stop"),
            ({"content": "a"}, "length", "length"),
            ({"content": None, "refusal": "No."}, "stop", "refusal"),
            ({"content": "a"}, "content_filter", "content-filter"),
            ({"content": "a"}, "", "other"),
            ({"tool_calls": [{"id": "c", "function": {"name": "n", "arguments": "{}"}}]}, "", "tool-calls"),
        ],
    )
    def test_says_why_it_ended(self, message: dict[str, Any], reason: str, finish: str) -> None:
        body = {"choices": [{"message": message, "finish_reason": reason}]}
        assert decode_reply(body, provider="openai").finish_reason == finish

    def test_an_error_that_came_as_an_answer_is_one(self) -> None:
        with pytest.raises(ProviderError, match="slow down") as caught:
            decode_reply({"error": {"code": 429, "message": "slow down"}}, provider="openrouter")
        assert (caught.value.status_code, caught.value.error_class) == (429, "rate-limit")

    @pytest.mark.parametrize(
        "body", [{}, {"choices": []}, {"choices": [3]}, {"choices": [{"message": {"tool_calls": [{"id": 3}]}}]}]
    )
    def test_an_answer_that_cannot_be_read_is_an_error(self, body: dict[str, Any]) -> None:
        with pytest.raises(ProviderError, match="can't be read"):
            decode_reply(body, provider="openai")


class TestListRoles:
    """Where a host takes lists from some roles only, the texts of the others are one."""

    PROMPT = Prompt(
        (
            user(Text("a"), Text("b")),
            assistant(Text("c"), Text("d"), ToolCall("1", "find", {})),
            Message(
                "tool",
                (ToolResult("1", "find", Output("content", [{"type": "text", "text": t} for t in ("e", "f")])),),
            ),
            assistant(Text("g")),
        )
    )

    @pytest.mark.parametrize(
        ("provider", "said", "found"),
        [("openai", list, list), ("groq", list, "e\nf"), ("deepinfra", "c\nd", "e\nf")],
    )
    def test_decide_what_is_joined(self, provider: str, said: Any, found: Any) -> None:
        encoded = encode_request(self.PROMPT, Settings("m"), provider=provider)
        asked, called, result, answered = body_of(encoded)["messages"]
        assert isinstance(asked["content"], list) and answered["content"] == "g"
        assert called["content"] == said or type(called["content"]) is said
        assert result["content"] == found or type(result["content"]) is found
        assert called["tool_calls"][0]["id"] == "1"

    @pytest.mark.parametrize("provider", ["openai", "groq", "deepinfra"])
    def test_leave_every_place_where_the_part_is(self, provider: str) -> None:
        encoded = encode_request(self.PROMPT, Settings("m"), provider=provider)
        body = body_of(encoded)
        for (i, j), pointer in encoded.places.items():
            if j >= 0 and isinstance(part := self.PROMPT.messages[i].parts[j], Text):
                there = at(body, pointer)
                assert part.text in (there if isinstance(there, str) else there["text"])
