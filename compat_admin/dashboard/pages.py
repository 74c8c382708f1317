"""What all pages share: who may see them, how they are rendered, and which page a named error becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.backends.django import DjangoTemplates
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme, urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from compat_admin.needs import SIGNED_IN, names
from memory import access
from memory.errors import CompatAdminError, Conflict, EncodingError, Forbidden, InvalidInput, NotFound
from memory.models import OperatorPreference
from memory.principal import Principal
from memory.queries import Page

P = ParamSpec("P")

SAFE = ("GET", "HEAD")
_ERRORS: dict[type[CompatAdminError], tuple[int, str]] = {
    NotFound: (404, "There is nothing at this address"),
    Forbidden: (403, "You may not do that"),
    Conflict: (409, "That can't be done now"),
    InvalidInput: (400, "That can't be shown"),
    EncodingError: (400, "This can't be said to that provider"),
}


class OperatorRequest(HttpRequest):
    """A request as views get it: by somebody who is logged in."""

    htmx: HtmxDetails
    preference: OperatorPreference
    caller: Principal


def page(
    route: str,
    view: Callable[Concatenate[OperatorRequest, P], HttpResponseBase],
    name: str,
    *,
    needs: str = "",
    methods: tuple[str, ...] = SAFE,
) -> URLPattern:
    """An address for operators whose role grants `needs`, a permission or SIGNED_IN; without it nobody comes in.

    Every address but those of the login is made here, so none can be left open.
    """
    return path(route, operators_only(require_http_methods(methods)(view), needs), name=name)


def operators_only(view: Callable[..., HttpResponseBase], needs: str) -> Callable[..., HttpResponseBase]:
    """The view for operators who may, in their time zone, with named errors turned into pages."""

    @names({"": needs})
    @wraps(view)
    @never_cache
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return _to_login(request)
        preference = OperatorPreference.objects.filter(user=request.user.pk).first() or OperatorPreference()
        request.preference = preference  # type: ignore[attr-defined]
        role = "admin" if request.user.is_superuser else preference.role
        principal = access.operator(request.user.get_username(), role)
        request.caller = principal  # type: ignore[attr-defined]
        with timezone.override(_zone(preference.time_zone)):
            try:
                if needs != SIGNED_IN:
                    access.require(principal, needs)
                return view(request, *args, **kwargs)
            except tuple(_ERRORS) as error:
                return _error_page(request, error)

    return guarded


def caller(request: OperatorRequest) -> Principal:
    return request.caller


def _to_login(request: HttpRequest) -> HttpResponse:
    # After a form was sent there is no page to come back to, and a swapped-in login page would be no use.
    here = request.get_full_path() if request.method in SAFE else "/"
    if request.headers.get("HX-Request"):
        here = request.headers.get("HX-Current-URL", "/")
        return HttpResponseClientRedirect(redirect_to_login(here).url)
    return redirect_to_login(here)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def _error_page(request: HttpRequest, error: CompatAdminError) -> HttpResponse:
    status, title = next(_ERRORS[kind] for kind in type(error).__mro__ if kind in _ERRORS)
    context = {"title": title, "sentence": str(error)}
    return render_page(request, "error.html", context=context, status=status)


# Rendering


def _templates() -> DjangoTemplates:
    # The filters are named here because the dashboard is no Django app that they would be found in.
    parameters: dict[str, Any] = {**settings.TEMPLATES[0], "NAME": "dashboard"}
    parameters.pop("BACKEND")
    builtins = ["django.templatetags.static", "django_htmx.templatetags.django_htmx", "compat_admin.dashboard.tags"]
    return DjangoTemplates({**parameters, "OPTIONS": {**parameters["OPTIONS"], "builtins": builtins}})


_engine = _templates()


def is_swap(request: HttpRequest) -> bool:
    """Whether htmx asks for a piece of the page; boosted links and history get the whole of it."""
    htmx: HtmxDetails | None = getattr(request, "htmx", None)
    return bool(htmx and not htmx.boosted and not htmx.history_restore_request)


def render_page(
    request: HttpRequest,
    template: str,
    *,
    context: Mapping[str, Any],
    fragment: str | None = None,
    status: int = 200,
) -> HttpResponse:
    """The page, or only its fragment for an htmx request that swaps it."""
    chosen = fragment if fragment and is_swap(request) else template
    html = _engine.get_template(chosen).render(dict(context), request)
    response = HttpResponse(html, status=status)
    patch_vary_headers(response, ["HX-Request"])
    return response


def go_to(request: HttpRequest, name: str, *args: Any, notice: str = "") -> HttpResponse:
    """Send the browser to a page after a form did its work, with a sentence to show there."""
    if notice:
        messages.success(request, notice)
    return HttpResponseRedirect(reverse(name, args=args))


def query(values: Mapping[str, str]) -> str:
    """The values that are set, as the query of an address; empty without any."""
    chosen = {name: value for name, value in values.items() if value}
    return f"?{urlencode(chosen)}" if chosen else ""


def listed(
    request: HttpRequest,
    page: Page[Any],
    filters: Mapping[str, str] | None = None,
    *,
    names: Mapping[str, str] | None = None,
    words: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What the templates of a list need: its page, the filters that are set, and the addresses round it.

    `names` and `words` are how filters and their values are shown, where that is not as the address has them.
    """
    filters, names, words = filters or {}, names or {}, words or {}
    without = {name: query({k: v for k, v in filters.items() if k != name}) for name in filters}
    return {
        "page": page,
        "filters": filters,
        "chips": [(names.get(k, k.capitalize()), words.get(k, v), without[k]) for k, v in filters.items()],
        "newest": query(filters),
        "older": query({**filters, "cursor": page.next_cursor or ""}),
        "is_later": bool(request.GET.get("cursor")),
    }


def own_address(request: HttpRequest, address: str) -> str:
    """The address if it is on this site, else the first page: a link must not lead elsewhere after a form."""
    is_own = url_has_allowed_host_and_scheme(address, {request.get_host()}, require_https=request.is_secure())
    return address if is_own else "/"


def plain_file(
    body: bytes, *, filename: str, content_type: str = "text/plain; charset=utf-8", save: bool
) -> HttpResponse:
    """Foreign bytes that no browser takes for a page: shown as plain text, or only saved."""
    response = HttpResponse(body, content_type=content_type)
    response["Content-Disposition"] = f'{"attachment" if save else "inline"}; filename="{filename}"'
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["X-Content-Type-Options"] = "nosniff"
    return response
