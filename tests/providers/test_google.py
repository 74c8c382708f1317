"""Access tokens for Vertex: fetched from a token endpoint that checks the signed claims, kept, and renewed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from memory.errors import ProviderError
from memory.messages.prompt import Message, Prompt, Text
from memory.providers import gemini_contents
from memory.providers.google import GoogleSigner
from memory.providers.http import Client, Connection
from memory.providers.wire import Encoded, Finished, Settings
from memory.sandbox import Sandbox
from memory.sandbox import start as start_sandbox
from tests.providers.tokens import OTHER_KEY, TokenEndpoint, account

PROMPT = Prompt((Message("user", (Text("Hello there"),)),))
ENCODED = gemini_contents.encode_request(PROMPT, Settings("gemini-2.5-flash"), provider="vertex")


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    opened = TokenEndpoint()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Sandbox]:
    started = start_sandbox()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.clear()
    return running


def vertex(sandbox: Sandbox, signer: GoogleSigner) -> Connection:
    base = f"{sandbox.url}/vertex/v1/projects/p/locations/global/publishers/google"
    return Connection("vertex", gemini_contents.PROTOCOL, base, signer=signer)


class TestTokens:
    def test_of_a_service_account_are_fetched_once(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        asked = gemini_contents.as_stream(ENCODED, provider="vertex")
        with Client() as client:
            assert client.call(target, ENCODED).status == 200
            with client.stream(target, asked) as answer:
                *_, last = gemini_contents.decode_stream(answer, provider="vertex")
        assert isinstance(last, Finished)
        assert endpoint.count == 1
        assert [seen["status"] for seen in sandbox.requests("vertex")] == [200, 200]

    def test_that_are_about_to_expire_are_fetched_anew(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        endpoint.lifetime_s = 60
        with Client() as client:
            client.call(target, ENCODED)
            endpoint.lifetime_s = 3600
            for _ in range(3):
                client.call(target, ENCODED)
        assert endpoint.count == 2

    def test_that_were_refused_are_fetched_anew(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        sandbox.script("vertex", status=401)
        with Client() as client:
            assert [client.call(target, ENCODED).status for _ in range(3)] == [401, 200, 200]
        assert endpoint.count == 2

    def test_for_parallel_calls_are_one(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        endpoint.may_answer.clear()
        begun = threading.Barrier(21)

        def call(client: Client) -> int:
            begun.wait(10)
            return client.call(target, ENCODED).status

        with Client() as client, ThreadPoolExecutor(20) as pool:
            answers = [pool.submit(call, client) for _ in range(20)]
            begun.wait(10)
            assert endpoint.was_asked.wait(10)
            endpoint.may_answer.set()
            assert [answer.result(10) for answer in answers] == [200] * 20
        assert endpoint.count == 1

    def test_are_blanked_in_a_refusal(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        sandbox.script("vertex", status=403, body={"error": {"message": f"No: {TokenEndpoint.token(1)}"}})
        with Client() as client:
            exchange = client.call(target, ENCODED)
        assert exchange.text == '{"error":{"message":"No: [key]"}}'

    def test_of_the_default_credentials_are_found(
        self, endpoint: TokenEndpoint, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        file = tmp_path / "account.json"
        file.write_text(account(endpoint))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        with Client() as client:
            assert client.call(vertex(sandbox, GoogleSigner()), ENCODED).status == 200
        assert endpoint.count == 1


class TestFailures:
    def fails(self, target: Connection) -> ProviderError:
        with Client() as client, pytest.raises(ProviderError) as caught:
            client.call(target, ENCODED)
        assert "PRIVATE KEY" not in f"{caught.value} {caught.value!r}"
        return caught.value

    def test_of_a_foreign_key_are_no_reason_to_try_again(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        error = self.fails(vertex(sandbox, GoogleSigner(account(endpoint, OTHER_KEY))))
        assert (error.error_class, error.is_retryable) == ("authentication", False)
        assert "Invalid JWT Signature" in str(error)
        assert sandbox.requests() == []

    def test_of_the_endpoint_may_pass(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        endpoint.fails_with = 503, {"error": "internal_failure"}
        error = self.fails(target)
        assert (error.error_class, error.is_retryable) == ("transient", True)
        endpoint.fails_with = None
        with Client() as client:
            assert client.call(target, ENCODED).status == 200

    def test_of_the_way_there_are_those_of_a_connection(self, endpoint: TokenEndpoint, sandbox: Sandbox) -> None:
        target = vertex(sandbox, GoogleSigner(account(endpoint)))
        endpoint.close()
        error = self.fails(target)
        assert (error.error_class, error.error_code) == ("connection", "ECONNREFUSED")
        assert isinstance(error.__cause__, httpx.ConnectError)

    @pytest.mark.parametrize("text", ["{", '{"type": "service_account"}', '{"private_key": "-----BEGIN PRIVATE KEY"}'])
    def test_of_a_key_file_name_its_place(self, sandbox: Sandbox, text: str) -> None:
        error = self.fails(vertex(sandbox, GoogleSigner(text, where="file:/run/account.json")))
        assert (error.error_class, error.is_retryable) == ("configuration", False)
        assert "file:/run/account.json" in str(error)

    def test_without_default_credentials_say_so(
        self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
        monkeypatch.setenv("NO_GCE_CHECK", "true")
        error = self.fails(vertex(sandbox, GoogleSigner()))
        assert (error.error_class, error.is_retryable) == ("configuration", False)


class TestKeys:
    """What stays as it was: keys of the API, and tokens somebody else fetched."""

    @pytest.mark.parametrize(
        ("provider", "key", "header"),
        [
            ("gemini", "AIzaSyExampleExample", "x-goog-api-key"),
            ("vertex", "AIzaSyExampleExample", "x-goog-api-key"),
            ("vertex", "AQ.ExampleExample", "x-goog-api-key"),
            ("vertex", "ya29.ExampleExample", "authorization"),
        ],
    )
    def test_are_shown_as_google_wants_them(self, sandbox: Sandbox, provider: str, key: str, header: str) -> None:
        target = Connection(provider, gemini_contents.PROTOCOL, f"{sandbox.url}/{provider}/v1beta", key)
        encoded = Encoded(ENCODED.path, ENCODED.body, {})
        with Client() as client:
            assert client.call(target, encoded).status == 200
        (seen,) = sandbox.requests(provider)
        assert header in seen["headers"]
        assert ("authorization" in seen["headers"]) == (header == "authorization")
