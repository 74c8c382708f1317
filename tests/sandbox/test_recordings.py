"""Recorded traffic: what a provider answered with 200 is never refused here."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.sandbox.conftest import HEADERS, PATHS


def exchanges(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    with (folder / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            exchange = json.loads(line)
            if exchange["request"] is not None:
                yield exchange


class TestRecordedRequests:
    @pytest.mark.parametrize(
        ("name", "provider", "least"),
        [("anthropic", "anthropic", 163), ("openai-chat", "openai", 86), ("cerebras", "cerebras", 7)],
    )
    def test_that_were_answered_are_accepted(
        self, client: httpx.Client, recordings_dir: Path, name: str, provider: str, least: int
    ) -> None:
        count, refused = 0, []
        for exchange in exchanges(recordings_dir, name):
            if exchange["status"] == 200:
                response = client.post(PATHS[provider], json=exchange["request"], headers=HEADERS[provider])
                count += 1
                if response.status_code != 200:
                    refused.append((exchange["id"], response.text))

        assert refused == []
        assert count >= least

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
