"""What ninja leaves open: addresses and methods that do not exist, and the shapes in the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, re_path
from ninja import NinjaAPI
from ninja.errors import AuthenticationError
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from compat_admin.api.auth import ApiKey, caller_of, tell_rate
from compat_admin.api.documents import complete
from compat_admin.api.errors import problem_for
from compat_admin.api.refused import Refused
from compat_admin.needs import PUBLIC, names

View = Callable[..., HttpResponseBase]

_PARAMETER = re.compile(r"{(\w+)}")


class Api(NinjaAPI):
    """A NinjaAPI that owns every address below its own: each failure is a problem document, also where no route is."""

    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        patterns, app_name, namespace = super().urls
        needs = self._needs()
        entered: list[URLResolver | URLPattern] = [
            URLPattern(
                pattern.pattern,
                # What is no route of a router is ninja's own: the document and its page.
                _entered(pattern.callback, needs.get(str(pattern.pattern), PUBLIC)),
                pattern.default_args,
                pattern.name,
            )
            for pattern in patterns
            if isinstance(pattern, URLPattern)
        ]
        # Without a key not even that nothing is there is told.
        return [*entered, re_path("", _entered(_nothing_here, PUBLIC))], app_name, namespace

    def _needs(self) -> dict[str, dict[str, str]]:
        """Each route's permission by method, by Django's spelling of its path; empty where it names none itself."""
        found: dict[str, dict[str, str]] = {}
        for prefix, router in self._routers:
            for path, route in router.path_operations.items():
                methods = found.setdefault(_PARAMETER.sub(r"<\1>", f"{prefix}{path}").lstrip("/"), {})
                for operation in route.operations:
                    auth = operation.auth_param
                    permission = auth.permission if isinstance(auth, ApiKey) else ""
                    methods.update(dict.fromkeys(operation.methods, permission))
        return found

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **options: Any) -> OpenAPISchema:
        schema = super().get_openapi_schema(**options)
        complete(schema, permissions=self._permissions())
        return schema

    def _permissions(self) -> dict[str, str]:
        """What each route needs, by operation id."""
        found = {}
        for _, router in self._routers:
            for route in router.path_operations.values():
                for operation in route.operations:
                    if isinstance(operation.auth_param, ApiKey):
                        found[self.get_openapi_operation_id(operation)] = operation.auth_param.permission
        return found


def _entered(view: View, needs: Mapping[str, str]) -> View:
    @names(needs)
    def enter(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        try:
            response = view(request, **kwargs)
            if isinstance(response, HttpResponseNotAllowed):
                allowed = response["Allow"]
                raise Refused(405, "method_not_allowed", f"allowed here: {allowed}", headers={"Allow": allowed})
        except Exception as error:  # noqa: BLE001  # Nothing may leave as a page or a traceback; it is logged there.
            response = problem_for(request, _unless_unknown(request, error))
        response.headers.setdefault("Cache-Control", "no-store")
        tell_rate(request, response)
        return response

    return enter


def _nothing_here(request: HttpRequest) -> HttpResponseBase:
    raise Refused(404, "not_found", "there is nothing at this address")


def _unless_unknown(request: HttpRequest, error: Exception) -> Exception:
    """The error, or the one that comes before all others: no route has asked for the key yet."""
    try:
        return AuthenticationError() if caller_of(request) is None else error
    except Exception as failure:  # noqa: BLE001  # The key could not be looked up; `problem_for` logs it.
        return failure
