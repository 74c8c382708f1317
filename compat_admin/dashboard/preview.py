"""What would be sent, of a stored thread or of a history that somebody pastes. Nothing is called or stored."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from django.http import HttpResponse
from django.urls import reverse
from django.utils.http import urlencode
from msgspec import Struct

from compat_admin.dashboard import xray
from compat_admin.dashboard.changed import OWN_STEP
from compat_admin.dashboard.pages import OperatorRequest, caller, plain_file, render_page
from compat_admin.dashboard.past import build_recorded, recorded_changes
from compat_admin.dashboard.shown import cut
from compat_admin.dashboard.threads import USUAL_PROVIDERS, labels_of
from memory import queries
from memory.access import thread_for
from memory.errors import EncodingError, InvalidInput, NotFound
from memory.messages.names import PROVIDERS
from memory.messages.stored import StoredMessage, decode_json, read_content
from memory.models import Agent, Thread
from memory.providers import ENTRIES, PROTOCOLS
from memory.queries import MessageThen
from memory.services import preview as service
from memory.services import rule_use
from memory.services.prefix import cache_break
from memory.services.preview import Preview

WINDOW = 200
AGENTS_LISTED = 200
SHOWN_BODY_BYTES = 24_000
ATTEMPTS_LISTED = 30
STORED_FORM = "stored"
# A model to begin with, so that a first look needs no typing.
USUAL_MODELS = {"anthropic": "claude-opus-4-6", "openai": "gpt-5", "cerebras": "gpt-oss-120b"}


class Asked(Struct, frozen=True):
    """What a preview is asked for."""

    provider: str
    model: str
    agent: str
    off: tuple[str, ...]
    last: int
    at: str = ""
    """A past attempt, `run:number`; empty for the next call."""
    step: int | None = None
    only: bool = False
    row: int = 0
    names_agent: bool = False
    """The agent is named in addresses even where it is none: without a word the thread's own counts."""

    @property
    def query(self) -> str:
        return self.query_with()

    def query_with(self, **changed: Any) -> str:
        """The query of this preview, or of one that differs."""
        values: dict[str, Any] = {
            "provider": self.provider,
            "model": self.model,
            "agent": self.agent,
            "off": self.off,
            "last": self.last,
            "at": self.at,
            "step": "" if self.step is None else str(self.step),
            "only": "1" if self.only else "",
        }
        values |= changed
        if values["last"] == WINDOW:
            del values["last"]
        kept = {name: value for name, value in values.items() if value or (name == "agent" and self.names_agent)}
        return urlencode(kept, doseq=True)

    @property
    def without_step(self) -> str:
        return self.query_with(step="")

    @property
    def all_on(self) -> str:
        return self.query_with(off=())

    @property
    def rules(self) -> dict[str, str]:
        return dict.fromkeys(self.off, "off")

    @property
    def switches(self) -> list[tuple[str, str]]:
        """The rules that are off for this look, each with the query of the look with it on again."""
        return [(rule, self.query_with(off=[other for other in self.off if other != rule])) for rule in self.off]


def thread_preview(request: OperatorRequest, thread_id: str) -> HttpResponse:
    """The x-ray of a thread: of its next call, or of an attempt that was made."""
    thread = thread_for(caller(request), thread_id)
    agents = _agents()
    asked = _asked(request.GET, agents, thread_agent=thread.agent_id, last_provider=thread.last_provider)
    attempts = queries.attempts_of_thread(thread.id, limit=ATTEMPTS_LISTED)
    context: dict[str, Any] = {
        "section": "threads",
        "thread": thread,
        "asked": asked,
        "agents": agents,
        "attempts": attempts,
        "providers": _speakable(),
        "models": sorted({*USUAL_MODELS.values(), *(attempt.model_id for attempt in attempts)}),
        "here": reverse("thread-preview", args=[thread.id]),
        "wider": asked.query_with(last=asked.last * 5) if thread.message_count > asked.last and not asked.at else "",
    }
    status = 200
    try:
        if asked.at:
            context |= _recorded(thread, asked)
        else:
            shown = _preview(request, asked, thread_id=thread.id, last=asked.last)
            context |= _result(shown, asked, labels=labels_of(thread, asked.last))
            if not context["wider"]:
                context["cache_break"] = cache_break(thread.id, asked.agent, shown)
    except (InvalidInput, EncodingError, NotFound) as error:
        status = 422
        context["error"] = str(error)
    return render_page(request, "preview/thread.html", fragment="preview/_result.html", context=context, status=status)


