"""Keys of callers: the list, making one that is shown once, and revoking."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.utils import timezone

from compat_admin.dashboard.pages import OperatorRequest, caller, go_to, listed, render_page
from memory import queries
from memory.errors import InvalidInput
from memory.principal import SCOPES
from memory.services import keys as service

PER_PAGE = 40
KINDS = ("key", "token")
# Days by the words of the form; a key that never ends is one that somebody forgets.
LASTS = {"1": "a day", "7": "a week", "30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}
ALLOWS = {
    "read": "threads, messages, runs, previews",
    "write": "make and change threads and messages",
    "run": "turns of agents",
    "admin": "agents, providers, rules, keys",
}


def key_list(request: OperatorRequest) -> HttpResponse:
    """Keys, newest first; a form makes one and gets its text, once."""
    made: dict[str, Any] = {}
    values: dict[str, Any] = {"lasts": "90", "scopes": ["read", "write", "run"]}
    status = 200
    if request.method == "POST":
        values = {name: request.POST.get(name, "").strip() for name in ("name", "resource_id", "lasts")}
        values["scopes"] = request.POST.getlist("scopes")
        try:
            key, text = _make(request, values)
            made, values = {"made": key, "text": text}, {"lasts": "90", "scopes": ["read", "write", "run"]}
        except InvalidInput as error:
            status = 422
            made = {"errors": {one.field: one.message for one in error.errors} or {"name": str(error)}}
    kind = request.GET.get("kind", "key")
    page = queries.keys_page(
        caller(request),
        cursor=request.GET.get("cursor") or None,
        limit=PER_PAGE,
        kind=kind if kind in KINDS else None,
    )
    context = {
        "section": "keys",
        **listed(request, page, {"kind": kind}),
        "kind": kind,
        "scopes": [(scope, ALLOWS[scope]) for scope in SCOPES],
        "lasts": LASTS.items(),
        "values": values,
        **made,
    }
    return render_page(request, "keys/list.html", fragment="keys/_rows.html", context=context, status=status)


def revoke(request: OperatorRequest, key_id: int) -> HttpResponse:
    """Ask, then end a key and its tokens for good."""
    item = queries.key_item(key_id)
    if request.method == "POST":
        service.revoke_key(caller(request), key_id)
        return go_to(request, "keys", notice=f"{item.name} is revoked: requests with it are refused from now on.")
    return render_page(request, "keys/revoke.html", context={"section": "keys", "item": item})


def _make(request: OperatorRequest, values: dict[str, Any]) -> tuple[queries.KeyItem, str]:
    if values["lasts"] not in LASTS:
        raise InvalidInput("choose how long it lasts", field="lasts")
    ends = timezone.now() + timedelta(days=int(values["lasts"])) if values["lasts"] else None
    row, text = service.make_key(
        caller(request), values["name"], scopes=values["scopes"], resource_id=values["resource_id"], expires_at=ends
    )
    return queries.key_item(row.id), text
