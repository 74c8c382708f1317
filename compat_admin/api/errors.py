"""Failures as callers see them: one table from named errors to statuses, one shape for all (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus

from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponse
from django.http.request import UnreadablePostError
from msgspec import UNSET, Struct, UnsetType
from ninja.errors import AuthenticationError, HttpError, ValidationError

from compat_admin.api.bodies import encode
from compat_admin.api.refused import Refused
from memory.errors import (
    Busy,
    CompatAdminError,
    Conflict,
    EncodingError,
    ExternalMessageList,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
    ProviderError,
    RunCancelled,
    RunFailed,
    RunStopped,
    Tripwire,
)

logger = logging.getLogger(__name__)

PROBLEM_TYPE = "application/problem+json"

# The nearest class counts. A code of the second table beats its class: the request could not even be read.
STATUSES: dict[type[CompatAdminError], int] = {
    InvalidInput: 422,
    NotFound: 404,
    Forbidden: 403,
    Conflict: 409,
    Busy: 503,
    ExternalMessageList: 500,
    Tripwire: 422,
    EncodingError: 422,
    ProviderError: 502,
    RunFailed: 502,
    RunStopped: 422,
    RunCancelled: 409,
    CompatAdminError: 500,
}
STATUSES_BY_CODE = {"bad_cursor": 400, "not_json": 400}


class Problem(Struct, frozen=True):
    """What went wrong. `code` is stable; `errors` names the places in the input; `run_id` is there if a run was."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[FieldError]
    run_id: str | UnsetType = UNSET


def problem_for(request: HttpRequest, error: Exception) -> HttpResponse:
    """The response that tells a caller about `error`; one without a name is logged and tells only its request's id."""
    match error:
        case CompatAdminError():
            return _named(request, error)
        case Refused():
            return _problem(request, error.status, error.code, str(error), headers=error.headers)
        case AuthenticationError():
            detail = "This needs a valid key: Authorization: Bearer <key>."
            return _problem(request, 401, "unauthorized", detail, headers={"WWW-Authenticate": "Bearer"})
        case ValidationError():
            errors = [FieldError(_place(found["loc"]), found["msg"]) for found in error.errors]
            return _problem(request, 422, "invalid_input", "the request's parameters don't fit", errors=errors)
        case HttpError():
            return _problem(request, error.status_code, HTTPStatus(error.status_code).name.lower(), str(error))
        case Http404():
            return _problem(request, 404, "not_found", "there is nothing at this address")
        case RequestDataTooBig():
            return _problem(request, 413, "too_large", "the body is larger than this server takes")
        case SuspiciousOperation():
            return _problem(request, 400, "bad_request", str(error))
        case UnreadablePostError():
            return _problem(request, 400, "bad_request", "the body broke off")
        case _:
            logger.error("%s %s failed", request.method, request.path, exc_info=error)
            return _problem(
                request, 500, "internal_error", "something failed here; the log has it under this request id"
            )


def status_of(error: CompatAdminError) -> int:
    """The HTTP status of a named error."""
    by_class = next(STATUSES[cls] for cls in type(error).__mro__ if cls in STATUSES)
    return STATUSES_BY_CODE.get(error.code, by_class)


def _named(request: HttpRequest, error: CompatAdminError) -> HttpResponse:
    status = status_of(error)
    if status == 500:
        logger.error("%s %s failed", request.method, request.path, exc_info=error)
    errors: Iterable[FieldError] = ()
    run_id: str | UnsetType = UNSET
    match error:
        case InvalidInput():
            errors = error.errors
        case EncodingError() if error.place:
            errors = (FieldError(error.place, str(error)),)
        case RunFailed() | Conflict() if error.run_id:
            run_id = error.run_id
    headers = {"Retry-After": "1"} if isinstance(error, Busy) else None
    return _problem(request, status, error.code, str(error), errors=errors, run_id=run_id, headers=headers)


def _problem(
    request: HttpRequest,
    status: int,
    code: str,
    detail: str,
    *,
    errors: Iterable[FieldError] = (),
    run_id: str | UnsetType = UNSET,
    headers: dict[str, str] | None = None,
) -> HttpResponse:
    problem = Problem(
        type="about:blank",  # RFC 9457: the status says what kind of problem it is; `code` says more.
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_plain(detail),
        code=code,
        request_id=getattr(request, "request_id", ""),
        errors=[FieldError(_plain(error.field), _plain(error.message)) for error in errors],
        run_id=run_id,
    )
    return HttpResponse(encode(problem), status=status, content_type=PROBLEM_TYPE, headers=headers)


def _plain(text: str) -> str:
    """The text without half surrogates: it may quote an input, and no JSON can hold them."""
    return text.encode("utf-8", "replace").decode()


def _place(loc: Iterable[object]) -> str:
    # The first entry only says where the parameter stood: path, query.
    return ".".join(str(step) for step in list(loc)[1:])
