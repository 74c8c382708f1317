from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.prompt import File, Message, Output, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.providers.gemini_contents import as_stream, decode_reply, decode_request, decode_stream, encode_request
from memory.providers.wire import Chunk, Finished, ReasoningDelta, Reply, Settings, TextDelta, Tool, ToolInputDelta
from tests.providers.payloads import at, body_of, payload
from tests.recordings.compare_gemini import differences
from tests.recordings.test_roundtrip import through_the_store

SETTINGS = Settings("gemini-3-flash-preview")


def encode(*messages: Message, settings: Settings = SETTINGS) -> dict[str, Any]:
    return body_of(encode_request(Prompt(messages), settings, provider="gemini"))


def contents(*messages: Message) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = encode(*messages)["contents"]
    return found


def user(*parts: Any) -> Message:
    return Message("user", parts)


def assistant(*parts: Any) -> Message:
    return Message("assistant", parts)


def imported(*found: dict[str, Any]) -> tuple[Message, ...]:
    return decode_request({"contents": list(found)}, provider="gemini").prompt.messages


def model(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}, **more}}


def response(name: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": value or {"ok": True}, **more}}


def replied(*parts: dict[str, Any], **more: Any) -> Reply:
    candidate = {"content": {"parts": list(parts), "role": "model"}, "finishReason": "STOP", **more}
    return decode_reply({"candidates": [candidate], "responseId": "r-1"}, provider="gemini")


class TestRoundTrip:
    @pytest.mark.parametrize(("provider", "name"), [("gemini", "every_part"), ("vertex", "snake_case")])
    @pytest.mark.parametrize("is_stored", [False, True])
    def test_every_part_comes_back_as_it_was(self, provider: str, name: str, is_stored: bool) -> None:
        sent = payload(provider, name)
        found = decode_request(sent, provider=provider)
        prompt = through_the_store(found.prompt) if is_stored else found.prompt
        settings = msgspec.structs.replace(found.settings, model_id="m")
        again = body_of(encode_request(prompt, settings, provider=provider))
        if is_stored:
            # The store keeps no empty text beside others.
            sent["contents"][0]["parts"] = [part for part in sent["contents"][0]["parts"] if part != {"text": ""}]
        assert differences(sent, again, was_stored=is_stored) == []

    def test_what_came_in_snake_case_goes_out_in_camel_case_but_for_the_users_own_keys(self) -> None:
        found = decode_request(payload("vertex", "snake_case"), provider="vertex")
        body = encode(*found.prompt.messages, settings=msgspec.structs.replace(found.settings, model_id="m"))
        assert body["contents"][1]["parts"] == [
            {"functionCall": {"name": "find_lamp", "args": {"snake_key": 1}}, "thoughtSignature": "c2lnLXNuYWtl"}
        ]
        assert body["contents"][2]["parts"][0]["functionResponse"]["response"] == {"lamp_id": None}
        assert body["generationConfig"]["maxOutputTokens"] == 50

    def test_a_reply_goes_back_as_it_came_without_what_stood_beside_it(self) -> None:
        reply = payload("gemini", "reply")
        parts = decode_reply(reply, provider="gemini").parts
        assert contents(assistant(*parts)) == [reply["candidates"][0]["content"]]

    def test_a_part_we_do_not_know_goes_back(self) -> None:
        sent = model({"hologram": {"angle_deg": 3}, "text": "visible"})
        (message,) = imported(sent)
        assert message.text == "visible"
        assert contents(message) == [sent]

    def test_options_of_other_tools_under_vertex_are_read(self) -> None:
        part = ToolCall("c", "f", {}, options={"vertex": {"thoughtSignature": "czE="}})
        assert contents(assistant(part))[0]["parts"][0]["thoughtSignature"] == "czE="


class TestCallIds:
    def test_that_were_not_there_are_never_sent(self) -> None:
        sent = [said("a"), model(call("f"), call("f")), {"role": "user", "parts": [response("f"), response("f")]}]
        messages = imported(*sent)
        assert contents(*messages) == sent
        first, second = messages[1].parts
        assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
        assert [part.call_id for part in messages[2].parts if isinstance(part, ToolResult)] == [first.id, second.id]
        assert first.id != second.id

    def test_of_a_reply_differ_from_those_of_another_and_are_the_same_again(self) -> None:
        body = payload("gemini", "reply")
        ids = [part.id for part in decode_reply(body, provider="gemini").parts if isinstance(part, ToolCall)]
        assert ids == [p.id for p in decode_reply(body, provider="gemini").parts if isinstance(p, ToolCall)]
        other = decode_reply({**body, "responseId": "r-2"}, provider="gemini")
        assert len({*ids, *(part.id for part in other.parts if isinstance(part, ToolCall))}) == 4

    def test_a_result_without_options_goes_without_id_as_its_call_did(self) -> None:
        made = replied(call("f")).parts[0]
        assert isinstance(made, ToolCall)
        result = Message("tool", (ToolResult(made.id, "f", Output("text", "ok")),))
        assert contents(assistant(made), result)[1]["parts"] == [
            {"functionResponse": {"name": "f", "response": {"result": "ok"}}}
        ]

    def test_of_others_are_sent_with_call_and_result(self) -> None:
        result = Message("tool", (ToolResult("toolu_1", "f", Output("json", {"a": 1})),))
        sent = contents(assistant(ToolCall("toolu_1", "f", {})), result)
        assert sent[0]["parts"][0]["functionCall"]["id"] == "toolu_1"
        assert sent[1]["parts"][0]["functionResponse"]["id"] == "toolu_1"

    def test_that_only_the_response_has_come_back(self) -> None:
        sent = [said("a"), model(call("f")), {"role": "user", "parts": [response("f", id="mine")]}]
        assert contents(*imported(*sent)) == sent

    def test_responses_out_of_order_find_their_calls_by_name(self) -> None:
        sent = [said("a"), model(call("f"), call("g")), {"role": "user", "parts": [response("g"), response("f")]}]
        messages = imported(*sent)
        ids = {part.name: part.id for part in messages[1].parts if isinstance(part, ToolCall)}
        results = [part for part in messages[2].parts if isinstance(part, ToolResult)]
        assert [(r.name, r.call_id) for r in results] == [("g", ids["g"]), ("f", ids["f"])]

    def test_a_response_without_call_is_kept(self) -> None:
        sent = [said("a"), {"role": "user", "parts": [response("f")]}]
        assert contents(*imported(*sent)) == sent


class TestResults:
    @pytest.mark.parametrize(
        ("output", "written"),
        [
            (Output("text", "ok"), {"result": "ok"}),
            (Output("json", {"a": [None]}), {"a": [None]}),
            (Output("json", [1, 2]), {"result": [1, 2]}),
            (Output("json", None), {"result": None}),
            (Output("error-text", "no"), {"error": "no"}),
            (Output("error-json", {"code": 3}), {"error": {"code": 3}}),
            (Output("content", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), {"result": "a\nb"}),
        ],
    )
    def test_are_objects(self, output: Output, written: Any) -> None:
        sent = contents(Message("tool", (ToolResult("c", "f", output),)))
        assert sent[0]["parts"][0]["functionResponse"]["response"] == written

    def test_files_stand_beside_the_object(self) -> None:
        items = [
            {"type": "text", "text": "here"},
            {"type": "media", "data": "aGk=", "mediaType": "image/png"},
            {"type": "media", "data": "https://a.invalid/b.png", "mediaType": "image/png"},
        ]
        sent = contents(Message("tool", (ToolResult("c", "f", Output("content", items)),)))
        assert sent[0]["parts"][0]["functionResponse"] == {
            "id": "c",
            "name": "f",
            "response": {"result": "here"},
            "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                {"fileData": {"mimeType": "image/png", "fileUri": "https://a.invalid/b.png"}},
            ],
        }

    def test_in_neighbouring_messages_are_one_content(self) -> None:
        results = [Message("tool", (ToolResult(name, "f", Output("text", name)),)) for name in ("a", "b")]
        assert [len(content["parts"]) for content in contents(*results)] == [2]

    def test_that_came_in_two_contents_stay_so(self) -> None:
        sent = [said("a"), model(call("f"), call("f")), *({"role": "user", "parts": [response("f")]} for _ in "ab")]
        assert contents(*imported(*sent)) == sent


