"""Sending requests: one pooled connection set per connection, timeouts, and plain words for what broke.

A provider's key is shown by nothing here: not by a repr, not by an error, and not in an answer that repeats it.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
from msgspec import Struct

from memory import marks
from memory.errors import ProviderError
from memory.providers.connection import Connection, Outgoing, headers_for, outgoing, url_for
from memory.providers.signers import Fetched
from memory.providers.wire import Encoded

__all__ = ["Client", "Connection", "Exchange", "Stream", "Timeouts", "headers_for", "url_for"]

MAX_RESPONSE_BYTES = 64 * 1024 * 1024

# A streamed answer is read to the end of its body, so that its connection can be used again, but not for longer.
_DRAIN_S = 0.25
# An idle connection of a stream is closed after this.
_IDLE_S = 60.0

# A shorter key, such as a local host's dummy, would blank harmless words of an answer.
_SHORTEST_KEY = 8

_USER_AGENT = f"python-httpx/{httpx.__version__}"
"""Sent where nobody gives another: some hosts refuse who does not say what they are."""

_CODES: tuple[tuple[type[Exception], str, str], ...] = (
    (httpx.ConnectTimeout, "ETIMEDOUT", "no connection within the time limit"),
    (httpx.ReadTimeout, "ETIMEDOUT", "no answer within the time limit"),
    (httpx.WriteTimeout, "ETIMEDOUT", "the request could not be sent within the time limit"),
    (httpx.PoolTimeout, "EPOOL", "all connections to this provider are in use"),
    (httpx.ConnectError, "ECONNREFUSED", "no connection"),
    (httpx.ProxyError, "EPROXY", "the proxy refused"),
    (httpx.ReadError, "ECONNRESET", "the connection broke while the answer was read"),
    (httpx.WriteError, "EPIPE", "the connection broke while the request was sent"),
    (httpx.RemoteProtocolError, "ECONNRESET", "the connection ended before the answer was complete"),
    (httpx.DecodingError, "EBADBODY", "the answer's compression is broken"),
)


class Timeouts(Struct, frozen=True):
    """Seconds; `read` is the longest silence while an answer is awaited."""

    connect_s: float = 10.0
    read_s: float = 600.0
    write_s: float = 60.0
    pool_s: float = 30.0


class Exchange(Struct, frozen=True):
    """An answer as it came: headers by lower-case name, instants in seconds since 1970."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    started_at: float
    finished_at: float

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")


