"""A process of one role: the dashboard and short requests, runs, or the tasks of the queue."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from argparse import ArgumentParser
from typing import Any

from celery import current_app
from django.conf import settings
from django.core.management.base import BaseCommand
from django.core.wsgi import get_wsgi_application

from compat_admin.inprocess import WebServer

# How long a thread keeps the interpreter while others want it. The default of 5 ms is what each word of a stream and
# each page would wait for whenever a request is being worked out.
_SWITCH_S = 0.001


class Command(BaseCommand):
    help = "Serve as `web` (dashboard, short requests), `runner` (also calls providers) or `worker` (queued tasks)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("role", choices=("web", "runner", "worker"))
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=8000)
        parser.add_argument("--concurrency", type=int, default=4, help="tasks at once, of a worker")

    def handle(self, *args: Any, role: str, host: str, port: int, concurrency: int, **options: Any) -> None:
        if role != settings.COMPAT_ADMIN_ROLE:
            sys.exit("Start it by `manage.py serve`, so that the settings know the role.")
        sys.setswitchinterval(_SWITCH_S)
        if role == "worker":
            # With the beat in it: sweeps may come twice, as each claims what it takes.
            current_app.worker_main(
                ["worker", "--beat", "--pool=threads", f"--concurrency={concurrency}", "--queues=celery,runs"]
            )
            return
        try:
            server = WebServer(get_wsgi_application(), host=host, port=port)
        except OSError as error:
            sys.exit(f"Port {port} of {host} can't be used: {error.strerror}.")
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        server.start()
        # What is loaded by now stays for good: looking through it again and again would hold up everything.
        gc.collect()
        gc.freeze()
        print(f"ready: http://{host}:{port} ({role})", flush=True)  # noqa: T201 - for whoever started this
        ended.wait()
        # Runs under way are left to their leases.
        server.stop()
        sys.stdout.flush()
        os._exit(0)
