"""How often rules act, counted as runs are recorded, and what a switch would have meant for the last days."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from memory.models import RuleDay, RuleUse, Run, Thread
from memory.processors.changes import Finding, Placed, Severity
from memory.sandbox import Sandbox
from memory.services import agents, rule_use, rules, runs, threads
from memory.services.rule_use import Effect, Touched
from tests.make import add_messages, caller, make_agent, make_run, make_thread, message, text, tool_call

RULE = "anthropic-tool-id-charset"


def change(rule: str = RULE, severity: Severity = "breaks") -> Placed:
    return Placed(1, rule, "", severity, None, None, (), "m", "a", "b", "reason", "same")


def finding(rule: str = RULE) -> Finding:
    return Finding(rule, "m", "breaks", "reason", "rename it")


def act(run: Run, *changes: Placed, findings: tuple[Finding, ...] = (), days_ago: float = 0, asked: str = "") -> None:
    at = timezone.now() - timedelta(days=days_ago)
    with transaction.atomic():
        rule_use.record(run, run.provider, "anthropic-messages", changes, findings, at, asked=asked)


@pytest.mark.django_db
class TestRecord:
    def test_notes_when_a_rule_last_acted_in_a_thread(self) -> None:
        thread = make_thread()
        first, second = make_run(thread), make_run(thread)

        act(first, change(), change(severity="degrades"), change("anthropic-empty-text", "degrades"), days_ago=2)
        act(second, change(severity="degrades"), findings=(finding("any-blank-text"),))

        used = {use.rule: use for use in RuleUse.objects.all()}
        assert set(used) == {RULE, "anthropic-empty-text", "any-blank-text"}
        # One row a thread; what was mended before stays known though the last change mended nothing.
        charset = used[RULE]
        assert (charset.run_id, charset.changes, charset.thread_id) == (second.id, 1, thread.id)
        assert charset.mended_at is not None and charset.changed_at is not None
        assert charset.mended_at < charset.changed_at
        assert used["anthropic-empty-text"].mended_at is None
        assert (used["any-blank-text"].changed_at, used["any-blank-text"].findings) == (None, 1)

    def test_keeps_targets_and_agents_of_a_thread_apart(self) -> None:
        thread, agent = make_thread(), make_agent()
        for fields in ({}, {"provider": "bedrock"}, {"agent": agent}, {"agent": agent}):
            act(make_run(thread, **fields), change())

        assert RuleUse.objects.count() == 3

    def test_counts_days_for_each_target(self) -> None:
        thread = make_thread()
        act(make_run(thread), change(), days_ago=1)
        act(make_run(thread), change(), change())
        act(make_run(thread, provider="bedrock"), change())

        assert rule_use.fired()[RULE].requests == 3
        assert rule_use.fired_by_target() == {
            (RULE, "anthropic", "anthropic-messages"): 2,
            (RULE, "bedrock", "anthropic-messages"): 1,
        }
        assert [count for _, count in rule_use.by_day(RULE, 3)] == [0, 1, 2]

    def test_a_day_is_one_of_utc(self) -> None:
        at = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
        with transaction.atomic():
            rule_use.record(make_run(make_thread()), "anthropic", "p", [change()], [], at)

        assert RuleDay.objects.get().day == at.date()

    def test_old_days_count_no_more_but_the_last_time_is_known(self) -> None:
        act(make_run(make_thread()), change(), days_ago=20)
        assert rule_use.fired()[RULE].requests == 0
        assert rule_use.fired()[RULE].last_at is not None

        act(make_run(make_thread()), change("any-blank-text"), days_ago=40)
        assert "any-blank-text" not in rule_use.fired()

    def test_windows_count_threads_requests_and_changes(self) -> None:
        thread = make_thread()
        act(make_run(thread), change(), days_ago=9)
        act(make_run(make_thread()), change(), change(), days_ago=3)
        for _ in range(2):
            act(make_run(thread), change(), findings=(finding(),))

        found = rule_use.windows(RULE, (1, 7, 30))

        assert [(w.threads, w.requests, w.changes, w.findings) for w in found] == [
            (1, 2, 2, 2),
            (2, 3, 4, 2),
            (2, 4, 5, 2),
        ]

    def test_a_repair_of_the_thread_counts_though_it_changes_no_request(self) -> None:
        act(make_run(make_thread()), asked="anthropic-tool-id-format")
        act(make_run(make_thread()), asked="retryable")
        # What acts on the next request is counted there.
        act(make_run(make_thread()), asked="vllm-system-first")

        assert [use.rule for use in RuleUse.objects.all()] == ["anthropic-tool-id-format"]

    def test_goes_with_its_thread_and_the_counts_of_days_stay(self) -> None:
        thread = make_thread()
        act(make_run(thread), change())

        threads.delete_thread(caller(), thread)

        assert not RuleUse.objects.exists()
        assert rule_use.fired()[RULE].requests == 1


@pytest.mark.django_db
class TestEffect:
    def test_tells_threads_that_would_break_from_those_that_would_only_be_sent_differently(self) -> None:
        broken, fine, _ = make_thread(), make_thread(), make_thread()
        for _ in range(2):
            act(make_run(broken), change(), change())
        act(make_run(fine), change(severity="degrades"))

        found = rule_use.effect(RULE, "global", "")

        assert found == Effect(days=7, seen=3, changed=2, broken=1, reported=0)
        assert (found.fine, found.untouched) == (1, 1)
        assert [use.thread_id for use in rule_use.newly_broken(RULE, "global", "", limit=5)] == [broken.id]

    def test_looks_at_the_last_days_only(self) -> None:
        act(make_run(make_thread()), change(), days_ago=8)

        assert rule_use.effect(RULE, "global", "").changed == 0

    def test_counts_what_a_rule_only_reported_apart(self) -> None:
        act(make_run(make_thread()), findings=(finding(),))

        found = rule_use.effect(RULE, "global", "")
        assert (found.changed, found.reported) == (0, 1)

    def test_of_a_scope_counts_its_runs(self) -> None:
        agent = make_agent()
        act(make_run(make_thread(), agent=agent), change())
        act(make_run(make_thread(), provider="bedrock"), change())
        make_thread(last_provider="bedrock")
        make_thread(last_provider="bedrock")

        assert rule_use.effect(RULE, "agent", agent.id) == Effect(days=7, seen=1, changed=1, broken=1, reported=0)
        assert rule_use.effect(RULE, "provider", "bedrock") == Effect(days=7, seen=2, changed=1, broken=1, reported=0)
        assert rule_use.touched(RULE) == {
            ("global", ""): Touched(2, 2, 0),
            ("provider", "anthropic"): Touched(1, 1, 0),
            ("provider", "bedrock"): Touched(1, 1, 0),
            ("agent", agent.id): Touched(1, 1, 0),
        }

    def test_leaves_out_what_a_narrower_switch_decides(self) -> None:
        agent = make_agent()
        act(make_run(make_thread(), agent=agent), change())
        act(make_run(make_thread(), provider="bedrock"), change())
        rules.switch_rule(caller(), RULE, "on", agent_id=agent.id)
        rules.switch_rule(caller(), RULE, "on", provider="bedrock")

        assert rule_use.effect(RULE, "global", "").changed == 0
        assert rule_use.effect(RULE, "provider", "anthropic").changed == 0
        assert rule_use.effect(RULE, "agent", agent.id).changed == 1
        assert ("global", "") not in rule_use.touched(RULE)


class TestRun:
    def test_counts_what_it_recorded(self, sandbox: Sandbox) -> None:
        agent = agents.create_agent(caller(), {"id": "bot", "name": "Bot", "model": "anthropic/claude-sonnet-4-5"})
        thread = make_thread("user-1")
        call = tool_call("call:1.a", "result", result="packed")
        add_messages(thread, text("Where is it?"), message(call, metadata={"provider": "moonshot", "modelId": "k2"}))
        request = runs.GenerateRequest(messages="And now?", thread_id=thread.id)

        result = runs.generate(caller(), agent.id, request)

        use = RuleUse.objects.get(run_id=result.run_id, rule=RULE)
        assert use.changes == 1
        assert use.mended_at == use.changed_at
        assert (use.thread_id, use.agent_id, use.provider) == (thread.id, "bot", "anthropic")
        assert rule_use.fired_by_target()[RULE, "anthropic", "anthropic-messages"] == 1

    def test_counts_a_repair_after_the_error(self, sandbox: Sandbox) -> None:
        rules_of = {"id": "provider-history-compat", "options": {"rules": "reference"}}
        values: dict[str, Any] = {"id": "bot", "name": "Bot", "model": "anthropic/claude-sonnet-4-5"}
        lists = {"input_processors": ["message-history", rules_of], "output_processors": [], "error_processors": []}
        agents.create_agent(caller(), values | lists)
        thread: Thread = make_thread("user-1")
        add_messages(thread, text("Where is it?"), message(tool_call("call:1.a", "result", result="packed")))

        result = runs.generate(caller(), "bot", runs.GenerateRequest(messages="And?", thread_id=thread.id))

        assert result.status == "succeeded"
        assert RuleUse.objects.get(run_id=result.run_id, rule="anthropic-tool-id-format").mended_at is not None