def _recorded(thread: Thread, asked: Asked) -> dict[str, Any]:
    run_id, _, number = asked.at.rpartition(":")
    attempt = queries.attempt_of_thread(thread.id, run_id, int(number) if number.isdigit() and len(number) < 7 else 0)
    body = queries.attempt_bodies(run_id, attempt.number).sent.content
    changes = recorded_changes(attempt.changes)
    named = {change.message_id for change in changes if change.message_id}
    stored = queries.messages_as_of(thread, named, attempt.started_at)
    here = reverse("thread", args=[thread.id])
    view = build_recorded(
        changes=changes,
        body=body,
        messages={each.id: (_as_stored(each), each.remark) for each in stored},
        labels={each.id: (f"#{each.seq}", f"{here}?before={each.seq + 1}#m-{each.seq}") for each in stored},
        step=asked.step,
        only_changed=asked.only,
        first_row=asked.row,
    )
    return {
        "xray": view,
        "recorded": attempt,
        "run_id": run_id,
        "change_count": len(changes),
        "findings": msgspec.json.decode(attempt.findings),
        "request_line": ("POST", attempt.url, len(body), attempt.request_sha256),
        "headers": attempt.request_headers,
        "body": cut(body.decode("utf-8", "replace"), SHOWN_BODY_BYTES),
        "without": {},
        "fired": rule_use.fired(),
    }


def _as_stored(message: MessageThen) -> StoredMessage:
    return {"id": message.id, "role": message.role, "content": read_content(message.content)}


def thread_request_file(request: OperatorRequest, thread_id: str) -> HttpResponse:
    """The exact bytes that would be sent for the whole thread."""
    thread = thread_for(caller(request), thread_id)
    asked = _asked(request.GET, _agents(), thread_agent=thread.agent_id, last_provider=thread.last_provider)
    body = _preview(request, asked, thread_id=thread.id).request.body
    return plain_file(body, filename=f"{asked.provider}-request.json", content_type="application/json", save=True)


def paste(request: OperatorRequest) -> HttpResponse:
    """A history from a text box or a file, looked at as a thread would be."""
    values = request.POST if request.method == "POST" else request.GET
    agents = _agents()
    asked = _asked(values, agents)
    context: dict[str, Any] = {
        "section": "preview",
        "asked": asked,
        "agents": agents,
        "providers": _speakable(),
        "formats": [*PROTOCOLS, STORED_FORM],
        "format": values.get("format", ""),
        "text": values.get("history", ""),
        "errors": {},
        "option_fields": ("provider", "model", "format", "agent", "off"),
    }
    if request.method != "POST":
        return render_page(request, "preview/paste.html", context=context)
    upload = request.FILES.get("file")
    raw = upload.read() if upload is not None else context["text"].encode("utf-8", "surrogatepass")
    try:
        shown = _preview(request, asked, **_source(raw, context["format"]))
    except (InvalidInput, EncodingError, NotFound) as error:
        context["errors"] = _by_field(error)
        return render_page(request, "preview/paste.html", fragment="preview/_paste.html", context=context, status=422)
    if "download" in request.POST:
        body = shown.request.body
        return plain_file(body, filename=f"{asked.provider}-request.json", content_type="application/json", save=True)
    labels = {message["id"]: (f"#{i}", "") for i, message in enumerate(shown.messages, start=1)}
    context |= _result(shown, asked, labels=labels)
    return render_page(request, "preview/paste.html", fragment="preview/_paste.html", context=context)


def _source(raw: bytes, format_: str) -> dict[str, Any]:
    if not raw.strip():
        raise InvalidInput("Paste a history or choose a file.", field="history")
    try:
        value = decode_json(raw)
    except InvalidInput as error:
        raise InvalidInput(f"This is {error}", field="history") from error
    if format_ != STORED_FORM:
        if not isinstance(value, dict):
            raise InvalidInput("Expected the body of a request, an object with messages.", field="history")
        return {"imported": (format_, value)}
    if isinstance(value, dict):
        value = value.get("messages")
    if not isinstance(value, list) or not all(isinstance(message, dict) for message in value):
        raise InvalidInput("Expected a list of stored messages.", field="history")
    return {"messages": value}


