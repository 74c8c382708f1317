"""A page per rule, made from code: what and why, where it holds, an example, how often it acts, its switches."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from datetime import date
from typing import Any

from django.http import HttpResponse
from msgspec import Struct

from compat_admin.dashboard import xray
from compat_admin.dashboard.json_lines import pretty
from compat_admin.dashboard.pages import OperatorRequest, render_page
from compat_admin.dashboard.rules import (
    DEFAULT,
    STATES,
    RuleRow,
    Scope,
    agents_listed,
    effect_of,
    row_of,
    scope_of,
    state_after,
    switching,
    trail,
)
from memory import queries
from memory.errors import NotFound
from memory.messages.names import PROVIDERS
from memory.messages.stored import decode_json
from memory.processors.compat.catalogue import RULES, RuleInfo
from memory.processors.compat.covered import covered
from memory.processors.compat.examples import examples_for
from memory.processors.compat.patterns import PATTERNS
from memory.processors.compat.targets import facts_for, step_of, targets_of, touches
from memory.profiles import PROFILES
from memory.profiles.profile import IdFormat, Profile
from memory.queries import RuleSettingItem
from memory.services import rule_use
from memory.services.preview import of_trial
from memory.services.probes import probes_of
from memory.services.rule_use import Touched
from memory.trials import Trial, trial_of

WINDOWS = (1, 7, 30)
CHART_DAYS = 30
RUNS_LISTED = 8
TRAIL_LISTED = 10
TESTS_LISTED = 40
DIFF_LINES = 200
SCOPES_LISTED = 40
BROKEN_LISTED = 4

_FACTS = {
    "tool_ids": "Call ids",
    "tool_names": "Tool names",
    "reasoning": "Reasoning",
    "signers": "Seals of",
    "seals_by_model": "A seal is good for its model only",
    "reasoning_filler": "Filler for missing reasoning",
    "thinking_leads": "Thinking has to lead",
    "final_thinking": "May end in thinking with thinking off",
    "signs_calls": "Calls are signed",
    "item_ids": "Items have ids",
    "input_object": "Arguments are objects",
    "unique_ids": "A call id is unique in its",
    "files_inline": "Files inline",
    "files_by_url": "Files by address",
    "url_schemes": "Addresses begin with",
    "text_beside_documents": "Wants text beside documents",
    "image_limits": "Limits of pixels",
    "exact_types": "Checks media types",
    "media_in_results": "Images in tool results",
    "hosts_tools": "Runs tools itself",
    "blank_text": "Blank text",
    "break_after_file": "A line break behind a file",
    "pending_call": "Calls without a result",
    "unpaired": "Calls and results apart",
    "system_between": "System text between turns",
    "drops_empty": "Refused without content",
    "assistant_files": "Files of the assistant",
    "merge_roles": "Neighbours of one role",
    "bridge_after_tool": "Wants the assistant between result and user",
    "last_user": "The user has to speak last",
    "trims_last_text": "No white space at the very end",
    "cache_markers": "Cache markers at most",
    "declares_called_tools": "Called tools are declared",
    "reminder_tags": "Reminder tags pass",
    "first_user": "The user has to speak first",
}
_WORDS = {
    "accept": "taken",
    "drop": "refused",
    "synthesise": "refused, one is put there",
    "to-text": "refused, told as text",
    "keep": "taken from everybody",
    "native": "only its own, by its seal",
    "own": "all but what another provider is known to have written",
    "thinking": "with thinking on",
    "": "no",
}


class Where(Struct, frozen=True):
    """Targets that share what a rule goes by there: facts as label and words, targets as title and models."""

    facts: list[tuple[str, str]]
    targets: list[tuple[str, str]]


class Line(Struct, frozen=True):
    """A scope in the list of switches: its state, the setting of its own, and the last days' effect."""

    scope: Scope
    row: RuleRow
    touched: Touched
    is_here: bool
    number: int

    @property
    def is_shown(self) -> bool:
        """Whether it stands in the list, not in its fold: everywhere, the scope asked for, and those switched."""
        return self.is_here or self.scope.kind == "global" or bool(self.row.own)