class Client:
    """Calls providers over one reused set of connections per Connection. May be shared by threads.

    With `http2` a call uses HTTP/2 where the server offers it; streams never do. `proxy` is used for every address but
    those of this machine and its link; without it the environment's proxies are (`HTTPS_PROXY`, `NO_PROXY`). `ca_file`
    holds the certificates (PEM) that are trusted in place of the usual ones (`SSL_CERT_FILE`, else certifi's).

    `close` ends the calls that are in flight: each raises a ProviderError with code `ECLOSED`.
    """

    def __init__(
        self,
        timeouts: Timeouts | None = None,
        *,
        http2: bool = False,
        proxy: str = "",
        ca_file: str = "",
        max_connections: int = 1000,
    ) -> None:
        given = timeouts or Timeouts()
        self._timeouts = {
            "connect": given.connect_s,
            "read": given.read_s,
            "write": given.write_s,
            "pool": given.pool_s,
        }
        self._http2, self._proxy, self._ca_file = http2, proxy, ca_file
        self._limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=50)
        self._transports: dict[tuple[Any, ...], httpx.HTTPTransport] = {}
        self._sockets: set[socket.socket] = set()
        self._lanes: dict[tuple[Any, ...], list[_Lane]] = {}
        self._streams: set[Stream] = set()
        self._ssl: dict[bool, ssl.SSLContext] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(
        self, connection: Connection, encoded: Encoded, *, max_response_bytes: int = MAX_RESPONSE_BYTES
    ) -> Exchange:
        """The answer to a request, whatever its status.

        Raises ProviderError (`connection`) when none came, broke off or is larger than the limit.
        """
        sent = outgoing(connection, encoded, self.fetch)
        started_at = time.time()
        try:
            transport = self._transport(connection, sent.url)
            request = self._request("POST", sent.url, sent.headers, encoded.body, trace=self._trace)
            with closing(_answer(transport, request)) as response:
                body = _read(connection, response, max_response_bytes)
        except httpx.RequestError as error:
            raise self._failure(connection, error, secret=sent.secret) from error
        _note_refusal(connection, sent, response.status_code)
        if response.status_code >= 400 and len(sent.secret) >= _SHORTEST_KEY:
            body = body.replace(sent.secret.encode(), b"[key]")
        answered = {name.lower(): value for name, value in response.headers.items()}
        return Exchange(response.status_code, answered, body, started_at, time.time())

    def stream(
        self, connection: Connection, encoded: Encoded, *, max_response_bytes: int = MAX_RESPONSE_BYTES
    ) -> Stream:
        """A call whose answer is read as it comes. Nothing is sent before the stream is entered."""
        return Stream(self, connection, encoded, max_response_bytes)

    def fetch(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float | None
    ) -> Fetched:
        """A token endpoint's answer, by a connection that is not kept. Raises ProviderError when none came."""
        host = urlsplit(url).hostname or "the token endpoint"
        endpoint = Connection(host, "", url)
        try:
            with self._opened(url, httpx.Limits(max_connections=1), http2=False) as transport:
                request = self._request(method, url, headers, body, trace=self._trace)
                if timeout_s is not None:
                    request.extensions["timeout"] = dict.fromkeys(self._timeouts, timeout_s)
                with closing(_answer(transport, request)) as response:
                    return Fetched(response.status_code, dict(response.headers), response.read())
        except (httpx.RequestError, httpx.InvalidURL) as error:
            raise self._failure(endpoint, error) from error

    def close(self) -> None:
        """End all calls and give back all connections. A client that is closed stays closed."""
        with self._lock:
            self._is_closed = True
            transports, self._transports = list(self._transports.values()), {}
            sockets, self._sockets = list(self._sockets), set()
            transports += [lane.transport for lanes in self._lanes.values() for lane in lanes]
            self._lanes = {}
            streams = list(self._streams)
        for opened in sockets:
            _shut(opened)
        for stream in streams:
            stream.cancel()
        for transport in transports:
            transport.close()

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, *, trace: Callable[..., None]
    ) -> httpx.Request:
        """A request to be sent as it is: nothing is added but who we are, no cookies as an `httpx.Client` would."""
        extensions = {"timeout": self._timeouts, "trace": trace}
        request = httpx.Request(method, url, headers=headers, content=body, extensions=extensions)
        request.headers.setdefault("user-agent", _USER_AGENT)
        return request

    def _transport(self, connection: Connection, url: str) -> httpx.HTTPTransport:
        identity = _identity(connection)
        with self._lock:
            if self._is_closed:
                raise self._failure(connection, RuntimeError("the client is closed"))
            transport = self._transports.get(identity)
            if transport is None:
                transport = self._transports[identity] = self._opened(url, self._limits, http2=self._http2)
            return transport

    def _opened(self, url: str, limits: httpx.Limits, *, http2: bool) -> httpx.HTTPTransport:
        # Loaded once, as it takes long; one for each, as a connection sets in it which HTTP it offers.
        context = self._ssl.get(http2)
        if context is None:
            made = ssl.create_default_context(cafile=self._ca_file) if self._ca_file else httpx.create_ssl_context()
            context = self._ssl[http2] = made
        return httpx.HTTPTransport(verify=context, limits=limits, http2=http2, proxy=self._proxy_for(url))

    def _proxy_for(self, url: str) -> str | None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        # A proxy is no way to this machine itself, nor to the address where a cloud tells it its credentials.
        if _is_near(host):
            return None
        if self._proxy:
            return self._proxy
        known = {} if proxy_bypass(host) else getproxies()
        found = known.get(parts.scheme) or known.get("all")
        return found if found is None or "://" in found else f"http://{found}"

    def _enter(self, stream: Stream, connection: Connection, url: str) -> _Lane:
        """A lane for a stream: the one used last, whose connection is most likely still open, else a new one."""
        with self._lock:
            if self._is_closed:
                raise self._failure(connection, RuntimeError("the client is closed"))
            self._streams.add(stream)
            if idle := self._lanes.get(_identity(connection)):
                return idle.pop()
            limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=_IDLE_S)
            return _Lane(self._opened(url, limits, http2=False))

    def _leave(self, stream: Stream, connection: Connection, lane: _Lane) -> None:
        now = time.monotonic()
        with self._lock:
            self._streams.discard(stream)
            if self._is_closed:
                stale = [lane]
            else:
                lane.idle_since = now
                idle = self._lanes.setdefault(_identity(connection), [])
                idle.append(lane)
                stale = [old for lanes in self._lanes.values() for old in lanes if now - old.idle_since > _IDLE_S]
                self._lanes = {
                    identity: kept
                    for identity, lanes in self._lanes.items()
                    if (kept := [old for old in lanes if old not in stale])
                }
        for old in stale:
            old.transport.close()

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember each socket opened: closing one does not wake a thread that reads it, shutting it down does."""
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        opened = info["return_value"].get_extra_info("socket")
        if not isinstance(opened, socket.socket):
            return
        with self._lock:
            is_closed = self._is_closed
            self._sockets = {known for known in self._sockets if known.fileno() >= 0} | {opened}
        if is_closed:
            _shut(opened)

    def _failure(
        self, connection: Connection, error: Exception, *, secret: str = "", is_ended: bool = False
    ) -> ProviderError:
        if is_ended or self._is_closed:
            code, what = "ECLOSED", "the call was ended here"
        else:
            code, what = _code_of(error)
        said = str(error).replace(secret, "[key]") if len(secret) >= _SHORTEST_KEY else str(error)
        message = f"{connection.provider}: {what} ({said})" if said else f"{connection.provider}: {what}"
        return ProviderError(message, error_class="connection", is_retryable=False, error_code=code)


class _Lane:
    """A connection that serves one stream at a time, so that its socket is known while no answer has begun."""

    def __init__(self, transport: httpx.HTTPTransport) -> None:
        self.transport = transport
        self.socket: socket.socket | None = None
        self.idle_since = 0.0


class Stream:
    """A streamed call as a context manager: entering sends the request and waits for the answer's head.

    Iterating gives the body in pieces as they come. What breaks raises ProviderError with the codes of `Client.call`,
    on entering as well as while reading. `cancel` may be called by any thread at any time: it ends this call alone,
    and whoever waits for it gets the code `ECLOSED`. Streams use HTTP/1.1, where a connection carries one call.
    """

    status: int
    headers: Mapping[str, str]
    """By lower-case name."""
    started_at: float
    """Seconds since 1970."""

    def __init__(self, client: Client, connection: Connection, encoded: Encoded, max_response_bytes: int) -> None:
        self._client, self._connection, self._encoded = client, connection, encoded
        self._limit = max_response_bytes
        self._lock = threading.Lock()
        self._lane: _Lane | None = None
        self._secret = ""
        self._is_cancelled = False
        self._has_ended = False
        self.on_sent: Callable[[], None] = lambda: None
        """Called once the request has gone out, or not at all."""

    def cancel(self) -> None:
        """End this call. Does nothing to one that is over."""
        with self._lock:
            self._is_cancelled = True
            self._shut()

    def __enter__(self) -> Self:
        # Compression would hold back words until a block is full.
        sent = outgoing(self._connection, self._encoded, self._client.fetch, own={"accept-encoding": "identity"})
        self._secret = sent.secret
        self.started_at = time.time()
        lane = self._client._enter(self, self._connection, sent.url)
        with self._lock:
            self._lane = lane
        is_open = False
        try:
            self._check_cancelled()
            request = self._client._request("POST", sent.url, sent.headers, self._encoded.body, trace=self._trace)
            self._response = _answer(lane.transport, request)
            is_open = True
        except httpx.RequestError as error:
            raise self._failure(error) from error
        finally:
            if not is_open:
                self._leave()
        self.status = self._response.status_code
        _note_refusal(self._connection, sent, self.status)
        self.headers = {name.lower(): value for name, value in self._response.headers.items()}
        self._pieces = self._read()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and not self._has_ended and not self._is_ended:
                self._drain()
            self._response.close()
        finally:
            self._leave()
            # What httpx keeps of a call is a ring, which by its trace holds this stream too, until it is collected.
            self._response.request.extensions.pop("trace", None)
            del self._response, self._pieces

    def __iter__(self) -> Iterator[bytes]:
        """The rest of the body. The key is blanked in it."""
        return self._pieces

    def exchange(self) -> Exchange:
        """The answer with the rest of its body, as `Client.call` gives it: for one that is no stream."""
        body = b"".join(self._pieces)
        return Exchange(self.status, self.headers, body, self.started_at, time.time())

    @property
    def _is_ended(self) -> bool:
        return self._is_cancelled or self._client._is_closed

    def _read(self) -> Iterator[bytes]:
        size, held = 0, b""
        key = self._secret.encode()
        try:
            for piece in self._response.iter_bytes():
                self._check_cancelled()
                size += len(piece)
                if size > self._limit:
                    raise _too_large(self._connection, self.status, self._limit)
                if len(key) >= _SHORTEST_KEY:
                    piece, held = _blanked(held + piece, key)
                if piece:
                    yield piece
        except (httpx.RequestError, httpx.StreamError) as error:
            raise self._failure(error) from error
        # Where the end of the connection is the end of the body, a cut looks like an end.
        self._check_cancelled()
        self._has_ended = True
        if held:
            yield held

    def _drain(self) -> None:
        """Read what little may follow an end mark."""
        timer = threading.Timer(_DRAIN_S, self._shut_locked)
        timer.daemon = True
        timer.start()
        try:
            for _ in self._pieces:
                pass
        except ProviderError:
            return  # the answer was complete without it
        finally:
            timer.cancel()

    def _leave(self) -> None:
        with self._lock:
            lane, self._lane = self._lane, None
        if lane is not None:
            self._client._leave(self, self._connection, lane)

    def _check_cancelled(self) -> None:
        if self._is_ended:
            raise self._failure(RuntimeError())

    def _failure(self, error: Exception) -> ProviderError:
        return self._client._failure(self._connection, error, secret=self._secret, is_ended=self._is_cancelled)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "http11.send_request_body.complete":
            marks.passed("request sent")
            self.on_sent()
        if not event.endswith(("connect_tcp.complete", "start_tls.complete")):
            return
        opened = info["return_value"].get_extra_info("socket")
        with self._lock:
            if self._lane is not None and isinstance(opened, socket.socket):
                self._lane.socket = opened
            if self._is_ended:
                self._shut()

    def _shut_locked(self) -> None:
        with self._lock:
            self._shut()

    def _shut(self) -> None:
        # Under the lock: the lane may serve another stream as soon as this one has left it.
        if self._lane is not None and self._lane.socket is not None:
            _shut(self._lane.socket)


def _answer(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
    """The answer's head; its body is still to be read, and it is to be closed."""
    response = transport.handle_request(request)
    response.request = request
    return response


