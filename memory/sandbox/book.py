"""What the sandbox remembers: the answers queued for a provider, and the requests that arrived."""

import math
import re
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from memory.sandbox.failures import names
from memory.sandbox.vendors import VENDORS

KEPT = 10_000
"""Scripted answers per provider, and requests, that are kept: the last ones."""
KEPT_BYTES = 256 * 1024 * 1024
"""Bytes of request bodies that are kept; the oldest requests go first, the newest always stays."""
_MAX_DELAY_S = 3600.0
_SECRET = re.compile(r"auth|key|token|secret|cookie|credential", re.I)
_SECRET_QUERY = re.compile(r"([?&][^=&]*(?:key|token|secret|signature)[^=&]*=)[^&]*", re.I)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN_HEADERS = frozenset({"content-length", "transfer-encoding", "connection"})

Drop = Literal["before", "mid", "end"]


class BadScript(ValueError):
    """A script that can't be played; the sentence names the field."""


class Script(Struct, frozen=True):
    """One answer to give in place of the normal one.

    Without a body, an error status gets the vendor's body for it; any other gets the normal answer to the request,
    checks and all, after `delay_s` and with these headers. A body that is text is sent as it is. `failure` names one
    of the vendor's; with `after`, a number of events, the normal stream begins and breaks off with it. `pieces` is the
    size in bytes of the chunks in which a stream is sent, in place of one event a chunk, `pace_s` the seconds between
    two of them. `drop` resets the connection
    `before` anything is sent or in the `mid`dle, or leaves out the second half of the body and `end`s politely.
    """

    status: int | None = None
    headers: dict[str, str] = {}
    body: Any = None
    drop: Drop | None = None
    delay_s: float = 0.0
    pieces: int | None = None
    failure: str = ""
    after: int | None = None
    pace_s: float = 0.0


_FIELDS = ("status", "headers", "body", "drop", "delay_s", "pieces", "failure", "after", "pace_s")


def read_script(fields: object) -> tuple[str, int, Script]:
    """Provider, times and answer from decoded JSON. Raises BadScript."""
    if not isinstance(fields, dict):
        raise BadScript("The script must be a JSON object.")
    for name in fields:
        if name not in ("provider", "times", *_FIELDS):
            raise BadScript(f"{name}: there is no such field.")
    provider, times, status = fields.get("provider"), fields.get("times", 1), fields.get("status")
    headers, drop, delay_s = fields.get("headers"), fields.get("drop"), fields.get("delay_s", 0)
    if not isinstance(provider, str) or provider not in VENDORS:
        raise BadScript(f"provider: must be one of {', '.join(sorted(VENDORS))}.")
    if not _is_whole(times) or not 1 <= times <= KEPT:
        raise BadScript(f"times: must be a whole number from 1 to {KEPT}.")
    if status is not None and not (_is_whole(status) and 200 <= status <= 599):
        raise BadScript("status: must be a whole number from 200 to 599.")
    headers = {} if headers is None else headers
    _check_headers(headers)
    if drop not in (None, "before", "mid", "end"):
        raise BadScript('drop: must be "before", "mid" or "end".')
    if drop == "before" and (status is not None or headers or fields.get("body") is not None):
        raise BadScript('drop: "before" sends nothing, so it takes no status, headers or body.')
    pace_s = fields.get("pace_s", 0)
    for name, value in (("delay_s", delay_s), ("pace_s", pace_s)):
        if not _is_number(value) or not 0 <= value <= _MAX_DELAY_S:
            raise BadScript(f"{name}: must be a number of seconds from 0 to {_MAX_DELAY_S:.0f}.")
    pieces = fields.get("pieces")
    if pieces is not None and not (_is_whole(pieces) and pieces >= 1):
        raise BadScript("pieces: must be a whole number of bytes from 1.")
    failure, after = fields.get("failure"), fields.get("after")
    if failure is not None and not (isinstance(failure, str) and failure in names(provider)):
        raise BadScript(f"failure: {provider} has {', '.join(sorted(names(provider)))}.")
    if failure is not None and (status is not None or fields.get("body") is not None):
        raise BadScript("failure: has a status and a body of its own.")
    if after is not None and not (_is_whole(after) and after >= 0 and failure is not None):
        raise BadScript("after: must be a whole number of events from 0, beside a failure.")
    if not fields.keys() & set(_FIELDS):
        raise BadScript(f"status: say what to do with one of {', '.join(_FIELDS)}.")
    body, lead_s, pace = fields.get("body"), float(delay_s), float(pace_s)
    script = Script(status, headers, body, drop, lead_s, pieces, failure or "", after, pace)
    return provider, times, script


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_headers(headers: object) -> None:
    if not isinstance(headers, dict):
        raise BadScript("headers: must be an object of texts.")
    for name, value in headers.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name) or name.lower() in _OWN_HEADERS:
            raise BadScript(f"headers: {name!r} can't be set.")
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise BadScript(f"headers: {name!r} must be printable ASCII text.")


