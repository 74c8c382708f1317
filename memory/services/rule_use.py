"""How often rules act: noted where attempts are recorded, read by the pages of rules.

Days count requests and changes for each target and outlive their threads; a thread's row says when a rule last acted
in it. So no page has to read the ledger, whatever its size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Max, Q, QuerySet, Sum
from django.utils import timezone
from msgspec import Struct

from memory.models import RuleDay, RuleSetting, RuleUse, Run, Thread
from memory.processors.changes import Finding, Placed
from memory.processors.compat.catalogue import RULES
from memory.processors.compat.targets import step_of

LATELY_DAYS = 7
KNOWN_DAYS = 30
"""How far back lists look for the last time."""


class Fired(Struct, frozen=True):
    """How often a rule acted lately: requests it changed, changes, changes it only reported; and when it last did."""

    requests: int = 0
    changes: int = 0
    findings: int = 0
    last_at: datetime | None = None


class Window(Struct, frozen=True):
    """What a rule did in some days: threads to the hour, requests, changes and findings by whole days (UTC)."""

    days: int
    threads: int
    requests: int
    changes: int
    findings: int


class Effect(Struct, frozen=True):
    """The last days of a rule in one scope, in threads, from what the ledger recorded; nothing was tried again.

    `seen`: threads that were active; `changed`: their requests were changed by the rule; `broken`: with a change
    without which, by the rule's own word, the target refuses; `reported`: the rule would have changed them.
    """

    days: int
    seen: int
    changed: int
    broken: int
    reported: int

    @property
    def fine(self) -> int:
        """Threads that would be sent differently and be taken all the same."""
        return self.changed - self.broken

    @property
    def untouched(self) -> int:
        return max(0, self.seen - self.changed)

    def percent(self, count: int) -> str:
        return f"{count / (self.seen or 1) * 100:.1f}"

    @property
    def untouched_percent(self) -> str:
        return self.percent(self.untouched)

    @property
    def fine_percent(self) -> str:
        return self.percent(self.fine)

    @property
    def broken_percent(self) -> str:
        return self.percent(self.broken)

    @property
    def broken_from(self) -> str:
        return self.percent(self.untouched + self.fine)


class Touched(Struct, frozen=True):
    """Threads a rule touched in one scope; the words of `Effect`."""

    changed: int = 0
    broken: int = 0
    reported: int = 0


class Use(Struct, frozen=True):
    """The last time a rule acted or reported in a thread."""

    run_id: str
    thread_id: str
    thread_title: str
    provider: str
    at: datetime
    changes: int
    findings: int


class _Done(Struct):
    """What a rule did to one request."""

    changes: int = 0
    mended: int = 0
    findings: int = 0


def record(
    run: Run,
    provider: str,
    protocol: str,
    changes: Sequence[Placed],
    findings: Sequence[Finding],
    at: datetime,
    *,
    asked: str = "",
) -> None:
    """Count an attempt's changes and findings by rule, inside the transaction that records them.

    `asked` is what asked for another attempt: a rule that repairs the thread leaves no change behind in a request.
    """
    done: dict[str, _Done] = {}
    for change in changes:
        counts = done.setdefault(change.rule[:100], _Done())
        counts.changes += 1
        counts.mended += change.severity == "breaks"
    for finding in findings:
        done.setdefault(finding.rule[:100], _Done()).findings += 1
    if asked in RULES and step_of(asked) is None:
        done[asked] = _Done(changes=1, mended=1)
    # In one order everywhere, so that two runs never wait for each other's rows.
    for rule, counts in sorted(done.items()):
        changed_at, mended_at = at if counts.changes else None, at if counts.mended else None
        reported_at = at if counts.findings else None
        key = [rule, run.thread_id or "", provider, run.agent_id or ""]
        last = [at, run.id, counts.changes, counts.findings, changed_at, mended_at, reported_at]
        day = [at.astimezone(UTC).date(), rule, provider, protocol, at]
        with connection.cursor() as cursor:
            cursor.execute(_NOTE_USE, _plain(key + last))
            cursor.execute(_ADD_DAY, _plain([*day, int(counts.changes > 0), counts.changes, counts.findings]))


def _plain(values: Sequence[Any]) -> list[Any]:
    """Values as the database's own driver takes them."""
    ops = connection.ops
    return [
        ops.adapt_datetimefield_value(value)
        if isinstance(value, datetime)
        else ops.adapt_datefield_value(value)
        if isinstance(value, date)
        else value
        for value in values
    ]


