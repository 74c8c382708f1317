"""Ways to a provider: time limits of every step, HTTP/2, certificates of one's own, a proxy."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from memory.errors import ProviderError
from memory.providers.http import Client, Connection, Stream, Timeouts
from memory.providers.wire import Encoded

ENCODED = Encoded("/messages", b"{}", {})
KEY = "sk-very-secret-key"


def connection(base_url: str) -> Connection:
    return Connection("anthropic", "anthropic-messages", base_url, KEY)


class Listener:
    """A socket whose every connection is handed to `serve`, in a thread of its own."""

    def __init__(self, serve: Any) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.count = 0
        self.port = self._listening.getsockname()[1]
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            self.count += 1
            self._open.append(accepted)
            threading.Thread(target=self._guarded, args=(accepted,), daemon=True).start()

    def _guarded(self, accepted: socket.socket) -> None:
        try:
            self._serve(accepted)
        except OSError:
            return  # the client gave up, or the test is over

    def close(self) -> None:
        for opened in (self._listening, *self._open):
            opened.close()


@pytest.fixture
def listen() -> Iterator[Any]:
    opened: list[Listener] = []

    def start(serve: Any) -> Listener:
        opened.append(Listener(serve))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate that only this test trusts, for 127.0.0.1 and provider.test, with its key in the same file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "provider.test")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("provider.test"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "provider.pem"
    form = serialization.PrivateFormat.PKCS8
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    )
    return file


def read_request(opened: socket.socket) -> bytes:
    """One HTTP/1.1 request whose body is `{}`."""
    request = b""
    while not request.endswith(b"\r\n\r\n{}"):
        piece = opened.recv(65536)
        if not piece:
            raise OSError("closed")
        request += piece
    return request


class Provider:
    """Answers over TLS: by HTTP/2 where the client offers it and `offers` says so, else by HTTP/1.1."""

    def __init__(self, certificate: Path, *offers: str) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate)
        self._context.set_alpn_protocols([*offers])
        self.spoken: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.was_asked = threading.Event()

    def __call__(self, accepted: socket.socket) -> None:
        try:
            opened = self._context.wrap_socket(accepted, server_side=True)
        except ssl.SSLError:
            return  # this certificate is not trusted
        if opened.selected_alpn_protocol() == "h2":
            self._speak_http2(opened)
        while True:
            read_request(opened)
            self.spoken.append("HTTP/1.1")
            self.was_asked.set()
            self.may_answer.wait(10)
            opened.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    def _speak_http2(self, opened: ssl.SSLSocket) -> None:
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        state.initiate_connection()
        opened.sendall(state.data_to_send())
        while data := opened.recv(65536):
            for event in state.receive_data(data):
                if isinstance(event, h2.events.StreamEnded) and event.stream_id is not None:
                    self.spoken.append("HTTP/2")
                    self.was_asked.set()
                    self.may_answer.wait(10)
                    state.send_headers(event.stream_id, [(":status", "200"), ("content-type", "text/plain")])
                    state.send_data(event.stream_id, b"ok", end_stream=True)
            opened.sendall(state.data_to_send())


class TestHttp2:
    def test_is_used_where_the_server_offers_it(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "h2", "http/1.1")
        host = listen(provider)
        with Client(http2=True, ca_file=str(certificate)) as client:
            for _ in range(3):
                assert client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED).text == "ok"
        assert (provider.spoken, host.count) == (["HTTP/2"] * 3, 1)

    def test_writes_no_key_into_the_log(
        self, certificate: Path, listen: Any, debug_log: pytest.LogCaptureFixture
    ) -> None:
        host = listen(Provider(certificate, "h2"))
        with Client(http2=True, ca_file=str(certificate)) as client:
            client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED)
        assert KEY not in debug_log.text

    def test_is_not_where_the_server_does_not(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "http/1.1")
        host = listen(provider)
        with Client(http2=True, ca_file=str(certificate)) as client:
            for _ in range(3):
                assert client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED).text == "ok"
        assert (provider.spoken, host.count) == (["HTTP/1.1"] * 3, 1)

    def test_is_not_used_by_streams(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "h2", "http/1.1")
        host = listen(provider)
        with Client(http2=True, ca_file=str(certificate)) as client:
            for _ in range(2):
                with client.stream(connection(f"https://127.0.0.1:{host.port}"), ENCODED) as answer:
                    assert b"".join(answer) == b"ok"
        assert (provider.spoken, host.count) == (["HTTP/1.1"] * 2, 1)

    def test_of_parallel_calls_shares_a_connection(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "h2")
        host = listen(provider)
        answers: list[str] = []
        with Client(http2=True, ca_file=str(certificate)) as client:
            target = connection(f"https://127.0.0.1:{host.port}")
            client.call(target, ENCODED)
            calls = [
                threading.Thread(target=lambda: answers.append(client.call(target, ENCODED).text)) for _ in range(20)
            ]
            for call in calls:
                call.start()
            for call in calls:
                call.join(10)
        assert (answers, host.count) == (["ok"] * 20, 1)

    def test_calls_end_when_the_client_is_closed(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "h2")
        provider.may_answer.clear()
        target = connection(f"https://127.0.0.1:{listen(provider).port}")
        client, caught = Client(http2=True, ca_file=str(certificate)), list[ProviderError]()

        def call() -> None:
            try:
                client.call(target, ENCODED)
            except ProviderError as error:
                caught.append(error)

        calls = [threading.Thread(target=call, daemon=True) for _ in range(3)]
        for each in calls:
            each.start()
        assert provider.was_asked.wait(10)
        client.close()
        for each in calls:
            each.join(10)
        provider.may_answer.set()
        assert [error.error_code for error in caught] == ["ECLOSED"] * 3


class TestCertificates:
    def test_of_ones_own_are_not_trusted_unasked(self, certificate: Path, listen: Any) -> None:
        host = listen(Provider(certificate, "http/1.1"))
        with Client() as client, pytest.raises(ProviderError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED)
        assert caught.value.error_class == "connection"

    def test_named_by_the_environment_are_trusted(
        self, certificate: Path, listen: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        host = listen(Provider(certificate, "http/1.1"))
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with Client() as client:
            assert client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED).text == "ok"


class Proxy:
    """A proxy that wants a password, and leads every tunnel to the same port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[bytes] = []

    def __call__(self, accepted: socket.socket) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += accepted.recv(1)
        if b"proxy-authorization: basic dXNlcjpwYXNzd29yZA==" not in head.replace(b"Basic", b"basic").replace(
            b"Proxy-Authorization", b"proxy-authorization"
        ):
            accepted.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        self.asked.append(head.split(b"\r\n")[0])
        accepted.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.port)) as onward:
            back = threading.Thread(target=self._pump, args=(onward, accepted), daemon=True)
            back.start()
            self._pump(accepted, onward)

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            return


