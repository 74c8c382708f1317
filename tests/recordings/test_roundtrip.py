"""Recorded traffic through the wire modules: what a provider accepted comes back with its meaning."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memory.messages.convert import to_prompt
from memory.messages.from_prompt import from_prompt
from memory.messages.prompt import Prompt
from memory.messages.stored import clean_content, read_content
from memory.providers import PROTOCOLS, wire_module
from memory.providers.wire import Imported
from tests.recordings.compare import differences

FILES = ("anthropic", "openai-chat", "cerebras")
PROVIDERS = {"openai-chat": "openai"}
# Fewer than these would mean that the test looks past the traffic.
ACCEPTED = {"anthropic": 163, "openai-chat": 86, "cerebras": 7}
ANSWERED = {"anthropic": 169, "openai-chat": 82, "cerebras": 7}
REFUSED = {"anthropic": 1, "openai-chat": 10, "cerebras": 0}


def exchanges(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    for line in (folder / f"{name}.jsonl").read_bytes().splitlines():
        exchange: dict[str, Any] = msgspec.json.decode(line)
        if exchange["protocol"] in PROTOCOLS:
            yield exchange


def accepted(folder: Path, name: str) -> list[dict[str, Any]]:
    return [exchange for exchange in exchanges(folder, name) if exchange["status"] == 200 and exchange["request"]]


def encoded_again(exchange: dict[str, Any], name: str, imported: Imported, prompt: Prompt) -> dict[str, Any]:
    module = wire_module(exchange["protocol"])
    encoded = module.encode_request(prompt, imported.settings, provider=PROVIDERS.get(name, name))
    body: dict[str, Any] = msgspec.json.decode(encoded.body)
    return body


def imported_from(exchange: dict[str, Any], name: str) -> Imported:
    return wire_module(exchange["protocol"]).decode_request(exchange["request"], provider=PROVIDERS.get(name, name))


def through_the_store(prompt: Prompt) -> Prompt:
    """The prompt that its own stored texts make; system messages are not stored, they come from elsewhere."""
    stored = [
        {**message, "content": read_content(clean_content(message["content"])[0])} for message in from_prompt(prompt)
    ]
    system = tuple(message for message in prompt.messages if message.role == "system")
    return Prompt(system + to_prompt(stored).messages)


@pytest.mark.parametrize("name", FILES)
class TestAcceptedRequests:
    def test_come_back_with_their_meaning(self, recordings_dir: Path, name: str) -> None:
        found = accepted(recordings_dir, name)
        changed = {}
        for exchange in found:
            imported = imported_from(exchange, name)
            again = encoded_again(exchange, name, imported, imported.prompt)
            changed[exchange["id"]] = differences(exchange["protocol"], exchange["request"], again)
        assert {key: found for key, found in changed.items() if found} == {}
        assert len(found) >= ACCEPTED[name]

    def test_keep_it_when_stored_in_between(self, recordings_dir: Path, name: str) -> None:
        changed = {}
        for exchange in accepted(recordings_dir, name):
            imported = imported_from(exchange, name)
            again = encoded_again(exchange, name, imported, through_the_store(imported.prompt))
            found = differences(exchange["protocol"], exchange["request"], again, was_stored=True)
            changed[exchange["id"]] = found
        assert {key: found for key, found in changed.items() if found} == {}


@pytest.mark.parametrize("name", FILES)
class TestAnswers:
    def test_are_read(self, recordings_dir: Path, name: str) -> None:
        count = 0
        for exchange in exchanges(recordings_dir, name):
            if exchange["status"] != 200 or not exchange["response"]:
                continue
            module = wire_module(exchange["protocol"])
            reply = module.decode_reply(exchange["response"], provider=PROVIDERS.get(name, name))
            assert reply.parts or exchange["response"].get("content") == [], exchange["id"]
            assert reply.finish_reason != "other", exchange["id"]
            count += 1
        assert count >= ANSWERED[name]

    def test_that_refuse_are_classified(self, recordings_dir: Path, name: str) -> None:
        refused = [exchange for exchange in exchanges(recordings_dir, name) if exchange["status"] >= 400]
        for exchange in refused:
            text = msgspec.json.encode(exchange["response"]).decode()
            module = wire_module(exchange["protocol"])
            error = module.decode_error(
                exchange["status"], exchange["headers"], text, provider=PROVIDERS.get(name, name)
            )
            assert error.message == exchange["response"]["error"]["message"]
            assert (error.error_class, error.is_retryable) == ("bad-request", False)
        assert len(refused) >= REFUSED[name]