# No ORM call inserts a row or adds to the one that is there in one statement.
_NOTE_USE = """
INSERT INTO memory_ruleuse
    (rule, thread_id, provider, agent_id, at, run_id, changes, findings, changed_at, mended_at, reported_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (thread_id, rule, provider, agent_id) DO UPDATE SET
    at = EXCLUDED.at, run_id = EXCLUDED.run_id, changes = EXCLUDED.changes, findings = EXCLUDED.findings,
    changed_at = COALESCE(EXCLUDED.changed_at, memory_ruleuse.changed_at),
    mended_at = COALESCE(EXCLUDED.mended_at, memory_ruleuse.mended_at),
    reported_at = COALESCE(EXCLUDED.reported_at, memory_ruleuse.reported_at)
"""
_ADD_DAY = """
INSERT INTO memory_ruleday (day, rule, provider, protocol, last_at, requests, changes, findings)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (day, rule, provider, protocol) DO UPDATE SET
    last_at = EXCLUDED.last_at,
    requests = memory_ruleday.requests + EXCLUDED.requests,
    changes = memory_ruleday.changes + EXCLUDED.changes,
    findings = memory_ruleday.findings + EXCLUDED.findings
"""


# Reads


def fired(days: int = LATELY_DAYS) -> dict[str, Fired]:
    """By rule: what it did in the last days (whole ones, UTC, today among them); its last time within `KNOWN_DAYS`."""
    lately = Q(day__gte=_first_day(days))
    rows = (
        RuleDay.objects.filter(day__gte=_first_day(KNOWN_DAYS))
        .values_list("rule")
        .annotate(
            of_requests=Sum("requests", filter=lately, default=0),
            of_changes=Sum("changes", filter=lately, default=0),
            of_findings=Sum("findings", filter=lately, default=0),
            newest=Max("last_at"),
        )
    )
    return {rule: Fired(*counts) for rule, *counts in rows}


def fired_by_target(days: int = LATELY_DAYS) -> dict[tuple[str, str, str], int]:
    """By rule, provider and protocol: how many requests it changed in the last days."""
    rows = RuleDay.objects.filter(day__gte=_first_day(days)).values_list("rule", "provider", "protocol")
    return {(rule, provider, protocol): count for rule, provider, protocol, count in rows.annotate(Sum("requests"))}


def by_day(rule: str, days: int = KNOWN_DAYS) -> list[tuple[date, int]]:
    """Requests that a rule changed on each of the last days, oldest first."""
    first = _first_day(days)
    rows = RuleDay.objects.filter(rule=rule, day__gte=first).values_list("day").annotate(Sum("requests"))
    known = dict(rows)
    return [(day, known.get(day, 0)) for day in (first + timedelta(days=i) for i in range(days))]


def windows(rule: str, lengths: Sequence[int]) -> list[Window]:
    """What a rule did in the last days, for each number of days."""
    sums: dict[str, Any] = {}
    for days in lengths:
        within = Q(day__gte=_first_day(days))
        for name in ("requests", "changes", "findings"):
            sums[f"{name}_{days}"] = Sum(name, filter=within, default=0)
    counts = RuleDay.objects.filter(rule=rule, day__gte=_first_day(max(lengths))).aggregate(**sums)
    now = timezone.now()
    return [
        Window(
            days=days,
            threads=_changed_since(rule, now - timedelta(days=days)),
            requests=counts[f"requests_{days}"],
            changes=counts[f"changes_{days}"],
            findings=counts[f"findings_{days}"],
        )
        for days in lengths
    ]


def latest(rule: str, *, limit: int) -> list[Use]:
    """The newest threads in which a rule acted or reported, each with the run in which it last did."""
    return _shown(RuleUse.objects.filter(rule=rule).order_by("-at")[:limit])