class TestProviderRunTools:
    PAIR = (
        {"toolCall": {"id": "t", "toolType": "FILE_SEARCH", "args": {}}, "thoughtSignature": "YQ=="},
        {"toolResponse": {"id": "t", "toolType": "FILE_SEARCH", "response": {"n": 1}}, "thoughtSignature": "Yg=="},
    )

    def test_are_calls_with_their_results(self) -> None:
        first, second = imported(model(*self.PAIR))[0].parts
        assert isinstance(first, ToolCall) and isinstance(second, ToolResult)
        assert (first.name, first.provider_executed, second.output) == ("FILE_SEARCH", True, Output("json", {"n": 1}))

    def test_apart_from_each_other_they_are_blocks_and_keep_their_order(self) -> None:
        sent = model(self.PAIR[0], {"text": "wait"}, self.PAIR[1])
        assert [type(part) for part in imported(sent)[0].parts] == [Text, Text, Text]
        assert contents(*through_the_store(Prompt(imported(sent))).messages) == [sent]

    def test_beside_calls_that_wait_stay_in_their_content_when_stored(self) -> None:
        sent = [said("a"), model(call("f", id="c"), *self.PAIR), {"role": "user", "parts": [response("f", id="c")]}]
        assert contents(*through_the_store(Prompt(imported(*sent))).messages) == sent

    def test_of_other_providers_have_no_part(self) -> None:
        hosted = ToolCall("srvtoolu_1", "web_search", {}, True)
        with pytest.raises(EncodingError, match=r"messages\[0\]\.content\[0\]"):
            encode(assistant(hosted))
        with pytest.raises(EncodingError, match=r"messages\[0\]\.content\[0\]"):
            encode(assistant(ToolResult("srvtoolu_1", "web_search", Output("json", []))))


