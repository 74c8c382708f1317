"""A demo as a process of its own, started as a new user would."""

import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parent.parent.parent
READY = re.compile(
    r"^ready: (?P<url>http://127\.0\.0\.1:\d+)  user: (?P<user>\S+)  password: (?P<password>\S+)"
    r"  api-key: (?P<key>\S+)  sandbox: (?P<sandbox>http://127\.0\.0\.1:\d+)$"
)


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection is given while its server is down."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class Demo:
    """A running demo. `lines` are what it printed to standard output until it was ready."""

    def __init__(self, data: Path, *, port: int | None = None, **environment: str) -> None:
        self.port = port or free_port()
        command = [sys.executable, str(ROOT / "manage.py"), "demo", "--port", str(self.port), "--data", str(data)]
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("COMPAT_ADMIN_", "DATABASE_", "DJANGO_"))}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=inherited | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._out: queue.Queue[str | None] = queue.Queue()
        self.errors: list[str] = []
        threading.Thread(target=self._read_out, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read_out(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._out.put(line.rstrip("\n"))
        self._out.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors += self.process.stderr

    def ready(self, *, within_s: float = 90) -> "Demo":
        """Wait for the line that says it is ready; fails when the process ends without it."""
        while True:
            line = self._out.get(timeout=within_s)
            assert line is not None, f"the demo ended with {self.process.wait()}: {''.join(self.errors)}"
            if found := READY.match(line):
                self.url, self.sandbox = found["url"], found["sandbox"]
                self.user, self.password, self.key = found["user"], found["password"], found["key"]
                headers = {"authorization": f"Bearer {self.key}"}
                self.api = httpx.Client(base_url=f"{self.url}/api", headers=headers, timeout=60, trust_env=False)
                return self

    def script(self, **values: Any) -> None:
        httpx.post(f"{self.sandbox}/_script", json=values, trust_env=False).raise_for_status()

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = httpx.get(f"{self.sandbox}/_requests", trust_env=False).json()
        return found

    def end(self, number: int = signal.SIGTERM, *, within_s: float = 5) -> int:
        """Send a signal; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(within_s)

    def __enter__(self) -> "Demo":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
