"""Threads: the list, one with its messages, its versions, and the forms that rename, revert and delete."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from msgspec import Struct

from compat_admin.dashboard.json_lines import pretty
from compat_admin.dashboard.pages import OperatorRequest, caller, go_to, listed, plain_file, render_page
from compat_admin.dashboard.shown import ShownMessage, cut, effective_parts, shown_message, shown_shape, whole_part
from memory import queries
from memory.access import hide_content, thread_for
from memory.errors import InvalidInput, NotFound
from memory.messages.names import PROVIDERS
from memory.messages.stored import read_content
from memory.messages.values import write_json
from memory.models import Message, Thread
from memory.queries import MessageItem, RunItem, VersionItem
from memory.services import threads as service
from memory.store import DjangoStorage

PER_PAGE = 40
_SAID = {"resource": "Owner", "error": "Last run"}
# Larger messages are read one by one, so that a page never holds more than one of them, and only so many bytes.
LOADED_TOGETHER_BYTES = 1_000_000
LOADED_APART_BYTES = 64_000_000
NOTHING_LOADED = -1
RUNS_SHOWN = 100
DIFF_BYTES = 200_000
DIFF_LINES = 400
METADATA_SHOWN = 30
USUAL_PROVIDERS = ("anthropic", "openai", "cerebras")
_SETTLED = ("succeeded", "waiting")


class Item(Struct, frozen=True):
    """An entry of the stream: a message, a run without an answer, or a line where the model changes."""

    message: ShownMessage | None = None
    run: RunItem | None = None
    before: str = ""
    after: str = ""


class Difference(Struct, frozen=True):
    """What made a version of the one before it, as lines of `-`, `+` and blank; `note` where they are not all there."""

    version: int
    written_by: str
    reason: str
    rule: str
    run_id: str
    at: datetime | None
    lines: list[tuple[str, str]]
    note: str


def thread_list(request: OperatorRequest) -> HttpResponse:
    """Threads, newest activity first."""
    wanted = {
        "resource_id": request.GET.get("resource", "").strip(),
        "provider": request.GET.get("provider", ""),
        "agent_id": request.GET.get("agent", ""),
    }
    has_error = request.GET.get("error") == "1"
    given: dict[str, Any] = {name: value for name, value in wanted.items() if value}
    page = queries.threads_page(
        caller(request), cursor=request.GET.get("cursor") or None, limit=PER_PAGE, has_error=has_error or None, **given
    )
    names = {"resource_id": "resource", "provider": "provider", "agent_id": "agent"}
    filters = {names[name]: value for name, value in given.items()} | ({"error": "1"} if has_error else {})
    context = {
        "section": "threads",
        **listed(request, page, filters, names=_SAID, words={"error": "failed"}),
        "providers": PROVIDERS,
        "site": f"{request.scheme}://{request.get_host()}",
    }
    return render_page(request, "threads/list.html", fragment="threads/_rows.html", context=context)


def thread_page(request: OperatorRequest, thread_id: str) -> HttpResponse:
    """A thread: its newest messages, or those before a `seq`; for who may not read, kinds and sizes of their parts."""
    thread = hide_content(caller(request), thread_for(caller(request), thread_id))
    before = _whole_number(request.GET.get("before"), "before")
    may_read = caller(request).may("read")
    most_bytes = LOADED_TOGETHER_BYTES if may_read else NOTHING_LOADED
    page = queries.messages_page(thread, before=before, limit=PER_PAGE, max_bytes=most_bytes)
    shown = _shown(thread, page.items) if may_read else [shown_shape(item) for item in page.items]
    runs = queries.runs_page(caller(request), thread_id=thread.id, limit=RUNS_SHOWN).items
    until = _began_at(thread, before) if before is not None else None
    first_seq = page.items[0].seq if page.items else None
    has_earlier = page.next_cursor is not None
    context = {
        "section": "threads",
        "thread": thread,
        "tab": "messages",
        "entries": _stream(shown, _of_page(runs, page.items, has_earlier=has_earlier, until=until)),
        "first_seq": first_seq,
        "has_earlier": has_earlier,
        "is_newest": before is None,
        "held": _held(page.items),
        "metadata": [(key, _said(value)) for key, value in list(thread.metadata.items())[:METADATA_SHOWN]],
        "targets": [name for name in USUAL_PROVIDERS if name != thread.last_provider],
    }
    return render_page(request, "threads/thread.html", fragment="threads/_stream.html", context=context)


def part_file(request: OperatorRequest, thread_id: str, seq: int, n: int) -> HttpResponse:
    """All of one part as plain text or, for a file, as a download; never as something a browser would run."""
    thread = thread_for(caller(request), thread_id)
    item = _message(thread, seq)
    parts = effective_parts(read_content(item.content or ""))
    if n >= len(parts):
        raise NotFound("no such part")
    what = request.GET.get("of", "text")
    body, ending = whole_part(parts[n], what)
    is_binary = ending == "bin"
    return plain_file(
        body,
        filename=f"message-{seq}-part-{n}.{ending}",
        content_type="application/octet-stream" if is_binary else "text/plain; charset=utf-8",
        save=is_binary or "save" in request.GET,
    )


def message_file(request: OperatorRequest, thread_id: str, seq: int) -> HttpResponse:
    """The stored JSON of a message, exactly as the row has it."""
    thread = thread_for(caller(request), thread_id)
    body = (_message(thread, seq).content or "").encode("utf-8", "replace")
    return plain_file(body, filename=f"message-{seq}.json", save="save" in request.GET)


def versions(request: OperatorRequest, thread_id: str, seq: int) -> HttpResponse:
    """What a message was, version by version, each with what it changed."""
    thread = thread_for(caller(request), thread_id)
    item = _message(thread, seq)
    earlier = queries.versions_of(thread, item.id)
    context = {
        "section": "threads",
        "thread": thread,
        "item": item,
        "differences": _differences(thread, item, earlier),
        "earlier": earlier,
    }
    return render_page(request, "threads/versions.html", context=context)


def revert(request: OperatorRequest, thread_id: str, seq: int, version: int) -> HttpResponse:
    """Ask, then make an earlier version of a message the present one."""
    thread = thread_for(caller(request), thread_id)
    item = _message(thread, seq)
    if not any(earlier.version == version for earlier in queries.versions_of(thread, item.id)):
        raise NotFound("no such version")
    if request.method == "POST":
        new = DjangoStorage().revert_message(thread, item.id, version, caller(request).name)
        notice = f"#{seq} is back at the text of version {version}, as version {new}."
        return go_to(request, "versions", thread.id, seq, notice=notice)
    context = {"section": "threads", "thread": thread, "item": item, "version": version}
    return render_page(request, "threads/revert.html", context=context)


def rename(request: OperatorRequest, thread_id: str) -> HttpResponse:
    thread = thread_for(caller(request), thread_id)
    context = {"section": "threads", "thread": thread, "title": thread.title, "error": ""}
    if request.method == "POST":
        title = request.POST.get("title", "").strip()
        try:
            service.update_thread(thread, title=title)
        except InvalidInput as error:
            context |= {"title": title, "error": str(error)}
            return render_page(request, "threads/rename.html", context=context, status=422)
        return go_to(request, "thread", thread.id, notice="The thread has its new title.")
    return render_page(request, "threads/rename.html", context=context)


def delete(request: OperatorRequest, thread_id: str) -> HttpResponse:
    """Ask with counts, then delete a thread for good."""
    thread = thread_for(caller(request), thread_id)
    if request.method == "POST":
        gone = service.delete_thread(caller(request), thread)
        notice = f"Deleted: {thread.title or thread.id}, {gone['messages']:,} messages, {gone['runs']:,} runs."
        return go_to(request, "threads", notice=notice)
    runs = queries.runs_page(caller(request), thread_id=thread.id, limit=RUNS_SHOWN)
    run_count = f"{len(runs.items)}{' or more' if runs.next_cursor else ''}"
    context = {"section": "threads", "thread": thread, "run_count": run_count}
    return render_page(request, "threads/delete.html", context=context)


# What a page shows


def _shown(thread: Thread, items: Sequence[MessageItem]) -> list[ShownMessage]:
    room = LOADED_APART_BYTES
    shown = []
    for item in items:
        if item.content is None and item.byte_count <= room:
            room -= item.byte_count
            text = queries.message_text(thread, item.id)
            fields = {name: getattr(item, name) for name in item.__struct_fields__}
            item = MessageItem(**{**fields, "content": text})
        shown.append(shown_message(item))
    return shown


def _stream(shown: Sequence[ShownMessage], runs: Sequence[RunItem]) -> list[Item]:
    """Messages in order, runs without an answer after the last message before them, a line where the model changes."""
    waiting = sorted(runs, key=lambda run: run.created_at)
    entries: list[Item] = []
    last_model = ""
    for message in shown:
        while waiting and waiting[0].created_at < message.item.created_at:
            entries.append(Item(run=waiting.pop(0)))
        model = ", ".join(filter(None, (message.item.provider, message.item.model_id)))
        if model and last_model and model != last_model:
            entries.append(Item(before=last_model, after=model))
        last_model = model or last_model
        entries.append(Item(message=message))
    return [*entries, *(Item(run=run) for run in waiting)]


def _of_page(
    runs: Sequence[RunItem], items: Sequence[MessageItem], *, has_earlier: bool, until: datetime | None
) -> list[RunItem]:
    """The runs without an answer that happened between this page's first message and that of the next page."""
    since = items[0].created_at if items and has_earlier else None
    return [
        run
        for run in runs
        if run.status not in _SETTLED
        and (since is None or run.created_at >= since)
        and (until is None or run.created_at < until)
    ]


