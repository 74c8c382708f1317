"""How many requests a key may make, counted by several processes that share its row."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from memory.models import ApiKey
from memory.services.rates import WINDOW_S, Counter
from tests import make

NOON = 1_772_366_400.0  # a whole minute


class Clock:
    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> float:
        return self.now


class Process:
    """A process that counts, reading the key's row with each request as authentication does."""

    def __init__(self, clock: Clock) -> None:
        self.counter = Counter(clock)

    def ask(self) -> Any:
        key_id, window, count = ApiKey.objects.values_list("id", "window", "window_count").get()
        return self.counter.count(key_id, window, count)


@pytest.fixture
def clock(db: None, settings: Any) -> Clock:
    settings.COMPAT_ADMIN_RATE_LIMIT = 100
    make.make_key()
    return Clock()


class TestRates:
    def test_let_through_as_many_as_allowed_and_say_what_is_left(self, clock: Clock) -> None:
        process = Process(clock)
        seen = [process.ask() for _ in range(102)]
        assert [rate.remaining for rate in seen[:100]] == list(range(99, -1, -1))
        assert [rate.is_over for rate in seen] == [False] * 100 + [True] * 2
        assert (seen[-1].limit, seen[-1].remaining) == (100, 0)

    def test_begin_anew_with_the_next_minute(self, clock: Clock) -> None:
        process = Process(clock)
        clock.now = NOON + 45
        while not (rate := process.ask()).is_over:
            assert rate.reset_s == 16
        clock.now = NOON + WINDOW_S
        rate = process.ask()
        assert (rate.is_over, rate.remaining, rate.reset_s) == (False, 99, 61)

    def test_are_shared_by_processes(self, clock: Clock) -> None:
        processes = [Process(clock) for _ in range(4)]
        granted = sum(not process.ask().is_over for _ in range(50) for process in processes)
        # Each holds back a tenth of what is left at most, and less and less of it.
        assert 100 <= granted <= 110

    def test_cost_a_calm_key_no_query(self, clock: Clock, settings: Any) -> None:
        settings.COMPAT_ADMIN_RATE_LIMIT = 6000
        counter = Counter(clock)
        key = ApiKey.objects.get()
        with CaptureQueriesContext(connection) as captured:
            for _ in range(500):
                counter.count(key.id, 0, 0)
        assert len(captured) == 0

    def test_cost_a_busy_key_a_query_now_and_then(self, clock: Clock, settings: Any) -> None:
        settings.COMPAT_ADMIN_RATE_LIMIT = 6000
        process = Process(clock)
        with CaptureQueriesContext(connection) as captured:
            while not process.ask().is_over:
                pass
        writes = [query for query in captured if query["sql"].startswith("UPDATE")]
        assert len(writes) < 100

    def test_can_be_switched_off(self, clock: Clock, settings: Any) -> None:
        settings.COMPAT_ADMIN_RATE_LIMIT = 0
        assert Process(clock).ask() is None
