"""A running sandbox for the client libraries."""

from collections.abc import Iterator

import pytest

import memory.sandbox
from memory.sandbox import Sandbox


@pytest.fixture(scope="package")
def running() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(running: Sandbox) -> Iterator[Sandbox]:
    running.clear()
    yield running
    running.clear()
