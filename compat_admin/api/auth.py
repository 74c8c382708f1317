"""Bearer keys: whom a request speaks for, which permission a route asks for, and how many requests a key has left."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.security.http import HttpAuthBase

from compat_admin.api.refused import Refused
from memory.access import require
from memory.principal import SCOPES, Principal
from memory.services import keys
from memory.services.rates import Rate, counter

_UNREAD = object()


class ApiRequest(HttpRequest):
    """A request that has passed `ApiKey`."""

    auth: Principal


class ApiKey(HttpAuthBase):
    """`Authorization: Bearer <key>`. The key needs the permission, else Forbidden; without a valid key nothing is said.

    Raises Refused (429) when the key has used up its minute.
    """

    openapi_scheme = "bearer"

    def __init__(self, permission: str) -> None:
        super().__init__()
        self.permission = permission

    def __call__(self, request: HttpRequest) -> Principal | None:
        caller = caller_of(request)
        if caller is not None:
            require(caller, self.permission)
        return caller


# Each is named by its scope; TOKEN is any scope that tokens can have, on a key that is none itself.
READ, WRITE, RUN, ADMIN = (ApiKey(scope) for scope in SCOPES)
TOKEN = ApiKey("token")


def caller_of(request: HttpRequest) -> Principal | None:
    """Whom the request's key stands for; None without a key that is in force. Looked up and counted once a request.

    Raises Refused (429) when the key has used up its minute.
    """
    found: object = getattr(request, "api_caller", _UNREAD)
    if found is _UNREAD:
        found = _counted(request)
        request.api_caller = found  # type: ignore[attr-defined]  # a plain request has no such field
    return found if isinstance(found, Principal) else None


def tell_rate(request: HttpRequest, response: HttpResponseBase) -> None:
    """Put what is left of the key's minute into the response's headers, if a key was counted."""
    rate: Rate | None = getattr(request, "api_rate", None)
    if rate is not None:
        response.headers["RateLimit-Limit"] = str(rate.limit)
        response.headers["RateLimit-Remaining"] = str(rate.remaining)
        response.headers["RateLimit-Reset"] = str(rate.reset_s)


def _counted(request: HttpRequest) -> Principal | None:
    scheme, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    known = keys.look_up(key.strip()) if scheme.lower() == "bearer" and key.strip() else None
    if known is None or known.principal.key_id is None:
        return None
    rate = counter.count(known.principal.key_id, known.window, known.window_count)
    request.api_rate = rate  # type: ignore[attr-defined]  # as above
    if rate is not None and rate.is_over:
        words = f"this key may make {rate.limit:,} requests a minute; the next minute begins in {rate.reset_s} s"
        raise Refused(429, "rate_limited", words, headers={"Retry-After": str(rate.reset_s)})
    return known.principal
