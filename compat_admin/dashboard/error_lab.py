"""The error lab: a provider's error is pasted; its class, the rules that know it, the decision, and the cure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from django.http import HttpResponse
from msgspec import Struct

from compat_admin.dashboard.error_examples import EXAMPLES
from compat_admin.dashboard.json_lines import lines
from compat_admin.dashboard.pages import OperatorRequest, caller, render_page
from compat_admin.dashboard.tags import milliseconds
from memory.errors import InvalidInput, NotFound
from memory.messages.names import PROVIDERS
from memory.messages.stored import decode_json
from memory.models import Agent
from memory.providers import ENTRIES, PROTOCOLS
from memory.services.explain import Explained, explain_error

AGENTS_LISTED = 200
COMPARED_LINES = 4000
SHOWN_LINES = 300
_CONTEXT = 2
_FIELDS = ("provider", "model", "status", "headers", "body", "agent_id", "thread_id", "times")


class DiffLine(Struct, frozen=True):
    """A line of two requests: in both, only in the refused one (`gone`), or only in the next (`add`)."""

    sign: str
    text: str


class Difference(Struct, frozen=True):
    """What the next request has other than the refused one. `hidden` lines are not shown."""

    lines: list[DiffLine]
    hidden: int
    before_size: int
    after_size: int


def lab(request: OperatorRequest) -> HttpResponse:
    """What we would do about an error. Nothing is called, nothing is stored."""
    number = request.GET.get("example", "0")
    example = EXAMPLES[int(number)] if number.isdecimal() and len(number) < 3 and int(number) < len(EXAMPLES) else None
    first = example or EXAMPLES[0]
    values = {"provider": first.provider, "model": first.model, "status": first.status, "times": 1}
    values |= {"headers": first.headers, "body": first.body, "agent_id": "", "thread_id": request.GET.get("thread", "")}
    context: dict[str, Any] = {
        "section": "errors",
        "examples": list(enumerate(EXAMPLES)),
        "chosen": EXAMPLES.index(first),
        "providers": [name for name in PROVIDERS if ENTRIES[name].protocol in PROTOCOLS],
        "agents": list(Agent.objects.order_by("name", "id").values_list("id", "name")[:AGENTS_LISTED]),
        "errors": {},
        "values": values,
    }
    if request.method != "POST":
        return render_page(request, "errors/lab.html", context=context)
    values |= {name: request.POST.get(name, "").strip() for name in _FIELDS}
    try:
        found = _explained(request, values)
    except (InvalidInput, NotFound) as error:
        status, context["errors"] = 422, _by_field(error)
    else:
        status = 200
        context |= {"found": found, "decision": decision(found), "difference": difference(found)}
    return render_page(request, "errors/lab.html", fragment="errors/_lab.html", context=context, status=status)


def _explained(request: OperatorRequest, values: Mapping[str, Any]) -> Explained:
    return explain_error(
        caller(request),
        provider=values["provider"],
        model=values["model"],
        status=_number(values["status"], "status"),
        headers=dict(_headers(values["headers"])),
        body=values["body"],
        agent_id=values["agent_id"] or None,
        thread_id=values["thread_id"] or None,
        times=_number(values["times"] or "1", "times"),
    )


def _number(text: str, field: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 5):
        raise InvalidInput("expected a whole number", field=field)
    return int(text)


def _headers(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if line.strip() and not (colon and name.strip()):
            raise InvalidInput("expected a header a line, such as retry-after: 8", field="headers")
        if line.strip():
            yield name.strip().lower(), value.strip()


def _by_field(error: Exception) -> dict[str, str]:
    found = {one.field.partition(".")[0]: one.message for one in getattr(error, "errors", ())}
    if isinstance(error, NotFound):
        found = {"agent_id" if "agent" in str(error) else "thread_id": str(error)}
    return {name if name in _FIELDS else "body": said for name, said in found.items()} or {"body": str(error)}


def decision(found: Explained) -> tuple[str, str]:
    """What would be done, as a sentence and what follows it."""
    if not found.is_retry:
        return "It is given up.", found.reason
    when = f"after {milliseconds(found.delay_ms)}" if found.delay_ms else "at once"
    how = "with a changed request" if found.body_after != found.body_before else "with the same request"
    return f"It is tried again {when}, {how}.", found.reason


def difference(found: Explained) -> Difference | None:
    """The two requests side by side; None where nothing is sent again, or the very same."""
    if not found.body_after or found.body_after == found.body_before:
        return None
    before, after = ([line.text for line in lines(decode_json(body))] for body in (found.body_before, found.body_after))
    sizes = len(found.body_before), len(found.body_after)
    if len(before) + len(after) > COMPARED_LINES:
        # Comparing takes long where much is the same: only what is between the ends that are.
        before, after = _between(before, after)
        if len(before) + len(after) > COMPARED_LINES:
            return Difference([], len(before) + len(after), *sizes)
    told = list(_compared(before, after))
    return Difference(told[:SHOWN_LINES], max(0, len(told) - SHOWN_LINES), *sizes)


def _between(before: list[str], after: list[str]) -> tuple[list[str], list[str]]:
    shorter = min(len(before), len(after))
    start = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    rest = shorter - start
    end = next((i for i in range(rest) if before[-1 - i] != after[-1 - i]), rest)
    start, end = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    return before[start : len(before) - end], after[start : len(after) - end]


def _compared(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for number, group in enumerate(matcher.get_grouped_opcodes(_CONTEXT)):
        if number:
            yield DiffLine("cut", "…")
        for kind, a, b, c, d in group:
            if kind == "equal":
                yield from (DiffLine("", text) for text in before[a:b])
            else:
                yield from (DiffLine("gone", text) for text in before[a:b])
                yield from (DiffLine("add", text) for text in after[c:d])