class Bar(Struct, frozen=True):
    """A day of the chart, in percent of its width and pixels of its height."""

    x: str
    width: str
    y: float
    height: float
    title: str


class ShownExample(Struct, frozen=True):
    """An example at its target: what is wrong, what the provider answers, and the x-ray of what is sent instead."""

    trial: Trial
    view: xray.XRay | None
    error: str
    target: str
    prefix: str
    """Put before the ids of its changes: a page may hold two examples."""
    raw_lines: list[tuple[str, str]]
    changes_request: bool
    """Whether the rule's own changes stand in the x-ray; a repair of the thread shows in the lines only."""


def rule_page(request: OperatorRequest, rule_id: str) -> HttpResponse:
    """Everything about one rule."""
    rule = RULES.get(rule_id)
    if rule is None:
        raise NotFound(f"No rule of the catalogue is called {rule_id}. Rules of this installation have no page.")
    scope = scope_of(request.GET.get("scope", ""))
    settings, fired = queries.rule_settings(), rule_use.fired()
    row = row_of(rule, scope, settings, fired)
    ask = request.GET.get("ask", "")
    becomes = state_after(rule, scope, settings, ask)
    effect = rule_use.effect(rule_id, scope.kind, scope.id)
    found = covered(rule_id)
    days = rule_use.by_day(rule_id, CHART_DAYS)
    lines = _lines(rule, scope, settings)
    context: dict[str, Any] = {
        "section": "rules",
        "rule": rule,
        "row": row,
        "scope": scope,
        "step": step_of(rule_id),
        "touches": touches(rule_id),
        "facts": facts_for(rule_id),
        "pattern": PATTERNS.get(rule_id, ""),
        "where": where(rule),
        "examples": [_shown(trial_of(each), i) for i, each in enumerate(examples_for(rule_id)[:2], 1)],
        "covered": found,
        "tests": found.tests[:TESTS_LISTED] if found else (),
        "windows": rule_use.windows(rule_id, WINDOWS),
        "bars": bars(days),
        "days_listed": [day for day in reversed(days) if day[1]],
        "most": max(count for _, count in days),
        "first_day": days[0][0],
        "uses": rule_use.latest(rule_id, limit=RUNS_LISTED),
        "lines": lines,
        "folded": sum(not line.is_shown for line in lines),
        "effect": effect,
        "asking": ask if ask in (*STATES, DEFAULT) else "",
        "becomes": becomes,
        "lost": effect_of(row, scope, becomes),
        "fired": fired,
        "probes": probes_of(rule_id),
        "broken": rule_use.newly_broken(rule_id, scope.kind, scope.id, limit=BROKEN_LISTED),
        "trail": trail(rule_id, limit=TRAIL_LISTED),
        "others": _other_scopes(rule),
        **switching(request),
    }
    return render_page(request, "rules/rule.html", context=context)


# Where it holds


