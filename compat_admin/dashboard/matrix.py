"""Faults by provider: one row a fault, one column a target, each cell the state of the rule that repairs it there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from django.http import HttpResponse
from msgspec import Struct

from compat_admin.dashboard.pages import OperatorRequest, render_page
from compat_admin.dashboard.rules import Scope, numbers, row_of, switching
from memory import queries
from memory.processors.compat.catalogue import RULES, fault_words
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.targets import STEP_NAMES, Concern, concerns, step_of
from memory.profiles.profile import Profile
from memory.queries import RuleSettingItem
from memory.services import rule_use

_SHORT = {"openai-responses": "Responses", "openai-chat": "chat"}


class Column(Struct, frozen=True):
    """A provider by one of its protocols, with all its families of models."""

    provider: str
    protocol: str
    title: str
    profile_count: int


class Cell(Struct, frozen=True):
    """What stands where a fault and a column meet; without a rule nothing is known to be refused."""

    column: Column
    rule: str = ""
    word: str = ""
    css: str = ""
    count: int = 0
    spoken: str = "nothing known"
    is_partial: bool = False

    @property
    def short_count(self) -> str:
        return short(self.count)


class FaultRow(Struct, frozen=True):
    title: str
    why: str
    step: str
    """Its step's name where the row is the first of it."""
    cells: list[Cell]


def matrix_page(request: OperatorRequest) -> HttpResponse:
    """The whole matrix, columns in the order of the profiles."""
    settings, fired = queries.rule_settings(), rule_use.fired()
    rows = [row_of(rule, Scope(), settings, fired) for rule in RULES.values()]
    shown = columns()
    context = {
        "section": "rules",
        "tab": "matrix",
        "columns": shown,
        "matrix": list(matrix(shown, settings, rule_use.fired_by_target())),
        **numbers(rows, fired),
        **switching(request),
    }
    return render_page(request, "rules/matrix.html", context=context)


def columns() -> list[Column]:
    """Providers by protocol; the last one stands for every provider without a profile."""
    groups: dict[tuple[str, str], dict[str, Profile]] = {}
    for concern in concerns():
        profile = concern.profile
        groups.setdefault((profile.provider, profile.protocol), {})[profile.id] = profile
    # The widest family of a group comes last, as the first one that fits a model is taken.
    titles = {key: list(profiles.values())[-1].title for key, profiles in groups.items()}
    titles["", ""] = "Any other"
    shared = [title for title, count in Counter(titles.values()).items() if count > 1]
    return [
        Column(
            *key, f"{titles[key]} {_SHORT.get(key[1], key[1])}" if titles[key] in shared else titles[key], len(group)
        )
        for key, group in groups.items()
    ]


def matrix(
    shown: Sequence[Column],
    settings: Sequence[RuleSettingItem],
    fired: Mapping[tuple[str, str, str], int],
) -> Iterator[FaultRow]:
    """One row a fault in the order of the passes, then the rules that repair the thread itself."""
    known: dict[tuple[str, str, str], list[Concern]] = {}
    for concern in concerns():
        profile = concern.profile
        known.setdefault((concern.fault, profile.provider, profile.protocol), []).append(concern)
    by_rule: dict[str, list[RuleSettingItem]] = {}
    for item in settings:
        by_rule.setdefault(item.rule, []).append(item)
    last = 0
    for step in CATALOGUE:
        title, why = fault_words(step.fault)
        found = [known.get((step.fault, column.provider, column.protocol), []) for column in shown]
        cells = [_cell(title, *each, by_rule, fired) for each in zip(shown, found, strict=True)]
        yield FaultRow(title, why, STEP_NAMES[step.number - 1] if step.number != last else "", cells)
        last = step.number
    for i, rule in enumerate(rule for rule in RULES.values() if step_of(rule.id) is None):
        own = [column for column in shown if column.provider == rule.provider]
        cells = [
            _filled(rule.title, column, rule.id, by_rule, fired) if column in own[:1] else Cell(column)
            for column in shown
        ]
        yield FaultRow(rule.title, rule.why, "" if i else "In the thread, after the error", cells)


def _cell(
    title: str,
    column: Column,
    found: Sequence[Concern],
    settings: Mapping[str, Sequence[RuleSettingItem]],
    fired: Mapping[tuple[str, str, str], int],
) -> Cell:
    if not found:
        return Cell(column)
    models = [glob for concern in found for glob in concern.profile.models]
    is_partial = len({concern.profile.id for concern in found}) < column.profile_count
    only = f", {', '.join(dict.fromkeys(models))} only" if is_partial else ""
    return _filled(title, column, found[-1].rule, settings, fired, only)


def _filled(
    title: str,
    column: Column,
    rule: str,
    settings: Mapping[str, Sequence[RuleSettingItem]],
    fired: Mapping[tuple[str, str, str], int],
    only: str = "",
) -> Cell:
    info = RULES[rule]
    own = settings.get(rule, ())
    state = next((item.state for item in own if item.scope == "provider" and item.scope_id == column.provider), "")
    state = state or row_of(info, Scope(), own, {}).state
    is_late = info.acts == "after its error"
    word = {"on": "after" if is_late else "on", "report": "report", "off": "off"}[state]
    css = {"on": "r" if is_late else "p", "report": "need", "off": "off"}[state]
    count = fired.get((rule, column.provider, column.protocol), 0)
    says = {"on": f"is on and acts {info.acts}", "report": "only reports", "off": "is off"}[state]
    did = f"changed {count:,} requests in {rule_use.LATELY_DAYS} days"
    spoken = f"{title}, {column.title}{only}: {rule} {says}; {did}"
    return Cell(column, rule, word, css, count, spoken, bool(only))


def short(count: int) -> str:
    """A count for a narrow cell: `812`, `1.2k`, `15k`, `2.1m`; empty for none."""
    for size, unit in ((1_000_000, "m"), (1_000, "k")):
        if count >= size:
            value = count / size
            return f"{value:.0f}{unit}" if value >= 10 else f"{value:.1f}".removesuffix(".0") + unit
    return str(count) if count else ""
