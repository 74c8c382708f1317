"""What the runs of this process tell as they go, to the rows and then to readers.

Pieces of a streamed answer are joined about ten times a second. Each batch is one statement for all runs, written by
one thread, and then told: what a reader has seen is there after a crash. Only a piece behind a silence is told at
once, and written with the next batch. Everything else that a run tells is written by the run's own transaction and
only passed on here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
from django.db import connection, transaction
from django.utils import timezone

from memory import marks
from memory.messages.values import write_json
from memory.providers.wire import Chunk
from memory.store import insert_events

log = logging.getLogger(__name__)

JOIN_EVERY_S = 0.1
_KEPT = 500

Told = tuple[int, str, str]
"""Number, type and JSON text of an event."""


class Feed:
    """The events of one run, numbered from 1. Readers see the last ones here, earlier ones in the rows."""

    def __init__(self, run_id: str, *, after: int = 0) -> None:
        self.run_id = run_id
        self.is_over = False
        self._seq = after
        self._changed = threading.Condition()
        self._told: deque[Told] = deque(maxlen=_KEPT)
        self._pieces: list[Chunk] = []
        self._unwritten: list[Told] = []
        self._written_at = 0.0

    # The run's side

    def number(self, type: str, data: Any) -> Told:
        """The next event; to be written by the caller and then told."""
        self._seq += 1
        return self._seq, type, write_json(data)

    def tell(self, events: Sequence[Told], *, is_over: bool = False) -> None:
        """Pass events on to who reads, but those that were told before."""
        with self._changed:
            self._told.extend([event for event in events if event[0] > self._seq_told])
            self.is_over = self.is_over or is_over
            self._changed.notify_all()

    def chunk(self, chunk: Chunk) -> None:
        """A piece of a streamed answer, which comes with the next batch; behind a silence at once."""
        with self._changed:
            is_quiet = not (self._pieces or self._unwritten) and time.monotonic() - self._written_at >= JOIN_EVERY_S
            self._pieces.append(chunk)
            marks.passed("mid-stream")
            if is_quiet:
                self._join()
                self.tell(self._unwritten)

    def _join(self) -> None:
        pieces, self._pieces = self._pieces, []
        self._unwritten += [self.number(type, data) for type, data in joined(pieces)]

    def take_unwritten(self) -> list[Told]:
        """What the rows do not hold yet, to be written by the caller and then told."""
        with self._changed:
            self._join()
            taken, self._unwritten = self._unwritten, []
            if taken:
                self._written_at = time.monotonic()
            return taken

    # A reader's side

    def after(self, seq: int, timeout_s: float) -> tuple[list[Told] | None, bool]:
        """Events behind `seq`, as soon as there are any; None when some are only in the rows. Whether that was all."""
        with self._changed:
            self._changed.wait_for(lambda: self._seq_told > seq or self.is_over, timeout_s)
            if not self._told or self._seq_told <= seq:
                is_gap = self.is_over and not self._told
                return (None if is_gap else []), self.is_over
            if self._told[0][0] > seq + 1:
                return None, self.is_over
            return [event for event in self._told if event[0] > seq], self.is_over

    @property
    def _seq_told(self) -> int:
        return self._told[-1][0] if self._told else 0

    def wait_until_over(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.is_over, timeout_s)


def joined(pieces: Sequence[Any]) -> list[tuple[str, dict[str, str]]]:
    """Events for the pieces of an answer; neighbouring ones of a kind are one."""
    out: list[tuple[str, dict[str, Any]]] = []
    for piece in pieces:
        fields: dict[str, str] = msgspec.structs.asdict(piece)
        type = str(piece.__struct_config__.tag)
        last = out[-1] if out else None
        if last is None or last[0] != type or last[1].get("call_id") != fields.get("call_id"):
            out.append((type, {**fields, "text": [fields["text"]]}))
        else:
            last[1]["text"].append(fields["text"])
    return [(type, {**fields, "text": "".join(fields["text"])}) for type, fields in out]


def write_events(run_id: str, events: Sequence[Told]) -> None:
    """The rows of a run's events."""
    insert_events([(run_id, *event) for event in events], timezone.now())


# Runs of this process

_lock = threading.Lock()
_feeds: dict[str, Feed] = {}


def open_feed(run_id: str, *, after: int) -> Feed:
    """The feed of a run that this process has taken; `after` is the number of its last event so far."""
    with _lock:
        return _feeds.setdefault(run_id, Feed(run_id, after=after))


def feed_of(run_id: str) -> Feed | None:
    """The feed of a run that this process has."""
    return _feeds.get(run_id)


def close_feed(run_id: str) -> None:
    """Forget the run. Who reads it already reads on to its end."""
    with _lock:
        feed = _feeds.pop(run_id, None)
    if feed is not None:
        feed.tell((), is_over=True)


class Writer:
    """Writes the pieces of answers that are coming in, in a thread that lives while there are any."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._feeds: set[Feed] = set()
        self._is_alive = False

    def add(self, feed: Feed) -> None:
        """A streamed call begins."""
        with self._changed:
            self._feeds.add(feed)
            if not self._is_alive:
                self._is_alive = True
                threading.Thread(target=self._work, name="run events", daemon=True).start()

    def remove(self, feed: Feed) -> None:
        """It is over: what is not written by now is the run's own to write."""
        with self._changed:
            self._feeds.discard(feed)
            self._changed.notify_all()
        with self._writing:
            return

    def _work(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: not self._feeds, JOIN_EVERY_S)
                    if not self._feeds:
                        self._is_alive = False
                        return
                with self._writing:
                    with self._changed:
                        feeds = list(self._feeds)
                    self._write([(feed, events) for feed in feeds if (events := feed.take_unwritten())])
        finally:
            connection.close()

    def _write(self, batch: Sequence[tuple[Feed, list[Told]]]) -> None:
        if not batch:
            return
        rows = [(feed.run_id, *event) for feed, events in batch for event in events]
        try:
            with transaction.atomic():
                insert_events(rows, timezone.now())
                marks.passed("events written")
        except Exception:
            if len(batch) == 1:
                # Its thread was deleted, or the database is gone: the run's own transactions will show it. Whatever it
                # was, the other runs' pieces come by this thread too.
                log.exception("pieces of the answer of run %s could not be written", batch[0][0].run_id)
            else:
                for one in batch:
                    self._write([one])
                return
        for feed, events in batch:
            feed.tell(events)


writer = Writer()
