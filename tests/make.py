"""Builders with defaults: a test names only what it is about. Rows are made through the product's own functions."""

import itertools
import uuid
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone

from memory.access import Principal
from memory.models import Agent, Attempt, Run, Thread
from memory.services import keys, runs
from memory.services.runs import GenerateRequest
from memory.store import DjangoStorage

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
ALL_SCOPES = ("read", "write", "run", "admin")

_numbers = itertools.count(1)


def caller(resource_id: str = "", *, name: str = "tester", scopes: tuple[str, ...] = ALL_SCOPES) -> Principal:
    """A key's principal, by default one that may act for any resource."""
    return Principal(name, 1, resource_id, frozenset(scopes))


def streamed(agent_id: str, **request: Any) -> Run:
    """A streamed run whose reader has gone."""
    with closing(runs.start_stream(caller(), agent_id, GenerateRequest(**request))) as reading:
        return Run.objects.get(id=reading.run_id)


def text(value: str, role: str = "user", **fields: Any) -> dict[str, Any]:
    """A stored message with one text part."""
    return message({"type": "text", "text": value}, role=role, **fields)


def message(*parts: dict[str, Any], role: str = "assistant", **fields: Any) -> dict[str, Any]:
    """A stored message of these parts; `metadata` goes into its content, other fields beside it."""
    content: dict[str, Any] = {"format": 2, "parts": list(parts)}
    if "metadata" in fields:
        content["metadata"] = fields.pop("metadata")
    return {"id": f"msg-{next(_numbers)}", "role": role, "content": content, **fields}


def tool_call(call_id: str = "call-1", state: str = "call", **fields: Any) -> dict[str, Any]:
    """A part with a call to a client's tool; other fields go into the invocation."""
    invocation = {"state": state, "toolCallId": call_id, "toolName": "timetable", "args": {"to": "Bergen"}, **fields}
    return {"type": "tool-invocation", "toolInvocation": invocation}


def make_thread(owner: str = "user-1", *, messages: int = 0, **fields: Any) -> Thread:
    """A thread of `owner` with this many messages, user and assistant in turn."""
    fields.setdefault("id", f"thread-{uuid.uuid4().hex[:12]}")
    thread = Thread.objects.create(resource_id=owner, **fields)
    if messages:
        add_messages(thread, *(text(f"message {i}", role="assistant" if i % 2 else "user") for i in range(messages)))
        Thread.objects.filter(id=thread.id).update(**fields)
        thread.refresh_from_db()
    return thread


def add_messages(thread: Thread, *messages: dict[str, Any], **options: Any) -> None:
    """Save stored messages to the thread as the store does; a minute apart where they carry no time."""
    timed = [{"createdAt": (START + timedelta(minutes=i)).isoformat(), **m} for i, m in enumerate(messages)]
    DjangoStorage(written_by="tester").save_messages(thread.id, thread.resource_id, timed, **options)


def make_agent(**fields: Any) -> Agent:
    number = next(_numbers)
    defaults = {"id": f"agent-{number}", "name": f"Agent {number}", "model": "anthropic/claude-opus-4-6"}
    return Agent.objects.create(**{**defaults, **fields})


def make_key(resource_id: str = "", *, name: str = "key", scopes: tuple[str, ...] = (), **fields: Any) -> str:
    """The text of a new API key, by default one with all scopes that it can have."""
    scopes = scopes or (ALL_SCOPES[:-1] if resource_id else ALL_SCOPES)
    return keys.make_key(caller(), name, scopes=scopes, resource_id=resource_id, **fields)[1]


def make_run(thread: Thread, **fields: Any) -> Run:
    """A run of the thread, succeeded unless `status` says otherwise."""
    defaults = {
        "id": f"run-{uuid.uuid4().hex[:12]}",
        "agent_name": "Agent",
        "resource_id": thread.resource_id,
        "provider": "anthropic",
        "model_id": "claude-opus-4-6",
        "status": "succeeded",
        "input": "[]",
    }
    if fields.get("status") not in ("queued", "running", "waiting"):
        defaults["finished_at"] = timezone.now()
    return Run.objects.create(thread=thread, **{**defaults, **fields})


def make_attempt(run: Run, **fields: Any) -> Attempt:
    now = timezone.now()
    defaults = {
        "number": run.attempts.count() + 1,
        "provider": run.provider,
        "protocol": "anthropic-messages",
        "model_id": run.model_id,
        "url": "http://127.0.0.1/v1/messages",
        "decision": "answered",
        "started_at": now,
        "finished_at": now,
    }
    return Attempt.objects.create(run=run, **{**defaults, **fields})


def of(thread: Thread, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages that name their thread, as a list of a run holds them."""
    return [{**message, "threadId": thread.id, "resourceId": thread.resource_id} for message in messages]
