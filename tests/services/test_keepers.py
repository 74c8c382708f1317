"""Threads that all runs of a process depend on: whatever one of their rounds meets, there is a next one."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from memory.providers.wire import TextDelta
from memory.services import feed, runner
from memory.services.feed import Feed, Writer
from memory.services.runner import Runner

WITHIN_S = 20


class Second:
    """A function that fails when it is first called, and then says that it was called again."""

    def __init__(self) -> None:
        self.failed, self.came = threading.Event(), threading.Event()

    def __call__(self, *_: Any) -> list[str]:
        if self.failed.is_set():
            self.came.set()
            return []
        self.failed.set()
        raise RuntimeError("of no kind that anybody thought of")


@pytest.fixture
def going() -> Iterator[Runner]:
    one = Runner(max_runs=1, max_calls=1)
    one.enter("run_1")
    yield one
    one.leave("run_1")


def test_the_keeper_looks_after_its_runs_again(going: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Second()
    monkeypatch.setattr(runner, "cancelled_elsewhere", looks)
    monkeypatch.setattr(runner, "LOOK_FOR_CANCELS_S", 0.01)
    going._keep()
    assert looks.came.wait(WITHIN_S)


def test_a_call_that_ends_while_it_is_cancelled_is_no_error(going: Runner) -> None:
    class Ending:
        """A run whose stream is gone the second time that it is looked at."""

        def __init__(self) -> None:
            self.signal, self.wait, self.streams = threading.Event(), None, [Stream()]

        @property
        def stream(self) -> Any:
            return self.streams.pop() if self.streams else None

    class Stream:
        def cancel(self) -> None:
            cancelled.append(self)

    cancelled: list[Stream] = []
    ending: Any = Ending()
    going._going["run_1"] = ending
    assert going.cancel("run_1")
    assert len(cancelled) == 1


@pytest.mark.django_db(transaction=True)
def test_pieces_that_can_not_be_written_do_not_hold_up_the_next_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Second()
    monkeypatch.setattr(feed, "insert_events", writes)
    monkeypatch.setattr(feed, "JOIN_EVERY_S", 0.01)
    writer, one = Writer(), Feed("run_1")
    writer.add(one)
    one.chunk(TextDelta("one"))
    assert writes.failed.wait(WITHIN_S)
    one.chunk(TextDelta("two"))
    assert writes.came.wait(WITHIN_S)
    writer.remove(one)
