"""Two addresses for whoever watches the process; both answer one sentence of plain text and need no login."""

import logging

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from compat_admin.needs import PUBLIC, names

logger = logging.getLogger(__name__)


@names(PUBLIC)
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 as long as the process answers at all."""
    return _sentence("The process is up.", status=200)


@names(PUBLIC)
@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when requests can be served, else 503 and what is missing."""
    try:
        executor = MigrationExecutor(connection)
        pending_count = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except Error as error:
        logger.warning("The database can't be reached: %s", error)
        return _sentence("The database can't be reached.", status=503)
    if pending_count:
        return _sentence(f"{pending_count} migrations are not applied: run `manage.py migrate`.", status=503)
    return _sentence("The database is reachable and its migrations are applied.", status=200)


def _sentence(text: str, *, status: int) -> HttpResponse:
    return HttpResponse(f"{text}\n", status=status, content_type="text/plain; charset=utf-8")
