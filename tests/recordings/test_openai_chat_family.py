"""Recorded traffic of the hosts that speak one of the two older protocols in their own way: none of it is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memory.providers import wire_module
from tests.recordings.compare import differences
from tests.recordings.replies import followers, missing
from tests.recordings.test_roundtrip import through_the_store

PROTOCOLS = ("anthropic-messages", "openai-chat")
# Files whose own tests are in test_roundtrip; of them only the replies are followed here.
HOME = ("anthropic", "openai-chat", "cerebras")
PROVIDERS = {"openai-chat": "openai"}
# Requests answered with 200, replies and errors in the usual folder, by file and protocol.
ACCEPTED = {
    "azure": 1,
    "bedrock": 1,
    "deepseek": 4,
    "gemini": 2,
    "groq": 33,
    "huggingface": 9,
    "mistral": 26,
    "ollama": 2,
    "openrouter": 34,
    "other": 7,
    "zhipu": 5,
}
ANSWERED = {
    "azure": 1,
    "bedrock": 1,
    "deepseek": 7,
    "gemini": 2,
    "groq": 29,
    "huggingface": 8,
    "mistral": 29,
    "moonshot": 1,
    "ollama": 2,
    "openrouter": 30,
    "other": 9,
    "xai": 2,
    "zhipu": 5,
}
REFUSED = {"groq": 2, "openrouter": 1}
FOLLOWED = 113

# The host's finish reason is an empty text.
WITHOUT_REASON = {"snowflake.snowflake-tool-calling-20ca8.2"}
# Class, whether to try again, and the code of each error.
ERRORS = {
    "groq.tool-use-failed-error-515ed.1": ("bad-request", False, "tool_use_failed"),
    "model-name-suggestions.model-name-suggestion-groq-b6a5f.1": ("bad-request", False, "model_not_found"),
    # The host wraps what its upstream said.
    "openrouter.openrouter-errors-raised-79b2d.1": ("rate-limit", True, "429"),
}
# Requests that leave out what the reply before them said, by the client's choice: the kind of each such fact.
LOST = {
    # The test behind it drops the first turn's thinking to see what that does to the provider's cache.
    "cache-prefix-stability.anthropic-thinking-agui-0-1-10-drops-prefix-c324f.3": ["signature"],
    # The host gave an empty call id, and the client made one up.
    "openai.compatible-api-with-tool-calls-without-id-06a0f.2": ["id"],
    # The client took reasoning out of the text that the model had put between tags.
    "groq.groq-model-thinking-part-e6eb7.2": ["text"],
}


def exchanges(folder: Path, *, at_home: bool = False) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Exchange, file name and provider id."""
    for path in sorted(folder.glob("*.jsonl")):
        if path.stem in HOME and not at_home:
            continue
        for line in path.read_bytes().splitlines():
            exchange: dict[str, Any] = msgspec.json.decode(line)
            if exchange["protocol"] in PROTOCOLS:
                yield exchange, path.stem, PROVIDERS.get(path.stem, path.stem)


@pytest.fixture
def is_usual_folder(pytestconfig: pytest.Config) -> bool:
    return pytestconfig.getoption("--recordings") is None


class TestAcceptedRequests:
    @pytest.mark.parametrize("is_stored", [False, True])
    def test_come_back_with_their_meaning(self, recordings_dir: Path, is_usual_folder: bool, is_stored: bool) -> None:
        counts: Counter[str] = Counter()
        changed = {}
        for exchange, name, provider in exchanges(recordings_dir):
            request = exchange["request"]
            if exchange["status"] != 200 or not request:
                continue
            module = wire_module(exchange["protocol"])
            imported = module.decode_request(request, provider=provider)
            prompt = through_the_store(imported.prompt) if is_stored else imported.prompt
            again = msgspec.json.decode(module.encode_request(prompt, imported.settings, provider=provider).body)
            if found := differences(exchange["protocol"], request, again, was_stored=is_stored):
                changed[exchange["id"]] = found
            counts[name] += 1
        assert changed == {}
        assert not is_usual_folder or counts == ACCEPTED


class TestAnswers:
    def test_are_read(self, recordings_dir: Path, is_usual_folder: bool) -> None:
        counts: Counter[str] = Counter()
        for exchange, name, provider in exchanges(recordings_dir):
            if exchange["status"] != 200 or not exchange["response"]:
                continue
            reply = wire_module(exchange["protocol"]).decode_reply(exchange["response"], provider=provider)
            assert reply.parts, exchange["id"]
            assert reply.finish_reason != "other" or exchange["id"] in WITHOUT_REASON, exchange["id"]
            assert reply.usage.output_tokens, exchange["id"]
            counts[name] += 1
        assert not is_usual_folder or counts == ANSWERED

    def test_hold_what_their_client_read(self, recordings_dir: Path, is_usual_folder: bool) -> None:
        after = followers(recordings_dir)
        lost = {}
        count = 0
        for exchange, _, provider in exchanges(recordings_dir, at_home=True):
            if exchange["status"] != 200 or not exchange["response"]:
                continue
            reply = wire_module(exchange["protocol"]).decode_reply(exchange["response"], provider=provider)
            for follower in after.get(exchange["id"], ()):
                if follower["protocol"] != exchange["protocol"]:
                    continue
                count += 1
                kinds = [kind for kind, _ in missing(reply, follower["request"])]
                if kinds != LOST.get(follower["id"], []):
                    lost[follower["id"]] = kinds
        assert lost == {}
        assert not is_usual_folder or count == FOLLOWED

    def test_that_refuse_are_classified(self, recordings_dir: Path, is_usual_folder: bool) -> None:
        counts: Counter[str] = Counter()
        for exchange, name, provider in exchanges(recordings_dir):
            if exchange["status"] < 400:
                continue
            text = msgspec.json.encode(exchange["response"]).decode()
            module = wire_module(exchange["protocol"])
            error = module.decode_error(exchange["status"], exchange["headers"], text, provider=provider)
            assert error.message and error.status_code == exchange["status"], exchange["id"]
            if exchange["id"] in ERRORS:
                assert (error.error_class, error.is_retryable, error.error_code) == ERRORS[exchange["id"]]
            counts[name] += 1
        assert not is_usual_folder or counts == REFUSED