def _identity(connection: Connection) -> tuple[Any, ...]:
    headers = tuple(sorted(connection.headers.items()))
    return connection.provider, connection.protocol, connection.base_url, connection.key, connection.signer, headers


def _note_refusal(connection: Connection, sent: Outgoing, status: int) -> None:
    if status == 401 and connection.signer is not None and sent.signed is not None:
        connection.signer.refused(sent.signed)


def _read(connection: Connection, response: httpx.Response, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > limit:
            raise _too_large(connection, response.status_code, limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_large(connection: Connection, status: int, limit: int) -> ProviderError:
    return ProviderError(
        f"{connection.provider}: the answer is larger than {limit:,} bytes",
        status=status,
        error_class="connection",
        is_retryable=False,
        error_code="response_too_large",
    )


def _blanked(data: bytes, key: bytes) -> tuple[bytes, bytes]:
    """The data without the key, and its end that may be the begin of one."""
    data = data.replace(key, b"[key]")
    at = data.find(key[:1], max(0, len(data) - len(key) + 1))
    while at >= 0:
        if key.startswith(data[at:]):
            return data[:at], data[at:]
        at = data.find(key[:1], at + 1)
    return data, b""


def _code_of(error: Exception) -> tuple[str, str]:
    """A code such as `ECONNRESET`, the system's own where there is one, and what happened in plain words."""
    code, what = next(
        ((code, what) for kind, code, what in _CODES if isinstance(error, kind)), ("ENETWORK", "the call failed")
    )
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            break
        if isinstance(cause, socket.gaierror):
            return "ENOTFOUND", "its host name is unknown"
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno in errno.errorcode:
            return errno.errorcode[cause.errno], what
        cause = cause.__cause__ or cause.__context__
    return code, what


def _is_near(host: str) -> bool:
    if host in ("localhost", "metadata.google.internal") or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local


def _shut(opened: socket.socket) -> None:
    try:
        # Past the TLS layer, whose own shutdown would change an object that another thread is reading from.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)
    except OSError:
        return
