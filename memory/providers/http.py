"""Sending requests: one pooled connection set per connection, timeouts, and plain words for what broke.

A provider's key is shown by nothing here: not by a repr, not by an error, and not in an answer that repeats it.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from msgspec import Struct

from memory.errors import InvalidInput, ProviderError
from memory.providers.entries import AuthStyle, entry_for
from memory.providers.wire import Encoded

MAX_RESPONSE_BYTES = 64 * 1024 * 1024
ANTHROPIC_VERSION = "2023-06-01"

_SECRET_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"}
)
# A shorter key, such as a local host's dummy, would blank harmless words of an answer.
_SHORTEST_KEY = 8

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


class Connection(Struct, frozen=True):
    """How to reach a provider: where, in which protocol, with which key. `headers` are sent with every call."""

    provider: str
    protocol: str
    base_url: str
    key: str = ""
    headers: Mapping[str, str] = {}

    def __repr__(self) -> str:
        shown = "set" if self.key else "none"
        return f"Connection({self.provider!r}, {self.protocol!r}, {self.base_url!r}, key={shown})"

    __str__ = __repr__


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


def url_for(connection: Connection, encoded: Encoded) -> str:
    """Where a request goes. Raises InvalidInput when the connection has no http(s) address."""
    base = connection.base_url.rstrip("/")
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidInput(f"{connection.provider} has no http or https address", field="base_url", code="bad_base_url")
    return base + encoded.path


def headers_for(connection: Connection, *, with_key: bool) -> dict[str, str]:
    """The headers of a call. Without the key none that could hold a secret is given: fit to be shown.

    Raises InvalidInput, without the value, for one that no header can carry.
    """
    headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "gzip, deflate"}
    if connection.protocol == "anthropic-messages":
        headers["anthropic-version"] = ANTHROPIC_VERSION
    headers |= {name.lower(): value for name, value in connection.headers.items()}
    for name, value in headers.items():
        _check_value(value, f"header {name}")
    if not with_key:
        return {name: value for name, value in headers.items() if name not in _SECRET_HEADERS}
    if key := connection.key.strip():
        _check_value(key, f"the key of {connection.provider}")
        match _auth_style(connection):
            case "x-api-key" | "x-goog-api-key" as name:
                headers[name] = key
            case _:
                headers["authorization"] = f"Bearer {key}"
    return headers


def _auth_style(connection: Connection) -> AuthStyle:
    """How a key is shown: as the provider's own protocol wants it, else as the protocol does elsewhere."""
    entry = entry_for(connection.provider)
    if connection.protocol == entry.protocol:
        return entry.auth
    return "x-api-key" if connection.protocol == "anthropic-messages" else "bearer"


def _check_value(value: str, what: str) -> None:
    if not all(" " <= character <= "~" or character == "\t" for character in value):
        raise InvalidInput(f"{what} holds characters that a header can't carry", field="headers", code="bad_header")


class Client:
    """Calls providers over one reused set of connections per Connection. May be shared by threads.

    `close` ends the calls that are in flight: each raises a ProviderError with code `ECLOSED`.
    """

    def __init__(self, timeouts: Timeouts | None = None, *, http2: bool = False, max_connections: int = 1000) -> None:
        limits = timeouts or Timeouts()
        self._timeout = httpx.Timeout(
            connect=limits.connect_s, read=limits.read_s, write=limits.write_s, pool=limits.pool_s
        )
        self._http2 = http2
        self._limits = httpx.Limits(max_connections=max_connections, max_keepalive_connections=50)
        self._clients: dict[tuple[Any, ...], httpx.Client] = {}
        self._sockets: set[socket.socket] = set()
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
        url = url_for(connection, encoded)
        headers = headers_for(connection, with_key=True)
        started_at = time.time()
        try:
            client = self._client(connection, url)
            with client.stream(
                "POST", url, content=encoded.body, headers=headers, extensions={"trace": self._trace}
            ) as response:
                body = _read(connection, response, max_response_bytes)
        except httpx.InvalidURL as error:
            raise InvalidInput(f"{connection.provider} has no usable address", field="base_url") from error
        except httpx.RequestError as error:
            raise self._failure(connection, error) from error
        except RuntimeError as error:
            # httpx refuses to send over a client that was closed meanwhile, with no error class of its own.
            if not self._is_closed:
                raise
            raise self._failure(connection, error) from error
        key = connection.key.strip()
        if response.status_code >= 400 and len(key) >= _SHORTEST_KEY:
            body = body.replace(key.encode(), b"[key]")
        answered = {name.lower(): value for name, value in response.headers.items()}
        return Exchange(response.status_code, answered, body, started_at, time.time())

    def close(self) -> None:
        """End all calls and give back all connections. A client that is closed stays closed."""
        with self._lock:
            self._is_closed = True
            clients, self._clients = list(self._clients.values()), {}
            sockets, self._sockets = list(self._sockets), set()
        for opened in sockets:
            _shut(opened)
        for client in clients:
            client.close()

    def _client(self, connection: Connection, url: str) -> httpx.Client:
        identity = (
            connection.provider,
            connection.protocol,
            connection.base_url,
            connection.key,
            tuple(sorted(connection.headers.items())),
        )
        with self._lock:
            if self._is_closed:
                raise RuntimeError("the client is closed")
            client = self._clients.get(identity)
            if client is None:
                client = self._clients[identity] = httpx.Client(
                    timeout=self._timeout,
                    limits=self._limits,
                    http2=self._http2,
                    # A proxy named by the environment is no way to this machine itself.
                    trust_env=not _is_loopback(urlsplit(url).hostname or ""),
                    follow_redirects=False,
                )
            return client

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

    def _failure(self, connection: Connection, error: Exception) -> ProviderError:
        if self._is_closed:
            code, what = "ECLOSED", "the call was ended here"
        else:
            code, what = _code_of(error)
        key = connection.key.strip()
        said = str(error).replace(key, "[key]") if len(key) >= _SHORTEST_KEY else str(error)
        message = f"{connection.provider}: {what} ({said})" if said else f"{connection.provider}: {what}"
        return ProviderError(message, error_class="connection", is_retryable=False, error_code=code)


def _read(connection: Connection, response: httpx.Response, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > limit:
            raise ProviderError(
                f"{connection.provider}: the answer is larger than {limit:,} bytes",
                status=response.status_code,
                error_class="connection",
                is_retryable=False,
                error_code="response_too_large",
            )
        chunks.append(chunk)
    return b"".join(chunks)


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


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shut(opened: socket.socket) -> None:
    try:
        # Past the TLS layer, whose own shutdown would change an object that another thread is reading from.
        socket.socket.shutdown(opened, socket.SHUT_RDWR)
    except OSError:
        return
