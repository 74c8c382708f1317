from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory.messages.prompt import Message, Prompt, Text
from memory.providers import cohere_v2
from memory.providers.http import Client, Connection
from memory.providers.wire import Finished, Settings, Tool
from memory.sandbox import Sandbox

PATH = "/cohere/v2/chat"
KEY = {"authorization": "Bearer any"}
CALL = {"id": "t", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
TURN = {"role": "assistant", "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "t", "content": "r"}
USER = {"role": "user", "content": "Hello"}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}


def post(client: httpx.Client, *messages: Any, **body: Any) -> httpx.Response:
    return client.post(PATH, json={"model": "command-a-03-2025", "messages": list(messages), **body}, headers=KEY)


class TestRefusals:
    @pytest.mark.parametrize(
        ("messages", "said"),
        [
            (
                [USER, TURN],
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
                " 'tool_call_id'.",
            ),
            (
                [USER, TURN, USER],
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
                " 'tool_call_id'.",
            ),
            ([USER, {"role": "assistant", "content": ""}, USER], "all elements in history must have a message."),
            (
                [{"role": "user", "content": ""}],
                "message must be at least 1 token long or tool results must be specified.",
            ),
            ([USER, RESULT], "messages[1].tool_call_id answers no call of the turn before."),
        ],
    )
    def test_use_the_vendors_words(self, client: httpx.Client, messages: list[Any], said: str) -> None:
        response = post(client, *messages)
        assert (response.status_code, response.json()["message"]) == (400, f"invalid request: {said}")

    @pytest.mark.parametrize(
        ("message", "said"),
        [
            ({"role": "developer", "content": "a"}, "messages[0].role must be one of"),
            ({**USER, "name": "a"}, "unknown field messages[0].name"),
            ({"role": "user", "content": [{"type": "file"}]}, "messages[0].content[0].type must be one of"),
            ({"role": "user", "content": [{"type": "thinking", "thinking": "a"}]}, "must be one of image_url, text"),
            (
                {"role": "assistant", "tool_calls": [{**CALL, "index": 0}]},
                "unknown field messages[0].tool_calls[0].index",
            ),
            (
                {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "n", "arguments": "[1]"}}]},
                "messages[0].tool_calls[0].function.arguments must be a JSON object",
            ),
        ],
    )
    def test_refuse_unknown_shapes(self, client: httpx.Client, message: Any, said: str) -> None:
        response = post(client, message)
        assert response.status_code == 400
        assert said in response.json()["message"]

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"top_p": 0.5}, "unknown field top_p"),
            ({"message": "v1"}, "unknown field message"),
            ({"tools": [TOOL], "tool_choice": "auto"}, "tool_choice must be one of REQUIRED, NONE"),
            ({"tools": [{"type": "function", "function": {"name": "n"}}]}, "tools[0].function.parameters"),
        ],
    )
    def test_refuse_unknown_settings(self, client: httpx.Client, body: dict[str, Any], said: str) -> None:
        assert said in post(client, USER, **body).json()["message"]

    def test_ask_for_a_key(self, client: httpx.Client) -> None:
        response = client.post(PATH, json={"model": "m", "messages": [USER]})
        assert (response.status_code, response.json()["message"]) == (401, "no api key supplied")

    def test_accept_an_answered_call_without_text(self, client: httpx.Client) -> None:
        assert post(client, USER, TURN, RESULT).status_code == 200


class TestConversation:
    @pytest.mark.parametrize(
        "settings",
        [
            Settings("command-a-03-2025"),
            Settings("command-a-reasoning-08-2025"),
            Settings(
                "command-a-03-2025",
                tools=(Tool("weather", "", {"type": "object", "properties": {"city": {}}, "required": ["city"]}),),
            ),
        ],
    )
    def test_whole_and_streamed_answers_are_one_and_go_on(self, sandbox: Sandbox, settings: Settings) -> None:
        prompt = Prompt((Message("user", (Text("Use weather for Oslo, please"),)),))
        encoded = cohere_v2.encode_request(prompt, settings, provider="cohere")
        with Client() as caller:
            connection = Connection("cohere", cohere_v2.PROTOCOL, f"{sandbox.url}/cohere/v2", key="any")
            whole = caller.call(connection, encoded)
            reply = cohere_v2.decode_reply(json.loads(whole.body), provider="cohere")
            parts = caller.call(connection, cohere_v2.as_stream(encoded, provider="cohere"))
            *chunks, last = cohere_v2.decode_stream([parts.body], provider="cohere")
            assert isinstance(last, Finished)
            # Ids are made from the bytes of the request, which differ in `stream`.
            assert [type(part) for part in last.reply.parts] == [type(part) for part in reply.parts]
            assert chunks
            assert reply.finish_reason == ("tool-calls" if settings.tools else "stop")
            if settings.tools:
                return
            turns = (*prompt.messages, Message("assistant", reply.parts), Message("user", (Text("And again"),)))
            again = cohere_v2.encode_request(Prompt(turns), settings, provider="cohere")
            assert caller.call(connection, again).status == 200


class TestRecordedRequests:
    def test_are_answered(self, client: httpx.Client, recordings_dir: Path) -> None:
        count = 0
        for line in (recordings_dir / "cohere.jsonl").read_bytes().splitlines():
            exchange = json.loads(line)
            if exchange["protocol"] == cohere_v2.PROTOCOL and exchange["request"] is not None:
                response = client.post(PATH, json=exchange["request"], headers=KEY)
                assert response.status_code == 200, (exchange["id"], response.text)
                count += 1
        assert count >= 5