class TestSignatures:
    def test_stay_on_their_parts(self) -> None:
        sent = model(
            {"text": "why", "thought": True, "thoughtSignature": "MQ=="},
            {"text": "because", "thoughtSignature": "Mg=="},
            {**call("f"), "thoughtSignature": "Mw_-"},
            call("g"),
        )
        assert contents(*imported(sent)) == [sent]

    def test_that_come_alone_outlive_the_store(self) -> None:
        sent = model({"text": "a"}, {"text": "", "thoughtSignature": "MQ=="})
        assert contents(*through_the_store(Prompt(imported(sent))).messages) == [sent]

    def test_of_a_call_are_not_written_on_its_result(self) -> None:
        options = {"google": {"thoughtSignature": "MQ=="}}
        sent = contents(Message("tool", (ToolResult("c", "f", Output("text", ""), options=options),)))
        assert sent[0]["parts"][0].keys() == {"functionResponse"}


class TestFiles:
    def test_are_inline_or_named_by_their_address(self) -> None:
        parts = (File("image/png", "data:image/png;base64,aGk="), File("video/mp4", "gs://b/c.mp4"))
        assert contents(user(*parts))[0]["parts"] == [
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/c.mp4"}},
        ]

    def test_without_a_type_are_kept_as_blocks(self) -> None:
        sent = {"role": "user", "parts": [{"fileData": {"fileUri": "https://a.invalid/files/x"}}]}
        assert contents(*imported(sent)) == [sent]


