"""The HTTP server in front of the pretend providers: routes, scripted answers, drops, the list of what arrived."""

import http.client
import logging
import re
import socket
import socketserver
import struct
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memory.sandbox.book import BadScript, Book, Drop, Script, read_script
from memory.sandbox.failures import in_stream, told
from memory.sandbox.vendors import VENDORS, Vendor, find
from memory.sandbox.wire import BadJson, Refused, made_id, read_json, to_json

BODY_BYTES = 32 * 1024 * 1024
"""Largest request body a provider takes."""
_EVENT = re.compile(rb".+?(?:\r?\n\r?\n|\Z)", re.S)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

log = logging.getLogger(__name__)


class Reply(Struct, frozen=True):
    """An answer. A stream has its `events`, of which the body is made."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    events: tuple[bytes, ...] | None = None


class Sandbox:
    """A running sandbox. `url` has no slash at the end."""

    def __init__(self, server: "_Server") -> None:
        self._server = server
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        self._thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="sandbox", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End within a second; calls that still wait lose their connection."""
        self._server.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._server.close_connections()
        self._thread.join(timeout=1)

    def script(
        self,
        provider: str,
        *,
        times: int = 1,
        status: int | None = None,
        headers: dict[str, str] | None = None,
        body: Any = None,
        drop: Drop | None = None,
        delay_s: float = 0,
        pieces: int | None = None,
        failure: str | None = None,
        after: int | None = None,
        pace_s: float = 0,
    ) -> None:
        """Queue an answer, as POST /_script does. Raises ValueError with a sentence that names the field."""
        given = {
            "status": status,
            "headers": headers,
            "body": body,
            "drop": drop,
            "delay_s": delay_s or None,
            "pieces": pieces,
            "failure": failure,
            "after": after,
            "pace_s": pace_s or None,
        }
        fields = {name: value for name, value in given.items() if value is not None}
        self._server.book.queue(*read_script({"provider": provider, "times": times, **fields}))

    def requests(self, provider: str | None = None) -> list[dict[str, Any]]:
        """What arrived, oldest first, as GET /_requests lists it."""
        listed: list[dict[str, Any]] = msgspec.json.decode(self._server.book.listing(provider))
        return listed

    def clear(self) -> None:
        """Forget requests and scripts."""
        self._server.book.clear()


def start(port: int = 0) -> Sandbox:
    """Serve on the loopback address, on a free port unless one is named. Raises OSError when it is taken."""
    return Sandbox(_Server(("127.0.0.1", port), _Handler))


