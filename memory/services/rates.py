"""How many requests a key may make in a minute: counted in each process, shared through the key's own row.

That row is read with every request anyway. It is written once for a tenth of what is left, so a calm key costs no
write, and close to the limit every request counts everywhere. What processes have not written yet may come on top.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from django.conf import settings
from django.db import Error
from django.db.models import Case, F, PositiveIntegerField, Value, When
from msgspec import Struct

from memory.models import ApiKey

log = logging.getLogger(__name__)

WINDOW_S = 60
_SHARE = 10


class Rate(Struct, frozen=True):
    """What is left of a key's minute; `reset_s` is how long that minute still lasts."""

    limit: int
    remaining: int
    reset_s: int
    is_over: bool = False


class Counter:
    """The requests of this process by key. `clock` gives seconds since 1970, the same in all processes."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._window = 0
        self._unwritten: dict[int, int] = {}

    def count(self, key_id: int, window: int, window_count: int) -> Rate | None:
        """Count a request of a key whose row says `window_count` for `window`; None when there is no limit.

        A request over the limit is not counted.
        """
        limit: int = settings.COMPAT_ADMIN_RATE_LIMIT
        if not limit:
            return None
        now = self._clock()
        present = int(now // WINDOW_S)
        reset_s = int((present + 1) * WINDOW_S - now) + 1
        with self._lock:
            if present != self._window:
                self._window, self._unwritten = present, {}
            unwritten = self._unwritten.get(key_id, 0) + 1
            left = limit - unwritten - (window_count if window == present else 0)
            if left < 0:
                return Rate(limit, 0, reset_s, is_over=True)
            is_due = unwritten > left // _SHARE
            self._unwritten[key_id] = 0 if is_due else unwritten
        if is_due:
            self._write(key_id, present, unwritten)
        return Rate(limit, left, reset_s)

    def _write(self, key_id: int, window: int, number: int) -> None:
        more = Case(
            When(window=window, then=F("window_count") + number),
            default=Value(number),
            output_field=PositiveIntegerField(),
        )
        try:
            ApiKey.objects.filter(id=key_id).update(window_count=more, window=window)
        except Error:
            # A count is no reason to refuse what was asked for; it is tried again with the next request.
            log.warning("the requests of key %s could not be written", key_id, exc_info=True)
            with self._lock:
                if window == self._window:
                    self._unwritten[key_id] = self._unwritten.get(key_id, 0) + number


counter = Counter()
