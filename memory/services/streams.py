"""A run's events as they come. A run outlives who reads it: a reader may come back and go on where it was."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db import connection

from memory.models import Run, RunEvent
from memory.services import signals

LOOK_AGAIN_S = 0.1
HEARTBEAT_S = 10.0
_BATCH = 500


def read_events(run_id: str, *, after: int = 0) -> Iterator[tuple[int, str, str] | None]:
    """`(number, type, JSON text)` of each event behind `after`, until the run has ended; None now and then as a sign
    of life. Holds no database connection while it waits."""
    beat_at = time.monotonic()
    with signals.Watch(run_id) as watch:
        while True:
            # Looked at before the events: what is written before a run ends is read before its end is believed.
            is_over = not Run.objects.filter(id=run_id, finished_at=None).exists()
            later = RunEvent.objects.filter(run=run_id, seq__gt=after).order_by("seq")
            rows = list(later.values_list("seq", "type", "data")[:_BATCH])
            if not connection.in_atomic_block:
                connection.close()
            for seq, type, data in rows:
                after = seq
                yield seq, type, data
            if rows:
                beat_at = time.monotonic()
                continue
            if is_over:
                return
            watch.wait(LOOK_AGAIN_S)
            if time.monotonic() - beat_at >= HEARTBEAT_S:
                beat_at = time.monotonic()
                yield None
