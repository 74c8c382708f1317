"""Connections: where each provider is reached and whether its key is there, setting one, and a call to try it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from msgspec import Struct

from compat_admin.dashboard.pages import OperatorRequest, caller, go_to, is_swap, render_page
from compat_admin.dashboard.tags import seconds
from memory import queries
from memory.errors import Conflict, InvalidInput, NotFound
from memory.models import Job, Provider
from memory.processors.compat.examples import all_examples
from memory.providers import ENTRIES, PROTOCOLS
from memory.providers.connection import auth_style
from memory.providers.entries import address_for
from memory.queries import HIDDEN, CallItem
from memory.services import connections as service
from memory.services.connections import SANDBOX, AgentUse, ProviderItem
from memory.services.job_kinds import connection_test, start_connection_test
from memory.services.jobs import ACTIVE

CALLS_LOOKED_AT = 1000
CALLS_SHOWN = 10
MODELS_OFFERED = 20
Mark = Literal["ok", "warn", "err", "live", ""]

KEY_KINDS = {
    "env": "an environment variable",
    "file": "a file",
    "aws": "AWS’ own credentials",
    "google": "Google’s default credentials",
    "": "nowhere: it needs none",
}
STYLES = {"bearer": "as a bearer token", "none": "as a bearer token"}
# By outcome of a test: mark, what happened, and what to do. {who} is the provider, {status} comes with the sentence.
TOLD: Mapping[str, tuple[Mark, str, str]] = {
    "answered": ("ok", "It works: {who} answered", ""),
    "key": ("err", "{who} refuses the key", "Look at what {key} holds where the workers run, and what it may do."),
    "account": ("warn", "{who} knows the key, but the account takes no more calls", "Look at its balance and limits."),
    "absent": (
        "err",
        "{who} is reached, but knows no such model or address",
        "Look at how the model is spelt, and whether the key may use it; then at the address.",
    ),
    "busy": ("warn", "{who} is reached, and asks to come back later", "Test it again in a minute."),
    "failing": ("warn", "{who} is reached, but fails itself", "Test it again in a minute."),
    "unreachable": (
        "err",
        "Nobody answered at {address}",
        "Look at the address, and whether the workers’ machine may reach it.",
    ),
    "unreadable": (
        "err",
        "Something answered, but not over {protocol}",
        "Look at the protocol and the address: it may be another service’s, or a page’s.",
    ),
    "refused": ("warn", "{who} is reached, and refuses the call", "Its words say why; another model may do."),
    "no call": ("err", "No call could be made", "Every run over it would end so, too."),
}


class KeyState(Struct, frozen=True):
    """Whether a connection's key is there, as this process sees it, and where it is looked for."""

    mark: Mark
    words: str
    place: str
    sent: str = ""


class Row(Struct, frozen=True):
    """A connection in the list. `calls` are of the newest ones."""

    item: ProviderItem
    key: KeyState
    agents: Sequence[AgentUse]
    calls: Sequence[CallItem]

    @property
    def agent_names(self) -> list[str]:
        return list(dict.fromkeys(use.name for use in self.agents))

    @property
    def last(self) -> CallItem | None:
        return self.calls[0] if self.calls else None

    @property
    def failed_count(self) -> int:
        return sum(bool(call.error_class) for call in self.calls)

    @property
    def is_ready(self) -> bool:
        """Whether somebody can use it, or does: the others only wait for their variable."""
        return self.item.has_key or bool(self.agents) or bool(self.calls)


class Tested(Struct, frozen=True):
    """The last test of a connection in words; `said` is the provider's."""

    mark: Mark
    title: str
    hint: str
    said: str
    model: str
    job: Job

    @property
    def is_live(self) -> bool:
        return self.mark == "live"


def connection_list(request: OperatorRequest) -> HttpResponse:
    """Every provider: those with a connection of their own, those that are ready, and those that lack a key."""
    # Those that somebody uses come first.
    rows = sorted(_rows(), key=lambda row: (not row.agents, not row.calls))
    context = {
        "section": "connections",
        "own": [row for row in rows if row.item.is_own],
        "ready": [row for row in rows if not row.item.is_own and row.is_ready],
        "others": [row for row in rows if not row.item.is_own and not row.is_ready],
        "missing": sum(row.key.mark == "err" and bool(row.agents) for row in rows),
        "looked_at": CALLS_LOOKED_AT,
    }
    return render_page(request, "connections/list.html", context=context)


