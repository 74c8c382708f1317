"""What every request passes, and what only pages pass: /api carries no session, no CSRF token and no messages."""

import re
import uuid
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.csrf import CsrfViewMiddleware
from django_htmx.middleware import HtmxMiddleware

from compat_admin import logs

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# A caller's own id is kept only in this shape, so that it can't forge log lines or headers.
REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)


class RequestId:
    """Gives a request its id: as `request.request_id`, in its log lines, and as `X-Request-ID` of the response."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]  # a plain request has no such field
        token = logs.request_id.set(request_id)
        try:
            response = self.get_response(request)
        finally:
            logs.request_id.reset(token)
        response["X-Request-ID"] = request_id
        return response


class ContentSecurityPolicy:
    """Lets a page load only from this site: no inline script or style, no eval, no frame round it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        return response


class OutsideApi:
    """Runs the middleware `inner` for everything but /api, where callers authenticate by key.

    Django looks for hooks on the outermost object only. `process_view` is passed on, because the CSRF check is made
    there; the other view hooks are used by none of the classes below.
    """

    inner: ClassVar[type[Any]]

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.middleware: Any = self.inner(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if is_api(request):
            return self.get_response(request)
        response: HttpResponseBase = self.middleware(request)
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> HttpResponseBase | None:
        hook = getattr(self.middleware, "process_view", None)
        if hook is None or is_api(request):
            return None
        response: HttpResponseBase | None = hook(request, view, args, kwargs)
        return response


class PageSession(OutsideApi):
    inner = SessionMiddleware


class PageCsrf(OutsideApi):
    inner = CsrfViewMiddleware


class PageAuthentication(OutsideApi):
    inner = AuthenticationMiddleware


class PageMessages(OutsideApi):
    inner = MessageMiddleware


class PageHtmx(OutsideApi):
    inner = HtmxMiddleware


def is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith("/api/")
