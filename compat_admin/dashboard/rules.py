"""Rules and their switches: off, report or on, for everybody, a provider or an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from msgspec import Struct

from compat_admin.dashboard.pages import OperatorRequest, caller, render_page
from memory import queries
from memory.errors import InvalidInput, NotFound
from memory.messages.names import PROVIDERS
from memory.models import Agent
from memory.processors.compat.catalogue import RULES, RuleInfo
from memory.queries import RuleSettingItem
from memory.services import rules as service

STATES = ("on", "report", "off")
DEFAULT = "default"
_DOES = {"on": "is on", "off": "is off", "report": "only reports"}
AGENTS_LISTED = 200


class RuleRow(Struct, frozen=True):
    """A rule at a scope. `own` is its setting there, empty without one; `state` what counts, `source` where it is from;
    `others` are settings at narrower scopes."""

    info: RuleInfo
    state: str
    own: str
    source: str
    changed_by: str
    others: list[str]


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


def rule_list(request: OperatorRequest) -> HttpResponse:
    """Every rule with its state at a scope, searched by name or words."""
    scope = _scope(request.GET.get("scope", ""))
    words = request.GET.get("q", "").strip()
    provider = request.GET.get("provider", "")
    settings = queries.rule_settings()
    wanted = [rule for rule in RULES.values() if _fits(rule, words, provider)]
    context = {
        "section": "rules",
        "rows": [_row(rule, scope, settings) for rule in wanted],
        "rule_count": len(RULES),
        "scope": scope,
        "words": words,
        "provider": provider,
        "rule_providers": sorted({rule.provider for rule in RULES.values()}),
        "providers": PROVIDERS,
        "agents": list(Agent.objects.order_by("name", "id").values_list("id", "name")[:AGENTS_LISTED]),
        "states": STATES,
    }
    return render_page(request, "rules/list.html", fragment="rules/_rows.html", context=context)


def switch(request: OperatorRequest, rule_id: str) -> HttpResponse:
    """Set a rule's state at a scope, or take its setting away; the changed row, or the page it stands on."""
    rule = RULES.get(rule_id)
    if rule is None:
        raise NotFound("no such rule")
    scope = _scope(request.POST.get("scope", ""))
    state = request.POST.get("state", "")
    before = _row(rule, scope, queries.rule_settings())
    if state == DEFAULT:
        service.reset_rule(caller(request), rule_id, **scope.target)
    else:
        service.switch_rule(caller(request), rule_id, state, **scope.target)
    after = _row(rule, scope, queries.rule_settings())
    notice = f"{rule_id} {_DOES[after.state]} {scope.words}."
    if request.htmx:
        context: dict[str, Any] = {
            "row": after,
            "scope": scope,
            "states": STATES,
            "notice": notice,
            "undo": before.own or DEFAULT,
            "is_fresh": True,
        }
        return render_page(request, "rules/_switched.html", fragment="rules/_switched.html", context=context)
    messages.success(request, notice)
    query = f"?{urlencode({'scope': str(scope)})}" if str(scope) else ""
    return HttpResponseRedirect(f"{reverse('rules')}{query}#rule-{rule_id}")


def _row(rule: RuleInfo, scope: Scope, settings: Sequence[RuleSettingItem]) -> RuleRow:
    here = {(item.scope, item.scope_id): item for item in settings if item.rule == rule.id}
    own = here.get((scope.kind, scope.id))
    everywhere = here.get(("global", ""))
    others = [
        f"{item.state} for {item.scope_id}"
        for (kind, id_), item in here.items()
        if (kind, id_) != (scope.kind, scope.id) and kind != "global"
    ]
    if own is not None:
        return RuleRow(rule, own.state, own.state, "", own.changed_by, others)
    if everywhere is not None:
        return RuleRow(rule, everywhere.state, "", "as everywhere", everywhere.changed_by, others)
    return RuleRow(rule, rule.default, "", "as shipped", "", others)


def _scope(text: str) -> Scope:
    """Raises InvalidInput for a provider or agent nobody knows."""
    kind, _, id_ = text.partition(":")
    known: Mapping[str, Any] = {"provider": PROVIDERS, "agent": ()}
    if not text:
        return Scope()
    if kind not in known or not id_ or (kind == "provider" and id_ not in PROVIDERS):
        raise InvalidInput("There is no such scope.", field="scope")
    return Scope(kind, id_)


def _fits(rule: RuleInfo, words: str, provider: str) -> bool:
    if provider and rule.provider != provider:
        return False
    said = f"{rule.id} {rule.family} {rule.title} {rule.why}".casefold()
    return all(word in said for word in words.casefold().split())
