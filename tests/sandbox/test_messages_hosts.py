"""DeepSeek's and Moonshot's endpoints of Anthropic's protocol: what they refuse, and what goes there."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from memory.messages.names import ModelRef
from memory.messages.prompt import Message, Origin, Output, Part, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.processors import Switches
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for
from memory.providers import anthropic_messages
from memory.providers.calls import request_for
from memory.providers.wire import Settings
from memory.sandbox import Sandbox

MODELS = {"deepseek": "deepseek-v4-pro", "moonshot": "kimi-k2.6"}
KEY = {"x-api-key": "any"}
THOUGHT = {"type": "thinking", "thinking": "Hm"}
USE = {"type": "tool_use", "id": "call_00_a", "name": "find", "input": {"q": 1}}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_00_a", "content": "found"}]}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


def ask(client: httpx.Client, provider: str, *messages: Any, **more: Any) -> httpx.Response:
    body = {"model": MODELS[provider], "max_tokens": 100, "messages": [*messages], **more}
    return client.post(f"/{provider}/anthropic/v1/messages", json=body, headers=KEY)


def called(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [*blocks, USE]}


ASKED = {"role": "user", "content": "Find it"}


class TestRefusals:
    @pytest.mark.parametrize(
        ("provider", "message"),
        [
            ("deepseek", "The `content[].thinking` in the thinking mode must be passed back to the API."),
            (
                "moonshot",
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 1",
            ),
        ],
    )
    def test_are_of_calls_without_their_thinking(self, client: httpx.Client, provider: str, message: str) -> None:
        refused = ask(client, provider, ASKED, called(), RESULT)
        assert (refused.status_code, refused.json()["error"]["message"]) == (400, message)
        assert ask(client, provider, ASKED, called(THOUGHT), RESULT).status_code == 200
        assert ask(client, provider, ASKED, called(), RESULT, thinking={"type": "disabled"}).status_code == 200

    def test_differ_where_thinking_is_empty(self, client: httpx.Client) -> None:
        empty = called({"type": "thinking", "thinking": ""})
        assert ask(client, "deepseek", ASKED, empty, RESULT).status_code == 200
        assert ask(client, "moonshot", ASKED, empty, RESULT).status_code == 400

    @pytest.mark.parametrize("provider", MODELS)
    def test_are_the_protocols_own_too(self, client: httpx.Client, provider: str) -> None:
        for messages in ([ASKED, called(THOUGHT)], [ASKED, RESULT], [{"role": "user", "content": ""}], ["x"], []):
            assert ask(client, provider, *messages).status_code == 400
        for odd in ({"model": 5}, {"model": ""}, {"thinking": "on"}, {"max_tokens": None}):
            assert ask(client, provider, ASKED, **odd).status_code == 400
        without_key = client.post(f"/{provider}/anthropic/v1/messages", json={})
        assert without_key.status_code == 401

    def test_of_deepseek_are_of_what_it_can_not_see(self, client: httpx.Client) -> None:
        seen = {"role": "user", "content": [IMAGE, {"type": "text", "text": "What is it?"}]}
        assert ask(client, "deepseek", seen).status_code == 400
        assert ask(client, "deepseek", seen, model="deepseek-flash").status_code == 200
        result = {"type": "tool_result", "tool_use_id": USE["id"], "content": [IMAGE]}
        assert ask(client, "deepseek", ASKED, called(THOUGHT), {"role": "user", "content": [result]}).status_code == 400
        sealed = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
        assert ask(client, "deepseek", ASKED, sealed, ASKED).status_code == 400


def sent(provider: str, *parts: Part, origin: Origin | None) -> tuple[Any, list[str]]:
    """A thread with a tool call as a request to a host, and the rules that changed it."""
    model = ModelRef(provider, MODELS[provider])
    call = ToolCall("call_1", "find", {"q": 1})
    turn = Message("assistant", (*parts, call), origin=origin)
    found = Message("tool", (ToolResult("call_1", "find", Output("text", "found")),))
    prompt = Prompt((Message("user", (Text("Find it"),)), turn, found))
    profile = profile_for(model, anthropic_messages.PROTOCOL)
    fresh = Call(model_id=model.model_id, settings={}, declared=frozenset())
    prompt, changes, _, _ = run_steps(CATALOGUE, prompt, profile, Switches(), tool_names=[], call=fresh)
    settings = Settings(model.model_id, max_tokens=100)
    encoded = request_for(provider, anthropic_messages.PROTOCOL, prompt, settings, needs=fresh.needs)
    return encoded, [change.rule for change in changes]


class TestThreads:
    @pytest.mark.parametrize("provider", MODELS)
    def test_of_others_get_the_filler(self, client: httpx.Client, provider: str) -> None:
        thought = Reasoning("secret", {"anthropic": {"signature": "x" * 40}}, origin=Origin("anthropic", "", "claude"))
        encoded, rules = sent(provider, thought, origin=Origin("anthropic", "", "claude"))
        response = client.post(f"/{provider}/v1{encoded.path}", content=encoded.body, headers=KEY)
        assert response.status_code == 200, response.text
        assert b"secret" not in encoded.body
        assert rules == ["any-reasoning", f"{provider}-reasoning-required"]

    @pytest.mark.parametrize("provider", MODELS)
    def test_of_its_own_go_back_as_they_are(self, client: httpx.Client, provider: str) -> None:
        own = Origin(provider, anthropic_messages.PROTOCOL, MODELS[provider])
        encoded, rules = sent(provider, Reasoning("own words", origin=own), origin=own)
        response = client.post(f"/{provider}/v1{encoded.path}", content=encoded.body, headers=KEY)
        assert response.status_code == 200, response.text
        assert b'"thinking":"own words"' in encoded.body and rules == []

    @pytest.mark.parametrize("provider", MODELS)
    def test_go_on_from_what_the_host_answered(self, sandbox: Sandbox, client: httpx.Client, provider: str) -> None:
        tool = {"name": "find", "input_schema": {"type": "object"}}
        body = ask(client, provider, {"role": "user", "content": "find"}, tools=[tool]).json()
        reply = anthropic_messages.decode_reply(body, provider=provider)
        assert [type(part) for part in reply.parts] == [Reasoning, ToolCall]
        results = [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "found"}
            for block in body["content"]
            if block["type"] == "tool_use"
        ]
        turn = {"role": "assistant", "content": body["content"]}
        again = ask(client, provider, ASKED, turn, {"role": "user", "content": results})
        assert again.status_code == 200, again.text
