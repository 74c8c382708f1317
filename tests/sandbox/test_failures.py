"""Failures by name: each provider's own words, whole and in the middle of a stream, mean what their names say."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from memory.errors import ProviderError
from memory.messages.prompt import Message, Prompt, Text
from memory.providers import ENTRIES, wire_module
from memory.providers.wire import Settings
from memory.sandbox import Sandbox
from memory.sandbox.failures import names
from tests.sandbox.conftest import HEADERS
from tests.sandbox.test_hosts import MODELS

MEANING = {
    "request-timeout": ("transient", True),
    "conflict": ("transient", True),
    "too-early": ("transient", True),
    "bad-gateway": ("transient", True),
    "unavailable": ("transient", True),
    "gateway-timeout": ("transient", True),
    "server-error": ("transient", True),
    "deadline": ("transient", True),
    "upstream": ("transient", True),
    "upstream-in-body": ("transient", True),
    "not-ready": ("transient", True),
    "model-error": ("transient", False),
    "wrong-key": ("authentication", False),
    "forbidden": ("authentication", False),
    "no-credit": ("quota", False),
    "quota": ("quota", False),
    "quota-with-wait": ("quota", True),
    "rate-limit": ("rate-limit", True),
    "token-rate-limit": ("rate-limit", True),
    "frequency": ("rate-limit", True),
    "capacity": ("rate-limit", True),
    "request-too-large": ("rate-limit", False),
    "overloaded": ("overloaded", True),
    "overflow": ("context-length", False),
    "too-large": ("context-length", False),
    "content-filter": ("content-filter", False),
    "wrapped": ("bad-request", False),
    "bad-input": ("bad-request", False),
    "tool-use": ("bad-request", False),
    "no-body": ("bad-request", False),
}
"""Class of the error, and whether to try again."""
OTHER_MEANING = {
    # Their status 503 has no word for being overloaded beside it.
    ("openai", "overloaded"): ("transient", True),
    ("azure", "overloaded"): ("transient", True),
    ("deepseek", "overloaded"): ("transient", True),
    ("cohere", "overloaded"): ("transient", True),
    # Its only limit without a quota is the queue.
    ("cerebras", "rate-limit"): ("overloaded", True),
    ("bedrock", "not-ready"): ("overloaded", True),
}
WAITS = {
    ("anthropic", "rate-limit"): 7_000,
    ("openai", "rate-limit"): 9_816,
    ("azure", "rate-limit"): 6_000,
    ("gemini", "rate-limit"): 36_429,
    ("gemini", "quota-with-wait"): 36_429,
    ("groq", "rate-limit"): 5_000,
    ("openai", "unavailable"): 2_000,
}
"""Milliseconds that a provider asks to wait."""
STREAMED = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-4o",
    "azure": "gpt-4o",
    "cerebras": "gpt-oss-120b",
    "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "cohere": "command-a-03-2025",
    "gemini": "gemini-2.5-flash",
    "vertex": "gemini-2.5-flash",
} | MODELS
BEFORE = {"conflict", "forbidden", "wrong-key", "no-body", "model-error", "not-ready"}
"""Said of a request as a whole: no stream is open by then, or what it says there has no words of its own."""
EACH = [(provider, name) for provider in ENTRIES for name in sorted(names(provider))]
PROTOCOLS = [(provider, entry.protocol) for provider, entry in ENTRIES.items()] + [
    (provider, "openai-responses") for provider in ("openai", "azure", "xai")
]
PROTOCOLS += [(provider, protocol) for provider, entry in ENTRIES.items() for protocol in entry.elsewhere]


def call(client: httpx.Client, provider: str, protocol: str, *, streams: bool) -> tuple[int, dict[str, str], bytes]:
    module = wire_module(protocol)
    prompt = Prompt((Message("user", (Text("Tell me about the tides of the northern sea"),)),))
    encoded = module.encode_request(prompt, Settings(STREAMED[provider], max_tokens=500), provider=provider)
    if streams:
        encoded = module.as_stream(encoded, provider=provider)
    response = client.post(f"/{provider}/v1{encoded.path}", content=encoded.body, headers=HEADERS[provider])
    return response.status_code, dict(response.headers), response.content


def pieces(body: bytes, size: int = 5) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(0, len(body), size))


class TestFailures:
    def test_are_all_known_here(self) -> None:
        assert {name for _, name in EACH} == MEANING.keys()

    @pytest.mark.parametrize(("provider", "name"), EACH)
    def test_mean_what_they_are_called(self, sandbox: Sandbox, client: httpx.Client, provider: str, name: str) -> None:
        protocol = ENTRIES[provider].protocol
        module = wire_module(protocol)
        sandbox.script(provider, failure=name)

        status, headers, body = call(client, provider, protocol, streams=False)

        error = module.decode_error(status, headers, body.decode(), provider=provider)
        assert (error.error_class, error.is_retryable) == OTHER_MEANING.get((provider, name), MEANING[name])
        if (provider, name) in WAITS:
            assert error.retry_after_ms == pytest.approx(WAITS[provider, name], abs=1)

    @pytest.mark.parametrize(
        ("provider", "protocol", "name"),
        [(*pair, name) for pair in PROTOCOLS for name in sorted(names(pair[0]) - BEFORE)],
    )
    def test_break_a_stream_off(
        self, sandbox: Sandbox, client: httpx.Client, provider: str, protocol: str, name: str
    ) -> None:
        module = wire_module(protocol)
        sandbox.script(provider, failure=name, after=4)

        status, _, body = call(client, provider, protocol, streams=True)

        assert status == 200
        with pytest.raises(ProviderError) as caught:
            list(module.decode_stream(pieces(body), provider=provider))
        error = caught.value
        assert (error.error_class, error.is_retryable) == OTHER_MEANING.get((provider, name), MEANING[name])

    @pytest.mark.parametrize(("provider", "protocol"), PROTOCOLS)
    @pytest.mark.parametrize("drop", ["mid", "end"])
    def test_leave_a_stream_without_its_end(
        self, sandbox: Sandbox, client: httpx.Client, drop: str, provider: str, protocol: str
    ) -> None:
        module = wire_module(protocol)
        whole = call(client, provider, protocol, streams=True)[2]
        sandbox.script(provider, drop=drop)  # type: ignore[arg-type]

        if drop == "mid":
            with pytest.raises(httpx.TransportError):
                call(client, provider, protocol, streams=True)
            return
        status, _, body = call(client, provider, protocol, streams=True)

        assert status == 200
        assert whole.startswith(body)
        with pytest.raises(ProviderError) as caught:
            list(module.decode_stream(pieces(body), provider=provider))
        assert (caught.value.error_class, caught.value.error_code) == ("transient", "stream_ended_early")

    def test_that_end_politely_cut_a_whole_answer(self, sandbox: Sandbox, client: httpx.Client) -> None:
        whole = call(client, "openai", "openai-chat", streams=False)[2]
        sandbox.script("openai", drop="end")

        status, headers, body = call(client, "openai", "openai-chat", streams=False)

        assert (status, headers["content-length"], body) == (200, str(len(whole) // 2), whole[: len(whole) // 2])

    def test_come_after_checks_when_a_stream_has_begun(self, sandbox: Sandbox, client: httpx.Client) -> None:
        sandbox.script("openai", failure="overloaded", after=1)

        response = client.post("/openai/v1/chat/completions", json={"stream": True}, headers=HEADERS["openai"])

        assert response.status_code == 400

    def test_come_whole_where_nothing_streams(self, sandbox: Sandbox, client: httpx.Client) -> None:
        sandbox.script("anthropic", failure="overloaded", after=1)

        status, _, body = call(client, "anthropic", "anthropic-messages", streams=False)

        assert status == 529
        assert b"overloaded_error" in body
