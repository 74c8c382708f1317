"""Rules and their switches: the catalogue, faults by provider, what was switched, and the switch itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from msgspec import Struct

from compat_admin.dashboard.pages import OperatorRequest, caller, render_page
from memory import queries
from memory.access import require
from memory.errors import InvalidInput, NotFound
from memory.messages.names import PROVIDERS
from memory.models import Agent
from memory.principal import can_be_looked_up
from memory.processors.compat.catalogue import RULES, RuleInfo
from memory.processors.compat.patterns import PATTERNS
from memory.processors.compat.targets import STEP_NAMES, facts_for, step_of
from memory.queries import RuleSettingItem
from memory.services import rule_use
from memory.services import rules as service
from memory.services.rule_use import LATELY_DAYS, Effect, Fired

STATES = ("on", "report", "off")
DEFAULT = "default"
EVIDENCE = ("documented", "several reports", "single report", "unverified wording")
FIRED = {"yes": f"acted in {LATELY_DAYS} days", "no": f"did not act in {LATELY_DAYS} days"}
AGENTS_LISTED = 200
CHANGES_LISTED = 100
MAY_SWITCH = "operate"
"""The scope that switching rules takes."""
_DOES = {"on": "is on", "off": "is off", "report": "only reports"}


class RuleRow(Struct, frozen=True):
    """A rule at a scope. `own` is its setting there, empty without one; `state` what counts, `source` where it is from;
    `others` are settings at narrower scopes."""

    info: RuleInfo
    state: str
    own: str
    source: str
    changed_by: str
    others: list[str]
    fired: Fired
    step: str


class Scope(Struct, frozen=True):
    """Everywhere, a provider or an agent; its text form goes into forms and addresses."""

    kind: str = "global"
    id: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" if self.id else ""

    @property
    def target(self) -> dict[str, str]:
        return {"provider": {"provider": self.id}, "agent": {"agent_id": self.id}}.get(self.kind, {})

    @property
    def words(self) -> str:
        return {"provider": f"for {self.id}", "agent": f"for agent {self.id}"}.get(self.kind, "everywhere")

    @property
    def query(self) -> str:
        return f"?{urlencode({'scope': str(self)})}" if str(self) else ""


class Asked(Struct, frozen=True):
    """What of the catalogue is asked for."""

    words: str
    provider: str
    state: str
    step: str
    evidence: str
    fired: str

    def fits(self, row: RuleRow) -> bool:
        wanted = (
            (self.provider, row.info.provider),
            (self.state, row.state),
            (self.step, str(step_of(row.info.id) or 0)),
            (self.evidence, row.info.confidence),
            (self.fired, "yes" if row.fired.requests or row.fired.findings else "no"),
        )
        return all(value in ("", found) for value, found in wanted) and says(row.info, self.words)

    def without(self, name: str, scope: Scope) -> str:
        values = {"q": self.words, "provider": self.provider, "state": self.state, "step": self.step}
        values |= {"evidence": self.evidence, "fired": self.fired, "scope": str(scope), name: ""}
        return "?" + urlencode({key: value for key, value in values.items() if value})


class Switched(Struct, frozen=True):
    """An entry of the trail: who set what where, and what stood there before, for the way back."""

    event: Any
    rules: list[str]
    scope: Scope
    did: str
    reason: str
    back: str
    """The state that undoes it; empty where one rule alone can't."""


def rule_list(request: OperatorRequest) -> HttpResponse:
    """Every rule with its state at a scope, searched by names, words and words of errors."""
    scope = scope_of(request.GET.get("scope", ""))
    asked = Asked(
        request.GET.get("q", "").strip(),
        *(request.GET.get(name, "") for name in ("provider", "state", "step", "evidence", "fired")),
    )
    settings, fired = queries.rule_settings(), rule_use.fired()
    rows = [row_of(rule, scope, settings, fired) for rule in RULES.values()]
    shown = [row for row in rows if asked.fits(row)]
    shown.sort(key=lambda row: (-row.fired.requests, row.fired.last_at is None))
    context = {
        "section": "rules",
        "tab": "catalogue",
        "rows": shown,
        "scope": scope,
        "asked": asked,
        "filters": _filters(asked, scope),
        "rule_providers": sorted({rule.provider for rule in RULES.values()}),
        "steps": [(str(i), f"{i} {name}") for i, name in enumerate(STEP_NAMES, start=1)] + [("0", "in the thread")],
        "evidence": EVIDENCE,
        "fired_words": FIRED.items(),
        "providers": PROVIDERS,
        "agents": agents_listed(),
        **numbers(rows, fired),
        **switching(request),
    }
    return render_page(request, "rules/list.html", fragment="rules/_rows.html", context=context)