def _began_at(thread: Thread, seq: int) -> datetime | None:
    found = queries.messages_page(thread, after=seq - 1, limit=1, max_bytes=0).items
    return found[0].created_at if found else None


def _said(value: object) -> str:
    """A value of the metadata as a short text."""
    text = cut(value if isinstance(value, str) else write_json(value), 300)
    return f"{text.text}…" if text.missing else text.text


def _held(items: Sequence[MessageItem]) -> dict[str, tuple[int, int]]:
    """Number and bytes of parts by kind."""
    held: dict[str, tuple[int, int]] = {}
    for item in items:
        for kind, size in item.summary:
            if kind != "step-start":
                number, total = held.get(kind, (0, 0))
                held[kind] = (number + 1, total + size)
    return held


def _message(thread: Thread, seq: int) -> MessageItem:
    found = queries.messages_page(thread, after=seq - 1, limit=1).items
    if not found or found[0].seq != seq:
        raise NotFound("no such message")
    return found[0]


def _differences(thread: Thread, item: MessageItem, earlier: Sequence[VersionItem]) -> list[Difference]:
    """Newest first. A version's row says who wrote it and when the next one took its place."""
    made = [(item.version, item.written_by, item.reason, item.rule, item.run_id)]
    made += [(v.version, v.written_by, v.reason, v.rule, v.run_id) for v in earlier]
    began = [v.archived_at for v in earlier]
    out = []
    new = item.content or ""
    for i, (version, written_by, reason, rule, run_id) in enumerate(made):
        old = queries.message_text(thread, item.id, version=earlier[i].version) if i < len(earlier) else None
        lines, note = ([], "") if old is None else _diff(old, new)
        at = began[i] if i < len(began) else item.created_at
        out.append(Difference(version, written_by, reason, rule, run_id, at, lines, note))
        new = old or ""
    return out


def _diff(old: str, new: str) -> tuple[list[tuple[str, str]], str]:
    if max(len(old), len(new)) > DIFF_BYTES:
        return [], "Both texts are too large to compare here."
    before, after = (pretty(read_content(text)).splitlines() for text in (old, new))
    found = [
        (" ", "…") if line.startswith("@@") else (line[0], cut(line[1:]).text)
        for line in list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    ]
    hidden = len(found) - DIFF_LINES
    return found[:DIFF_LINES], f"{hidden:,} more lines are not shown." if hidden > 0 else ""


def _whole_number(text: str | None, field: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise InvalidInput("expected a number", field=field)
    return int(text)


def home(request: OperatorRequest) -> HttpResponse:
    return HttpResponseRedirect(reverse("threads"))


def labels_of(thread: Thread, last: int) -> dict[str, tuple[str, str]]:
    """Short name and address of the newest messages, by id."""
    newest = Message.objects.filter(thread=thread).order_by("-seq").values_list("message_id", "seq")[:last]
    here = reverse("thread", args=[thread.id])
    return {message_id: (f"#{seq}", f"{here}?before={seq + 1}#m-{seq}") for message_id, seq in newest}
