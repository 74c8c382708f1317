"""What a demo shows on its first day."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

from django.utils import timezone

from memory.access import operator
from memory.messages.names import PROVIDERS
from memory.models import Agent, Attempt, AuditEvent, Message, MessageVersion, Provider, Run, Thread
from memory.providers import ENTRIES
from memory.sandbox import Sandbox
from memory.services import threads
from memory.services.demo_data import (
    APPROVAL_THREAD,
    FAILED_THREAD,
    LONG_COUNT,
    LONG_THREAD,
    RATE_LIMITED_THREAD,
    REFERENCE_THREAD,
    load_demo_data,
    long_history,
)
from memory.services.preview import preview
from memory.store import DjangoStorage, check_messages
from tests.make import caller

TARGETS = (("anthropic", "claude-sonnet-4-5"), ("openai", "gpt-4o"), ("cerebras", "zai-glm-4.7"))


def parts_of(thread_id: str) -> list[dict[str, Any]]:
    messages = DjangoStorage().load_messages(thread_id, None, last=None)
    return [part for message in messages for part in message["content"]["parts"]]


class TestLoading:
    def test_shows_what_it_promises(self, sandbox: Sandbox) -> None:
        Provider.objects.all().delete()
        load_demo_data(sandbox.url)

        assert dict(Provider.objects.values_list("id", "base_url")) == {id_: f"sandbox:{id_}" for id_ in PROVIDERS}
        assert dict(Provider.objects.values_list("id", "protocol")) == {k: e.protocol for k, e in ENTRIES.items()}
        assert set(Agent.objects.values_list("id", flat=True)) == {
            "assistant",
            "support",
            "reference",
            "no-tools-context",
            "cerebras-fast",
        }
        assert Agent.objects.get(id="assistant").tools == []
        assert len(Agent.objects.get(id="support").tools) == 3

        assert Thread.objects.count() == 14
        assert Thread.objects.filter(title="").count() == 0
        assert "kitchen/mara" in Thread.objects.values_list("resource_id", flat=True)
        activity = sorted(Thread.objects.values_list("last_activity_at", flat=True))
        assert timedelta(days=12) < timezone.now() - activity[0] < timedelta(days=14)
        assert Thread.objects.get(id=LONG_THREAD).message_count == LONG_COUNT

        gemini = Thread.objects.get(id="import:demo.gemini-then-claude.1")
        makers = list(Message.objects.filter(thread=gemini, role="assistant").order_by("seq").values_list("provider"))
        assert makers == [("gemini",)] * 4 + [("anthropic",)] * 2
        ids = [p["toolInvocation"]["toolCallId"] for p in parts_of(gemini.id) if p["type"] == "tool-invocation"]
        assert ids == ["functions.search:0", "functions.tides:1", "toolu_01DemoTidesBlyth000001"]
        thinking = [p for p in parts_of("import:demo.claude-thinking.1") if p["type"] == "reasoning"]
        assert ["signature" in p["details"][0] for p in thinking] == [True, True, False]
        assert thinking[2]["details"][0]["type"] == "redacted"
        assert [p["type"] for p in parts_of("import:demo.claude-image.1")].count("file") == 1
        states = [p["toolInvocation"]["state"] for p in parts_of(APPROVAL_THREAD) if p["type"] == "tool-invocation"]
        assert states == ["result", "approval-requested"]
        assert Message.objects.get(is_open=True).thread_id == APPROVAL_THREAD

        runs = {run.thread_id: run for run in Run.objects.all()}
        assert {key: (run.status, run.attempt_count) for key, run in runs.items()} == {
            FAILED_THREAD: ("failed", 3),
            RATE_LIMITED_THREAD: ("succeeded", 2),
            REFERENCE_THREAD: ("succeeded", 2),
        }
        attempts = Attempt.objects.filter(run__thread=FAILED_THREAD).order_by("number")
        assert list(attempts.values_list("status", "decision", "delay_granted_ms")) == [
            (429, "retry", 2000.0),
            (529, "retry", 500.0),
            (400, "give-up", None),
        ]
        assert Thread.objects.get(id=FAILED_THREAD).message_count == 3
        assert Thread.objects.get(id=FAILED_THREAD).last_error.startswith("bad-request: prompt is too large")
        first = Attempt.objects.get(run__thread=REFERENCE_THREAD, number=1)
        assert (first.status, first.matched) == (400, "anthropic-tool-id-format")
        version = MessageVersion.objects.get()
        assert version.message.thread_id == REFERENCE_THREAD
        assert "call:1.a" in version.content
        assert version.message.rule == "anthropic-tool-id-format"
        assert sandbox.requests() == []

    def test_twice_changes_nothing_and_brings_nothing_back(self, sandbox: Sandbox) -> None:
        load_demo_data(sandbox.url)
        threads.delete_thread(caller(), Thread.objects.get(id=RATE_LIMITED_THREAD))

        def counts() -> list[int]:
            return [model.objects.count() for model in (Thread, Message, Run, Attempt, Agent, AuditEvent)]

        before = counts()
        load_demo_data(sandbox.url)
        assert counts() == before
        assert sandbox.requests() == []

    def test_goes_on_where_it_was_broken_off(self, sandbox: Sandbox) -> None:
        load_demo_data(sandbox.url)
        before = list(Message.objects.order_by("id").values("thread", "message_id", "content", "version"))
        AuditEvent.objects.filter(action="demo.loaded").delete()
        load_demo_data(sandbox.url)
        assert list(Message.objects.order_by("id").values("thread", "message_id", "content", "version")) == before
        assert (Run.objects.count(), Attempt.objects.count()) == (3, 7)

    def test_every_thread_previews_for_every_target(self, sandbox: Sandbox) -> None:
        load_demo_data(sandbox.url)
        rules: Counter[str] = Counter()
        for thread_id in Thread.objects.values_list("id", flat=True):
            for provider, model in TARGETS:
                shown = preview(operator("x"), thread_id=thread_id, provider=provider, model=model)
                rules.update({change.rule for change in shown.changes})
        assert {
            "anthropic-tool-id-charset",
            "anthropic-thinking-signature-missing",
            "anthropic-tool-result-missing",
            "openai-chat-tool-id-length",
            "cerebras-reasoning-content",
        } <= rules.keys()


class TestLongHistory:
    def test_holds_tools_reasoning_and_the_ids_of_many_makers(self) -> None:
        messages = long_history(LONG_COUNT)
        assert check_messages(messages) == []
        assert len({message["id"] for message in messages}) == LONG_COUNT
        parts = [part for message in messages for part in message["content"]["parts"]]
        kinds = Counter(part["type"] for part in parts)
        assert (kinds["tool-invocation"], kinds["reasoning"]) == (500, 480)
        ids = {part["toolInvocation"]["toolCallId"] for part in parts if part["type"] == "tool-invocation"}
        assert len(ids) == 500
        assert any(":" in call_id for call_id in ids)
        assert any(len(call_id) > 40 for call_id in ids)
