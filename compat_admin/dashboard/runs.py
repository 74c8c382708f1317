"""Runs: the list, one with its attempts and why each was followed by another or not, and running one again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Literal

import msgspec
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from msgspec import Struct

from compat_admin.dashboard.pages import OperatorRequest, caller, listed, plain_file, render_page
from compat_admin.dashboard.run_bodies import bodies_shown, compared, why_absent
from compat_admin.dashboard.shown import cut
from compat_admin.dashboard.tags import milliseconds, plural, seconds
from memory import queries
from memory.access import run_for
from memory.errors import Conflict, InvalidInput, NotFound
from memory.messages.names import PROVIDERS
from memory.models import Agent, Thread
from memory.queries import AttemptItem, RunDetail, RunItem
from memory.services import bundles
from memory.services import runs as service

PER_PAGE = 40
SHOWN_BODY_BYTES = 64_000
STATUSES = ("queued", "running", "waiting", "succeeded", "failed", "stopped", "cancelled", "interrupted")
LIVE = ("queued", "running")
FILTERS = ("status", "thread", "agent", "provider", "model", "error", "retries", "since")
AGENTS_LISTED = 200
SINCE = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=30),
}
SINCE_SAID = {"hour": "of the last hour", "day": "of the last day", "week": "of the last 7 days"}
SINCE_SAID |= {"month": "of the last 30 days"}
_SETBACKS = {
    "transient": "a passing failure",
    "rate-limit": "a rate limit",
    "overloaded": "an overload",
    "quota": "a used-up quota",
    "authentication": "a refused key",
    "context-length": "a history too long",
    "content-filter": "a content filter",
    "bad-request": "a refused request",
    "connection": "a broken connection",
}
ERROR_CLASSES = (*_SETBACKS, "stopped-by-processor", "cancelled", "interrupted", "internal")
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
AGAIN = ("failed", "interrupted", "cancelled", "stopped")

Mark = Literal["ok", "warn", "err", "live", ""]
_MARKS: dict[str, Mark] = {"succeeded": "ok", "failed": "err", "stopped": "warn", "cancelled": "warn"}
_MARKS |= {"interrupted": "err", "queued": "live", "running": "live", "waiting": "warn"}
_TICKS_S = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class Try(Struct, frozen=True):
    """An attempt in words. `did` and `why` are the decision; `waited` is empty where the next one came at once."""

    item: AttemptItem
    mark: Mark
    title: str
    took_s: float
    did: str
    why: str
    waited: str


class Bar(Struct, frozen=True):
    """A piece of the scale: `x` and `width` in percent of the whole; attempts have a number, waits a label."""

    x: str
    width: str
    mark: str
    number: int
    label: str
    title: str


class Scale(Struct, frozen=True):
    """A run drawn to scale."""

    total_s: float
    calls_s: float
    waits_s: float
    bars: list[Bar]
    ticks: list[tuple[str, str]]
    labels: list[tuple[str, str]]


def run_list(request: OperatorRequest) -> HttpResponse:
    """Runs, newest first."""
    filters = {name: value for name in FILTERS if (value := request.GET.get(name, "").strip())}
    page = queries.runs_page(
        caller(request),
        cursor=request.GET.get("cursor") or None,
        limit=PER_PAGE,
        status=filters.get("status"),
        thread_id=filters.get("thread"),
        agent_id=filters.get("agent"),
        provider=filters.get("provider"),
        model_id=filters.get("model"),
        error_class=filters.get("error"),
        has_retries="retries" in filters,
        since=timezone.now() - SINCE[filters["since"]] if filters.get("since") in SINCE else None,
    )
    thread_ids = {run.thread_id for run in page.items if run.thread_id}
    titles = Thread.objects.filter(id__in=thread_ids).values_list("id", "title")
    context = {
        "section": "runs",
        **listed(request, page, filters),
        "titles": dict(titles) if caller(request).may("read") else {},
        "marks": _MARKS,
        "statuses": STATUSES,
        "providers": PROVIDERS,
        "agents": list(Agent.objects.order_by("name", "id").values_list("id", "name")[:AGENTS_LISTED]),
        "error_classes": ERROR_CLASSES,
        "spans": SINCE_SAID,
        "took": {run.id: (run.finished_at - run.created_at).total_seconds() for run in page.items if run.finished_at},
    }
    return render_page(request, "runs/list.html", fragment="runs/_rows.html", context=context)


def run_page(request: OperatorRequest, run_id: str) -> HttpResponse:
    """A run with its attempts; one of them is open at the side."""
    detail = queries.run_detail(caller(request), run_id)
    tries = [_try(attempt, detail.run) for attempt in detail.attempts]
    chosen = _chosen(request.GET.get("attempt", ""), tries)
    sent = came = differs = None
    may_read = caller(request).may("read")
    if chosen is not None and may_read:
        at = tries.index(chosen)
        pair = [one.item for one in tries[max(0, at - 1) : at + 1]]
        bodies = queries.bodies_of(run_id, *(item.number for item in pair))
        sent, came = bodies_shown(detail, chosen.item, bodies[chosen.item.number])
        differs = compared(pair[0], pair[1], bodies) if len(pair) > 1 else None
    titles = Thread.objects.filter(id=detail.run.thread_id).values_list("title", flat=True)
    title = titles.first() if may_read else ""
    last_changes = _json_list(detail.attempts[-1].changes) if detail.attempts else []
    context = {
        "section": "runs",
        "detail": detail,
        "run": detail.run,
        "thread_title": title,
        "mark": _MARKS.get(detail.run.status, ""),
        "headline": headline(detail),
        "tries": tries,
        "scale": scale(detail.attempts),
        "usage": usage(detail.run.usage),
        "change_count": len(last_changes),
        "rule_count": len({change.get("rule") for change in last_changes}),
        "chosen": chosen,
        "changes": _json_list(chosen.item.changes) if chosen else [],
        "findings": _json_list(chosen.item.findings) if chosen else [],
        "sent": sent,
        "came": came,
        "differs": differs,
        "removed": why_absent(detail) if detail.removed_at is not None else "",
        "neighbours": _neighbours(chosen, tries),
        "is_live": detail.run.status in LIVE,
        "may_run_again": detail.run.status in AGAIN and detail.removed_at is None,
        "input": cut(detail.input, SHOWN_BODY_BYTES),
    }
    return render_page(request, "runs/run.html", fragment="runs/_run.html", context=context)


def body_file(request: OperatorRequest, run_id: str, number: int, which: str) -> HttpResponse:
    """The exact bytes of an attempt's request or response."""
    run = run_for(caller(request), run_id)
    if which not in ("request", "response"):
        raise NotFound("no such body")
    bodies = queries.attempt_bodies(run.id, number)
    content = bodies.sent.content if which == "request" else bodies.came
    return plain_file(content, filename=f"{run.id}-{number}-{which}.txt", save=True)


