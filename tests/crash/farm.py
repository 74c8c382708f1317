"""Starts processes of the product fast: Django is loaded once, and each of them is forked from here.

A line on standard input, a mark to be killed at or an empty one, starts one; `PID PORT` on standard output says that it
is ready. Leases are short, and sweeps frequent, so that nobody waits long for what a killed one has left.
"""

import os
import signal
import socket
import sys
import threading

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "compat_admin.settings")

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import get_resolver

from compat_admin.inprocess import WebServer, Workers
from memory import marks

django.setup()

from memory.services import jobs, leases, runner, runs  # noqa: E402 - models can be loaded only now

LEASE_S = 1


def serve(mark: str, application: object) -> None:
    """Be such a process until it is killed."""
    for module in (runner, leases, runs, jobs):
        module.OWNER = f"test:{os.getpid()}"
    name, _, count = mark.partition(":")
    if name:
        marks.kill_at(name, int(count or 1))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = WebServer(application, port=port)
    server.start()
    Workers({"celery": 1, "runs": 8}).start()
    os.write(1, f"{os.getpid()} {port}\n".encode())
    threading.Event().wait()


def main() -> None:
    application = get_wsgi_application()
    get_resolver().url_patterns  # noqa: B018 - loads all that requests need
    settings.COMPAT_ADMIN_RUN_LEASE_S = settings.COMPAT_ADMIN_JOB_LEASE_S = LEASE_S
    settings.CELERY_BEAT_SCHEDULE["sweep"]["schedule"] = 0.3
    jobs.WAKE_AGAIN_S = 1
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    for line in sys.stdin:
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(line.strip(), application)


main()
