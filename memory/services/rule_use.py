"""How often rules act: counted where attempts are recorded, read by the pages of rules.

Counts of a day and a target outlive their threads; what a rule did in a run goes with it. Both are rows of a few
numbers, so that no page has to read the ledger's bodies.
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
_NOTHING_DONE = {"requests": 0, "changes": 0, "breaking": 0, "findings": 0}


class Fired(Struct, frozen=True):
    """How often a rule acted in some days: requests it changed, changes, changes it only reported."""

    requests: int = 0
    changes: int = 0
    findings: int = 0
    last_at: datetime | None = None


class Window(Struct, frozen=True):
    """What a rule did since a moment: `threads` and `runs` are those whose requests it changed."""

    requests: int
    changes: int
    threads: int
    runs: int
    findings: int


class Effect(Struct, frozen=True):
    """The last days of a rule in one scope, in threads, from what the ledger recorded; nothing was tried again.

    `seen`: threads with runs; `changed`: their requests were changed by the rule; `broken`: with a change without
    which, by the rule's own word, the target refuses; `reported`: the rule would have changed them.
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
    """What a rule did in one run."""

    run_id: str
    thread_id: str
    thread_title: str
    agent_id: str
    provider: str
    at: datetime
    changes: int
    breaking: int
    findings: int


def record(
    run: Run,
    protocol: str,
    changes: Sequence[Placed],
    findings: Sequence[Finding],
    at: datetime,
    *,
    asked: str = "",
) -> None:
    """Count an attempt's changes and findings by rule, inside the transaction that records the attempt.

    `asked` is what asked for another attempt: a rule that repairs the thread leaves no change behind in a request.
    """
    done: dict[str, dict[str, int]] = {}
    for change in changes:
        counts = done.setdefault(change.rule[:100], dict(_NOTHING_DONE))
        counts["requests"] = 1
        counts["changes"] += 1
        counts["breaking"] += change.severity == "breaks"
    for finding in findings:
        done.setdefault(finding.rule[:100], dict(_NOTHING_DONE))["findings"] += 1
    if asked in RULES and step_of(asked) is None:
        done[asked] = {"requests": 1, "changes": 1, "breaking": 1, "findings": 0}
    # In one order everywhere, so that two runs never wait for each other's rows.
    for rule, counts in sorted(done.items()):
        numbers = [counts[name] for name in ("requests", "changes", "breaking", "findings")]
        key = [rule, run.id, run.thread_id or "", run.agent_id or "", run.provider, at]
        target = [at.astimezone(UTC).date(), rule, run.provider, protocol, at]
        with connection.cursor() as cursor:
            cursor.execute(_ADD_USE, [_plain(value) for value in (*key, *numbers)])
            cursor.execute(_ADD_DAY, [_plain(value) for value in (*target, numbers[0], numbers[1], numbers[3])])


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return connection.ops.adapt_datefield_value(value) if isinstance(value, date) else value


def _added(table: str, key: str, names: Sequence[str], moment: str, counts: Sequence[str]) -> str:
    """An INSERT that adds to the counts of a row that is there: no ORM call adds and inserts in one statement."""
    columns = [*names, *counts]
    sums = ", ".join(f"{name} = {table}.{name} + EXCLUDED.{name}" for name in counts)
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))}) "
        f"ON CONFLICT ({key}) DO UPDATE SET {moment} = EXCLUDED.{moment}, {sums}"
    )


_ADD_USE = _added(
    "memory_ruleuse",
    "run_id, rule",
    ("rule", "run_id", "thread_id", "agent_id", "provider", "at"),
    "at",
    ("requests", "changes", "breaking", "findings"),
)
_ADD_DAY = _added(
    "memory_ruleday",
    "day, rule, provider, protocol",
    ("day", "rule", "provider", "protocol", "last_at"),
    "last_at",
    ("requests", "changes", "findings"),
)


# Reads


def fired(days: int = LATELY_DAYS) -> dict[str, Fired]:
    """By rule: what it did in the last days (whole ones, UTC, today among them), and when it last did anything."""
    since = _first_day(days)
    rows = RuleDay.objects.values_list("rule").annotate(
        of_requests=Sum("requests", filter=Q(day__gte=since), default=0),
        of_changes=Sum("changes", filter=Q(day__gte=since), default=0),
        of_findings=Sum("findings", filter=Q(day__gte=since), default=0),
        newest=Max("last_at"),
    )
    return {rule: Fired(*counts) for rule, *counts in rows}


def fired_by_target(days: int = LATELY_DAYS) -> dict[tuple[str, str, str], int]:
    """By rule, provider and protocol: how many requests it changed in the last days."""
    rows = RuleDay.objects.filter(day__gte=_first_day(days)).values_list("rule", "provider", "protocol")
    return {(rule, provider, protocol): count for rule, provider, protocol, count in rows.annotate(Sum("requests"))}


