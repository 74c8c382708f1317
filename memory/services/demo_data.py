"""What a demo shows on its first day: connections, agents, threads that changed providers, runs that met trouble."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
from django.db import transaction
from django.utils import timezone
from msgspec import Struct

from memory import audit
from memory.access import operator
from memory.errors import RunFailed
from memory.messages.stored import StoredMessage, timestamp
from memory.models import Agent, AuditEvent, Provider, Run, Thread
from memory.providers import ENTRIES
from memory.services.agents import create_agent
from memory.services.importing import import_lines
from memory.services.runs import GenerateRequest, generate
from memory.services.threads import create_thread, update_thread
from memory.store import DjangoStorage

APPROVAL_THREAD = "demo-waiting-approval"
LONG_THREAD = "demo-long-thread"
RATE_LIMITED_THREAD = "demo-rate-limited"
FAILED_THREAD = "import:demo.support-orders.1"
REFERENCE_THREAD = "import:demo.kimi-for-reference.1"
LONG_COUNT = 2000

_FOLDER = Path(__file__).resolve().parent.parent / "demo"
_CALLER = operator("demo", "admin")
_LOADED = "demo.loaded"
_BETWEEN_LINES = timedelta(minutes=2)


class _ThreadFile(Struct, frozen=True):
    file: str
    resource_id: str
    agent_id: str | None
    hours_ago: float


def load_demo_data(sandbox_url: str) -> None:
    """Fill the database for a demo; nothing happens when that was done before, whatever became of the rows since.

    The runs are real ones: `sandbox_url` is where their pretend provider listens and takes scripts, and the settings'
    SANDBOX_URL has to be the same.
    """
    if AuditEvent.objects.filter(action=_LOADED).exists():
        return
    now = timezone.now()
    _add_connections()
    _add_agents()
    _add_recorded_threads(now)
    _add_approval_thread(now - timedelta(hours=8))
    _add_long_thread(now - timedelta(hours=13))
    _add_thread(RATE_LIMITED_THREAD, "shop/customer-733", "Waxed thread", [], now, agent_id="support")
    _add_runs(sandbox_url)
    with transaction.atomic():
        audit.record(_CALLER.name, _LOADED, "demo", "demo")


def _add_connections() -> None:
    rows = [
        Provider(id=entry.id, protocol=entry.protocol, base_url=f"sandbox:{entry.id}") for entry in ENTRIES.values()
    ]
    Provider.objects.bulk_create(rows, ignore_conflicts=True)


def _add_agents() -> None:
    for values in _read("agents.json", list[dict[str, Any]]):
        if not Agent.objects.filter(id=values["id"]).exists():
            create_agent(_CALLER, values)


def _read(name: str, kind: Any) -> Any:
    return msgspec.json.decode((_FOLDER / name).read_bytes(), type=kind)


# Threads


def _add_recorded_threads(now: datetime) -> None:
    for entry in _read("threads.json", list[_ThreadFile]):
        at = now - timedelta(hours=entry.hours_ago)
        lines = (_FOLDER / "threads" / f"{entry.file}.jsonl").read_bytes().splitlines()
        first_at = at - _BETWEEN_LINES * len(lines)
        dated = [_dated(line, first_at + _BETWEEN_LINES * number) for number, line in enumerate(lines)]
        import_lines(dated, caller=_CALLER, resource_id=entry.resource_id, source=entry.file, clock=_at(at))
        if entry.agent_id is not None:
            thread_id = f"import:{msgspec.json.decode(lines[0])['id']}"
            update_thread(Thread.objects.get(id=thread_id), agent_id=entry.agent_id)


def _dated(line: bytes, at: datetime) -> bytes:
    value = msgspec.json.decode(line)
    return msgspec.json.encode({**value, "headers": {"date": format_datetime(at)}})


def _at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def _add_approval_thread(at: datetime) -> None:
    messages = _read("approval.json", list[dict[str, Any]])
    title = "Refund for order 20-5102 waits for approval"
    _add_thread(APPROVAL_THREAD, "shop/customer-512", title, messages, at, agent_id="support")


def _add_long_thread(at: datetime) -> None:
    _add_thread(LONG_THREAD, "observatory/log", "A year of cloud watching", long_history(LONG_COUNT), at)


def _add_thread(
    thread_id: str,
    resource_id: str,
    title: str,
    messages: Sequence[StoredMessage],
    at: datetime,
    agent_id: str | None = None,
) -> None:
    """The thread with its messages, half a minute apart, the last one at `at`; one that is there stays as it is."""
    if Thread.objects.filter(id=thread_id).exists():
        return
    first_at = at - timedelta(seconds=30) * (len(messages) - 1)
    timed = [
        {**message, "createdAt": timestamp(first_at + timedelta(seconds=30) * number)}
        for number, message in enumerate(messages)
    ]
    with transaction.atomic():
        create_thread(_CALLER, thread_id=thread_id, resource_id=resource_id, title=title, agent_id=agent_id)
        DjangoStorage(written_by=_CALLER.name, clock=_at(at)).save_messages(thread_id, resource_id, timed)
        Thread.objects.filter(id=thread_id).update(created_at=min(first_at, at), last_activity_at=at)


_MAKERS: tuple[tuple[str, str, str, str], ...] = (
    ("anthropic", "anthropic-messages", "claude-sonnet-4-5", "toolu_01Sky{:018d}"),
    ("openai", "openai-chat", "gpt-4o", "call_Sky{:021d}"),
    ("gemini", "openai-chat", "gemini-2.5-flash", "functions.sky_camera:{}"),
    ("mistral", "openai-chat", "mistral-large-latest", "sky{:06d}"),
    ("deepseek", "openai-chat", "deepseek-reasoner", "call_00_sky{}"),
    ("vllm", "openai-chat", "qwen3-32b", "chatcmpl-tool-{:032x}"),
    ("moonshot", "openai-chat", "kimi-k2-thinking", "sky:{}.a"),
    ("cerebras", "openai-chat", "zai-glm-4.7", "{:09x}"),
)
_REASONERS = ("gemini", "deepseek", "moonshot", "cerebras")
_CLOUDS = ("cirrus", "altocumulus", "stratus", "cumulus humilis", "cumulonimbus", "nimbostratus", "no cloud at all")


def long_history(count: int) -> list[StoredMessage]:
    """`count` messages by user and assistant in turn: tools, reasoning, and the ids and stamps of many makers."""
    return [_seen(number) if number % 2 else _asked(number) for number in range(count)]


def _asked(number: int) -> StoredMessage:
    text = f"Day {number // 2 + 1}, {6 + number % 13}:00. What do you see above the {_side(number)} ridge?"
    return {"id": f"sky-{number}", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": text}]}}


def _side(number: int) -> str:
    return ("north", "east", "south", "west")[number // 2 % 4]


def _seen(number: int) -> StoredMessage:
    turn = number // 2
    # Twenty turns in a row are one maker's: threads change providers now and then, not with every turn.
    provider, protocol, model_id, form = _MAKERS[turn // 20 % len(_MAKERS)]
    cloud, cover = _CLOUDS[turn % len(_CLOUDS)], turn * 7 % 9
    parts: list[dict[str, Any]] = []
    if provider in _REASONERS:
        thought = f"The camera looks {_side(number)}; {cover} eighths would fit {cloud}."
        parts.append({"type": "reasoning", "reasoning": thought, "details": [{"type": "text", "text": thought}]})
    if turn % 2 == 0:
        invocation = {
            "state": "result",
            "toolCallId": form.format(turn),
            "toolName": "sky_camera",
            "args": {"direction": _side(number), "zoom": turn % 5},
            "result": {"cover_eighths": cover, "lux": 900 + turn * 13 % 70_000, "note": "lens clean"},
        }
        parts += [{"type": "tool-invocation", "toolInvocation": invocation}, {"type": "step-start"}]
    text = f"{cover} eighths of {cloud} above the {_side(number)} ridge, {'falling' if cover % 2 else 'steady'}."
    parts.append({"type": "text", "text": text})
    stamp = {"provider": provider, "protocol": protocol, "modelId": model_id}
    return {"id": f"sky-{number}", "role": "assistant", "content": {"format": 2, "parts": parts, "metadata": stamp}}


# Runs


def _add_runs(sandbox_url: str) -> None:
    """A run that fails after three attempts, one that a rate limit delays, one whose history has to be repaired."""
    with httpx.Client(base_url=sandbox_url, trust_env=False) as sandbox:

        def play(*answers: Mapping[str, Any]) -> None:
            for answer in answers:
                sandbox.post("/_script", json={"provider": "anthropic", **answer}).raise_for_status()

        too_large = "prompt is too large for this workspace: ask its owner to raise the limit"
        refused = {"type": "error", "error": {"type": "invalid_request_error", "message": too_large}}
        _run(
            FAILED_THREAD,
            "support",
            "Can the right cloth be here by Friday?",
            lambda: play(
                {"status": 429, "headers": {"retry-after": "2"}}, {"status": 529}, {"status": 400, "body": refused}
            ),
        )
        _run(
            RATE_LIMITED_THREAD,
            "support",
            "Do you sell waxed thread?",
            lambda: play({"status": 429, "headers": {"retry-after": "3"}}),
        )
        _run(REFERENCE_THREAD, "reference", "Which of these stops comes last?", play)
        # What the demo asked is no part of what its user will see arriving there.
        sandbox.delete("/_requests").raise_for_status()


def _run(thread_id: str, agent_id: str, text: str, prepare: Callable[[], None]) -> None:
    if Run.objects.filter(thread_id=thread_id).exists():
        return
    prepare()
    request = GenerateRequest(messages=text, thread_id=thread_id)
    try:
        generate(_CALLER, agent_id, request, wait=_without_waiting)
    except RunFailed:
        # One of them is meant to; the run's page says why.
        return


def _without_waiting(seconds: float) -> bool:
    return False
