"""`Idempotency-Key`: a request that is sent again with the same key gets the first one's answer, and does nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar

import msgspec
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from msgspec import Struct
from ninja.decorators import decorate_view

from compat_admin.api.auth import caller_of
from compat_admin.api.errors import PROBLEM_TYPE, problem_for
from memory.errors import CompatAdminError
from memory.services import idempotency
from memory.services.idempotency import Answer

Run = Callable[..., HttpResponseBase]
F = TypeVar("F", bound=Callable[..., Any])

HEADER = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": (
        "Makes a repeat harmless: within 24 hours the same request gets the first answer again "
        "(`Idempotent-Replayed: true`), another one 422 `idempotency_mismatch`, and 409 `idempotency_running` while "
        "the first is under way. What was refused without effect is not kept."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]*$"},
}
REPEATABLE: set[str] = set()
"""Names of the routes that honour it, filled while the routers are loaded."""
WRITE_HOLD = timedelta(minutes=1)
RUN_HOLD = timedelta(minutes=15)


class _Refusal(Struct):
    code: str
    run_id: str = ""


def repeatable(
    *, hold: timedelta = WRITE_HOLD, stream: Callable[[str], HttpResponseBase] | None = None
) -> Callable[[F], F]:
    """A decorator for routes, below the router's: they honour `Idempotency-Key`.

    With `hold` of a write the effect and its answer are committed together, so a crash leaves both or none. A run is
    no transaction: for RUN_HOLD nobody else begins it. `stream` gives the events of a run once more.
    """

    def decorate(run: Run) -> Run:
        @wraps(run)
        def once(request: HttpRequest, **arguments: Any) -> HttpResponseBase:
            key = request.headers.get("Idempotency-Key")
            caller = caller_of(request) if key is not None else None
            if key is None or caller is None:
                return run(request, **arguments)
            # Tokens come and go; who repeats a request may have got a new one meanwhile.
            owner = f"{caller.owner_id}:{caller.resource_id}"
            try:
                claimed = idempotency.claim(owner, key, _fingerprint(request), hold=hold)
            except CompatAdminError as error:
                return problem_for(request, error)
            if isinstance(claimed, Answer):
                return _again(claimed, stream)
            if hold > WRITE_HOLD:
                return _finish(claimed, run(request, **arguments))
            with transaction.atomic():
                response = run(request, **arguments)
                if response.status_code < 400:
                    return _finish(claimed, response)
                transaction.set_rollback(True)
            return _finish(claimed, response)

        return once

    def mark(view: F) -> F:
        REPEATABLE.add(view.__name__)
        marked: F = decorate_view(decorate)(view)
        return marked

    return mark


def _finish(claimed: int, response: HttpResponseBase) -> HttpResponseBase:
    """Keep what had an effect: an answer, or the failure of a run that was made for it."""
    run_id = response.headers.get("X-Run-Id", "")
    body = response.content if isinstance(response, HttpResponse) else b""
    if response.status_code < 400 or _ended_a_run(response, body):
        kept = Answer(response.status_code, response.headers.get("Content-Type", ""), body, run_id)
        idempotency.keep(claimed, kept)
    else:
        idempotency.release(claimed)
    return response


def _again(answer: Answer, stream: Callable[[str], HttpResponseBase] | None) -> HttpResponseBase:
    if answer.run_id and stream is not None:
        response = stream(answer.run_id)
    else:
        response = HttpResponse(answer.body, status=answer.status, content_type=answer.content_type)
    response.headers["Idempotent-Replayed"] = "true"
    return response


def _ended_a_run(response: HttpResponseBase, body: bytes) -> bool:
    if response.headers.get("Content-Type") != PROBLEM_TYPE:
        return False
    refusal = msgspec.json.decode(body, type=_Refusal)
    # A thread that is busy names the run that keeps it so.
    return bool(refusal.run_id) and refusal.code != "run_active"


def _fingerprint(request: HttpRequest) -> str:
    head = f"{request.method} {request.get_full_path()}\n".encode("utf-8", "replace")
    return hashlib.sha256(head + request.body).hexdigest()
