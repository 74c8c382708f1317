from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import httpx
import pytest

import memory.sandbox
from memory.errors import InvalidInput, ProviderError
from memory.messages.prompt import Message, Prompt, Text
from memory.providers import wire_module
from memory.providers.http import Client, Connection, Timeouts, headers_for, url_for
from memory.providers.wire import Encoded, Settings
from memory.sandbox import Sandbox

KEY = "sk-very-secret-key"
PROMPT = Prompt((Message("user", (Text("Hello"),)),))
ENCODED = Encoded("/messages", b"{}", {})


def connection(base_url: str, **fields: Any) -> Connection:
    return Connection(
        **{"provider": "anthropic", "protocol": "anthropic-messages", "key": KEY, **fields}, base_url=base_url
    )


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


class Echo(BaseHTTPRequestHandler):
    """Repeats the caller's key in its answer, which has the size and status that the path asks for."""

    protocol_version = "HTTP/1.1"
    ports: set[int] = set()
    cookies: set[str | None] = set()
    agents: list[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.ports.add(self.client_address[1])
        self.cookies.add(self.headers["cookie"])
        self.agents.append(self.headers.get_all("user-agent", []))
        _, status, size = self.path.split("/")
        body = (self.headers["x-api-key"] or "").encode().ljust(int(size), b".")
        self.send_response(int(status))
        self.send_header("content-length", str(len(body)))
        self.send_header("X-Request-ID", "r-1")
        self.send_header("Set-Cookie", "who=you; path=/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    Echo.ports.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class TestConnection:
    def test_never_shows_its_key(self) -> None:
        shown = connection("https://api.anthropic.com/v1", headers={"authorization": KEY})
        assert KEY not in f"{shown} {shown!r} {[shown]}"

    def test_url_is_base_and_path(self) -> None:
        assert url_for(connection("https://a.invalid/v1/"), ENCODED) == "https://a.invalid/v1/messages"

    def test_url_keeps_the_query_of_the_base(self) -> None:
        base = connection("https://a.invalid/v1/?api-version=2024-10-21")
        assert url_for(base, ENCODED) == "https://a.invalid/v1/messages?api-version=2024-10-21"
        streamed = Encoded("/messages?alt=sse", b"{}", {})
        assert url_for(base, streamed) == "https://a.invalid/v1/messages?api-version=2024-10-21&alt=sse"

    @pytest.mark.parametrize("base", ["", "a.invalid/v1", "file:///etc/passwd", "http:///x", "http://[::1"])
    def test_needs_an_http_address(self, base: str) -> None:
        with pytest.raises(InvalidInput):
            url_for(connection(base), ENCODED)

    @pytest.mark.parametrize(
        ("provider", "protocol", "name", "value"),
        [
            ("anthropic", "anthropic-messages", "x-api-key", KEY),
            ("anthropic", "openai-chat", "authorization", f"Bearer {KEY}"),
            ("openai", "openai-chat", "authorization", f"Bearer {KEY}"),
            ("minimax", "anthropic-messages", "x-api-key", KEY),
            ("gemini", "gemini-contents", "x-goog-api-key", KEY),
            ("azure", "openai-chat", "api-key", KEY),
            ("azure", "openai-responses", "api-key", KEY),
            ("gemini", "openai-chat", "authorization", f"Bearer {KEY}"),
            ("ollama", "openai-chat", "authorization", f"Bearer {KEY}"),
            ("bedrock", "bedrock-converse", "authorization", f"Bearer {KEY}"),
            ("vertex", "gemini-contents", "authorization", f"Bearer {KEY}"),
        ],
    )
    def test_shows_the_key_as_the_provider_wants_it(self, provider: str, protocol: str, name: str, value: str) -> None:
        headers = headers_for(connection("https://a.invalid", provider=provider, protocol=protocol), with_key=True)
        assert headers[name] == value
        assert KEY not in str(headers_for(connection("https://a.invalid", provider=provider), with_key=False))

    def test_anthropic_gets_its_version(self) -> None:
        assert headers_for(connection("https://a.invalid"), with_key=False)["anthropic-version"] == "2023-06-01"

    def test_without_the_key_no_header_holds_a_secret(self) -> None:
        shown = connection("https://a.invalid", headers={"Authorization": "x-secret", "X-Thing": "1"})
        headers = headers_for(shown, with_key=False)
        assert "authorization" not in headers and headers["x-thing"] == "1"

    def test_a_key_no_header_can_carry_is_refused_unseen(self) -> None:
        with pytest.raises(InvalidInput) as caught:
            headers_for(connection("https://a.invalid", key=f"{KEY}\r\nx: y"), with_key=True)
        assert KEY not in str(caught.value)


class TestCall:
    @pytest.mark.parametrize(
        ("provider", "protocol"),
        [("anthropic", "anthropic-messages"), ("openai", "openai-chat"), ("cerebras", "openai-chat")],
    )
    def test_gives_the_answer(self, sandbox: Sandbox, provider: str, protocol: str) -> None:
        module = wire_module(protocol)
        model_id = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5.2", "cerebras": "gpt-oss-120b"}[provider]
        encoded = module.encode_request(PROMPT, Settings(model_id), provider=provider)
        with Client() as client:
            exchange = client.call(
                connection(f"{sandbox.url}/{provider}/v1", provider=provider, protocol=protocol), encoded
            )
        assert exchange.status == 200, exchange.text
        assert exchange.started_at <= exchange.finished_at
        (seen,) = sandbox.requests(provider)
        assert seen["status"] == 200

    def test_a_refusal_is_an_answer_too(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=429, headers={"Retry-After": "7"}, body={"error": {"message": "slow"}})
        with Client() as client:
            exchange = client.call(connection(f"{sandbox.url}/anthropic/v1"), ENCODED)
        assert (exchange.status, exchange.headers["retry-after"]) == (429, "7")

    def test_one_connection_is_used_again(self, echo: str) -> None:
        with Client() as client:
            for _ in range(3):
                client.call(connection(echo), Encoded("/200/10", b"{}", {}))
        assert len(Echo.ports) == 1

    def test_a_key_in_a_refusal_is_blanked(self, echo: str) -> None:
        with Client() as client:
            exchange = client.call(connection(echo), Encoded("/401/100", b"{}", {}))
        assert KEY not in exchange.text and "[key]" in exchange.text
        assert exchange.headers["x-request-id"] == "r-1"

    def test_an_answer_beyond_the_limit_is_refused(self, echo: str) -> None:
        with Client() as client, pytest.raises(ProviderError, match="larger than 1,000 bytes") as caught:
            client.call(connection(echo), Encoded("/200/1001", b"{}", {}), max_response_bytes=1000)
        assert (caught.value.error_class, caught.value.error_code) == ("connection", "response_too_large")

    def test_one_user_agent_is_named(self, echo: str) -> None:
        Echo.agents.clear()
        with Client() as client:
            client.call(connection(echo), Encoded("/200/1", b"{}", {}))
            client.call(connection(echo, headers={"User-Agent": "shop/1"}), Encoded("/200/1", b"{}", {}))
            client.fetch("POST", f"{echo}/200/1", {"User-Agent": "auth/2"}, b"", None)
        assert Echo.agents == [[f"python-httpx/{httpx.__version__}"], ["shop/1"], ["auth/2"]]

    def test_no_cookie_is_taken(self, echo: str) -> None:
        Echo.cookies.clear()
        with Client() as client:
            for _ in range(2):
                client.call(connection(echo), Encoded("/200/1", b"{}", {}))
                with client.stream(connection(echo), Encoded("/200/1", b"{}", {})) as answer:
                    assert answer.exchange().status == 200
        assert Echo.cookies == {None}

    def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
        self, echo: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        with Client() as client:
            assert client.call(connection(echo), Encoded("/200/1", b"{}", {})).status == 200


class TestFailures:
    @pytest.mark.parametrize("drop", ["before", "mid"])
    def test_a_dropped_connection_is_named(self, sandbox: Sandbox, drop: Literal["before", "mid"]) -> None:
        sandbox.script("anthropic", drop=drop)
        with Client() as client, pytest.raises(ProviderError) as caught:
            client.call(connection(f"{sandbox.url}/anthropic/v1"), ENCODED)
        error = caught.value
        assert (error.error_class, error.error_code, error.is_retryable) == ("connection", "ECONNRESET", False)
        assert error.__cause__ is not None and KEY not in str(error)

    def test_nobody_there_is_named(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with Client() as client, pytest.raises(ProviderError, match="no connection") as caught:
            client.call(connection(f"http://127.0.0.1:{port}"), ENCODED)
        assert caught.value.error_code == "ECONNREFUSED"

    def test_silence_ends_after_the_time_limit(self, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", delay_s=30)
        with Client(Timeouts(read_s=0.2)) as client, pytest.raises(ProviderError, match="time limit") as caught:
            client.call(connection(f"{sandbox.url}/anthropic/v1"), ENCODED)
        assert caught.value.error_code == "ETIMEDOUT"

    def test_closing_the_client_ends_a_call_in_flight(self) -> None:
        caught: list[BaseException] = []
        with socket.create_server(("127.0.0.1", 0)) as silent:
            client = Client()
            target = connection(f"http://127.0.0.1:{silent.getsockname()[1]}")

            def wait_for_an_answer() -> None:
                try:
                    client.call(target, ENCODED)
                except ProviderError as error:
                    caught.append(error)

            waiting = threading.Thread(target=wait_for_an_answer, daemon=True)
            waiting.start()
            accepted, _ = silent.accept()
            with accepted:
                request = b""
                while not request.endswith(ENCODED.body):
                    request += accepted.recv(65536)
                client.close()  # the request is there, and no answer comes
                waiting.join(timeout=5)
        assert not waiting.is_alive()
        (error,) = caught
        assert isinstance(error, ProviderError) and error.error_code == "ECLOSED"

    def test_a_closed_client_calls_nobody(self, echo: str) -> None:
        client = Client()
        client.close()
        with pytest.raises(ProviderError) as caught:
            client.call(connection(echo), Encoded("/200/1", b"{}", {}))
        assert caught.value.error_code == "ECLOSED" and not Echo.ports
