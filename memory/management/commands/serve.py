"""A process of one role: the dashboard and short requests, runs, or the tasks of the queue."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.core.wsgi import get_wsgi_application

from compat_admin.inprocess import WebServer, Workers
from memory.queue import QUEUES

# How long a thread keeps the interpreter while others want it. The default of 5 ms is what each word of a stream and
# each page would wait for whenever a request is being worked out.
_SWITCH_S = 0.001


class Command(BaseCommand):
    help = "Serve as `web` (dashboard, short requests), `runner` (also calls providers) or `worker` (queued tasks)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("role", choices=("web", "runner", "worker"))
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--concurrency", type=int, default=4, help="tasks at once of each queue, of a worker")
        parser.add_argument(
            "--queues",
            type=_queues,
            default=QUEUES,
            metavar="NAME,...",
            help=f"of a worker; by default {','.join(QUEUES)}",
        )

    def handle(
        self,
        *args: Any,
        role: str,
        host: str,
        port: int,
        concurrency: int,
        queues: Sequence[str] = QUEUES,
        **options: Any,
    ) -> None:
        if role != settings.COMPAT_ADMIN_ROLE:
            sys.exit("Start it by `manage.py serve`, so that the settings know the role.")
        sys.setswitchinterval(_SWITCH_S)
        server: WebServer | Workers
        if role == "worker":
            # With a clock in each: sweeps may come twice, as each claims what it takes.
            server, where = Workers({name: 1 if name == "celery" else concurrency for name in queues}), ",".join(queues)
        else:
            try:
                server, where = WebServer(get_wsgi_application(), host=host, port=port), f"http://{host}:{port}"
            except OSError as error:
                sys.exit(f"Port {port} of {host} can't be used: {error.strerror}.")
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        server.start()
        # What is loaded by now stays for good: looking through it again and again would hold up everything.
        gc.collect()
        gc.freeze()
        # Runs leave next to nothing for it, and each look through the oldest holds up every stream for long.
        gc.set_threshold(2_000, 20, 50)
        print(f"ready: {where} ({role})", flush=True)  # noqa: T201 - for whoever started this
        ended.wait()
        # Runs and jobs under way are left to their leases.
        server.stop()
        sys.stdout.flush()
        os._exit(0)


def _queues(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names or (unknown := [name for name in names if name not in QUEUES]):
        raise ArgumentTypeError(f"no queue is called {unknown[0]!r}" if names else "name at least one queue")
    return names