def bundle_file(request: OperatorRequest, run_id: str) -> HttpResponse:
    """The run as one file, for `manage.py replay` and for whoever is to look at it."""
    run = run_for(caller(request), run_id)
    content = bundles.bundle_of(caller(request), run.id)
    return plain_file(content, filename=f"{run.id}.json", content_type="application/json", save=True)


def run_again(request: OperatorRequest, run_id: str) -> HttpResponse:
    """Run a failed turn's input once more, and open the new run, which goes on by itself."""
    try:
        new_id = service.rerun_in_background(caller(request), run_id).id
    except InvalidInput as error:
        messages.error(request, f"It was not run: {error}.")
        new_id = run_id
    return HttpResponseRedirect(reverse("run", args=[new_id]))


def cancel(request: OperatorRequest, run_id: str) -> HttpResponse:
    """End a run that is not over."""
    try:
        service.cancel_run(caller(request), run_id)
    except Conflict as error:
        messages.error(request, f"It was not cancelled: {error}.")
    return HttpResponseRedirect(reverse("run", args=[run_id]))


# A run in words


def headline(detail: RunDetail) -> tuple[str, str]:
    """What became of the run and why, as a sentence and what follows it."""
    run, attempts = detail.run, detail.attempts
    setbacks = [attempt for attempt in attempts if attempt.decision in ("retry", "fallback")]
    waited = sum(attempt.slept_ms or 0 for attempt in attempts)
    told = ". ".join(f"Attempt {attempt.number}: {_said(attempt)}" for attempt in setbacks[:3])
    rest = f"{told}. " if told else ""
    if waited:
        rest += f"It waited {milliseconds(waited)} in all."
    if run.status == "succeeded":
        if not setbacks:
            return "Answered at the first attempt.", ""
        return f"Answered {_at_attempt(run.attempt_count)}, after {_setbacks(setbacks)}.", rest
    last = attempts[-1] if attempts else None
    why = run.error_message or (last.error_message if last else "")
    reason = f" {last.reason[:1].upper()}{last.reason[1:]}" if last and last.decision != "answered" else ""
    match run.status:
        case "failed":
            return (
                f"Failed after {plural(run.attempt_count, 'attempt')}: {why or 'no reason is on record'}",
                rest + reason,
            )
        case "stopped":
            return f"A processor ended it: {why or 'it gave no reason'}", rest
        case "cancelled":
            return "It was cancelled.", rest + why
        case "interrupted":
            return (
                "Its process went away before the end.",
                "What it had written is kept. It can be run again.",
            )
        case "waiting":
            return "Answered with tool calls; it waits for their results.", rest
        case "queued":
            return "It waits for its turn.", "Its thread has another run, or nobody has taken it yet."
    if detail.is_own_call:
        return f"Its caller makes call {run.attempt_count}; it has not said yet what became of it.", rest
    if detail.due_at is not None:
        return f"It waits for its next attempt, due at {timezone.localtime(detail.due_at):%H:%M:%S}.", rest + reason
    return "It is running.", rest


def _at_attempt(number: int) -> str:
    return f"on the {_ORDINALS[number - 1]} attempt" if 0 < number <= len(_ORDINALS) else f"at attempt {number}"


