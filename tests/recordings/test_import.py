"""Recorded traffic as threads: all of it is imported, opens, and previews for every target."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from memory.access import operator
from memory.imports.detect import format_of
from memory.imports.sources import lines_in
from memory.models import Message, Provider, Thread
from memory.services.importing import ImportReport, import_lines
from memory.services.preview import Preview, preview

pytestmark = pytest.mark.django_db

TARGETS = (
    ("anthropic", "claude-sonnet-4-5"),
    ("openai", "gpt-4o"),
    ("cerebras", "zai-glm-4.7"),
    ("gemini", "gemini-2.5-pro"),
    ("bedrock", "amazon.nova-pro-v1:0"),
    ("cohere", "command-a-03-2025"),
)
CALLER = operator("tester")
# Fewer than these would mean that something is left out. By file: threads, lines that extended one, messages.
IMPORTED = {
    "anthropic": (109, 55, 350),
    "azure": (2, 0, 4),
    "bedrock": (85, 48, 255),
    "cerebras": (5, 2, 14),
    "cohere": (4, 1, 9),
    "deepseek": (5, 4, 17),
    "gemini": (109, 85, 353),
    "groq": (29, 6, 67),
    "huggingface": (8, 1, 18),
    "mistral": (17, 9, 58),
    "ollama": (1, 1, 4),
    "openai-chat": (61, 34, 169),
    "openai-responses": (109, 49, 318),
    "openrouter": (35, 1, 72),
    "other": (5, 2, 12),
    "vertex": (32, 40, 118),
    "zhipu": (4, 1, 10),
}
DIFFERENT = {
    # Recorded in more than one run: the call has another id in the next request than in the answer.
    "import:openai-responses.openai-responses-stream-58272.1",
    # Its call is in the conversation that the provider keeps; a result alone is taken out as unpaired.
    "import:openai-responses.openai-conversation-id-tool-call-continuation-4571c.2",
}
_INVENTED = re.compile(r"pyd_ai_|resp_\w+:call_")
"""Begins ids that the recording client made up between two requests, for the provider's were empty or not unique."""
EVERY = 8
"""Of how many threads one is opened and previewed by default."""
_TEXTS = ("content", "text", "output")
_NAMES = ("name", "tool_use_id", "tool_call_id", "toolUseId", "call_id")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


def import_file(folder: Path, name: str) -> ImportReport:
    with open(folder / f"{name}.jsonl", "rb") as file:
        return import_lines(lines_in(file), caller=CALLER, resource_id="recorded", source=name)


def sampled(threads: list[Any], config: pytest.Config) -> list[Any]:
    return threads if config.getoption("--all") else threads[::EVERY]


def names_in(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def exchanges(folder: Path, name: str) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in (folder / f"{name}.jsonl").read_bytes().splitlines()]


def test_all_of_it_is_imported_once(recordings_dir: Path, pytestconfig: pytest.Config) -> None:
    for name in names_in(recordings_dir):
        report = import_file(recordings_dir, name)
        made = (report.threads_made, report.threads_extended, report.messages_added)
        least = (0, 0, 0) if pytestconfig.getoption("--recordings") else IMPORTED.get(name, (0, 0, 0))
        assert all(found >= floor for found, floor in zip(made, least, strict=True)), (name, made)
        with_request = {line["id"] for line in exchanges(recordings_dir, name) if line["request"]}
        assert report.threads_made + report.threads_extended == len(with_request), name
        assert {reason for _, reason in report.skipped} <= {"it holds no request"}, name
    before = (list(Thread.objects.order_by("id").values()), Message.objects.count())
    for name in names_in(recordings_dir):
        report = import_file(recordings_dir, name)
        assert (report.threads_made, report.threads_extended, report.messages_added) == (0, 0, 0)
    assert (list(Thread.objects.order_by("id").values()), Message.objects.count()) == before


def test_bodies_tell_their_protocol(recordings_dir: Path) -> None:
    for name in names_in(recordings_dir):
        for line in exchanges(recordings_dir, name):
            assert format_of(line) == "recording"
            if line["request"]:
                assert format_of(line["request"]) == line["protocol"], line["id"]


def test_every_thread_opens_and_previews_for_every_target(
    recordings_dir: Path, client: Client, pytestconfig: pytest.Config
) -> None:
    client.force_login(User.objects.create_superuser("admin"))
    for name in names_in(recordings_dir):
        import_file(recordings_dir, name)
    threads = list(Thread.objects.order_by("id").values_list("id", flat=True))
    for thread_id in sampled(threads, pytestconfig):
        assert client.get(reverse("thread", args=[thread_id])).status_code == 200, thread_id
        for provider, model in TARGETS:
            assert preview(CALLER, thread_id=thread_id, provider=provider, model=model).request.size_bytes


def test_what_a_provider_accepted_goes_back_to_it(recordings_dir: Path, pytestconfig: pytest.Config) -> None:
    lines = {}
    for name in names_in(recordings_dir):
        import_file(recordings_dir, name)
        lines.update({line["id"]: line for line in exchanges(recordings_dir, name)})
    lost = {}
    count = 0
    for thread in sampled(list(Thread.objects.order_by("id")), pytestconfig):
        newest = lines[thread.imported["line"]]
        if newest["status"] != 200:
            continue
        sent = set(facts(msgspec.json.decode(previewed_for_its_own(thread).request.body)))
        count += 1
        missing = [fact for fact in facts(newest["request"]) if fact not in sent]
        if missing and thread.id not in DIFFERENT:
            lost[thread.id] = missing
    assert lost == {}
    assert count


def previewed_for_its_own(thread: Thread) -> Preview:
    """For the provider and the protocol that its newest line was sent to."""
    imported = thread.imported
    connection = {"protocol": imported["protocol"], "base_url": "https://example.invalid"}
    Provider.objects.update_or_create(id=imported["provider"], defaults=connection)
    return preview(CALLER, thread_id=thread.id, provider=imported["provider"], model=imported["model"])


def facts(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every text, call id and name of a request's history; of a text its letters, without reasoning in tags."""
    history = next(body[key] for key in ("messages", "contents", "input") if key in body)
    return list(_said(history)) if isinstance(history, str) else list(_facts(history))


def _facts(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _facts(item)
        return
    if not isinstance(value, Mapping):
        return
    for key, found in value.items():
        if key in _TEXTS and isinstance(found, str):
            yield from _said(found)
        elif key in _NAMES and isinstance(found, str):
            if not _INVENTED.match(found):
                yield "name", found
        elif key not in ("input", "args", "arguments", "response"):
            yield from _facts(found)


def _said(text: str) -> Iterator[tuple[str, str]]:
    letters = "".join(filter(str.isalnum, unicodedata.normalize("NFKC", _THOUGHT.sub("", text))))
    if letters:
        yield "text", letters
