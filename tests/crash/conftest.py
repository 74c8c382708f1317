"""Processes that are forked, killed and forked again, on the rows of the test; providers that outlive them all."""

import os
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import memory.sandbox
from memory.sandbox import Sandbox
from tests.e2e.processes import Process

RETRY = {"id": "stream-error-retry-processor", "options": {"max_retries": 3}}
AGENT = {
    "id": "a",
    "name": "A",
    "model": "anthropic/claude-sonnet-4-5",
    "input_processors": ["message-history", "provider-history-compat"],
    "output_processors": ["message-history"],
    "error_processors": [RETRY],
    "tools": [{"name": "lookup", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}],
}


class Child:
    """A forked process with a client of its API."""

    def __init__(self, said: str, key: str) -> None:
        self.pid, port = map(int, said.split())
        headers = {"Authorization": f"Bearer {key}"}
        limits = httpx.Limits(max_connections=100)
        self.api = httpx.Client(
            base_url=f"http://127.0.0.1:{port}/api", headers=headers, timeout=60, trust_env=False, limits=limits
        )

    @property
    def is_alive(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def wait(self, within_s: float = 30) -> None:
        """Return when it is dead."""
        ends_at = time.monotonic() + within_s
        while self.is_alive:
            assert time.monotonic() < ends_at, "it lives on"
            time.sleep(0.02)

    def kill(self) -> None:
        if self.is_alive:
            os.kill(self.pid, 9)
            self.wait()


class Farm:
    """Starts such processes."""

    def __init__(self, process: Process, key: str) -> None:
        self._process, self._key = process, key
        self._children: list[Child] = []

    def start(self, *marks: str) -> list[Child]:
        """One for each mark, to be killed there; they come up side by side, in this order."""
        stdin, stdout = self._process.popen.stdin, self._process.popen.stdout
        assert stdin is not None and stdout is not None
        started = []
        for mark in marks:
            stdin.write(f"{mark}\n")
            stdin.flush()
            started.append(Child(stdout.readline(), self._key))
        self._children += started
        return started

    def end(self) -> None:
        for child in self._children:
            child.kill()


@pytest.fixture(scope="module")
def providers() -> Iterator[Sandbox]:
    started = memory.sandbox.start()
    yield started
    started.stop()


@pytest.fixture
def sandbox(providers: Sandbox, transactional_db: None) -> Sandbox:
    from memory.models import Provider
    from memory.services import agents
    from tests import make

    providers.clear()
    Provider.objects.create(id="anthropic", protocol="anthropic-messages", base_url="sandbox:anthropic")
    agents.create_agent(make.caller(), AGENT)
    return providers


@pytest.fixture(scope="module")
def farm_process(django_db_setup: Any, django_db_blocker: Any, providers: Sandbox) -> Iterator[Process]:
    with django_db_blocker.unblock():
        process = Process("-m", "tests.crash.farm", COMPAT_ADMIN_SANDBOX_URL=providers.url)
    yield process
    process.kill()


@pytest.fixture
def farm(farm_process: Process, sandbox: Sandbox) -> Iterator[Farm]:
    from tests import make

    started = Farm(farm_process, make.make_key())
    yield started
    started.end()