def where(rule: RuleInfo) -> list[Where]:
    """The rule's targets, those with the same facts together."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, list[Profile]]] = {}
    for concern in targets_of(rule.id):
        profile = concern.profile
        facts = tuple((_FACTS.get(name, name.replace("_", " ")), _said(profile, name)) for name in concern.reads)
        groups.setdefault(facts, {}).setdefault(_title(profile), []).append(profile)
    return [
        Where(list(facts), [(title, _models(profiles)) for title, profiles in targets.items()])
        for facts, targets in groups.items()
    ]


def _title(profile: Profile) -> str:
    if not profile.provider:
        return "any other provider"
    chat = profile.protocol == "openai-chat" and profile.provider in ("azure", "openai")
    return f"{profile.title} chat" if chat and "chat" not in profile.title else profile.title


def _models(profiles: Sequence[Profile]) -> str:
    """The models of some families of one provider, empty for all: the widest takes what no other family names."""
    named = [glob for profile in profiles for glob in profile.models if glob != "*"]
    if not any(profile.models == ("*",) for profile in profiles):
        return ", ".join(named)
    first = profiles[0]
    siblings = [p for p in PROFILES if (p.provider, p.protocol) == (first.provider, first.protocol)]
    others = [glob for p in siblings if p not in profiles for glob in p.models]
    return f"all but {', '.join(others)}" if others else ""


def _said(profile: Profile, name: str) -> str:
    value = getattr(profile, name)
    if isinstance(value, IdFormat):
        return _form(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join("any" if one == "*" else one for one in value) or ("any" if name == "url_schemes" else "none")
    if name in ("unique_ids", "reasoning_filler") or not isinstance(value, str):
        return str(value) or "none"
    return _WORDS.get(value, value)


def _form(form: IdFormat) -> str:
    says = []
    if form.refused:
        says.append(f"nothing of {form.refused}")
    if form.refused_first:
        says.append(f"not begun with {form.refused_first}")
    if form.exactly:
        says.append(f"exactly {form.exactly} characters")
    if form.longest:
        says.append(f"at most {form.longest} characters")
    if not form.may_be_empty:
        says.append("not empty")
    return ", ".join(says) or "anything"


# An example


def _shown(trial: Trial, number: int) -> ShownExample:
    shown = of_trial(trial)
    view = None
    if shown is not None:
        labels = {message["id"]: (f"#{i}", "") for i, message in enumerate(shown.messages, start=1)}
        view = xray.build(
            messages=shown.messages,
            landed=shown.landed,
            changes=shown.changes,
            body=shown.body,
            labels=labels,
        )
    refusal = trial.example.error
    error = ""
    changes_request = any(change.rule == trial.example.rule for change in trial.changes)
    if refusal is not None:
        said = refusal.body if isinstance(refusal.body, str) else json.dumps(refusal.body, ensure_ascii=False)
        error = f"{refusal.status} {said}"
    target = f"{trial.provider}/{trial.model_id}"
    return ShownExample(trial, view, error, target, f"e{number}-", _compared(trial), changes_request)


def _compared(trial: Trial) -> list[tuple[str, str]]:
    """Lines of the request without the rule and with it: sign and text; empty where one can't be written."""
    if trial.raw is None or trial.cured is None:
        return []
    before, after = (pretty(decode_json(each.body)).splitlines() for each in (trial.raw, trial.cured))
    found = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    return [(line[0], line[1:]) if line[0] != "@" else (" ", "…") for line in found][:DIFF_LINES]


# How often


def bars(days: Sequence[tuple[date, int]], height: int = 64) -> list[Bar]:
    """The chart's bars: one a day, the tallest as high as the chart."""
    most = max((count for _, count in days), default=0) or 1
    step = 100 / len(days)
    out = []
    for i, (day, count) in enumerate(days):
        tall = max(2.0, round(count / most * height, 1)) if count else 0.0
        out.append(Bar(f"{i * step:.2f}%", f"{step * 0.72:.2f}%", height - tall, tall, f"{day:%-d %b}: {count:,}"))
    return out


# Switches


def _lines(rule: RuleInfo, here: Scope, settings: Sequence[RuleSettingItem]) -> list[Line]:
    """Everywhere, then scopes with a switch of their own or with runs in which it acted, and the one asked for."""
    touched = rule_use.touched(rule.id)
    scopes = {(item.scope, item.scope_id): None for item in settings if item.rule == rule.id} | dict.fromkeys(touched)
    scopes[here.kind, here.id] = None
    narrower = sorted(key for key in scopes if key[0] != "global")
    # Providers before agents, as they are looked up from the narrowest on.
    ordered = [("global", ""), *(key for kind in ("provider", "agent") for key in narrower if key[0] == kind)]
    return [
        Line(
            Scope(*key),
            row_of(rule, Scope(*key), settings, {}),
            touched.get(key, Touched()),
            is_here=Scope(*key) == here,
            number=number,
        )
        for number, key in enumerate(ordered[:SCOPES_LISTED], start=1)
    ]


def _other_scopes(rule: RuleInfo) -> list[tuple[str, str]]:
    """Scopes to choose from: the providers a rule is for, and agents."""
    providers = {concern.profile.provider for concern in targets_of(rule.id)} or set(PROVIDERS)
    chosen = [(f"provider:{name}", f"for {name}") for name in PROVIDERS if name in providers]
    return chosen + [(f"agent:{id_}", f"for agent {name}") for id_, name in agents_listed()]
