"""Streams over real connections: against the sandbox, and against a host whose every step a test decides."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

import memory.sandbox
from memory.errors import ProviderError
from memory.messages.prompt import Message, Part, Prompt, Reasoning, Text, ToolCall
from memory.providers import anthropic_messages, openai_chat
from memory.providers.http import Client, Connection, Stream, Timeouts
from memory.providers.wire import Chunk, Encoded, Finished, Reply, Settings, TextDelta, Tool, ToolInputDelta
from memory.sandbox import Sandbox

KEY = "sk-very-secret-key"
ENCODED = Encoded("/messages", b"{}", {})
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5.2", "cerebras": "gpt-oss-120b"}
TEXT = "Tell me about the trains to the coast"
CALLS = "Use get_time and get_weather"


@pytest.fixture(scope="module")
def running() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running: Sandbox) -> Sandbox:
    running.clear()
    return running


def module_of(provider: str) -> Any:
    return anthropic_messages if provider == "anthropic" else openai_chat


def connection(base_url: str, provider: str = "anthropic") -> Connection:
    return Connection(provider, module_of(provider).PROTOCOL, base_url, KEY)


def request_for(provider: str, text: str) -> Encoded:
    settings = Settings(
        MODELS[provider],
        max_tokens=4096,
        tools=tuple(Tool(name, "", SCHEMA) for name in ("get_time", "get_weather")),
        extra={"thinking": {"type": "enabled", "budget_tokens": 1024}} if provider == "anthropic" else {},
    )
    encoded: Encoded = module_of(provider).encode_request(
        Prompt((Message("user", (Text(text),)),)), settings, provider=provider
    )
    return encoded


def streamed(client: Client, sandbox: Sandbox, provider: str, text: str) -> list[Chunk]:
    module = module_of(provider)
    asked = module.as_stream(request_for(provider, text), provider=provider)
    with client.stream(connection(f"{sandbox.url}/{provider}/v1", provider), asked) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return list(module.decode_stream(answer, provider=provider))


def meaning(reply: Reply) -> list[tuple[str, Any]]:
    """What was said; ids, signatures and counts follow from the request's bytes, which differ."""

    def of(part: Part) -> tuple[str, Any]:
        match part:
            case ToolCall():
                return part.name, part.input
            case Text() | Reasoning():
                return type(part).__name__, part.text
        raise AssertionError(part)

    return [("finish", reply.finish_reason), *map(of, reply.parts)]


