"""Logging in and out, and how an operator wants pages shown."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import available_timezones

from django.contrib.auth import authenticate, login, logout
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from compat_admin.dashboard.pages import OperatorRequest, go_to, own_address, render_page
from compat_admin.needs import PUBLIC, names
from memory import audit
from memory.models import AuditEvent, OperatorPreference
from memory.principal import can_be_looked_up

MAX_FAILURES = 10
FAILURES_COUNT_FOR = timedelta(minutes=15)
THEMES = ("", "light", "dark")


@names(PUBLIC)
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    """The login form. What was wrong is not told; after ten failures in 15 minutes nothing is checked any more."""
    values = request.POST if request.method == "POST" else request.GET
    after = own_address(request, values.get("next", "/"))
    if request.method != "POST":
        if request.user.is_authenticated:
            return HttpResponseRedirect(after)
        return render_page(request, "login.html", context={"next": after})
    username = request.POST.get("username", "")
    context = {"next": after, "username": username[:150]}
    # Per address, too, so that nobody can lock an operator out from somewhere else.
    target = f"{request.META.get('REMOTE_ADDR', '')} {username[:150].casefold()}"
    if not can_be_looked_up(username):
        return render_page(request, "login.html", context={**context, "is_wrong": True}, status=403)
    since = timezone.now() - FAILURES_COUNT_FOR
    failures = AuditEvent.objects.filter(target_type="login", target_id=target, action="login.failed", at__gt=since)
    if failures.count() >= MAX_FAILURES:
        return render_page(request, "login.html", context={**context, "is_closed": True}, status=429)
    user = authenticate(request, username=username, password=request.POST.get("password", ""))
    if user is None:
        with transaction.atomic():
            audit.record("", "login.failed", "login", target)
        return render_page(request, "login.html", context={**context, "is_wrong": True}, status=403)
    login(request, user)
    return HttpResponseRedirect(after)


def log_out(request: OperatorRequest) -> HttpResponse:
    logout(request)
    return go_to(request, "login")


def preferences(request: OperatorRequest) -> HttpResponse:
    """Theme and time zone; a form sends one of them or both, and may name the page to come back to."""
    zones = available_timezones()
    if request.method == "POST":
        changes = {name: request.POST[name] for name in ("theme", "time_zone") if name in request.POST}
        if changes.get("theme", "") in THEMES and changes.get("time_zone", "") in {"", *zones}:
            user: Any = request.user  # somebody known, or the page would have been refused
            OperatorPreference.objects.update_or_create(user=user, defaults=changes)
            return HttpResponseRedirect(own_address(request, request.POST.get("next", "/preferences/")))
        context = {"zones": sorted(zones), "section": "preferences", "error": "There is no such theme or time zone."}
        return render_page(request, "preferences.html", context=context, status=422)
    return render_page(request, "preferences.html", context={"zones": sorted(zones), "section": "preferences"})
