"""The door for callers: every address below /api."""

from __future__ import annotations

from django.http import Http404
from django.views.decorators.http import require_safe
from ninja.errors import HttpError, ValidationError

from compat_admin.api import agents, check, events, messages, preview, rules, runs, threads
from compat_admin.api.auth import ADMIN
from compat_admin.api.bodies import Renderer
from compat_admin.api.errors import problem_for
from compat_admin.api.gate import Api

api = Api(
    title="Compat Admin",
    version="1.0.0",
    description=(
        "Memory for LLM agents that survives a change of provider.\n\n"
        "Every call carries `Authorization: Bearer <key>`. A key has scopes: `read`, `write` (threads and messages), "
        "`run` (turns), `admin` (agents and rules). A key of a resource sees that resource's rows only: others look "
        "absent, and making something for another resource is 403 `forbidden`.\n\n"
        "Lists answer with `items` and `next_cursor`, which the next call gives as `cursor`. Failures are problem "
        "documents (RFC 9457) with a stable `code`."
    ),
    urls_namespace="api",
    auth=ADMIN,  # A route that names no scope of its own asks for the widest.
    renderer=Renderer(),
    docs_decorator=require_safe,
)
for kind in (Exception, Http404, HttpError, ValidationError):
    api.exception_handler(kind)(problem_for)
for module in (threads, messages, agents, rules, runs, events, preview, check):
    api.add_router("", module.router)