class Arrival(Struct):
    """One request, as listed. `status` is None until it is answered, and stays so when nothing was sent.

    `body` is the JSON that came, or its text when it was none; times are seconds since 1970.
    """

    number: int
    provider: str
    method: str
    path: str
    headers: dict[str, str]
    body: msgspec.Raw
    size_bytes: int
    started_at: float
    status: int | None = None
    drop: Drop | None = None
    finished_at: float | None = None


class Book:
    """Scripts and requests, shared by the threads of the server."""

    def __init__(self, *, kept: int = KEPT, kept_bytes: int = KEPT_BYTES) -> None:
        self._lock = threading.Lock()
        self._scripts: dict[str, deque[Script]] = {provider: deque(maxlen=kept) for provider in VENDORS}
        self._arrivals: deque[Arrival] = deque()
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._bytes = 0
        self._count = 0

    def queue(self, provider: str, times: int, script: Script) -> None:
        with self._lock:
            self._scripts[provider].extend([script] * times)

    def enter(
        self, provider: str, method: str, path: str, headers: Mapping[str, str], raw: bytes
    ) -> tuple[Arrival, Script | None]:
        """Note an arrival; with it the script that is next for this provider."""
        body = _listed(raw)
        with self._lock:
            self._count += 1
            arrival = Arrival(
                number=self._count,
                provider=provider,
                method=method,
                path=_SECRET_QUERY.sub(r"\1***", path),
                headers={name: "***" if _SECRET.search(name) else value for name, value in headers.items()},
                body=body,
                size_bytes=len(raw),
                started_at=time.time(),
            )
            self._arrivals.append(arrival)
            self._bytes += len(raw)
            while len(self._arrivals) > self._kept or (self._bytes > self._kept_bytes and len(self._arrivals) > 1):
                self._bytes -= self._arrivals.popleft().size_bytes
            waiting = self._scripts[provider]
            return arrival, waiting.popleft() if waiting else None

    def close(self, arrival: Arrival, status: int | None, drop: Drop | None) -> None:
        with self._lock:
            arrival.status, arrival.drop, arrival.finished_at = status, drop, time.time()

    def listing(self, provider: str | None = None) -> bytes:
        """The requests of one provider or of all, oldest first, as a JSON list."""
        with self._lock:
            return msgspec.json.encode([entry for entry in self._arrivals if provider in (None, entry.provider)])

    def clear(self) -> None:
        with self._lock:
            self._arrivals.clear()
            self._bytes = 0
            for waiting in self._scripts.values():
                waiting.clear()


def _listed(raw: bytes) -> msgspec.Raw:
    if not raw:
        return msgspec.Raw(b"null")
    try:
        msgspec.json.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return msgspec.Raw(msgspec.json.encode(raw.decode(errors="replace")))
    return msgspec.Raw(raw)