def _setbacks(attempts: Sequence[AttemptItem]) -> str:
    """What went wrong before, in order: "a refused request and an overload, 2 times"."""
    said = [_SETBACKS.get(attempt.error_class, "a setback") for attempt in attempts]
    kinds = [f"{what}, {said.count(what)} times" if said.count(what) > 1 else what for what in dict.fromkeys(said)]
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"


def _try(item: AttemptItem, run: RunItem) -> Try:
    took = max(0.0, (_end(item) - item.started_at).total_seconds())
    did, why = {
        "answered": ("Done", run.finish_reason or "answered"),
        "retry": ("Again", _when_again(item)),
        "fallback": ("Another model", item.reason),
        "open": ("Under way", "no answer yet"),
        "interrupted": ("Interrupted", item.reason),
        "give-up": ("Given up", item.reason or "nothing more was granted"),
        "cancelled": ("Cancelled", item.reason),
        "stopped": ("Stopped", item.reason),
    }.get(item.decision, (item.decision.capitalize(), item.reason))
    mark: Mark = "ok" if item.decision == "answered" else "warn" if item.status and item.status < 400 else "err"
    if item.decision == "open":
        mark = "live"
    waited = ""
    if item.slept_ms:
        waited = (
            f"wanted {milliseconds(item.delay_wanted_ms) or 'nothing'}, granted {milliseconds(item.delay_granted_ms)}"
        )
    return Try(item, mark, _said(item), took, did, why, waited)


def _end(item: AttemptItem) -> datetime:
    """When the attempt ended; of one under way, now."""
    return item.finished_at or timezone.now()


def _when_again(item: AttemptItem) -> str:
    delay = item.delay_granted_ms
    when = f"after {milliseconds(delay)}" if delay else "at once"
    return f"{when}: {item.reason}" if item.reason else f"{when}."


def _said(item: AttemptItem) -> str:
    """The outcome of a call: status and class of its error, or that it is complete."""
    if item.decision == "answered":
        return f"{item.status}, complete" if item.status else "complete"
    if item.decision == "open":
        return "under way"
    words = [str(item.status) if item.status else "no answer", item.error_class.replace("-", " ")]
    return ", ".join(word for word in words if word)


def scale(attempts: Sequence[AttemptItem]) -> Scale | None:
    """Attempts and the waits between them, to scale; None where there is nothing to draw."""
    if not attempts:
        return None
    start, end = attempts[0].started_at, max(map(_end, attempts))
    total = (end - start).total_seconds()
    if total < 0.001:
        return None

    def percent(value_s: float) -> str:
        return f"{value_s / total * 100:.2f}%"

    bars: list[Bar] = []
    labels: list[tuple[float, str]] = []
    calls = 0.0
    for attempt in attempts:
        at = (attempt.started_at - start).total_seconds()
        took = max(0.0, (_end(attempt) - attempt.started_at).total_seconds())
        calls += took
        mark = "ok" if attempt.decision == "answered" else "warn" if attempt.status and attempt.status < 400 else "err"
        title = f"Attempt {attempt.number}, {seconds(took)}, {_said(attempt)}"
        bars.append(Bar(percent(at), percent(max(took, total * 0.004)), mark, attempt.number, "", title))
        if labels and at / total - labels[-1][0] < 0.03:
            labels[-1] = (labels[-1][0], f"{labels[-1][1]}, {attempt.number}")
        else:
            labels.append((at / total, str(attempt.number)))
    for one, following in pairwise(attempts):
        at = (_end(one) - start).total_seconds()
        gap = (following.started_at - _end(one)).total_seconds()
        if gap / total > 0.01:
            label = f"waited {seconds(gap)}" if gap / total > 0.12 else ""
            bars.append(Bar(percent(at), percent(gap), "wait", 0, label, percent(at + gap / 2)))
    step = next((tick for tick in _TICKS_S if total / tick <= 8), _TICKS_S[-1])
    ticks = [(percent(i * step), seconds(i * step)) for i in range(int(total / step) + 1)]
    return Scale(
        total_s=total,
        calls_s=calls,
        waits_s=max(0.0, total - calls),
        bars=bars,
        ticks=ticks,
        labels=[(f"{at * 100:.2f}%", text) for at, text in labels],
    )


def usage(values: dict[str, Any]) -> dict[str, int | None]:
    """Tokens in, out and from the cache, whichever are on record."""
    names = {"in": "input_tokens", "out": "output_tokens", "cached": "cached_tokens"}
    return {word: values[name] if isinstance(values.get(name), int) else None for word, name in names.items()}


def _chosen(number: str, tries: Sequence[Try]) -> Try | None:
    named = next((one for one in tries if str(one.item.number) == number), None)
    return named or (tries[-1] if tries else None)


def _neighbours(chosen: Try | None, tries: Sequence[Try]) -> dict[str, int]:
    """Numbers of the attempts before and after the one that is open."""
    if chosen is None:
        return {}
    at = tries.index(chosen)
    found = {"previous": tries[at - 1] if at else None, "next": tries[at + 1] if at + 1 < len(tries) else None}
    return {name: one.item.number for name, one in found.items() if one is not None}


def _json_list(text: str) -> list[dict[str, Any]]:
    value = msgspec.json.decode(text)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
