"""Recorded traffic as threads: all of it is imported, opens, and previews for every target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memory.access import operator
from memory.models import Message, Thread
from memory.services.importing import ImportReport, import_lines, lines_in
from memory.services.preview import Preview, preview

pytestmark = pytest.mark.django_db

FILES = ("anthropic", "openai-chat", "cerebras")
TARGETS = (("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o"), ("cerebras", "zai-glm-4.7"))
CALLER = operator("tester")
# Fewer than these would mean that something is left out. By file: threads, lines that extended one, messages.
IMPORTED = {"anthropic": (109, 55, 343), "openai-chat": (61, 34, 166), "cerebras": (5, 2, 14)}
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def import_file(folder: Path, name: str) -> ImportReport:
    with open(folder / f"{name}.jsonl", "rb") as file:
        return import_lines(lines_in(file), caller=CALLER, resource_id="recorded", source=name)


def exchanges(folder: Path, name: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (folder / f"{name}.jsonl").read_bytes().splitlines()]


def test_all_of_it_is_imported_once(recordings_dir: Path) -> None:
    for name in FILES:
        report = import_file(recordings_dir, name)
        threads, extended, messages = IMPORTED[name]
        assert (report.threads_made, report.threads_extended) >= (threads, extended), name
        assert report.messages_added >= messages, name
        with_request = {line["id"] for line in exchanges(recordings_dir, name) if line["request"]}
        assert report.threads_made + report.threads_extended == len(with_request), name
        for line_id, reason in report.skipped:
            is_expected = reason == "it holds no request" or "streamed answer" in reason
            assert is_expected, (line_id, reason)
    before = (list(Thread.objects.order_by("id").values()), Message.objects.count())
    for name in FILES:
        report = import_file(recordings_dir, name)
        assert (report.threads_made, report.threads_extended, report.messages_added) == (0, 0, 0)
        assert report.unchanged == sum(IMPORTED[name][:2])
    assert (list(Thread.objects.order_by("id").values()), Message.objects.count()) == before


def test_every_thread_opens_and_previews_for_every_target(recordings_dir: Path, client: Client) -> None:
    client.force_login(User.objects.create_superuser("admin"))
    for name in FILES:
        import_file(recordings_dir, name)
    threads = list(Thread.objects.values_list("id", flat=True))
    assert len(threads) >= sum(counts[0] for counts in IMPORTED.values())
    for thread_id in threads:
        assert client.get(reverse("thread", args=[thread_id])).status_code == 200, thread_id
        for provider, model in TARGETS:
            assert preview(CALLER, thread_id=thread_id, provider=provider, model=model).request.size_bytes


@pytest.mark.parametrize("name", FILES)
def test_what_a_provider_accepted_goes_back_to_it(recordings_dir: Path, name: str) -> None:
    import_file(recordings_dir, name)
    lines = {line["id"]: line for line in exchanges(recordings_dir, name)}
    lost = {}
    count = 0
    for thread in Thread.objects.all():
        shown = previewed_for_its_own(thread)
        sent = facts(msgspec.json.decode(shown.request.body))
        newest = lines[thread.imported["line"]]
        if newest["status"] != 200:
            continue
        count += 1
        missing = [fact for fact in facts(newest["request"]) if fact not in sent]
        if missing:
            lost[thread.id] = missing
    assert lost == {}
    assert count >= IMPORTED[name][0] - 10


def previewed_for_its_own(thread: Thread) -> Preview:
    imported = thread.imported
    return preview(CALLER, thread_id=thread.id, provider=imported["provider"], model=imported["model"])


def facts(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every text, call id and name of a request's messages; white space aside, reasoning sent as tagged text too."""
    return [fact for message in body["messages"] for fact in _facts(message)]


def _facts(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _facts(item)
        return
    if not isinstance(value, Mapping):
        return
    if isinstance(content := value.get("content"), str):
        yield from _said(content)
    for key in ("text", "id", "tool_use_id", "tool_call_id", "name"):
        if isinstance(found := value.get(key), str):
            yield from _said(found) if key == "text" else [(key, found)]
    for key in ("content", "tool_calls", "function"):
        yield from _facts(value.get(key))


def _said(text: str) -> Iterator[tuple[str, str]]:
    if squeezed := "".join(_THOUGHT.sub("", text).split()):
        yield "text", squeezed
