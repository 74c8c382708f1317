"""A running sandbox and clients that speak to it as the vendors' own clients would."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import memory.sandbox
from memory.sandbox import Sandbox
from memory.sandbox.vendors import VENDORS

BEARER = {"authorization": "Bearer any"}
HEADERS = dict.fromkeys(VENDORS, BEARER) | {
    "anthropic": {"x-api-key": "any", "anthropic-version": "2023-06-01"},
    "azure": {"api-key": "any"},
    "gemini": {"x-goog-api-key": "any"},
}
PATHS = {provider: f"/{provider}/v1/chat/completions" for provider in VENDORS} | {
    "anthropic": "/anthropic/v1/messages",
    "azure": "/azure/openai/v1/responses",
    "bedrock": "/bedrock/model/us.amazon.nova-lite-v1:0/converse",
    "cohere": "/cohere/v2/chat",
    "gemini": "/gemini/v1beta/models/gemini-3-flash-preview:generateContent",
    "vertex": "/vertex/v1/projects/p/locations/global/publishers/google/models/gemini-3-flash-preview:generateContent",
}


@pytest.fixture(scope="package")
def running() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running: Sandbox) -> Iterator[Sandbox]:
    running.clear()
    yield running
    running.clear()


@pytest.fixture(scope="package")
def connected(running: Sandbox) -> Iterator[httpx.Client]:
    # Without certificates to check against, which take longer to load than most tests.
    with httpx.Client(base_url=running.url, timeout=10, trust_env=False, verify=False) as opened:
        yield opened


@pytest.fixture
def client(sandbox: Sandbox, connected: httpx.Client) -> httpx.Client:
    return connected


class Caller:
    """Sends bodies to one provider."""

    def __init__(self, client: httpx.Client, provider: str, **defaults: Any) -> None:
        self.client = client
        self.provider = provider
        self.defaults = defaults

    def post(self, **body: Any) -> httpx.Response:
        return self.client.post(PATHS[self.provider], json=self.defaults | body, headers=HEADERS[self.provider])

    def refusal(self, **body: Any) -> str:
        """The message of the vendor's error; fails when the request is accepted or the error is not a 400."""
        response = self.post(**body)
        assert response.status_code == 400, response.text
        found = response.json()
        return str(found.get("error", found)["message"])

    def accepted(self, **body: Any) -> dict[str, Any]:
        response = self.post(**body)
        assert response.status_code == 200, response.text
        reply: dict[str, Any] = response.json()
        return reply


@pytest.fixture
def anthropic(client: httpx.Client) -> Caller:
    return Caller(client, "anthropic", model="claude-sonnet-4-5", max_tokens=1024)


@pytest.fixture
def openai(client: httpx.Client) -> Caller:
    return Caller(client, "openai", model="gpt-4o")


@pytest.fixture
def cerebras(client: httpx.Client) -> Caller:
    return Caller(client, "cerebras", model="gpt-oss-120b")