def by_day(rule: str, days: int = 30) -> list[tuple[date, int]]:
    """Requests that a rule changed on each of the last days, oldest first."""
    first = _first_day(days)
    rows = RuleDay.objects.filter(rule=rule, day__gte=first).values_list("day").annotate(Sum("requests"))
    known = dict(rows)
    return [(day, known.get(day, 0)) for day in (first + timedelta(days=i) for i in range(days))]


def windows(rule: str, hours: Sequence[int]) -> list[Window]:
    """What a rule did in the last hours, for each length."""
    now = timezone.now()
    out = []
    for length in hours:
        found = RuleUse.objects.filter(rule=rule, at__gte=now - timedelta(hours=length))
        acted = Q(requests__gt=0)
        sums = found.aggregate(
            of_requests=Sum("requests", default=0),
            of_changes=Sum("changes", default=0),
            of_threads=Count("thread_id", distinct=True, filter=acted & ~Q(thread_id="")),
            of_runs=Count("id", filter=acted),
            of_findings=Sum("findings", default=0),
        )
        out.append(Window(**{name.removeprefix("of_"): count for name, count in sums.items()}))
    return out


def latest(rule: str, *, limit: int) -> list[Use]:
    """The newest runs in which a rule acted or reported."""
    return _uses(RuleUse.objects.filter(rule=rule).order_by("-at")[:limit])


def newly_broken(rule: str, scope: str, scope_id: str, *, limit: int, days: int = LATELY_DAYS) -> list[Use]:
    """The newest threads that `effect` counts as broken, each by its newest run."""
    since = timezone.now() - timedelta(days=days)
    rows = _in_scope(RuleUse.objects.filter(rule=rule, at__gte=since, breaking__gt=0), rule, scope, scope_id)
    newest: dict[str, RuleUse] = {}
    for use in rows.exclude(thread_id="").order_by("-at")[: limit * 20]:
        newest.setdefault(use.thread_id, use)
    return _uses(list(newest.values())[:limit])


def _uses(rows: Iterable[RuleUse]) -> list[Use]:
    found = list(rows)
    titles = dict(Thread.objects.filter(id__in={use.thread_id for use in found}).values_list("id", "title"))
    return [
        Use(
            use.run_id,
            use.thread_id,
            titles.get(use.thread_id, ""),
            use.agent_id,
            use.provider,
            use.at,
            use.changes,
            use.breaking,
            use.findings,
        )
        for use in found
    ]


def effect(rule: str, scope: str, scope_id: str, days: int = LATELY_DAYS) -> Effect:
    """What a switch of this scope decided in the last days. Uses that a narrower switch decides are left out."""
    since = timezone.now() - timedelta(days=days)
    uses = _in_scope(RuleUse.objects.filter(rule=rule, at__gte=since), rule, scope, scope_id).exclude(thread_id="")
    counts = uses.aggregate(**_thread_counts())
    runs = Run.objects.filter(created_at__gte=since, thread__isnull=False)
    if scope == "provider":
        runs = runs.filter(provider=scope_id)
    elif scope == "agent":
        runs = runs.filter(agent=scope_id)
    seen = runs.aggregate(count=Count("thread", distinct=True))["count"]
    return Effect(days=days, seen=max(seen, counts["changed"], counts["reported"]), **counts)


def touched(rule: str, days: int = LATELY_DAYS) -> dict[tuple[str, str], Touched]:
    """By scope (`("global", "")`, `("provider", id)`, `("agent", id)`): the threads a rule touched in the last days.

    Only scopes in whose runs it acted or reported. Uses that a narrower switch decides are left out, as in `effect`.
    """
    since = timezone.now() - timedelta(days=days)
    uses = RuleUse.objects.filter(rule=rule, at__gte=since).exclude(thread_id="")
    found: dict[tuple[str, str], Touched] = {}
    for scope, fields in (("global", ()), ("provider", ("provider",)), ("agent", ("agent_id",))):
        scoped = uses if scope == "agent" else uses.exclude(agent_id__in=_switched(rule, "agent"))
        if scope == "global":
            scoped = scoped.exclude(provider__in=_switched(rule, "provider"))
        rows = scoped.order_by().values_list(*fields or ("rule",)).annotate(**_thread_counts())
        found |= {(scope, key if fields else ""): Touched(*counts) for key, *counts in rows if key}
    return found


def _thread_counts() -> dict[str, Count]:
    """Threads whose requests were changed, were changed where the target refuses, would have been changed."""
    filters = {"changed": Q(changes__gt=0), "broken": Q(breaking__gt=0), "reported": Q(findings__gt=0)}
    return {name: Count("thread_id", distinct=True, filter=condition) for name, condition in filters.items()}


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
