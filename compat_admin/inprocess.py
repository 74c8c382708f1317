"""The roles of a process as threads of one: a web server with two pools, Celery's worker and its clock.

Requests that wait for a run have a pool of their own, so that they never starve the dashboard.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import threading
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import celery.apps.worker
from celery.beat import EmbeddedService, Scheduler
from celery.exceptions import SecurityWarning
from django.conf import settings
from waitress.server import create_server
from waitress.task import ThreadedTaskDispatcher

from compat_admin.celery import app, make_app

log = logging.getLogger(__name__)

WAITS_FOR_RUNS = re.compile(r"/api/agents/[^/]+/(?:generate|stream)/?$|/api/runs/[^/]+/events/?$")


class TwoPools:
    """A task dispatcher for waitress: what waits for a run goes to threads of its own, made as they are needed."""

    def __init__(self, web_threads: int, waiting_threads: int) -> None:
        self.web = ThreadedTaskDispatcher()
        self.web.set_thread_count(web_threads)
        self.waiting = ThreadPoolExecutor(waiting_threads, thread_name_prefix="waits for run")

    def add_task(self, channel: Any) -> None:
        if WAITS_FOR_RUNS.search(channel.requests[0].path):
            self.waiting.submit(self._serve, channel)
        else:
            self.web.add_task(channel)

    def _serve(self, channel: Any) -> None:
        try:
            channel.service()
        except Exception:
            log.exception("a request could not be served")

    def shutdown(self, cancel_pending: bool = True, timeout: float = 1) -> bool:
        self.waiting.shutdown(wait=False, cancel_futures=cancel_pending)
        return bool(self.web.shutdown(cancel_pending, timeout))


class WebServer:
    """The site on an address. Raises OSError when the port is taken."""

    def __init__(self, application: Any, *, port: int, host: str = "127.0.0.1") -> None:
        # As many as may wait, and some for those who are told that there are too many.
        waiting = settings.COMPAT_ADMIN_MAX_RUNS + settings.COMPAT_ADMIN_MAX_READERS + 8
        self._pools = TwoPools(settings.COMPAT_ADMIN_WEB_THREADS, waiting)
        self._server = create_server(
            application,
            _dispatcher=self._pools,
            host=host,
            port=port,
            # One more byte than the site itself allows: it answers with a problem document, waitress with a page.
            max_request_body_size=settings.COMPAT_ADMIN_MAX_BODY_BYTES + 1024 * 1024,
            connection_limit=waiting + 1000,
            asyncore_use_poll=True,
            clear_untrusted_proxy_headers=True,
            ident=None,
        )
        self._thread = threading.Thread(target=self._server.run, name="web server", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Take no new requests; those under way get a second."""
        self._server.close()
        self._pools.shutdown(timeout=0.5)


THREADS: Mapping[str, int] = {"celery": 1, "runs": 8, "imports": 2, "maintenance": 1}
"""Tasks at once by queue: each queue has a worker of its own, so that long ones never hold up sweeps or turns."""


_AGAIN_AFTER_S = 2.0


class Workers:
    """Celery's workers and clock as threads of this process. `threads` says for which queues, and how many each."""

    def __init__(self, threads: Mapping[str, int] = THREADS) -> None:
        # It warns of root because of pickled tasks, and these are JSON from this very process.
        warnings.filterwarnings("ignore", category=SecurityWarning)
        # Signals can be handled by the main thread only, and that one is not Celery's here.
        for name in dir(celery.apps.worker):
            if name.startswith("install_") and "handler" in name:
                setattr(celery.apps.worker, name, lambda *_args, **_more: None)
        self._workers = {queue: _made(queue, count) for queue, count in threads.items()}
        self._threads = threads
        self._is_stopping = threading.Event()
        self._clock: Any = EmbeddedService(app, thread=True, max_interval=1, scheduler_cls=Scheduler)

    def start(self) -> None:
        for queue in self._threads:
            threading.Thread(target=self.work_on, args=(queue,), name=f"celery {queue}", daemon=True).start()
        self._clock.start()

    def work_on(self, queue: str) -> None:
        """Do what comes by this queue until the workers are stopped."""
        while True:
            self._workers[queue].start()
            # Without being asked it ends when a broker says what Celery takes for final.
            if self._is_stopping.wait(_AGAIN_AFTER_S):
                return
            log.error("the worker of the queue %s had ended and begins again", queue)
            self._workers[queue] = _made(queue, self._threads[queue])

    def stop(self) -> None:
        self._is_stopping.set()
        self._clock.stop()
        for worker in self._workers.values():
            threading.Thread(target=worker.stop, daemon=True).start()


def _made(queue: str, count: int) -> Any:
    # The queues a worker chooses are its app's.
    worker: Any = make_app(set_as_current=False).Worker(
        concurrency=count,
        queues=[queue],
        hostname=f"{queue}@{socket.gethostname()}-{os.getpid()}",
        pool="threads",
        loglevel="WARNING",
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        # There is one event loop a process, and several workers here: each waits in its own thread.
        use_eventloop=False,
    )
    # Its short way to a task is one for the process, that of the app made last: a task that came before that one's
    # worker was up was never begun nor confirmed, and its queue stood still from then on.
    worker.app.use_fast_trace_task = False
    return worker
