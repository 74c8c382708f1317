from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from memory.errors import ProviderError
from memory.messages.prompt import Message, Prompt, Text
from memory.providers import bedrock_converse
from memory.providers.http import Client, Connection
from memory.providers.wire import Reply, Settings, Tool
from memory.sandbox import Sandbox

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "us.amazon.nova-lite-v1:0"
KIMI = "moonshot.kimi-k2-thinking"
KEY = {"authorization": "Bearer any"}
TOOLS = {"tools": [{"toolSpec": {"name": "weather", "inputSchema": {"json": {"type": "object"}}}}]}
USER = {"role": "user", "content": [{"text": "Hello"}]}
USE = {"toolUse": {"toolUseId": "t", "name": "weather", "input": {}}}
RESULT = {"toolResult": {"toolUseId": "t", "content": [{"text": "r"}]}}
POINT = {"cachePoint": {"type": "default"}}
DOCUMENT = {"document": {"name": "Notes", "format": "txt", "source": {"bytes": "eA=="}}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm"}}}
IN_S3 = {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://a/b"}}}}


def path(model_id: str, *, streams: bool = False) -> str:
    return f"/bedrock/model/{quote(model_id, safe='')}/converse" + ("-stream" if streams else "")


def post(client: httpx.Client, *messages: dict[str, Any], model: str = NOVA, **body: Any) -> httpx.Response:
    return client.post(path(model), json={"messages": list(messages), **body}, headers=KEY)


def answered(*content: dict[str, Any], before: dict[str, Any] = USE) -> list[dict[str, Any]]:
    return [USER, {"role": "assistant", "content": [before]}, {"role": "user", "content": list(content)}]


class TestRefusals:
    @pytest.mark.parametrize(
        ("messages", "said"),
        [
            (
                answered(RESULT),
                "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
            ),
            (
                [{"role": "user", "content": [{"text": " \n"}]}],
                "The text field in the ContentBlock object at messages.0.content.0 is blank. Add text to the text"
                " field, and try again.",
            ),
            (
                [USER, {"role": "assistant", "content": []}],
                "The content field in the Message object at messages.1 is empty. Add a ContentBlock object to the"
                " content field and try again.",
            ),
            ([{"role": "user", "content": [DOCUMENT]}], "A text block must be included when using documents."),
            (
                [{"role": "assistant", "content": [{"text": "a"}]}],
                "A conversation must start with a user message. Try again with a conversation that starts with a user"
                " message.",
            ),
            (
                [USER, USER],
                "A conversation must alternate between user and assistant roles. Make sure the conversation alternates"
                " between user and assistant roles and try again.",
            ),
        ],
    )
    def test_use_the_vendors_words(self, client: httpx.Client, messages: list[dict[str, Any]], said: str) -> None:
        response = post(client, *messages)
        assert (response.status_code, response.json()) == (400, {"message": said})
        assert response.headers["x-amzn-errortype"] == "ValidationException"

    @pytest.mark.parametrize(
        ("messages", "said"),
        [
            (
                [USER, {"role": "assistant", "content": [USE]}],
                "Expected toolResult blocks at messages.2.content for the following Ids: t",
            ),
            (answered({"text": "a"}), "Expected toolResult blocks at messages.2.content for the following Ids: t"),
            (
                answered(RESULT, RESULT),
                "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks of previous"
                " turn.",
            ),
            (
                [USER, {"role": "assistant", "content": [USE, USE]}, {"role": "user", "content": [RESULT, RESULT]}],
                "The toolUse blocks at messages.1.content contain duplicate Ids: t",
            ),
        ],
    )
    def test_keep_calls_and_results_paired(
        self, client: httpx.Client, messages: list[dict[str, Any]], said: str
    ) -> None:
        response = post(client, *messages, toolConfig=TOOLS)
        assert (response.status_code, response.json()["message"]) == (400, said)

    @pytest.mark.parametrize(
        ("use", "member", "said"),
        [
            ({"toolUseId": "a" * 65}, "toolUseId", "Member must have length less than or equal to 64"),
            ({"toolUseId": ""}, "toolUseId", "Member must have length greater than or equal to 1"),
            (
                {"toolUseId": "a b"},
                "toolUseId",
                "Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+",
            ),
            ({"name": "a" * 65}, "name", "Member must have length less than or equal to 64"),
            ({"name": "a.b"}, "name", "Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"),
            ({"type": "tool_use"}, "type", "Member must satisfy enum value set: [server_tool_use]"),
        ],
    )
    def test_name_the_member(self, client: httpx.Client, use: dict[str, Any], member: str, said: str) -> None:
        call = {"toolUse": {**USE["toolUse"], **use}}
        response = post(client, *answered(RESULT, before=call), toolConfig=TOOLS)
        place = f"messages.2.member.content.1.member.toolUse.{member}"
        assert response.json() == {"message": f"Value at '{place}' failed to satisfy constraint: {said}"}

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ([{"text": "a", "extra": 1}], "#/messages/0/content/0: extraneous key [extra] is not permitted"),
            ([{"new": {}}], "#/messages/0/content/0: extraneous key [new] is not permitted"),
            ([{"text": 1}], "#/messages/0/content/0/text: expected type: String"),
            ([{"image": {"format": "png", "source": {}}}], "#/messages/0/content/0/image/source: exactly one of"),
            ([{"image": {"format": "tiff", "source": {"bytes": "eA=="}}}], "enum value set: [gif, jpeg, png, webp]"),
            ([{"text": "a"}, {"document": {**DOCUMENT["document"], "name": "a.txt"}}], "The document file name"),
            ([{"text": "a"}, DOCUMENT, DOCUMENT], "The document names of a request must differ: Notes"),
        ],
    )  # fmt: skip
    def test_refuse_unknown_shapes(self, client: httpx.Client, content: list[dict[str, Any]], said: str) -> None:
        response = post(client, {"role": "user", "content": content})
        assert response.status_code == 400
        assert said in response.json()["message"]

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"stream": True}, "#: extraneous key [stream] is not permitted"),
            ({"toolConfig": {}}, "Value at 'toolConfig.tools' failed to satisfy constraint: Member must not be null"),
            ({"inferenceConfig": {"maxTokens": 0}}, "value greater than or equal to 1"),
            ({"inferenceConfig": {"temperature": "0"}}, "#/inferenceConfig/temperature"),
            ({"toolConfig": {**TOOLS, "toolChoice": {"none": {}}}}, "#/toolConfig/toolChoice: extraneous key [none]"),
            ({"system": [{"text": " "}]}, "The text field in the SystemContentBlock object at system.0 is blank."),
        ],
    )
    def test_refuse_unknown_settings(self, client: httpx.Client, body: dict[str, Any], said: str) -> None:
        response = post(client, USER, **body)
        assert response.status_code == 400
        assert said in response.json()["message"]

    def test_tell_models_apart(self, client: httpx.Client) -> None:
        def said(model: str, *messages: dict[str, Any], **body: Any) -> str:
            response = post(client, *messages, model=model, **body)
            return "" if response.status_code == 200 else str(response.json()["message"])

        signed = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2lnbmVk" * 8}}}
        turns = [USER, {"role": "assistant", "content": [signed, {"text": "a"}]}, USER]
        unsigned = [USER, {"role": "assistant", "content": [THOUGHT, {"text": "a"}]}, USER]
        sealed = {"reasoningContent": {"redactedContent": "c2VhbGVk"}}
        closed = [USER, {"role": "assistant", "content": [sealed, {"text": "a"}]}, USER]
        field = "reasoningContent.reasoningText.signature"
        assert said(CLAUDE, *turns) == said(KIMI, *unsigned) == said("openai.gpt-5.6-sol", *closed) == ""
        assert said(NOVA, *turns) == f"This model doesn't support the {field} field. Remove {field} and try again."
        assert "Invalid `signature` in `thinking` block" in said(CLAUDE, *unsigned)
        assert "redactedContent" in said(NOVA, *closed)
        assert said(CLAUDE, {"role": "user", "content": [{"text": "a"}, IN_S3]}).startswith(
            "This model doesn't support the s3Uri"
        )
        marked = [{"role": "user", "content": [{"text": "a"}, POINT] * 5}]
        assert "A maximum of 4 blocks with cache_control may be provided. Found 5." in said(CLAUDE, *marked)
        assert said(NOVA, *marked) == ""

    @pytest.mark.parametrize("model", ["us.does-not-exist-model-v1:0", "gpt-4o", "us.amazon.nova-micro-v1:O"])
    def test_know_no_such_model(self, client: httpx.Client, model: str) -> None:
        assert post(client, USER, model=model).json() == {"message": "The provided model identifier is invalid."}

    def test_ask_for_a_key(self, client: httpx.Client) -> None:
        response = client.post(path(NOVA), json={"messages": [USER]})
        assert (response.status_code, response.headers["x-amzn-errortype"]) == (403, "AccessDeniedException")

    def test_a_line_break_before_a_cache_point_is_accepted(self, client: httpx.Client) -> None:
        content = [{"text": "a"}, DOCUMENT, {"text": "\n"}, POINT]
        assert post(client, {"role": "user", "content": content}).status_code == 200
        assert post(client, {"role": "user", "content": [{"text": "a"}, {"text": "\n"}, POINT]}).status_code == 400


