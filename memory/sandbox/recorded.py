"""A provider that answers as one did before: each request gets the next recorded answer, whatever it asks."""

import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any

from msgspec import Struct

from memory.sandbox.server import _Server

_OWN_HEADERS = {"content-length", "transfer-encoding", "content-encoding", "connection", "date", "keep-alive", "server"}


class Recorded(Struct, frozen=True):
    """An answer. With `is_broken` the connection ends after the body, as it ended then; without a status at once."""

    status: int | None
    headers: dict[str, str]
    body: bytes
    is_broken: bool = False


class Playback:
    """A running server as a context manager. `arrived` are the bodies of the requests, in order."""

    def __init__(self, answers: Sequence[Recorded]) -> None:
        self.arrived: list[bytes] = []
        self._server = _Player(answers, self.arrived)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="playback", daemon=True
        )

    def __enter__(self) -> "Playback":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._server.close_connections()
        self._thread.join(timeout=1)


class _Player(_Server):
    def __init__(self, answers: Sequence[Recorded], arrived: list[bytes]) -> None:
        self.answers, self.arrived = answers, arrived
        super().__init__(("127.0.0.1", 0), _PlayHandler)  # type: ignore[arg-type]  # another handler of the same kind


class _PlayHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Player

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: headers hold keys."""

    def do_POST(self) -> None:
        arrived, answers = self.server.arrived, self.server.answers
        arrived.append(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        beyond = Recorded(400, {}, b'{"error":{"message":"there was no further call"}}')
        answer = answers[len(arrived) - 1] if len(arrived) <= len(answers) else beyond
        if answer.status is None:
            self._abort()
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            if name.lower() not in _OWN_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body) + answer.is_broken))
        self.end_headers()
        self.wfile.write(answer.body)
        if answer.is_broken:
            self.wfile.flush()
            self._abort()

    def _abort(self) -> None:
        self.server.reset_on_close(self.connection)
        self.close_connection = True