def choose(request: OperatorRequest) -> HttpResponse:
    """Which provider to set a connection for; with one, on to its form."""
    chosen = request.GET.get("provider", "")
    if chosen in ENTRIES:
        return HttpResponseRedirect(reverse("connection-edit", args=[chosen]))
    items = [item for item in service.connection_items() if not item.is_own]
    context = {"section": "connections", "items": items, "is_unknown": bool(chosen)}
    return render_page(request, "connections/new.html", context=context)


def connection_page(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """A connection with who uses it, its last calls, and its last test; as a fragment, how that stands."""
    if is_swap(request):  # once a second while a test goes on: nothing else is looked at
        return render_page(
            request, "connections/_tested.html", context=_test_of(request, service.connection_item(provider_id))
        )
    return render_page(request, "connections/connection.html", context=_shown(request, _row(provider_id)))


def send_test(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Call one of the provider's models once, by a worker."""
    row = _row(provider_id)
    model_id = request.POST.get("model", "").strip()
    try:
        start_connection_test(caller(request), provider_id, model_id)
    except InvalidInput as error:
        context = {**_shown(request, row), "model": model_id, "error": str(error)}
        return render_page(
            request, "connections/connection.html", fragment="connections/_test.html", context=context, status=422
        )
    if not request.htmx:
        return HttpResponseRedirect(f"{reverse('connection', args=[provider_id])}#test")
    return render_page(
        request, "connections/_test.html", fragment="connections/_test.html", context=_shown(request, row)
    )


def edit(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Set a provider's connection, or change it."""
    item = service.connection_item(provider_id)
    row = Provider.objects.filter(id=provider_id).first()
    values, errors = _form_of(item, row), dict[str, str]()
    if request.method == "POST":
        values = {name: request.POST.get(name, "").strip() for name in values}
        try:
            return _save(request, item, row, values)
        except (InvalidInput, Conflict) as error:
            errors = {one.field: one.message for one in getattr(error, "errors", ())} or {"base_url": str(error)}
            if "key_ref" in errors:
                values["key_place"] = ""  # It may be a key.
    context = {
        "section": "connections",
        "item": item,
        "values": values,
        "errors": errors,
        "protocols": [(name, name == ENTRIES[item.id].protocol) for name in PROTOCOLS],
        "addresses": [(name, found) for name in PROTOCOLS if (found := address_for(ENTRIES[item.id], name))],
        "key_kinds": KEY_KINDS.items(),
        "variable": ENTRIES[item.id].key_variable,
        "hidden": HIDDEN,
    }
    return render_page(request, "connections/edit.html", context=context, status=422 if errors else 200)


def remove(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Ask, then take a provider's own connection away."""
    row = _row(provider_id)
    if not row.item.is_own:
        raise NotFound("this provider has no connection of its own")
    entry = ENTRIES[provider_id]
    if request.method == "POST":
        service.delete_connection(caller(request), provider_id)
        return go_to(request, "connections", notice=f"The connection of {entry.title} is removed.")
    context = {
        "section": "connections",
        "row": row,
        "address": entry.base_url,
        "variable": entry.key_variable,
    }
    return render_page(request, "connections/remove.html", context=context)


# Showing


def key_state(item: ProviderItem) -> KeyState:
    """Where a connection's key is looked for, and whether it is there. Never the key."""
    if item.base_url.startswith(SANDBOX):
        return KeyState("", "none needed", "a pretend provider")
    kind, _, place = item.key_ref.partition(":")
    style = auth_style(item.id, item.protocol)
    sent = STYLES.get(style, f"in the header {style}")
    match kind:
        case "":
            return KeyState("", "none", "called without a key")
        case "aws":
            of = f"profile {place} of AWS" if place else "credentials of AWS"
            return KeyState("", "looked for at each call", of, "as a signature")
        case "google":
            return KeyState("", "looked for at each call", "default credentials of Google", sent)
    where = f"variable {place}" if kind == "env" else f"file {place}"
    if item.has_key:
        return KeyState("ok", "found", where, sent)
    return KeyState("err", "not found", where, sent)


def _rows() -> list[Row]:
    calls, agents = _calls(), service.agents_by_provider()
    return [
        Row(item, key_state(item), agents.get(item.id, ()), calls.get(item.id, ()))
        for item in service.connection_items()
    ]


def _row(provider_id: str) -> Row:
    item = service.connection_item(provider_id)
    agents = service.agents_by_provider().get(provider_id, ())
    return Row(item, key_state(item), agents, _calls().get(provider_id, ()))


def _calls() -> dict[str, list[CallItem]]:
    found: dict[str, list[CallItem]] = {}
    for call in queries.newest_calls(limit=CALLS_LOOKED_AT):
        found.setdefault(call.provider, []).append(call)
    return found


def _test_of(request: OperatorRequest, item: ProviderItem) -> dict[str, Any]:
    return {"item": item, "tested": tested_of(item, key_state(item)), "may_test": caller(request).may("run")}


def _shown(request: OperatorRequest, row: Row) -> dict[str, Any]:
    item, test = row.item, _test_of(request, row.item)
    tested = test["tested"]
    used = [*(use.model_id for use in row.agents), *(call.model_id for call in row.calls)]
    known = [example.model for example in all_examples() if example.provider == item.id]
    models = list(dict.fromkeys([*used, *known]))[:MODELS_OFFERED]
    return {
        **test,
        "section": "connections",
        "row": row,
        "calls": row.calls[:CALLS_SHOWN],
        "looked_at": CALLS_LOOKED_AT,
        "models": models,
        "model": tested.model if tested else models[0] if models else "",
    }


def tested_of(item: ProviderItem, key: KeyState) -> Tested | None:
    """How the last test of a connection stands."""
    job = connection_test(item.id)
    if job is None:
        return None
    model = str(job.arguments.get("model", "")).partition("/")[2]
    if job.status in ACTIVE:
        is_asked = job.status == "running"
        title = "The call is under way." if is_asked else "It waits for a worker."
        return Tested("live", title, "", "", model, job)
    if job.status != "done":
        return Tested("err", f"The test was not done: it {job.status}.", "Test it again.", job.error, model, job)
    result = job.result
    fallback: tuple[Mark, str, str] = ("warn", "It came to nothing", "Test it again.")
    mark, title, hint = TOLD.get(str(result.get("outcome")), fallback)
    words = {"who": item.title, "key": key.place, "address": item.base_url, "protocol": item.protocol}
    if result.get("took_s") is not None:
        end = f" in {seconds(result['took_s'])}."
    else:
        end = f" ({result['status']})." if result.get("status") else "."
    return Tested(mark, title.format(**words) + end, hint.format(**words), str(result.get("words") or ""), model, job)


# The form


def _form_of(item: ProviderItem, row: Provider | None) -> dict[str, str]:
    """What the form shows of a connection: names of headers, and never a value."""
    kind, _, place = item.key_ref.partition(":")
    return {
        "protocol": item.protocol,
        "base_url": row.base_url if row else "",
        "key_kind": kind,
        "key_place": place,
        "headers": "\n".join(f"{name}: {HIDDEN}" for name in item.headers),
    }


def _save(request: OperatorRequest, item: ProviderItem, row: Provider | None, form: Mapping[str, str]) -> HttpResponse:
    given = {
        "protocol": form["protocol"],
        "base_url": form["base_url"],
        "key_ref": _key_ref(form["key_kind"], form["key_place"]),
        "headers": _headers(form["headers"], row.headers if row else {}),
    }
    if row is None:
        service.create_connection(caller(request), item.id, given)
    else:
        given = {name: value for name, value in given.items() if value != getattr(row, name)}
        if not given:
            return go_to(request, "connection", item.id, notice="Nothing was changed.")
        service.update_connection(caller(request), item.id, given)
    address = service.connection_item(item.id).base_url
    return go_to(request, "connection", item.id, notice=f"{item.title} is reached at {address} from the next call on.")


def _key_ref(kind: str, place: str) -> str:
    if kind not in KEY_KINDS:
        raise InvalidInput("choose where its key is", field="key_ref")
    if kind == "env" and not place:
        raise InvalidInput("name the variable that holds the key", field="key_ref")
    if kind == "file" and not place:
        raise InvalidInput("give the path of the file that holds the key", field="key_ref")
    return f"{kind}:{'' if kind == 'google' else place}" if kind else ""


def _headers(text: str, held: Mapping[str, str]) -> dict[str, str]:
    """Headers from their lines; `…` stands for the value that is held. Raises InvalidInput."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        if not colon or not name:
            raise InvalidInput("write each header on a line of its own, as name: value", field="headers")
        if name.lower() in map(str.lower, found):
            raise InvalidInput(f"two lines set {name}: keep one of them", field="headers")
        if value == HIDDEN and name not in held:
            raise InvalidInput(f"give a value for {name}: it has none yet", field="headers")
        found[name] = held[name] if value == HIDDEN else value
    return found