class TestScripts:
    @pytest.mark.parametrize(
        ("status", "kind", "error_class", "is_retryable"),
        [
            (429, "ThrottlingException", "rate-limit", True),
            (503, "ServiceUnavailableException", "overloaded", True),
            (500, "InternalServerException", "transient", True),
            (424, "ModelErrorException", "transient", False),
            (403, "AccessDeniedException", "authentication", False),
        ],
    )
    def test_fail_as_the_vendor_does(
        self, sandbox: Sandbox, client: httpx.Client, status: int, kind: str, error_class: str, is_retryable: bool
    ) -> None:
        sandbox.script("bedrock", status=status)
        response = post(client, USER)
        error = bedrock_converse.decode_error(status, response.headers, response.text, provider="bedrock")
        assert (response.status_code, error.error_code, error.error_class) == (status, kind, error_class)
        assert error.is_retryable == is_retryable

    def test_break_streams_off(self, sandbox: Sandbox) -> None:
        sandbox.script("bedrock", drop="mid")
        prompt = Prompt((Message("user", (Text("Hello there, how are you today?"),)),))
        whole = bedrock_converse.encode_request(prompt, Settings(NOVA), provider="bedrock")
        encoded = bedrock_converse.as_stream(whole, provider="bedrock")
        connection = Connection("bedrock", bedrock_converse.PROTOCOL, f"{sandbox.url}/bedrock", key="any")
        with Client() as caller, caller.stream(connection, encoded) as answer, pytest.raises(ProviderError) as raised:
            list(bedrock_converse.decode_stream(answer, provider="bedrock"))
        assert raised.value.error_class == "connection"
        assert raised.value.partial.parts[0].text.startswith("You said: Hello")