def trail_page(request: OperatorRequest) -> HttpResponse:
    """The newest changes to switches, each with its way back."""
    settings, fired = queries.rule_settings(), rule_use.fired()
    rows = [row_of(rule, Scope(), settings, fired) for rule in RULES.values()]
    context = {
        "section": "rules",
        "tab": "trail",
        "trail": trail(limit=CHANGES_LISTED),
        "limit": CHANGES_LISTED,
        **numbers(rows, fired),
        **switching(request),
    }
    return render_page(request, "rules/trail.html", context=context)


def switch(request: OperatorRequest, rule_id: str) -> HttpResponse:
    """Set a rule's state at a scope, or take its setting away.

    Where that would leave requests of the last days as they were stored, it asks first: on the rule's page, or in
    its row. With `confirm` it is done at once.
    """
    require(caller(request), MAY_SWITCH)
    rule = RULES.get(rule_id)
    if rule is None:
        raise NotFound("no such rule")
    scope = scope_of(request.POST.get("scope", ""))
    state = request.POST.get("state", "")
    settings = queries.rule_settings()
    before = row_of(rule, scope, settings, {})
    is_row = bool(request.htmx) and "row" in request.POST
    becomes = state_after(rule, scope, settings, state)
    if "confirm" not in request.POST and (lost := effect_of(before, scope, becomes)):
        if is_row:
            return _row(request, rule, scope, asking=state, becomes=becomes, effect=lost)
        return HttpResponseRedirect(_ask_address(rule_id, scope, state))
    if state == DEFAULT:
        service.reset_rule(caller(request), rule_id, **scope.target)
    else:
        service.switch_rule(
            caller(request), rule_id, state, reason=request.POST.get("reason", "").strip()[:500], **scope.target
        )
    after = row_of(rule, scope, queries.rule_settings(), {})
    notice = f"{rule_id} {_DOES[after.state]} {scope.words}."
    if is_row:
        return _row(request, rule, scope, notice=notice, undo=before.own or DEFAULT)
    messages.success(request, notice)
    if request.POST.get("next") == "trail":
        return HttpResponseRedirect(reverse("rules-trail"))
    return HttpResponseRedirect(f"{reverse('rule', args=[rule_id])}{scope.query}")


def _row(request: OperatorRequest, rule: RuleInfo, scope: Scope, **more: Any) -> HttpResponse:
    row = row_of(rule, scope, queries.rule_settings(), rule_use.fired())
    context = {"row": row, "scope": scope, "is_fresh": "notice" in more, **switching(request), **more}
    template = "rules/_switched.html" if "notice" in more else "rules/_row.html"
    return render_page(request, template, fragment=template, context=context)


def _ask_address(rule_id: str, scope: Scope, state: str) -> str:
    return f"{reverse('rule', args=[rule_id])}?{urlencode({'scope': str(scope), 'ask': state})}#switch"


def state_after(rule: RuleInfo, scope: Scope, settings: Sequence[RuleSettingItem], state: str) -> str:
    """What counts at a scope once its switch is set, or taken away."""
    if state != DEFAULT:
        return state
    others = [item for item in settings if (item.scope, item.scope_id) != (scope.kind, scope.id)]
    return row_of(rule, scope, others, {}).state


def effect_of(row: RuleRow, scope: Scope, state: str) -> Effect | None:
    """What a switch would undo of the last days; None where a rule that is on stays on, or nothing was done."""
    if row.state != "on" or state not in ("off", "report"):
        return None
    found = rule_use.effect(row.info.id, scope.kind, scope.id)
    return found if found.changed else None


