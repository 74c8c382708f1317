"""Everything in one process on SQLite, with demo data and pretend providers: for looking round without any key."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.core.wsgi import get_wsgi_application

from compat_admin.inprocess import WebServer, Workers
from memory.access import operator
from memory.models import ApiKey
from memory.principal import SCOPES
from memory.sandbox import start as start_sandbox
from memory.services.demo_data import load_demo_data
from memory.services.keys import make_key, principal_for
from memory.services.runs import close_expired_runs

USER = "admin"


class Command(BaseCommand):
    help = "Run the dashboard, the API, a worker and pretend providers in one process, with demo data."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--data", type=Path, default=Path("demo-data"), help="folder of the demo's rows and keys")

    def handle(self, *args: Any, **options: Any) -> None:
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        port: int = options["port"]
        if not _is_free(port):
            sys.exit(f"Port {port} of 127.0.0.1 is taken: end what uses it, or choose another one with --port.")
        sandbox = start_sandbox()
        settings.SANDBOX_URL = sandbox.url
        call_command("migrate", verbosity=0, interactive=False)
        password, key = _credentials(_folder())
        # The process that ran these is gone, and on SQLite there can be no other one.
        close_expired_runs()
        load_demo_data(sandbox.url)
        try:
            web = WebServer(get_wsgi_application(), port=port)
        except OSError as error:
            sys.exit(f"Port {port} of 127.0.0.1 can't be used: {error.strerror}.")
        workers = Workers()
        web.start()
        workers.start()
        url = f"http://127.0.0.1:{port}"
        httpx.get(f"{url}/readyz", trust_env=False, timeout=30).raise_for_status()
        words = f"ready: {url}  user: {USER}  password: {password}  api-key: {key}  sandbox: {sandbox.url}"
        print(words, flush=True)  # noqa: T201 - the line that tells whoever started this where to go
        ended.wait()
        # Calls under way are left to their leases: the next start shows them as interrupted.
        workers.stop()
        web.stop()
        sandbox.stop()
        sys.stdout.flush()
        os._exit(0)


def _folder() -> Path:
    return Path(settings.DATABASES["default"]["NAME"]).parent


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            return False
    return True


def _credentials(folder: Path) -> tuple[str, str]:
    """The operator's password and an API key with all scopes, made at the first start and kept in the data folder."""
    file = folder / "credentials.json"
    kept: dict[str, str] = {}
    if file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
    password, key = kept.get("password", ""), kept.get("api_key", "")
    users = get_user_model().objects
    if not password or not users.filter(username=USER).exists():
        password = password or secrets.token_urlsafe(12)
        users.filter(username=USER).delete()
        users.create_superuser(USER, password=password)
    if not key or principal_for(key) is None:
        ApiKey.objects.filter(name="demo").delete()
        key = make_key(operator(USER), "demo", scopes=SCOPES)[1]
    file.touch(mode=0o600)
    file.write_text(json.dumps({"password": password, "api_key": key}), encoding="utf-8")
    return password, key