class TestProxy:
    TARGET = "https://provider.test/v1"

    def test_leads_calls_and_streams_to_the_provider(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "http/1.1")
        proxy = Proxy(listen(provider).port)
        url = f"http://user:password@127.0.0.1:{listen(proxy).port}"
        with Client(proxy=url, ca_file=str(certificate)) as client:
            assert client.call(connection(self.TARGET), ENCODED).text == "ok"
            with client.stream(connection(self.TARGET), ENCODED) as answer:
                assert b"".join(answer) == b"ok"
        assert proxy.asked == [b"CONNECT provider.test:443 HTTP/1.1"] * 2

    def test_of_the_environment_does_too(self, certificate: Path, listen: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        proxy = Proxy(listen(Provider(certificate, "http/1.1")).port)
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:password@127.0.0.1:{listen(proxy).port}")
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with Client(ca_file=str(certificate)) as client:
            assert client.call(connection(self.TARGET), ENCODED).text == "ok"
        assert len(proxy.asked) == 1

    def test_of_the_environment_is_not_asked_for_whom_the_environment_excepts(
        self, certificate: Path, listen: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proxy = Proxy(listen(Provider(certificate, "http/1.1")).port)
        monkeypatch.setenv("ALL_PROXY", f"user:password@127.0.0.1:{listen(proxy).port}")
        monkeypatch.setenv("no_proxy", "elsewhere.test")
        with Client(ca_file=str(certificate)) as client:
            assert client.call(connection(self.TARGET), ENCODED).text == "ok"
        monkeypatch.setenv("no_proxy", ".test")
        with Client(ca_file=str(certificate)) as client, pytest.raises(ProviderError, match="host name is unknown"):
            client.call(connection(self.TARGET), ENCODED)
        assert len(proxy.asked) == 1

    def test_is_not_asked_for_this_machine(self, certificate: Path, listen: Any) -> None:
        host = listen(Provider(certificate, "http/1.1"))
        with Client(proxy="http://127.0.0.1:1", ca_file=str(certificate)) as client:
            assert client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED).text == "ok"

    def test_that_refuses_is_named_without_its_password(self, certificate: Path, listen: Any) -> None:
        proxy = Proxy(listen(Provider(certificate, "http/1.1")).port)
        url = f"http://user:wrong-password@127.0.0.1:{listen(proxy).port}"
        with Client(proxy=url) as client, pytest.raises(ProviderError, match="the proxy refused") as caught:
            client.call(connection(self.TARGET), ENCODED)
        assert "wrong-password" not in f"{caught.value!r} {caught.value}"
        assert (caught.value.error_class, caught.value.error_code) == ("connection", "EPROXY")

    def test_does_not_keep_a_stream_from_being_cancelled(self, certificate: Path, listen: Any) -> None:
        provider = Provider(certificate, "http/1.1")
        provider.may_answer.clear()
        url = f"http://user:password@127.0.0.1:{listen(Proxy(listen(provider).port)).port}"
        caught: list[ProviderError] = []

        def read(stream: Stream) -> None:
            try:
                with stream:
                    raise AssertionError("entered")
            except ProviderError as error:
                caught.append(error)

        with Client(proxy=url, ca_file=str(certificate)) as client:
            stream = client.stream(connection(self.TARGET), ENCODED)
            reading = threading.Thread(target=read, args=(stream,), daemon=True)
            reading.start()
            assert provider.was_asked.wait(10)
            stream.cancel()
            reading.join(10)
        assert not reading.is_alive() and caught[0].error_code == "ECLOSED"


class TestTimeLimits:
    def test_of_connecting_counts_the_handshake(self, listen: Any) -> None:
        host = listen(lambda accepted: accepted.recv(1) and threading.Event().wait(10))
        limits = Timeouts(connect_s=0.2)
        with Client(limits) as client, pytest.raises(ProviderError, match="no connection within") as caught:
            client.call(connection(f"https://127.0.0.1:{host.port}"), ENCODED)
        assert (caught.value.error_class, caught.value.error_code) == ("connection", "ETIMEDOUT")

    def test_of_sending_ends_a_request_nobody_reads(self, listen: Any) -> None:
        host = listen(lambda accepted: threading.Event().wait(10))
        large = Encoded("/messages", b"x" * 32 * 1024 * 1024, {})
        limits = Timeouts(write_s=0.2)
        with Client(limits) as client, pytest.raises(ProviderError, match="could not be sent within") as caught:
            client.call(connection(f"http://127.0.0.1:{host.port}"), large)
        assert caught.value.error_code == "ETIMEDOUT"

    def test_of_waiting_for_a_connection_names_the_pool(self, listen: Any) -> None:
        arrived, may_end = threading.Event(), threading.Event()

        def serve(accepted: socket.socket) -> None:
            read_request(accepted)
            arrived.set()
            may_end.wait(10)
            accepted.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

        target = connection(f"http://127.0.0.1:{listen(serve).port}")
        with Client(Timeouts(pool_s=0.1), max_connections=1) as client:
            first = threading.Thread(target=client.call, args=(target, ENCODED), daemon=True)
            first.start()
            assert arrived.wait(10)
            with pytest.raises(ProviderError, match="all connections to this provider are in use") as caught:
                client.call(target, ENCODED)
            may_end.set()
            first.join(10)
        assert (caught.value.error_class, caught.value.error_code) == ("connection", "EPOOL")