def switching(request: OperatorRequest) -> dict[str, Any]:
    """What a template needs to show switches."""
    return {"states": STATES, "may_switch": caller(request).may(MAY_SWITCH), "days": LATELY_DAYS}


def row_of(rule: RuleInfo, scope: Scope, settings: Sequence[RuleSettingItem], fired: Mapping[str, Fired]) -> RuleRow:
    here = {(item.scope, item.scope_id): item for item in settings if item.rule == rule.id}
    own = here.get((scope.kind, scope.id))
    everywhere = here.get(("global", ""))
    others = [
        f"{item.state} for {item.scope_id}"
        for (kind, id_), item in here.items()
        if (kind, id_) != (scope.kind, scope.id) and kind != "global"
    ]
    number = step_of(rule.id)
    step = STEP_NAMES[number - 1].lower() if number else "in the thread"
    state: str = rule.default
    source, changed_by = "as shipped", ""
    if own is not None:
        state, source, changed_by = own.state, "", own.changed_by
    elif everywhere is not None:
        state, source, changed_by = everywhere.state, "as everywhere", everywhere.changed_by
    own_state = own.state if own else ""
    return RuleRow(rule, state, own_state, source, changed_by, others, fired.get(rule.id, Fired()), step)


def trail(rule_id: str = "", *, limit: int) -> list[Switched]:
    """The newest changes to switches, of one rule or of all."""
    out = []
    for event in service.switch_events(rule_id, limit=limit):
        detail = event.detail
        rules = [str(rule) for rule in detail.get("rules") or [event.target_id]]
        scope = Scope(str(detail.get("scope") or "global"), str(detail.get("scope_id") or ""))
        before = detail.get("before") or {}
        did = f"set to {detail.get('state')}" if event.action == "rule.switched" else "took the switch back"
        back = str(before.get(rules[0], DEFAULT)) if len(rules) == 1 else ""
        out.append(Switched(event, rules, scope, did, str(detail.get("reason") or ""), back))
    return out


def agents_listed() -> list[tuple[str, str]]:
    return list(Agent.objects.order_by("name", "id").values_list("id", "name")[:AGENTS_LISTED])


def scope_of(text: str) -> Scope:
    """Raises InvalidInput for a provider or agent nobody knows."""
    kind, _, id_ = text.partition(":")
    if not text:
        return Scope()
    if (
        kind not in ("provider", "agent")
        or not id_
        or not can_be_looked_up(id_)
        or (kind == "provider" and id_ not in PROVIDERS)
    ):
        raise InvalidInput("There is no such scope.", field="scope")
    return Scope(kind, id_)


def says(rule: RuleInfo, words: str) -> bool:
    """Whether a rule goes by these words, or knows them as a provider's error."""
    if not words:
        return True
    sources = " ".join(fact.source for fact in facts_for(rule.id))
    said = f"{rule.id} {rule.family} {rule.provider} {rule.title} {rule.why} {sources}".casefold()
    if all(word in said for word in words.casefold().split()):
        return True
    pattern = PATTERNS.get(rule.id, "")
    return bool(pattern) and re.search(pattern, words) is not None


def _filters(asked: Asked, scope: Scope) -> list[tuple[str, str, str]]:
    """Filters that are set: name, value in words, and the query without it."""
    step = STEP_NAMES[int(asked.step) - 1] if asked.step.isdigit() and 0 < int(asked.step) <= 10 else "in the thread"
    given = (
        ("q", "Words", asked.words),
        ("provider", "Provider", asked.provider),
        ("state", "State", asked.state),
        ("step", "Step", step if asked.step else ""),
        ("evidence", "Known from", asked.evidence),
        ("fired", "", FIRED.get(asked.fired, "")),
    )
    return [(label, value, asked.without(name, scope)) for name, label, value in given if value]


def numbers(rows: Sequence[RuleRow], fired: Mapping[str, Fired]) -> dict[str, int]:
    return {
        "rule_count": len(rows),
        "on_count": sum(row.state == "on" for row in rows),
        "report_count": sum(row.state == "report" for row in rows),
        "off_count": sum(row.state == "off" for row in rows),
        "lately": sum(each.changes for each in fired.values()),
    }