class TestSettings:
    def test_are_read_from_where_the_vendor_puts_them(self) -> None:
        settings = decode_request(payload("gemini", "every_part"), provider="gemini").settings
        assert (settings.temperature, settings.top_p, settings.max_tokens, settings.stop) == (0.2, 0.9, 300, ("END",))
        assert settings.tool_choice == {"type": "tool", "toolName": "draw"}
        assert settings.extra["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}
        assert settings.extra["toolConfig"] == {"includeServerSideToolInvocations": True}
        assert [tool.name for tool in settings.tools] == ["", "read_log", "lamp.state", "draw"]

    def test_go_where_the_vendor_wants_them(self) -> None:
        schema = {"type": "object"}
        settings = Settings(
            "gemini-2.5-pro",
            max_tokens=9,
            tools=(Tool("f", "d", schema), Tool("", raw={"googleSearch": {}})),
            tool_choice="required",
            extra={"generation_config": {"topK": 4}, "labels": {"a": "b"}},
        )
        assert encode(user(Text("a")), settings=settings) == {
            "contents": [{"role": "user", "parts": [{"text": "a"}]}],
            "tools": [
                {
                    "functionDeclarations": [
                        {"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}
                    ]
                },
                {"googleSearch": {}},
            ],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
            "generationConfig": {"maxOutputTokens": 9, "topK": 4},
            "labels": {"a": "b"},
        }

    @pytest.mark.parametrize(
        "extra", [{"contents": []}, {"systemInstruction": {}}, {"generationConfig": {"topP": 1}}, {"toolConfig": 3}]
    )
    def test_that_are_said_twice_or_wrongly_raise(self, extra: dict[str, Any]) -> None:
        with pytest.raises(EncodingError, match=r"settings\.extra"):
            encode(user(Text("a")), settings=Settings("m", top_p=0.5, extra=extra))

    @pytest.mark.parametrize("raw", [{"type": "web_search_20250305", "name": "web_search"}, {"type": "mcp"}, None])
    def test_tools_that_others_run_raise(self, raw: dict[str, Any] | None) -> None:
        with pytest.raises(EncodingError, match="another provider"):
            encode(user(Text("a")), settings=Settings("m", tools=(Tool("", raw=raw),)))

    def test_a_renamed_tool_keeps_its_further_keys(self) -> None:
        tool = decode_request(payload("gemini", "every_part"), provider="gemini").settings.tools[2]
        renamed = msgspec.structs.replace(tool, name="lamp_state")
        body = encode(user(Text("a")), settings=Settings("m", tools=(renamed,)))
        assert body["tools"][0]["functionDeclarations"] == [
            {"name": "lamp_state", "behavior": "NON_BLOCKING", "parameters": {"type": "OBJECT", "properties": {}}}
        ]


class TestPaths:
    @pytest.mark.parametrize(
        ("model_id", "path"),
        [
            ("gemini-2.5-pro", "/models/gemini-2.5-pro"),
            ("models/gemini-2.5-pro", "/models/gemini-2.5-pro"),
            ("tunedModels/mine", "/tunedModels/mine"),
            ("a b?c", "/models/a%20b%3Fc"),
        ],
    )
    def test_name_the_model(self, model_id: str, path: str) -> None:
        encoded = encode_request(Prompt((user(Text("a")),)), Settings(model_id), provider="gemini")
        assert encoded.path == f"{path}:generateContent"
        streamed = as_stream(encoded, provider="gemini")
        assert streamed.path == f"{path}:streamGenerateContent?alt=sse"
        assert streamed.body == encoded.body

    @pytest.mark.parametrize("model_id", ["", "models/..", "a//b", "../x"])
    def test_without_a_name_raise(self, model_id: str) -> None:
        with pytest.raises(EncodingError, match=r"settings\.model_id"):
            encode_request(Prompt(()), Settings(model_id), provider="gemini")


class TestPlaces:
    def test_point_at_what_was_written(self) -> None:
        prompt = decode_request(payload("gemini", "every_part"), provider="gemini").prompt
        encoded = encode_request(prompt, SETTINGS, provider="gemini")
        body = body_of(encoded)
        for i, message in enumerate(prompt.messages):
            at(body, encoded.places[i, -1])
            for j, part in enumerate(message.parts):
                written = at(body, encoded.places[i, j])
                if isinstance(part, Text) and part.text:
                    assert written["text"] == part.text
                if isinstance(part, ToolCall) and not part.provider_executed:
                    assert written["functionCall"]["name"] == part.name

    def test_are_named_by_errors(self) -> None:
        with pytest.raises(EncodingError, match=r"messages\[1\]: system"):
            encode(user(Text("a")), Message("system", "b"))
        with pytest.raises(EncodingError, match=r"messages\[0\]\.content\[0\]"):
            encode(user(Reasoning("hm")))

    @pytest.mark.parametrize(
        ("body", "place"),
        [
            ({"contents": [{"role": "bot", "parts": []}]}, r"contents\[0\]\.role"),
            ({"contents": [{"parts": ["a"]}]}, r"contents\[0\]\.parts\[0\]"),
            ({"contents": "a"}, "contents"),
            ({"contents": [model({"functionCall": {"args": {}}})]}, r"contents\[0\]\.parts\[0\]\.functionCall\.name"),
            ({"systemInstruction": "be brief"}, "systemInstruction"),
        ],
    )
    def test_are_named_by_errors_of_reading(self, body: dict[str, Any], place: str) -> None:
        with pytest.raises(InvalidInput, match=place):
            decode_request(body, provider="gemini")


class TestReplies:
    def test_count_thoughts_as_output_and_tools_as_input(self) -> None:
        usage = decode_reply(payload("gemini", "reply"), provider="gemini").usage
        assert (usage.input_tokens, usage.output_tokens) == (25, 18)
        assert (usage.cached_tokens, usage.reasoning_tokens) == (8, 11)

    def test_keep_what_stands_beside_the_parts(self) -> None:
        last = decode_reply(payload("gemini", "reply"), provider="gemini").parts[-1]
        assert last.options is not None
        assert last.options["google"]["reply"] == {"groundingMetadata": {"webSearchQueries": ["lamps"]}}

    @pytest.mark.parametrize(
        ("finish", "parts", "expected"),
        [
            ("STOP", [{"text": "a"}], "stop"),
            ("STOP", [call("f")], "tool-calls"),
            ("UNEXPECTED_TOOL_CALL", [call("f")], "tool-calls"),
            ("MAX_TOKENS", [{"text": "a"}], "length"),
            ("SAFETY", [], "content-filter"),
            ("MODEL_ARMOR", [], "content-filter"),
            ("MALFORMED_FUNCTION_CALL", [], "error"),
            ("SOMETHING_NEW", [{"text": "a"}], "other"),
        ],
    )
    def test_end_for_a_reason(self, finish: str, parts: list[dict[str, Any]], expected: str) -> None:
        assert replied(*parts, finishReason=finish).finish_reason == expected

    def test_to_a_blocked_prompt_are_empty(self) -> None:
        reply = decode_reply({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, provider="gemini")
        assert (reply.parts, reply.finish_reason) == ((), "content-filter")

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"candidates": []},
            {"candidates": [{"content": {"parts": [3]}}]},
            {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}},
        ],
    )
    def test_that_are_none_raise(self, body: dict[str, Any]) -> None:
        with pytest.raises(ProviderError) as raised:
            decode_reply(body, provider="gemini")
        assert raised.value.is_retryable


