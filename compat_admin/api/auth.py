"""Bearer keys: whom a request speaks for, and which scope a route asks for."""

from __future__ import annotations

from django.http import HttpRequest
from ninja.security.http import HttpAuthBase

from memory.access import require
from memory.principal import SCOPES, Principal
from memory.services import keys


class ApiRequest(HttpRequest):
    """A request that has passed `ApiKey`."""

    auth: Principal


class ApiKey(HttpAuthBase):
    """`Authorization: Bearer <key>`. The key needs the scope, else Forbidden; without a valid key nothing is said."""

    openapi_scheme = "bearer"

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Principal | None:
        caller = caller_of(request)
        if caller is not None:
            require(caller, self.scope)
        return caller


READ, WRITE, RUN, ADMIN = (ApiKey(scope) for scope in SCOPES)


def caller_of(request: HttpRequest) -> Principal | None:
    """Whom the request's key stands for; None without a key that is in force."""
    scheme, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    return keys.principal_for(key.strip()) if scheme.lower() == "bearer" and key.strip() else None
