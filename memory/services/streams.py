"""A run's events as they come. A run outlives who reads it: a reader may come back and go on where it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator

from django.conf import settings
from django.db import connection

from memory.errors import Busy
from memory.models import Run, RunEvent
from memory.services.feed import Feed, Told, feed_of

LOOK_AGAIN_S = 0.2
HEARTBEAT_S = 10.0
LAST = "finished"
"""The type of a run's last event."""
_BATCH = 500


def read_events(run_id: str, *, after: int = 0) -> Generator[Told | None, None, None]:
    """`(number, type, JSON text)` of each event behind `after`, until the run has ended; None now and then as a sign
    of life. Holds no database connection while it waits."""
    release_connection()
    beat_at = time.monotonic()
    while True:
        feed = feed_of(run_id)
        if feed is not None:
            for told in _from_feed(feed, after):
                yield told
                if told is not None:
                    after = told[0]
                    if told[1] == LAST:
                        return
            # Over, or gone to another process: the rows know.
        # Looked at before the events: what is written before a run ends is read before its end is believed.
        is_over = not Run.objects.filter(id=run_id, finished_at=None).exists()
        rows = _from_rows(run_id, after)
        for told in rows:
            after = told[0]
            yield told
            if told[1] == LAST:
                return
        if rows:
            beat_at = time.monotonic()
            continue
        if is_over:
            return
        time.sleep(LOOK_AGAIN_S)
        if time.monotonic() - beat_at >= HEARTBEAT_S:
            beat_at = time.monotonic()
            yield None


def _from_feed(feed: Feed, after: int) -> Iterator[Told | None]:
    while True:
        told, is_over = feed.after(after, HEARTBEAT_S)
        if told is None:
            told = _from_rows(feed.run_id, after)
            if not told:
                return
        yield from told
        if told:
            after = told[-1][0]
        elif is_over:
            return
        else:
            yield None


class Reading:
    """A run's events for one reader, who has a place in this process. Raises Busy when there is none."""

    def __init__(self, run_id: str, *, after: int = 0) -> None:
        take_place()
        self.run_id = run_id
        self._events = read_events(run_id, after=after)
        self._has_place = True

    def __iter__(self) -> Iterator[Told | None]:
        return self

    def __next__(self) -> Told | None:
        return next(self._events)

    def close(self) -> None:
        """Give the place back."""
        self._events.close()
        if self._has_place:
            self._has_place = False
            give_place()

    def __del__(self) -> None:
        """A reader that nobody closed, as one whose answer was never begun, gives its place back too."""
        if hasattr(self, "_has_place"):
            self.close()


_places = threading.Lock()
_taken = 0


def take_place() -> None:
    """Become one of those who wait in this process. Raises Busy."""
    global _taken
    with _places:
        if _taken >= settings.COMPAT_ADMIN_MAX_READERS:
            raise Busy(f"{_taken} callers wait or read events here already; try again in a moment")
        _taken += 1


def give_place() -> None:
    global _taken
    with _places:
        _taken -= 1


def wait_until_over(run_id: str) -> None:
    """Return when the run has ended, whichever process has it. Holds no database connection meanwhile."""
    release_connection()
    while True:
        feed = feed_of(run_id)
        if feed is not None:
            feed.wait_until_over(HEARTBEAT_S)
        is_over = not Run.objects.filter(id=run_id, finished_at=None).exists()
        release_connection()
        if is_over:
            return
        if feed is None:
            time.sleep(LOOK_AGAIN_S)


def _from_rows(run_id: str, after: int) -> list[Told]:
    rows = RunEvent.objects.filter(run=run_id, seq__gt=after).order_by("seq")
    found: list[Told] = list(rows.values_list("seq", "type", "data")[:_BATCH])
    release_connection()
    return found


def release_connection() -> None:
    """Give the database connection back: no call and no wait may hold one."""
    if not connection.in_atomic_block:
        connection.close()