class _Server(ThreadingHTTPServer):
    request_queue_size = 512
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], handler: type["_Handler"]) -> None:
        self.book = Book()
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._reset: set[socket.socket] = set()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        socketserver.TCPServer.server_bind(self)  # HTTPServer's own asks the resolver for a name nobody needs

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
            is_reset = request in self._reset
            self._reset.discard(request)
        if is_reset:
            self.close_request(request)  # a shutdown first would end the connection politely
        else:
            super().shutdown_request(request)

    def reset_on_close(self, request: socket.socket) -> None:
        """Let the end of this connection be a reset, as when a peer crashes."""
        request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        with self._lock:
            self._reset.add(request)

    def close_connections(self) -> None:
        with self._lock:
            for request in self._open:
                try:
                    request.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a caller that hung up is nothing to report
            log.exception("The sandbox could not handle a request")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what arrived is listed, and headers hold keys."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by the base class for requests that are not HTTP."""
        self.close_connection = True
        self._send(_sentence(code, message or http.client.responses.get(code, "Error")))

    def _handle(self) -> None:
        raw = self._read_body()
        if raw is None:
            return
        url = urlsplit(self.path)
        match url.path:
            case "/_script":
                self._send(self._take_script(raw))
            case "/_requests":
                self._send(self._requests(parse_qs(url.query)))
            case path:
                _, provider, rest = f"{path}//".split("/", 2)
                if provider in VENDORS:
                    self._play(provider, "/" + rest.rstrip("/"), raw)
                else:
                    self._send(_sentence(404, f"There is no provider '{provider}' here."))

    def _take_script(self, raw: bytes) -> Reply:
        if self.command != "POST":
            return _sentence(405, "Scripts are sent with POST.")
        try:
            self.server.book.queue(*read_script(read_json(raw)))
        except BadJson as error:
            return _sentence(422, f"body: not JSON: {error.reason}.")
        except BadScript as error:
            return _sentence(422, str(error))
        return Reply(200, _json_headers(), b'{"queued":true}')

    def _requests(self, query: dict[str, list[str]]) -> Reply:
        if self.command == "DELETE":
            self.server.book.clear()
            return Reply(200, _json_headers(), b'{"cleared":true}')
        if self.command != "GET":
            return _sentence(405, "Requests are listed with GET and cleared with DELETE.")
        provider = query.get("provider", [None])[-1]
        if provider is not None and provider not in VENDORS:
            return _sentence(422, f"provider: there is no provider '{provider}'.")
        return Reply(200, _json_headers(), self.server.book.listing(provider))

    def _play(self, provider: str, path: str, raw: bytes) -> None:
        """Answer for a provider: what is scripted, else what the vendor would say."""
        headers = {name.lower(): value for name, value in self.headers.items()}
        arrival, script = self.server.book.enter(provider, self.command, self.path, headers, raw)
        script = script or Script()
        if script.delay_s and self.server.stopped.wait(script.delay_s):
            self.close_connection = True
            return
        if script.drop == "before":
            self.server.book.close(arrival, None, "before")
            self._abort()
            return
        request_id = made_id("req_", raw, str(arrival.number))
        reply = _scripted(provider, script, request_id) or self._normal(
            provider, path, headers, raw, request_id, script
        )
        status = reply.status if script.status is None or reply.status >= 400 else script.status
        own = {name.lower(): value for name, value in script.headers.items()}
        reply = replace(reply, status=status, headers=reply.headers | own)
        # closed before the last byte is out, so that whoever has the answer finds it listed
        self.server.book.close(arrival, reply.status, script.drop)
        self._send(reply, drop=script.drop, pieces=script.pieces, pace_s=script.pace_s)

    def _normal(
        self, provider: str, path: str, headers: dict[str, str], raw: bytes, request_id: str, script: Script
    ) -> Reply:
        """The vendor's own answer to a request: a refusal, a reply, a stream, or the failure a script names."""
        vendor = VENDORS[provider]
        try:
            found = find(provider, path)
            if found is None:
                raise vendor.failure(404)
            vendor, said = found
            if self.command != "POST":
                raise vendor.failure(405)
            if script.failure and script.after is None:
                return _failing(provider, script.failure, vendor, request_id)
            vendor.authorise(headers)
            if len(raw) > BODY_BYTES:
                raise vendor.failure(413)
            body = read_json(raw)
            if isinstance(body, dict):
                body |= said
            vendor.check(body)
        except Refused as refused:
            return _refusal(vendor, refused, request_id)
        except BadJson as error:
            return _refusal(vendor, vendor.bad_json(error), request_id)
        known = {vendor.request_id_header: request_id}
        if vendor.streams or (vendor.streams is None and body.get("stream") is True):
            kind = {"content-type": vendor.stream_type, "cache-control": "no-cache"}
            events = tuple(vendor.events(body, raw))
            if script.failure:
                failure = told(provider, script.failure, vendor, request_id)
                events = (*events[: script.after], in_stream(vendor, failure))
            return Reply(200, kind | known, events=events)
        if script.failure:
            return _failing(provider, script.failure, vendor, request_id)
        return Reply(200, _json_headers() | known, to_json(vendor.reply(body, raw)))

    def _send(self, reply: Reply, *, drop: Drop | None = None, pieces: int | None = None, pace_s: float = 0.0) -> None:
        """Send a reply, a stream one event a chunk or in chunks of so many bytes, whole or half of it."""
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        chunks: list[bytes] = []
        if reply.events is not None:
            chunks = self._chunked(reply.events, drop, pieces)
            body = b"".join(chunks)
            self.send_header("Transfer-Encoding", "chunked")
        else:
            body = reply.body[: len(reply.body) // 2] if drop == "end" else reply.body
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if pace_s and chunks and drop != "mid":
            for number, chunk in enumerate(chunks):
                if number:
                    self.server.stopped.wait(pace_s)
                self.wfile.write(chunk)
            return
        self.wfile.write(body[: len(body) // 2] if drop == "mid" else body)
        if drop == "mid":
            self._abort()

    def _chunked(self, events: tuple[bytes, ...], drop: Drop | None, pieces: int | None) -> list[bytes]:
        if drop == "end":
            events = events[: len(events) // 2]
        chunks = events if pieces is None else _cut(b"".join(events), pieces)
        return [*(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk), b"0\r\n\r\n"]

    def _abort(self) -> None:
        self.server.reset_on_close(self.connection)
        self.close_connection = True

    def _read_body(self) -> bytes | None:
        """The body, cut one byte past the limit; None when its length makes no sense, which is answered here."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._read_chunks()
        try:
            left = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            left = -1
        if left < 0:
            self.send_error(400, "The Content-Length is not a number of bytes.")
            return None
        return self._read(left)

    def _read_chunks(self) -> bytes | None:
        raw = bytearray()
        while True:
            try:
                size = int(self.rfile.readline(128).split(b";")[0], 16)
            except ValueError:
                size = -1
            if size < 0:
                self.send_error(400, "The body is not chunked as it says.")
                return None
            raw += self._read(size)
            del raw[BODY_BYTES + 1 :]
            self.rfile.readline(128)
            if size == 0:
                return bytes(raw)

    def _read(self, size: int) -> bytes:
        """So many bytes; those past the limit are read and forgotten, so that the answer finds a reader."""
        raw = self.rfile.read(min(size, BODY_BYTES + 1))
        left = size - len(raw)
        while left > 0:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                break
            left -= len(piece)
        return raw


def _cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def _scripted(provider: str, script: Script, request_id: str) -> Reply | None:
    """The answer a script holds; None when it wants the normal one."""
    status = script.status or 200
    if isinstance(script.body, str):
        is_stream = script.body.startswith(("event:", "data:"))
        sent = script.body.encode(errors="replace")
        if is_stream:
            kind = {"content-type": "text/event-stream; charset=utf-8"}
            return Reply(status, kind, events=tuple(_EVENT.findall(sent)))
        return Reply(status, {"content-type": "text/plain; charset=utf-8"}, sent)
    if script.body is not None:
        return Reply(status, _json_headers(), to_json(script.body))
    if status < 400:
        return None
    vendor = VENDORS[provider]
    return _refusal(vendor, vendor.failure(status), request_id)


def _failing(provider: str, name: str, vendor: Vendor, request_id: str) -> Reply:
    """A named failure in place of an answer."""
    failure = told(provider, name, vendor, request_id)
    if isinstance(failure.body, str):
        kind = "text/html" if failure.body else "text/plain"
        return Reply(failure.status, {"content-type": kind, **failure.headers}, failure.body.encode())
    headers = _json_headers() | {vendor.request_id_header: request_id}
    if vendor.kind_header:
        headers[vendor.kind_header] = failure.kind
    return Reply(failure.status, headers | dict(failure.headers), to_json(failure.body))


def _refusal(vendor: Vendor, refused: Refused, request_id: str) -> Reply:
    headers = _json_headers() | {vendor.request_id_header: request_id}
    if vendor.kind_header:
        headers[vendor.kind_header] = refused.kind
    return Reply(refused.status, headers, to_json(vendor.error_body(refused, request_id)))


def _sentence(status: int, message: str) -> Reply:
    return Reply(status, _json_headers(), to_json({"error": {"message": message}}))


def _json_headers() -> dict[str, str]:
    return {"content-type": "application/json"}