def newly_broken(rule: str, scope: str, scope_id: str, *, limit: int, days: int = LATELY_DAYS) -> list[Use]:
    """The newest threads that `effect` counts as broken."""
    since = timezone.now() - timedelta(days=days)
    rows = _in_scope(_uses_since(rule, since), rule, scope, scope_id).filter(mended_at__gte=since)
    newest: dict[str, RuleUse] = {}
    for use in rows.order_by("-at")[: limit * 5]:
        newest.setdefault(use.thread_id, use)
    return _shown(list(newest.values())[:limit])


def _shown(rows: Iterable[RuleUse]) -> list[Use]:
    found = list(rows)
    titles = dict(Thread.objects.filter(id__in={use.thread_id for use in found}).values_list("id", "title"))
    return [
        Use(
            use.run_id,
            use.thread_id,
            titles.get(use.thread_id, ""),
            use.provider,
            use.at,
            use.changes,
            use.findings,
        )
        for use in found
    ]


def effect(rule: str, scope: str, scope_id: str, days: int = LATELY_DAYS) -> Effect:
    """What a switch of this scope decided in the last days. Uses that a narrower switch decides are left out."""
    since = timezone.now() - timedelta(days=days)
    uses = _in_scope(_uses_since(rule, since), rule, scope, scope_id)
    counts = uses.aggregate(**_thread_counts(since))
    active = Thread.objects.filter(last_activity_at__gte=since)
    if scope == "provider":
        active = active.filter(last_provider=scope_id)
    elif scope == "agent":
        active = active.filter(agent=scope_id)
    return Effect(days=days, seen=max(active.count(), counts["changed"], counts["reported"]), **counts)


def touched(rule: str, days: int = LATELY_DAYS) -> dict[tuple[str, str], Touched]:
    """By scope (`("global", "")`, `("provider", id)`, `("agent", id)`): the threads a rule touched in the last days.

    Only scopes in whose runs it acted or reported. Uses that a narrower switch decides are left out, as in `effect`.
    """
    since = timezone.now() - timedelta(days=days)
    uses = _uses_since(rule, since)
    found: dict[tuple[str, str], Touched] = {}
    for scope, field in (("global", "rule"), ("provider", "provider"), ("agent", "agent_id")):
        scoped = uses if scope == "agent" else uses.exclude(agent_id__in=_switched(rule, "agent"))
        if scope == "global":
            scoped = scoped.exclude(provider__in=_switched(rule, "provider"))
        rows = scoped.order_by().values_list(field).annotate(**_thread_counts(since))
        found |= {(scope, "" if scope == "global" else key): Touched(*counts) for key, *counts in rows if key}
    return found


def _changed_since(rule: str, since: datetime) -> int:
    changed = _uses_since(rule, since).filter(changed_at__gte=since)
    return int(changed.aggregate(count=Count("thread_id", distinct=True))["count"])


def _uses_since(rule: str, since: datetime) -> QuerySet[RuleUse]:
    return RuleUse.objects.filter(rule=rule, at__gte=since).exclude(thread_id="")


def _thread_counts(since: datetime) -> dict[str, Count]:
    """Threads whose requests were changed, were changed where the target refuses, would have been changed."""
    times = {"changed": "changed_at", "broken": "mended_at", "reported": "reported_at"}
    return {
        name: Count("thread_id", distinct=True, filter=Q(**{f"{field}__gte": since})) for name, field in times.items()
    }


def _switched(rule: str, scope: str) -> QuerySet[RuleSetting, str]:
    return RuleSetting.objects.filter(rule=rule, scope=scope).values_list("scope_id", flat=True)


def _in_scope(uses: QuerySet[RuleUse], rule: str, scope: str, scope_id: str) -> QuerySet[RuleUse]:
    if scope == "agent":
        return uses.filter(agent_id=scope_id)
    uses = uses.exclude(agent_id__in=_switched(rule, "agent"))
    if scope == "provider":
        return uses.filter(provider=scope_id)
    return uses.exclude(provider__in=_switched(rule, "provider"))


def _first_day(days: int) -> date:
    return (timezone.now() - timedelta(days=days - 1)).date()
