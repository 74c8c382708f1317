"""Operators: the list, making one, roles, keeping somebody out, and the link with which somebody sets a password."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from compat_admin.dashboard.pages import OperatorRequest, caller, go_to, render_page
from compat_admin.needs import PUBLIC, names
from memory.errors import Conflict, InvalidInput, NotFound
from memory.principal import ROLES
from memory.services import operators as service

MAY = {
    "viewer": "sees threads, sizes, rules and decisions, no content",
    "reader": "reads content, too",
    "operator": "acts: runs again, tests connections, switches rules, reverts, deletes threads",
    "admin": "manages keys, agents, connections and users",
}


def user_list(request: OperatorRequest) -> HttpResponse:
    """Everybody; a form makes an operator and gets the link that lets it in, once."""
    if request.method != "POST":
        return _list(request)
    values = {"username": request.POST.get("username", "").strip(), "role": request.POST.get("role", "")}
    try:
        user_id = service.create_operator(caller(request), values["username"], values["role"])
    except (InvalidInput, Conflict) as error:
        errors = {one.field: one.message for one in getattr(error, "errors", ())} or {"username": str(error)}
        return _list(request, status=422, errors=errors, values=values)
    return _list(request, link=_link(request, user_id), linked=values["username"])


def role(request: OperatorRequest, user_id: int) -> HttpResponse:
    service.set_role(caller(request), user_id, request.POST.get("role", ""))
    return go_to(request, "users", notice=f"{_name(user_id)} has the role {request.POST['role']}.")


def active(request: OperatorRequest, user_id: int) -> HttpResponse:
    """Ask, then keep an operator out; or let it in again."""
    name = _name(user_id)
    if request.method == "POST":
        lets_in = request.POST.get("active") == "1"
        service.set_active(caller(request), user_id, is_active=lets_in)
        notice = f"{name} may log in again." if lets_in else f"{name} is kept out from now on."
        return go_to(request, "users", notice=notice)
    context = {"section": "users", "username": name, "user_id": user_id}
    return render_page(request, "users/keep_out.html", context=context)


def link(request: OperatorRequest, user_id: int) -> HttpResponse:
    """A new link for an operator to set its password with."""
    return _list(request, link=_link(request, user_id), linked=_name(user_id))


@names(PUBLIC)
@never_cache
@sensitive_post_parameters("password", "again")
@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: HttpRequest, uid: str, token: str) -> HttpResponse:
    """The page of such a link: whoever has it sets the password of the operator it was made for, once."""
    try:
        user = service.user_of_link(uid, token)
    except NotFound:
        return render_page(request, "users/password.html", context={"is_void": True}, status=404)
    context: dict[str, Any] = {"username": user.get_username(), "problems": []}
    if request.method == "POST":
        password = request.POST.get("password", "")
        if password != request.POST.get("again", ""):
            context["problems"] = ["The two are not the same."]
        else:
            try:
                service.set_password(user, password)
            except InvalidInput as error:
                context["problems"] = [one.message for one in error.errors]
            else:
                return go_to(request, "login")
        return render_page(request, "users/password.html", context=context, status=422)
    return render_page(request, "users/password.html", context=context)


def _list(request: OperatorRequest, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "section": "users",
        "operators": service.operators(),
        "roles": [(name, MAY[name]) for name in ROLES],
        "me": request.user.pk,
        "values": {"role": "reader"},
        **more,
    }
    return render_page(request, "users/list.html", context=context, status=status)


def _link(request: OperatorRequest, user_id: int) -> str:
    return request.build_absolute_uri(reverse("set-password", args=service.make_link(caller(request), user_id)))


def _name(user_id: int) -> str:
    user = get_user_model().objects.filter(pk=user_id).first() if user_id < 2**31 else None
    if user is None:
        raise NotFound("no such operator")
    return user.get_username()
