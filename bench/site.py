"""The site as several processes for one measurement: rows in a folder of its own, pretend providers, roles."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench.threads import Row

ROOT = Path(__file__).resolve().parent.parent
MODEL = "anthropic/claude-sonnet-4-5"
_CONNECTIONS = {"anthropic": "anthropic-messages", "openai": "openai-chat", "groq": "openai-chat"}
_SANDBOX = (
    "import threading\nfrom memory.sandbox import start\nprint(start().url, flush=True)\nthreading.Event().wait()"
)


@contextmanager
def environment(**settings: str) -> Iterator[Path]:
    """Settings of a fresh site in this process' environment, inherited by its children; DATABASE_URL is kept."""
    with tempfile.TemporaryDirectory(prefix="compat-admin-bench-") as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/rows.sqlite3")
        os.environ.update(
            DJANGO_SETTINGS_MODULE="compat_admin.settings",
            COMPAT_ADMIN_SECRET_KEY=secrets.token_urlsafe(40),
            COMPAT_ADMIN_ALLOWED_HOSTS="127.0.0.1",
            COMPAT_ADMIN_HTTPS="false",
            COMPAT_ADMIN_LOG_LEVEL="WARNING",
            **settings,
        )
        yield Path(folder)


class Process:
    """A child that says in its first line that it is ready."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        assert self._process.stdout is not None
        self.said = self._process.stdout.readline().strip()
        if not self.said:
            raise SystemExit(f"{' '.join(command)[:80]} did not start")

    @property
    def peak_mb(self) -> float:
        """The most memory it has held."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    @property
    def cpu_s(self) -> float:
        """Processor time it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()


def sandbox() -> Process:
    """Pretend providers in a process of their own; `said` is their address."""
    return Process("-c", _SANDBOX)


def serve(role: str) -> tuple[Process, int]:
    """A process of a role, and its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return Process("manage.py", "serve", role, "--port", str(port)), port


def fill(*, threads: int, rows: list[Row], **agent: Any) -> str:
    """Make rows, an agent called `bench`, its connection, an operator `bench`, and threads t0, t1, …; the API key."""
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)

    from django.contrib.auth import get_user_model

    from memory.access import operator
    from memory.models import Provider, Thread
    from memory.principal import SCOPES
    from memory.services import agents
    from memory.services.keys import make_key
    from memory.store import DjangoStorage

    get_user_model().objects.create_superuser("bench", password="only for the bench")
    for provider, protocol in _CONNECTIONS.items():
        Provider.objects.create(id=provider, protocol=protocol, base_url=f"sandbox:{provider}")
    values = {"id": "bench", "name": "Bench", "model": MODEL, "settings": {"max_tokens": 500}, **agent}
    agents.create_agent(operator("bench", "admin"), values)
    messages = [{"id": id, "role": role, "content": msgspec.json.decode(text)} for id, role, text in rows]
    for number in range(threads):
        Thread.objects.create(id=f"t{number}", resource_id="bench", title=f"Thread {number}")
        if messages:
            DjangoStorage().save_messages(f"t{number}", "bench", messages)
    return make_key(operator("bench", "admin"), "bench", scopes=SCOPES)[1]