SETTINGS = [
    Settings(NOVA),
    Settings(NOVA, tools=(Tool("weather", "", {"type": "object", "properties": {"city": {}}, "required": ["city"]}),)),
    Settings(CLAUDE, extra={"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}),
    Settings(KIMI, extra={"additionalModelRequestFields": {"reasoning_config": "high"}}),
    Settings("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0"),
]


class TestConversation:
    @pytest.mark.parametrize("settings", SETTINGS)
    def test_whole_and_streamed_answers_are_one_and_go_on(self, sandbox: Sandbox, settings: Settings) -> None:
        prompt = Prompt((Message("user", (Text("Use weather for Oslo, please"),)),))
        encoded = bedrock_converse.encode_request(prompt, settings, provider="bedrock")
        with Client() as caller:
            connection = Connection("bedrock", bedrock_converse.PROTOCOL, f"{sandbox.url}/bedrock", key="any")
            whole = caller.call(connection, encoded)
            parts = caller.call(connection, bedrock_converse.as_stream(encoded, provider="bedrock"))
            assert (whole.status, parts.headers["content-type"]) == (200, "application/vnd.amazon.eventstream")
            reply = bedrock_converse.decode_reply(json.loads(whole.body), provider="bedrock")
            assert last_of(parts.body) == reply
            assert reply.finish_reason == ("tool-calls" if settings.tools else "stop")
            if settings.tools:
                return
            turns = (*prompt.messages, Message("assistant", reply.parts), Message("user", (Text("And again"),)))
            again = bedrock_converse.encode_request(Prompt(turns), settings, provider="bedrock")
            assert caller.call(connection, again).status == 200

    def test_signatures_hold_for_their_model_and_text_alone(self, client: httpx.Client) -> None:
        thinking = {"additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}}}
        message = post(client, USER, model=CLAUDE, **thinking).json()["output"]["message"]
        other = "us.anthropic.claude-opus-4-1-20250805-v1:0"
        assert post(client, USER, message, USER, model="anthropic.claude-sonnet-4-5").status_code == 200
        assert post(client, USER, message, USER, model=other).status_code == 400
        message["content"][0]["reasoningContent"]["reasoningText"]["text"] += " "
        assert post(client, USER, message, USER, model=CLAUDE).status_code == 400


def last_of(raw: bytes) -> Reply:
    reply: Reply = list(bedrock_converse.decode_stream([raw], provider="bedrock"))[-1].reply  # type: ignore[union-attr]
    return reply


class TestRecordedRequests:
    def test_are_answered_or_refused_as_recorded(self, client: httpx.Client, recordings_dir: Path) -> None:
        changed, answered_count, refused_count = [], 0, 0
        for line in (recordings_dir / "bedrock.jsonl").read_bytes().splitlines():
            exchange = json.loads(line)
            if exchange["protocol"] != bedrock_converse.PROTOCOL or exchange["request"] is None:
                continue
            asked = path(exchange["model"], streams=exchange["stream"])
            response = client.post(asked, json=exchange["request"], headers=KEY)
            if response.status_code != exchange["status"]:
                changed.append((exchange["id"], response.text))
            elif response.status_code == 200:
                answered_count += 1
            else:
                refused_count += 1
                assert response.json() == exchange["response"], exchange["id"]
        assert changed == []
        assert (answered_count >= 118, refused_count >= 6) == (True, True)