def _by_field(error: Exception) -> dict[str, list[str]]:
    """Sentences by the field of the form they stand under; places inside the history belong to its box."""
    names = {"provider": "provider", "model": "model", "format": "format", "agent_id": "agent", "rules": "off"}
    found: dict[str, list[str]] = {}
    for one in getattr(error, "errors", ()):
        field = names.get(one.field.partition(".")[0], "history")
        place = f"{one.field}: " if field == "history" and one.field not in ("history", "messages", "body") else ""
        found.setdefault(field, []).append(f"{place}{one.message}")
    return found or {"history": [str(error)]}


def _preview(request: OperatorRequest, asked: Asked, **source: Any) -> Preview:
    return service.preview(
        caller(request),
        provider=asked.provider,
        model=asked.model,
        agent_id=asked.agent or None,
        rules=asked.rules,
        check=True,
        **source,
    )


def _result(shown: Preview, asked: Asked, *, labels: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    body = shown.request.body
    view = xray.build(
        messages=shown.messages,
        landed=shown.landed,
        changes=shown.changes,
        body=body,
        labels=labels,
        step=asked.step,
        only_changed=asked.only,
        first_row=asked.row,
    )
    left = Counter(change.rule for change in shown.left if change.severity == "breaks")
    return {
        "preview": shown,
        "xray": view,
        "change_count": len(shown.changes),
        "findings": shown.findings,
        "left": list(left.items()),
        "left_reasons": {change.rule: change.reason for change in shown.left},
        "request_line": (shown.request.method, shown.request.url, len(body), hashlib.sha256(body).hexdigest()),
        "headers": shown.request.headers,
        "body": cut(body.decode("utf-8", "replace"), SHOWN_BODY_BYTES),
        "without": {
            change.rule: asked.query_with(off=[*asked.off, change.rule])
            for change in shown.changes
            if change.rule not in asked.off
        },
        "fired": rule_use.fired(),
    }


def _asked(
    values: Mapping[str, str],
    agents: list[tuple[str, str, str]],
    *,
    thread_agent: str | None = None,
    last_provider: str = "",
) -> Asked:
    """What the form says; where it says nothing, the thread's agent and its model, or the first provider the thread
    was not on."""
    agent = values.get("agent", thread_agent or "")
    model_of = {id_: model for id_, _, model in agents}
    own_provider, _, own_model = model_of.get(agent or thread_agent or "", "").partition("/")
    provider = values.get("provider", "") or (own_provider if own_provider in _speakable() else "")
    if not provider:
        provider = next(name for name in USUAL_PROVIDERS if name != last_provider)
    model = values.get("model", "").strip()
    if not model:
        model = own_model if provider == own_provider else USUAL_MODELS.get(provider, "any-model")
    off = values.getlist("off") if hasattr(values, "getlist") else []
    last = values.get("last", "")
    window = min(int(last), 100_000) if last.isascii() and last.isdigit() and len(last) < 7 else WINDOW
    step, row = values.get("step", ""), values.get("row", "")
    return Asked(
        provider,
        model,
        agent,
        tuple(rule for rule in off if rule),
        max(1, window),
        at=values.get("at", ""),
        step=int(step) if step.isascii() and step.isdigit() and len(step) < 3 and int(step) <= OWN_STEP else None,
        only=values.get("only") == "1",
        row=int(row) if row.isascii() and row.isdigit() and len(row) < 8 else 0,
        names_agent=bool(thread_agent),
    )


def _agents() -> list[tuple[str, str, str]]:
    """Id, name and model of the agents to choose from."""
    return list(Agent.objects.order_by("name", "id").values_list("id", "name", "model")[:AGENTS_LISTED])


def _speakable() -> list[str]:
    """Providers whose protocol we can write."""
    return [name for name in PROVIDERS if ENTRIES[name].protocol in PROTOCOLS]