@pytest.mark.parametrize("provider", list(MODELS))
class TestAgainstTheSandbox:
    @pytest.mark.parametrize("text", [TEXT, CALLS])
    def test_a_stream_comes_to_the_unstreamed_answer(self, sandbox: Sandbox, provider: str, text: str) -> None:
        module = module_of(provider)
        with Client() as client:
            chunks = streamed(client, sandbox, provider, text)
            exchange = client.call(connection(f"{sandbox.url}/{provider}/v1", provider), request_for(provider, text))
        whole = module.decode_reply(msgspec.json.decode(exchange.body), provider=provider)
        last = chunks[-1]
        assert isinstance(last, Finished)
        assert meaning(last.reply) == meaning(whole)
        assert last.reply.usage.output_tokens == whole.usage.output_tokens > 0
        said = "".join(one.text for one in chunks if isinstance(one, TextDelta))
        assert said == "".join(part.text for part in whole.parts if isinstance(part, Text))
        made = {one.call_id for one in chunks if isinstance(one, ToolInputDelta)}
        assert made == {part.id for part in last.reply.parts if isinstance(part, ToolCall)}
        assert len(made) == (2 if text == CALLS else 0)

    def test_pieces_of_any_size_come_to_the_same(self, sandbox: Sandbox, provider: str) -> None:
        with Client() as client:
            expected = streamed(client, sandbox, provider, CALLS)
            for size in (1, 7, 4096):
                sandbox.script(provider, pieces=size)
                assert streamed(client, sandbox, provider, CALLS) == expected

    def test_a_drop_in_the_middle_keeps_what_came(self, sandbox: Sandbox, provider: str) -> None:
        sandbox.script(provider, drop="mid")
        with Client() as client:
            with pytest.raises(ProviderError) as caught:
                streamed(client, sandbox, provider, TEXT)
            error = caught.value
            assert (error.error_class, error.error_code) == ("connection", "ECONNRESET")
            (text,) = [part.text for part in error.partial.parts if isinstance(part, Text)] or [""]
            assert error.partial.parts
            assert f"You said: {TEXT}".startswith(text) and text != f"You said: {TEXT}"
            assert isinstance(streamed(client, sandbox, provider, TEXT)[-1], Finished)

    def test_an_error_event_ends_it(self, sandbox: Sandbox, provider: str) -> None:
        sandbox.script(
            provider, body='event: error\ndata: {"error": {"type": "overloaded_error", "message": "Busy"}}\n\n'
        )
        with Client() as client, pytest.raises(ProviderError, match="Busy") as caught:
            streamed(client, sandbox, provider, TEXT)
        assert (caught.value.error_class, caught.value.partial) == ("overloaded", None)

    def test_a_refusal_is_read_whole(self, sandbox: Sandbox, provider: str) -> None:
        sandbox.script(provider, status=429, headers={"retry-after": "7"})
        module = module_of(provider)
        with (
            Client() as client,
            client.stream(connection(f"{sandbox.url}/{provider}/v1", provider), request_for(provider, TEXT)) as answer,
        ):
            exchange = answer.exchange()
        assert exchange.started_at <= exchange.finished_at
        error = module.decode_error(exchange.status, exchange.headers, exchange.text, provider=provider)
        assert (error.status_code, error.retry_after_ms, error.is_retryable) == (429, 7000, True)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Host:
    """A host whose every step is a call of the test: it accepts, reads the request, and sends what it is told."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(5)
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._open: list[socket.socket] = []

    def accept(self) -> socket.socket:
        accepted, _ = self._server.accept()
        accepted.settimeout(5)
        self._open.append(accepted)
        self.read(accepted)
        return accepted

    def read(self, accepted: socket.socket) -> None:
        request = b""
        while not request.endswith(ENCODED.body):
            request += accepted.recv(65536)

    def close(self) -> None:
        for opened in (self._server, *self._open):
            opened.close()


@pytest.fixture
def host() -> Iterator[Host]:
    opened = Host()
    yield opened
    opened.close()


class Reader(threading.Thread):
    """Reads a stream to its end in a thread of its own."""

    def __init__(self, stream: Stream) -> None:
        super().__init__(daemon=True)
        self.stream = stream
        self.pieces: list[bytes] = []
        self.error: ProviderError | None = None
        self.has_piece = threading.Event()
        self.start()

    def run(self) -> None:
        try:
            with self.stream as answer:
                for piece in answer:
                    self.pieces.append(piece)
                    self.has_piece.set()
        except ProviderError as error:
            self.error = error

    def ended(self) -> ProviderError | None:
        self.join(timeout=5)
        assert not self.is_alive()
        return self.error


class TestCancel:
    def test_ends_a_call_that_waits_for_its_first_byte(self, host: Host) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            host.accept()
            reader.stream.cancel()
            error = reader.ended()
        assert error is not None and (error.error_class, error.error_code) == ("connection", "ECLOSED")

    def test_ends_a_call_that_waits_on_a_connection_used_before(self, host: Host) -> None:
        with Client() as client:
            first = Reader(client.stream(connection(host.url), ENCODED))
            accepted = host.accept()
            accepted.sendall(HEAD + b"0\r\n\r\n")
            assert first.ended() is None
            second = Reader(client.stream(connection(host.url), ENCODED))
            host.read(accepted)  # on the same connection
            second.stream.cancel()
            error = second.ended()
        assert error is not None and error.error_code == "ECLOSED"

    def test_ends_a_call_in_the_middle_of_its_answer(self, host: Host) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            host.accept().sendall(HEAD + chunked(b"data: a\n\n"))
            assert reader.has_piece.wait(5)
            reader.stream.cancel()
            error = reader.ended()
        assert error is not None and error.error_code == "ECLOSED"
        assert reader.pieces == [b"data: a\n\n"]

    def test_is_told_from_the_end_of_a_body_without_length(self, host: Host) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            host.accept().sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: a\n\n")
            assert reader.has_piece.wait(5)
            reader.stream.cancel()
            error = reader.ended()
        assert error is not None and error.error_code == "ECLOSED"

    def test_leaves_other_calls_alone(self, host: Host) -> None:
        with Client() as client:
            one = Reader(client.stream(connection(host.url), ENCODED))
            host.accept()
            other = Reader(client.stream(connection(host.url), ENCODED))
            accepted = host.accept()
            one.stream.cancel()
            assert one.ended() is not None
            accepted.sendall(HEAD + chunked(b"data: a\n\n") + b"0\r\n\r\n")
            assert other.ended() is None
        assert other.pieces == [b"data: a\n\n"]

    def test_before_it_is_sent_sends_nothing(self, sandbox: Sandbox) -> None:
        with Client() as client:
            stream = client.stream(connection(f"{sandbox.url}/anthropic/v1"), ENCODED)
            stream.cancel()
            with pytest.raises(ProviderError) as caught, stream:
                raise AssertionError("entered")
        assert caught.value.error_code == "ECLOSED" and sandbox.requests() == []

    def test_of_one_that_is_over_touches_nobody(self, host: Host) -> None:
        with Client() as client:
            first = Reader(client.stream(connection(host.url), ENCODED))
            accepted = host.accept()
            accepted.sendall(HEAD + b"0\r\n\r\n")
            assert first.ended() is None
            second = Reader(client.stream(connection(host.url), ENCODED))
            host.read(accepted)
            first.stream.cancel()
            accepted.sendall(HEAD + chunked(b"data: a\n\n") + b"0\r\n\r\n")
            assert second.ended() is None
        assert second.pieces == [b"data: a\n\n"]

    def test_comes_with_the_end_of_the_client(self, host: Host) -> None:
        client = Client()
        reader = Reader(client.stream(connection(host.url), ENCODED))
        host.accept().sendall(HEAD + chunked(b"data: a\n\n"))
        assert reader.has_piece.wait(5)
        client.close()
        error = reader.ended()
        assert error is not None and error.error_code == "ECLOSED"
        with pytest.raises(ProviderError) as caught, client.stream(connection(host.url), ENCODED):
            raise AssertionError("entered")
        assert caught.value.error_code == "ECLOSED"


class TestReading:
    def test_gives_pieces_as_they_come(self, host: Host) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            accepted = host.accept()
            accepted.sendall(HEAD + chunked(b"data: a\n\n"))
            assert reader.has_piece.wait(5)
            assert reader.pieces == [b"data: a\n\n"] and reader.is_alive()
            accepted.sendall(chunked(b"data: b\n\n") + b"0\r\n\r\n")
            assert reader.ended() is None
        assert b"".join(reader.pieces) == b"data: a\n\ndata: b\n\n"

    @pytest.mark.parametrize("at", range(1, len(KEY)))
    def test_blanks_the_key_wherever_it_is_cut(self, host: Host, at: int) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            key = KEY.encode()
            text = [b"data: s" + key[:at], key[at:] + b" sk-very", b" end sk-"]
            host.accept().sendall(HEAD + b"".join(map(chunked, text)) + b"0\r\n\r\n")
            assert reader.ended() is None
        assert b"".join(reader.pieces) == b"data: s[key] sk-very end sk-"

    def test_ends_at_the_limit(self, host: Host) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED, max_response_bytes=10))
            host.accept().sendall(HEAD + chunked(b"." * 9) + chunked(b".."))
            error = reader.ended()
        assert error is not None and error.error_code == "response_too_large"

    def test_ends_after_a_silence(self, host: Host) -> None:
        with Client(Timeouts(read_s=0.2)) as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            host.accept().sendall(HEAD + chunked(b"data: a\n\n"))
            error = reader.ended()
        assert error is not None and error.error_code == "ETIMEDOUT"
        assert KEY not in str(error)

    def test_names_an_end_in_the_middle(self, host: Host) -> None:
        with Client() as client:
            reader = Reader(client.stream(connection(host.url), ENCODED))
            accepted = host.accept()
            accepted.sendall(HEAD + chunked(b"data: a\n\n"))
            accepted.close()
            error = reader.ended()
        assert error is not None and error.error_code == "ECONNRESET"

    def test_names_that_nobody_is_there(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (
            Client() as client,
            pytest.raises(ProviderError, match="no connection") as caught,
            client.stream(connection(f"http://127.0.0.1:{port}"), ENCODED),
        ):
            raise AssertionError("entered")
        assert caught.value.error_code == "ECONNREFUSED"

    def test_does_not_wait_for_a_host_that_never_ends(self, host: Host) -> None:
        got: list[bytes] = []

        def read_one(client: Client) -> None:
            with client.stream(connection(host.url), ENCODED) as answer:
                got.append(next(iter(answer)))

        with Client() as client:
            reading = threading.Thread(target=read_one, args=(client,), daemon=True)
            reading.start()
            host.accept().sendall(HEAD + chunked(b"data: [DONE]\n\n"))
            reading.join(timeout=5)
        assert not reading.is_alive() and got == [b"data: [DONE]\n\n"]

    def test_gives_the_connection_to_the_next_after_an_end_mark(self, host: Host) -> None:
        def read_to_the_mark(client: Client) -> None:
            with client.stream(connection(host.url), ENCODED) as answer:
                next(iter(answer))  # and no further, as a decoder does

        with Client() as client:
            first = threading.Thread(target=read_to_the_mark, args=(client,), daemon=True)
            first.start()
            accepted = host.accept()
            accepted.sendall(HEAD + chunked(b"data: [DONE]\n\n"))
            accepted.sendall(b"0\r\n\r\n")
            first.join(timeout=5)
            second = Reader(client.stream(connection(host.url), ENCODED))
            host.read(accepted)
            accepted.sendall(HEAD + b"0\r\n\r\n")
            assert second.ended() is None
