"""What is sent fits the request types of the vendors' own client libraries."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from memory.providers import wire_module
from tests.sandbox.demo_threads import TARGETS, request_to, turns
from tests.sdk.differences import unfit
from tests.sdk.validators import validator

PROVIDERS = {"openai-chat": "openai", "openai-responses": "openai"}
"""Files that are not named by their provider."""
SAMPLE = 3
"""One recorded request in so many is tried, unless all are asked for."""
# By file and protocol how many requests were answered.
ANSWERED = {
    ("anthropic", "anthropic-messages"): 163,
    ("azure", "openai-chat"): 1,
    ("azure", "openai-responses"): 1,
    ("bedrock", "anthropic-messages"): 1,
    ("bedrock", "bedrock-converse"): 118,
    ("bedrock", "openai-responses"): 8,
    ("cerebras", "openai-chat"): 7,
    ("cohere", "cohere-v2"): 5,
    ("deepseek", "openai-chat"): 4,
    ("deepseek", "openai-responses"): 5,
    ("gemini", "gemini-contents"): 191,
    ("gemini", "openai-chat"): 2,
    ("groq", "openai-chat"): 33,
    ("huggingface", "openai-chat"): 9,
    ("mistral", "openai-chat"): 26,
    ("ollama", "openai-chat"): 2,
    ("openai-chat", "openai-chat"): 86,
    ("openai-responses", "openai-responses"): 154,
    ("openrouter", "openai-chat"): 34,
    ("openrouter", "openai-responses"): 1,
    ("other", "openai-chat"): 7,
    ("vertex", "gemini-contents"): 71,
    ("zhipu", "openai-chat"): 5,
}


def encoded_again(folder: Path, name: str, protocol: str, step: int) -> Iterator[dict[str, Any]]:
    """Every `step`th request that was answered, imported and written again."""
    provider, module, at = PROVIDERS.get(name, name), wire_module(protocol), 0
    for line in (folder / f"{name}.jsonl").read_bytes().splitlines():
        exchange = msgspec.json.decode(line)
        if exchange["status"] != 200 or not exchange["request"] or exchange["protocol"] != protocol:
            continue
        if at % step == 0:
            read = module.decode_request(exchange["request"], provider=provider)
            settings = replace(read.settings, model_id=read.settings.model_id or exchange["model"])
            yield msgspec.json.decode(module.encode_request(read.prompt, settings, provider=provider).body)
        at += 1


class TestRecordedRequests:
    @pytest.mark.parametrize(("name", "protocol"), ANSWERED)
    def test_fit_when_written_again(
        self, recordings_dir: Path, pytestconfig: pytest.Config, name: str, protocol: str
    ) -> None:
        provider = PROVIDERS.get(name, name)
        step = 1 if pytestconfig.getoption("--all") else SAMPLE

        count, found = 0, set()
        for body in encoded_again(recordings_dir, name, protocol, step):
            found |= unfit(provider, protocol, body)
            count += 1

        assert found == set()
        assert count >= ANSWERED[name, protocol] // step


class TestDemoThreads:
    @pytest.mark.parametrize(("provider", "protocol"), TARGETS)
    def test_fit_wherever_they_go(self, provider: str, protocol: str) -> None:
        found: dict[str, str] = {}
        for turn in turns():
            body = msgspec.json.decode(request_to(provider, protocol, turn).body)
            found |= dict.fromkeys(unfit(provider, protocol, body), turn.id)

        assert found == {}


CALL = {"type": "function", "id": "call_1", "function": {"name": "find", "arguments": "{}"}}
GOOD: dict[tuple[str, str], dict[str, Any]] = {
    ("openai-chat", "openai"): {
        "model": "gpt-4o",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        ],
    },
    ("openai-chat", "mistral"): {
        "model": "mistral-large-latest",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "found"},
        ],
    },
    ("openai-responses", "openai"): {
        "model": "gpt-4.1",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
            {"type": "function_call", "call_id": "call_1", "name": "find", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_1", "output": "found"},
        ],
    },
    ("anthropic-messages", "anthropic"): {
        "model": "claude-sonnet-4-5",
        "max_tokens": 100,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "find", "input": {}}]},
        ],
    },
    ("gemini-contents", "gemini"): {
        "contents": [
            {"role": "user", "parts": [{"text": "Hello"}]},
            {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {}}}]},
        ],
        "generationConfig": {"maxOutputTokens": 100},
    },
    ("bedrock-converse", "bedrock"): {
        "messages": [
            {"role": "user", "content": [{"text": "Hello"}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "a", "name": "find", "input": {}}}]},
        ],
    },
    ("cohere-v2", "cohere"): {
        "model": "command-a-03-2025",
        "stream": False,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            {"role": "assistant", "tool_calls": [CALL]},
        ],
    },
}


class TestTypes:
    """The checks themselves: they see an unknown key and a wrong value at any depth."""

    @pytest.mark.parametrize("protocol", GOOD)
    def test_take_a_good_request(self, protocol: tuple[str, str]) -> None:
        assert validator(*protocol)(GOOD[protocol]) == []

    @pytest.mark.parametrize("protocol", GOOD)
    @pytest.mark.parametrize(
        "damage",
        [
            lambda body, messages: body.update(surprise=1),
            lambda body, messages: messages[0].update(surprise=1),
            lambda body, messages: messages[0][parts_key(messages[0])][0].update(surprise=1),
            lambda body, messages: messages[0][parts_key(messages[0])][0].update(text=7),
            lambda body, messages: messages[0].update(role=7),
            lambda body, messages: innermost(messages[1]).update(name=["find"]),
        ],
        ids=["request", "message", "part", "text", "role", "call"],
    )
    def test_see_a_fault(self, protocol: tuple[str, str], damage: Any) -> None:
        body = copy.deepcopy(GOOD[protocol])
        damage(body, body.get("messages") or body.get("contents") or body["input"])

        assert validator(*protocol)(body) != []


def parts_key(message: dict[str, Any]) -> str:
    return "parts" if "parts" in message else "content"


def innermost(message: dict[str, Any]) -> dict[str, Any]:
    """What holds the name of a call."""
    for value in message.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict) and "name" not in message:
                return innermost(inner)
    return message