def stream(*chunks: Any, size: int = 4096) -> list[Chunk]:
    raw = b"".join(b"data: " + msgspec.json.encode(chunk) + b"\r\n\r\n" for chunk in chunks)
    pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
    return list(decode_stream(pieces, provider="gemini"))


def chunk(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts), "role": "model"}, **more}], "responseId": "r-1"}


def fragment(path: str, **value: Any) -> dict[str, Any]:
    goes_on = {"willContinue": True} if value.pop("goes_on", False) else {}
    return {"functionCall": {"partialArgs": [{"jsonPath": path, **value, **goes_on}], "willContinue": True}}


def finished(chunks: Sequence[Chunk]) -> Reply:
    assert isinstance(chunks[-1], Finished)
    return chunks[-1].reply


class TestStreams:
    def test_end_as_the_whole_answer(self) -> None:
        whole = payload("gemini", "reply")
        parts = whole["candidates"][0]["content"]["parts"]
        head = {key: value for key, value in whole.items() if key != "candidates"}
        pieces = [
            {"text": "Count ", "thought": True},
            {"text": "the lamps.", "thought": True},
            {"text": "Two "},
            {"text": "lamps."},
            {"text": "", "thoughtSignature": "c2lnLXJlcGx5"},
            *parts[2:],
        ]
        last = {key: value for key, value in whole["candidates"][0].items() if key != "content"}
        chunks = [{**head, **chunk(part)} for part in pieces] + [{**head, **chunk({"text": ""}, **last)}]
        expected = decode_reply(whole, provider="gemini")
        for size in (1, 7, 4096):
            found = stream(*chunks, size=size)
            assert finished(found) == expected
            assert found[:4] == [
                ReasoningDelta("Count "),
                ReasoningDelta("the lamps."),
                TextDelta("Two "),
                TextDelta("lamps."),
            ]
            calls = [part for part in expected.parts if isinstance(part, ToolCall)]
            assert found[4:-1] == [ToolInputDelta(made.id, "count", '{"what":"lamps"}') for made in calls]

    def test_two_signatures_make_two_texts(self) -> None:
        found = finished(
            stream(
                chunk({"text": "a", "thoughtSignature": "MQ=="}),
                chunk({"text": "b"}),
                chunk({"text": "c", "thoughtSignature": "Mg=="}, finishReason="STOP"),
            )
        )
        assert [part.text for part in found.parts if isinstance(part, Text)] == ["ab", "c"]

    def test_put_arguments_together_by_their_paths(self) -> None:
        found = stream(
            chunk({"functionCall": {"name": "f", "willContinue": True}, "thoughtSignature": "MQ=="}),
            chunk(fragment("$.rows[0].name", stringValue="le", goes_on=True)),
            chunk(fragment("$.rows[0].name", stringValue="mon")),
            chunk(fragment("$.rows[0]['a b']", numberValue=2)),
            chunk(fragment("$.rows[1].name", boolValue=True)),
            chunk(fragment("$.none", nullValue="NULL_VALUE")),
            chunk({"functionCall": {}}),
            chunk({"functionCall": {"name": "g"}}, finishReason="STOP"),
        )
        first, second = finished(found).parts
        assert isinstance(first, ToolCall) and isinstance(second, ToolCall)
        assert first.input == {"rows": [{"name": "lemon", "a b": 2}, {"name": True}], "none": None}
        assert first.options is not None and first.options["google"]["thoughtSignature"] == "MQ=="
        assert (second.name, second.input) == ("g", {})
        assert found[0] == ToolInputDelta(first.id, "f", "")

    def test_a_call_without_its_last_fragment_is_complete_when_the_answer_is(self) -> None:
        found = stream(
            chunk({"functionCall": {"name": "f", "willContinue": True}}),
            chunk(fragment("$.a", stringValue="b")),
            chunk({"text": ""}, finishReason="STOP"),
        )
        (part,) = finished(found).parts
        assert isinstance(part, ToolCall) and part.input == {"a": "b"}

    @pytest.mark.parametrize("path", ["a", "$", "$.a[100000]", "$.a.b", "$[0]"])
    def test_a_fragment_that_has_no_place_raises(self, path: str) -> None:
        with pytest.raises(ProviderError, match="can't be read") as raised:
            stream(
                chunk({"functionCall": {"name": "f", "willContinue": True}}),
                chunk(fragment("$.a", numberValue=1)),
                chunk(fragment(path, stringValue="b")),
            )
        assert raised.value.is_retryable

    @pytest.mark.parametrize("is_listed", [False, True])
    def test_an_error_within_is_classified_and_keeps_what_came(self, is_listed: bool) -> None:
        error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
        with pytest.raises(ProviderError) as raised:
            stream(chunk({"text": "Two "}), [error] if is_listed else error)
        assert (raised.value.error_class, raised.value.is_retryable) == ("overloaded", True)
        assert raised.value.partial.parts == (Text("Two "),)

    def test_without_a_finish_reason_are_broken(self) -> None:
        with pytest.raises(ProviderError) as raised:
            stream(chunk({"text": "a"}), chunk({"functionCall": {"name": "f", "willContinue": True}}))
        assert raised.value.is_retryable
        assert raised.value.partial.parts == (Text("a"),)
        with pytest.raises(ProviderError) as raised:
            stream()
        assert raised.value.partial is None

    def test_a_blocked_prompt_is_an_end(self) -> None:
        assert finished(stream({"promptFeedback": {"blockReason": "SAFETY"}})).finish_reason == "content-filter"

    @pytest.mark.parametrize("bad", [3, {"candidates": [3]}, {"candidates": [{"content": {"parts": {}}}]}])
    def test_what_can_not_be_read_raises(self, bad: Any) -> None:
        with pytest.raises(ProviderError):
            stream(bad)
