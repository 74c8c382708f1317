"""Recorded traffic: what a provider answered with 200 is never refused here, at the path it came to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import HEADERS, PATHS

PROVIDERS = {"openai-chat": "openai"}
"""Files that are not named by their provider."""
# By file and protocol how many requests were answered; Gemini's, Bedrock's and the Responses protocol are tried beside
# the other tests of theirs.
ANSWERED = {
    ("anthropic", "anthropic-messages"): 163,
    ("azure", "openai-chat"): 1,
    ("azure", "openai-responses"): 1,
    ("bedrock", "anthropic-messages"): 1,
    ("bedrock", "openai-responses"): 8,
    ("cerebras", "openai-chat"): 7,
    ("cohere", "cohere-v2"): 5,
    ("deepseek", "openai-chat"): 4,
    ("deepseek", "openai-responses"): 5,
    ("gemini", "openai-chat"): 2,
    ("groq", "openai-chat"): 33,
    ("huggingface", "openai-chat"): 9,
    ("mistral", "openai-chat"): 26,
    ("ollama", "openai-chat"): 2,
    ("openai-chat", "openai-chat"): 86,
    ("openrouter", "openai-chat"): 34,
    ("openrouter", "openai-responses"): 1,
    ("other", "openai-chat"): 7,
    ("zhipu", "openai-chat"): 5,
}
# Sent to a host that speaks the protocol like OpenAI under its own root; the file has the provider's name all the same.
MOVED = {"/chat/completions": "/v1/chat/completions"}
# Not a refusal of the history: a model that does not exist, a generation that failed, a limit.
OTHER_ERRORS = {
    "groq.tool-use-failed-error-515ed.1",
    "model-name-suggestions.model-name-suggestion-groq-b6a5f.1",
    "openrouter.openrouter-errors-raised-79b2d.1",
}


def exchanges(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            exchange = json.loads(line)
            if exchange["request"] is not None:
                yield exchange


class TestRecordedRequests:
    @pytest.mark.parametrize(("name", "protocol"), ANSWERED)
    def test_that_were_answered_are_accepted(
        self, client: httpx.Client, recordings_dir: Path, name: str, protocol: str
    ) -> None:
        provider = PROVIDERS.get(name, name)
        headers = HEADERS[provider] | ({"authorization": "Bearer any"} if protocol == "openai-chat" else {})
        count, refused = 0, []
        for exchange in exchanges(recordings_dir, name):
            if exchange["status"] == 200 and exchange["protocol"] == protocol:
                path = exchange["path"]
                path = MOVED.get(path, path) if provider == "openai" else path
                response = client.post(f"/{provider}{path}", json=exchange["request"], headers=headers)
                count += 1
                if response.status_code != 200:
                    refused.append((exchange["id"], response.text))

        assert refused == []
        assert count >= ANSWERED[name, protocol]

    def test_that_were_refused_for_their_history_are_refused_alike(
        self, client: httpx.Client, recordings_dir: Path
    ) -> None:
        count = 0
        for exchange in exchanges(recordings_dir, "openai-chat"):
            error = (exchange["response"] or {}).get("error", {})
            if exchange["status"] == 400 and str(error.get("param")).startswith("messages"):
                response = client.post(PATHS["openai"], json=exchange["request"], headers=HEADERS["openai"])
                count += 1
                assert (response.status_code, response.json()["error"]) == (400, error)

        assert count >= 6

    def test_of_other_hosts_were_never_refused_for_their_history(self, recordings_dir: Path) -> None:
        names = {name for name, protocol in ANSWERED if protocol == "openai-chat"} - {"openai-chat"}
        refused = {
            exchange["id"]
            for name in names
            for exchange in exchanges(recordings_dir, name)
            if exchange["protocol"] == "openai-chat" and exchange["status"] != 200
        }

        assert refused <= OTHER_ERRORS
