"""Turns against the sandbox: what is called, what is stored, what the ledger says."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.utils import timezone

from memory import queries
from memory.errors import Conflict, InvalidInput, NotFound, RunFailed, RunStopped
from memory.models import Attempt, Job, Message, MessageVersion, Run, RunEvent, Thread
from memory.sandbox import Sandbox
from memory.services import agents, leases, rules, runs
from memory.services.runs import GenerateRequest, generate
from tests.make import add_messages, caller, make_thread, message, text, tool_call

REFERENCE = {
    "id": "reference",
    "name": "Reference",
    "model": "anthropic/claude-sonnet-4-5",
    "input_processors": ["message-history", {"id": "provider-history-compat", "options": {"rules": "reference"}}],
    "output_processors": ["message-history"],
    "error_processors": [{"id": "stream-error-retry-processor", "options": {"max_retries": 2}}],
}
TOOLS = [
    {
        "name": "lookup",
        "description": "Finds things",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    }
]


class Waits(list[float]):
    """A wait that returns at once and remembers the seconds it was asked for."""

    def __call__(self, seconds: float) -> bool:
        self.append(seconds)
        return False


@pytest.fixture
def agent_id(sandbox: Sandbox) -> str:
    return agents.create_agent(caller(), REFERENCE).id


def foreign_thread() -> Thread:
    """A thread that another provider wrote: an id Claude refuses, and unsigned reasoning."""
    thread = make_thread("user-1")
    add_messages(
        thread,
        text("Where is the parcel?"),
        message(
            {"type": "reasoning", "reasoning": "look it up", "details": [{"type": "text", "text": "look it up"}]},
            tool_call("call:1.a", "result", result="packed"),
            {"type": "text", "text": "It is packed."},
            id="foreign",
            metadata={"provider": "moonshot", "modelId": "kimi-k2"},
        ),
    )
    return thread


def attempts(run_id: str) -> list[Attempt]:
    return list(Attempt.objects.filter(run_id=run_id).order_by("number"))


class TestTurn:
    def test_stores_question_and_stamped_answer(self, agent_id: str) -> None:
        result = generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1", resource_id="u-1"))
        assert (result.status, result.text, result.attempt_count) == ("succeeded", "You said: hello", 1)
        rows = list(Message.objects.filter(thread_id="t-1").order_by("seq"))
        assert [row.role for row in rows] == ["user", "assistant"]
        assert [row.message_id for row in rows] == list(result.message_ids)
        assert (rows[1].provider, rows[1].protocol, rows[1].model_id) == (
            "anthropic",
            "anthropic-messages",
            "claude-sonnet-4-5",
        )
        assert not any(row.is_open for row in rows)
        thread = Thread.objects.get(id="t-1")
        assert (thread.resource_id, thread.message_count, thread.last_provider) == ("u-1", 2, "anthropic")

    def test_records_the_exact_bytes_that_arrived(self, agent_id: str, sandbox: Sandbox) -> None:
        result = generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        (attempt,) = attempts(result.run_id)
        (arrived,) = sandbox.requests()
        assert (
            msgspec.json.decode(queries.attempt_bodies(attempt.run_id, attempt.number).sent.content) == arrived["body"]
        )
        assert attempt.request_size == arrived["size_bytes"]
        assert (attempt.decision, attempt.status) == ("answered", 200)
        assert "key" not in json.dumps(attempt.request_headers).lower()

    def test_recalls_the_thread_in_the_next_turn(self, agent_id: str, sandbox: Sandbox) -> None:
        for question in ("one", "two"):
            generate(caller(), agent_id, GenerateRequest(messages=question, thread_id="t-1"))
        body = sandbox.requests()[-1]["body"]
        assert [m["role"] for m in body["messages"]] == ["user", "assistant", "user"]

    def test_a_caller_bound_to_a_resource_sees_no_foreign_thread(self, agent_id: str, sandbox: Sandbox) -> None:
        thread = make_thread("user-1", messages=2)
        with pytest.raises(NotFound):
            generate(caller("user-2"), agent_id, GenerateRequest(messages="x", thread_id=thread.id))
        with pytest.raises(NotFound):
            generate(caller("user-2"), agent_id, GenerateRequest(messages="x", resource_id="user-1"))
        assert (sandbox.requests(), Run.objects.count()) == ([], 0)

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"messages": ""}, "messages"),
            ({"messages": []}, "messages"),
            ({"messages": [{"role": "user"}]}, "messages[0].content"),
            ({"messages": [{"role": "user", "content": {"parts": [{"type": "text", "text": 5}]}}]}, "messages[0]"),
            ({"messages": "x", "model": "claude"}, "model"),
            ({"messages": "x", "model": "acme/one"}, "provider"),
            ({"messages": "x", "settings": {"max_tokens": "many"}}, "settings"),
            ({"messages": "x", "tools": [{"description": "nameless"}]}, "tools[0]"),
            ({"messages": "x", "tool_choice": "perhaps"}, "tool_choice"),
            ({"messages": "x", "thread_id": "a/b"}, "thread_id"),
        ],
    )
    def test_refuses_what_does_not_fit_before_anything_is_written(
        self, agent_id: str, change: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(InvalidInput) as raised:
            generate(caller(), agent_id, GenerateRequest(**change))
        assert any(error.field.startswith(field) for error in raised.value.errors)
        assert (Run.objects.count(), Thread.objects.count()) == (0, 0)


class TestRepair:
    def test_refused_ids_are_repaired_once_and_for_all(self, agent_id: str) -> None:
        thread = foreign_thread()
        first = generate(caller(), agent_id, GenerateRequest(messages="and now?", thread_id=thread.id))
        refused, answered = attempts(first.run_id)
        assert (refused.status, refused.decision, refused.matched) == (400, "retry", "anthropic-tool-id-format")
        assert (answered.status, answered.decision) == (200, "answered")
        row = Message.objects.get(thread=thread, message_id="foreign")
        assert (row.version, row.rule, row.run_id) == (2, "anthropic-tool-id-format", first.run_id)
        assert "call_1_a" in row.content
        assert MessageVersion.objects.count() == 1
        second = generate(caller(), agent_id, GenerateRequest(messages="and now?", thread_id=thread.id))
        assert second.attempt_count == 1
        assert MessageVersion.objects.count() == 1

    def test_names_the_rule_behind_each_change(self, agent_id: str) -> None:
        thread = foreign_thread()
        run = generate(caller(), agent_id, GenerateRequest(messages="and now?", thread_id=thread.id))
        (change,) = json.loads(attempts(run.run_id)[0].changes)
        assert change["rule"] == "anthropic-thinking-signature-missing"
        assert change["family"] == "anthropic-strip-foreign-reasoning-content"
        assert (change["message_id"], change["stored"]) == ("foreign", "/messages/1/content/parts/0")
        assert change["before"] == "look it up"

    def test_without_the_rule_the_run_fails_and_says_why(self, agent_id: str) -> None:
        thread = foreign_thread()
        rules.switch_rule(caller(), "anthropic-tool-id-format", "off")
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages="and now?", thread_id=thread.id))
        (attempt,) = attempts(raised.value.run_id)
        assert (attempt.decision, attempt.reason) == ("give-up", "No processor asked for a retry.")
        run = Run.objects.get(id=raised.value.run_id)
        assert (run.status, "should match pattern" in run.error_message) == ("failed", True)
        assert Message.objects.filter(thread=thread).count() == 2
        assert "should match pattern" in Thread.objects.get(id=thread.id).last_error

    def test_the_catalogue_repairs_before_the_call_and_leaves_the_thread(self, sandbox: Sandbox) -> None:
        agent = agents.create_agent(caller(), {"name": "Default", "model": "anthropic/claude-sonnet-4-5"})
        thread = foreign_thread()
        result = generate(caller(), agent.id, GenerateRequest(messages="and now?", thread_id=thread.id))
        assert result.attempt_count == 1
        assert "call:1.a" in Message.objects.get(thread=thread, message_id="foreign").content
        assert MessageVersion.objects.count() == 0


class TestRetry:
    def test_waits_as_long_as_the_provider_asks(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=429, headers={"retry-after": "7"})
        waits = Waits()
        result = generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"), wait=waits)
        assert (result.attempt_count, waits) == (2, [7.0])
        refused, _ = attempts(result.run_id)
        assert (refused.decision, refused.asked_by) == ("retry", "stream-error-retry-processor")
        assert (refused.delay_wanted_ms, refused.delay_granted_ms) == (7000, 7000)
        assert refused.slept_ms is not None

    def test_records_a_wish_above_the_cap_as_wanted_and_granted(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=429, headers={"retry-after": "120"})
        waits = Waits()
        result = generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"), wait=waits)
        assert waits == [30.0]
        refused, _ = attempts(result.run_id)
        assert (refused.delay_wanted_ms, refused.delay_granted_ms) == (120_000, 30_000)

    def test_never_repeats_a_refused_key(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=401)
        waits = Waits()
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"), wait=waits)
        assert (raised.value.attempt_count, waits) == (1, [])
        assert Run.objects.get(id=raised.value.run_id).error_class == "authentication"

    def test_gives_up_after_its_budget_and_leaves_the_thread_as_it_was(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", times=5, status=529)
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"), wait=Waits())
        assert [a.decision for a in attempts(raised.value.run_id)] == ["retry", "retry", "give-up"]
        assert Message.objects.count() == 0
        assert json.loads(Run.objects.get(id=raised.value.run_id).input)[0]["role"] == "user"

    def test_a_failed_run_can_be_run_again(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=401)
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        again = runs.rerun(caller(), raised.value.run_id)
        assert again.text == "You said: hello"
        assert Thread.objects.get(id="t-1").last_error == ""

    def test_run_again_it_is_told_what_its_caller_told_it(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", status=401)
        given = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages=given, thread_id="t-1"))
        runs.rerun(caller(), raised.value.run_id)
        first, again = (seen["body"] for seen in sandbox.requests("anthropic"))
        assert again == first and "Be brief." in json.dumps(again["system"])

    def test_a_dropped_connection_is_on_record(self, agent_id: str, sandbox: Sandbox) -> None:
        sandbox.script("anthropic", drop="before")
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        (attempt,) = attempts(raised.value.run_id)
        assert (attempt.status, attempt.error_class, attempt.decision) == (None, "connection", "give-up")


class TestTools:
    def test_a_call_waits_and_its_result_goes_on_in_the_same_message(self, agent_id: str, sandbox: Sandbox) -> None:
        asked = generate(caller(), agent_id, GenerateRequest(messages="please lookup", thread_id="t-1", tools=TOOLS))
        assert (asked.status, asked.finish_reason) == ("waiting", "tool-calls")
        (call,) = asked.tool_calls
        assert (call["name"], set(call["arguments"])) == ("lookup", {"q"})
        assert Message.objects.get(thread_id="t-1", role="assistant").is_open
        output = {"type": "text", "value": "found it"}
        result = {"type": "tool-result", "toolCallId": call["id"], "toolName": "lookup", "output": output}
        done = generate(
            caller(),
            agent_id,
            GenerateRequest(messages=[{"role": "tool", "content": [result]}], thread_id="t-1", tools=TOOLS),
        )
        assert done.status == "succeeded"
        row = Message.objects.get(thread_id="t-1", role="assistant")
        kinds = [part["type"] for part in json.loads(row.content)["parts"]]
        assert kinds == ["tool-invocation", "step-start", "text"]
        assert (row.is_open, row.version, MessageVersion.objects.count()) == (False, 1, 0)
        body = sandbox.requests()[-1]["body"]
        assert body["messages"][-1]["content"][0]["type"] == "tool_result"

    def test_what_was_counted_for_the_run_goes_on_counting(self, agent_id: str, sandbox: Sandbox) -> None:
        asked = generate(caller(), agent_id, GenerateRequest(messages="please lookup", thread_id="t-1", tools=TOOLS))
        counted = {"provider-history-compat|some-rule": 1}
        state = json.loads(Run.objects.get(id=asked.run_id).state) | {"counts": counted}
        Run.objects.filter(id=asked.run_id).update(state=json.dumps(state))
        output = {"type": "text", "value": "found it"}
        call_id = asked.tool_calls[0]["id"]
        result = {"type": "tool-result", "toolCallId": call_id, "toolName": "lookup", "output": output}
        message = {"role": "tool", "content": [result]}
        done = generate(caller(), agent_id, GenerateRequest(messages=[message], thread_id="t-1", tools=TOOLS))
        assert json.loads(Run.objects.get(id=done.run_id).state)["counts"] == counted

    def test_declared_tools_reach_the_provider_though_past_calls_are_filtered(self, sandbox: Sandbox) -> None:
        agent = agents.create_agent(
            caller(),
            {
                "name": "Filtered",
                "model": "anthropic/claude-sonnet-4-5",
                "tools": TOOLS,
                "processors": ["message-history", "tool-call-filter", "provider-history-compat"],
            },
        )
        thread = foreign_thread()
        generate(caller(), agent.id, GenerateRequest(messages="and now?", thread_id=thread.id))
        body = sandbox.requests()[-1]["body"]
        assert [tool["name"] for tool in body["tools"]] == ["lookup"]
        assert "tool_use" not in json.dumps(body["messages"])
        assert "call:1.a" in Message.objects.get(thread=thread, message_id="foreign").content


class TestBackground:
    def test_a_job_answers_a_queued_run_once(self, agent_id: str, sandbox: Sandbox) -> None:
        run = runs.start_background(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        assert Run.objects.get(id=run.id).status == "queued"
        job = Job.objects.get()
        runs.run_job(job.id)
        runs.run_job(job.id)
        assert Run.objects.get(id=run.id).status == "succeeded"
        assert (Job.objects.get().status, len(sandbox.requests())) == ("done", 1)

    def test_a_job_says_why_its_run_failed(self, agent_id: str, sandbox: Sandbox) -> None:
        runs.start_background(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        sandbox.script("anthropic", status=401)
        runs.run_job(Job.objects.get().id)
        job = Job.objects.get()
        assert (job.status, bool(job.error)) == ("failed", True)


class TestLeases:
    def open_run(self, agent_id: str, **fields: Any) -> Run:
        """A run as a process that was killed leaves it."""
        from memory.models import Agent

        thread = make_thread("user-1", messages=2)
        question = {"id": "q", **text("hello", id="q"), "createdAt": "2026-03-01T10:00:00.000Z"}
        defaults = {
            "id": "run-1",
            "agent": Agent.objects.get(id=agent_id),
            "agent_name": "Reference",
            "resource_id": "user-1",
            "provider": "anthropic",
            "model_id": "claude-sonnet-4-5",
            "status": "running",
            "owner": "gone:1",
            "lease_until": timezone.now() - timedelta(seconds=1),
            "input": json.dumps([{**question, "threadId": thread.id, "resourceId": "user-1"}]),
        }
        return Run.objects.create(thread=thread, **{**defaults, **fields})

    def test_an_expired_run_keeps_an_answer_that_was_whole(self, agent_id: str) -> None:
        run = self.open_run(agent_id)
        answer = message({"type": "text", "text": "whole"}, id="a", createdAt="2026-03-01T10:00:01.000Z")
        RunEvent.objects.create(run=run, seq=1, type="message", data=json.dumps({"message": answer}))
        assert runs.close_expired_runs() == 1
        run.refresh_from_db()
        assert (run.status, run.error_class, run.finished_at is not None) == ("interrupted", "interrupted", True)
        rows = list(Message.objects.filter(thread=run.thread).order_by("seq"))
        assert [row.message_id for row in rows[-2:]] == ["q", "a"]
        assert "incomplete" not in rows[-1].content
        assert run.message_ids == ["q", "a"]

    def test_an_expired_run_without_output_leaves_the_thread_as_it_was(self, agent_id: str) -> None:
        run = self.open_run(agent_id)
        assert runs.close_expired_runs() == 1
        assert Message.objects.filter(thread=run.thread).count() == 2

    def test_an_answer_that_was_saved_already_is_not_written_again(self, agent_id: str) -> None:
        run = self.open_run(agent_id)
        answer = message({"type": "text", "text": "whole"}, id="a", createdAt="2026-03-01T10:00:01.000Z")
        add_messages(run.thread, answer)
        RunEvent.objects.create(run=run, seq=1, type="message", data=json.dumps({"message": answer}))
        runs.close_expired_runs()
        assert "incomplete" not in Message.objects.get(thread=run.thread, message_id="a").content
        assert MessageVersion.objects.count() == 0

    def test_one_whose_events_can_not_be_read_is_closed_and_holds_nobody_up(self, agent_id: str) -> None:
        broken = self.open_run(agent_id)
        RunEvent.objects.create(run=broken, seq=1, type="message", data="[1")
        other = self.open_run(agent_id, id="run-2")
        assert runs.close_expired_runs() == 2
        assert set(Run.objects.values_list("status", flat=True)) == {"interrupted"}
        assert RunEvent.objects.filter(run=broken, data="[1").exists()
        assert other.thread_id != broken.thread_id

    def test_one_that_can_not_be_taken_over_holds_nobody_up(
        self, agent_id: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def close(run: Run) -> None:
            if run.id == "run-1":
                raise RuntimeError("of no kind that anybody thought of")
            run.status = "seen"
            run.save()

        monkeypatch.setattr(leases, "_close_interrupted", close)
        self.open_run(agent_id)
        self.open_run(agent_id, id="run-2")
        assert runs.close_expired_runs() == 2
        assert dict(Run.objects.values_list("id", "status")) == {"run-1": "running", "run-2": "seen"}

    def test_a_run_with_a_live_lease_is_left_alone(self, agent_id: str) -> None:
        run = self.open_run(agent_id, lease_until=timezone.now() + timedelta(seconds=30))
        assert runs.close_expired_runs() == 0
        run.refresh_from_db()
        assert (run.status, run.owner) == ("running", "gone:1")


class Killjoy:
    """A processor of one's own that ends every run."""

    id = "killjoy"
    name = "Killjoy"

    def process_input(self, args: Any) -> None:
        args.abort("not today")


class Clumsy:
    """A processor of one's own that fails."""

    id = "clumsy"
    name = "Clumsy"

    def process_input(self, args: Any) -> None:
        raise ValueError("stumbled")


class Switcher:
    """Sends each step elsewhere, with other settings."""

    id = "switcher"
    name = "Switcher"

    def process_input_step(self, args: Any) -> dict[str, Any]:
        return {
            "model": "openai/gpt-4o",
            "modelSettings": {"temperature": 0.5},
            "activeTools": ["lookup"],
            "providerOptions": {"openai": {"user": "u-1"}, "anthropic": {"top_k": 3}},
        }


class TestOwnProcessors:
    @pytest.fixture(autouse=True)
    def registered(self, settings: Any) -> None:
        settings.COMPAT_ADMIN_PROCESSORS = [f"{__name__}.{name}" for name in ("Killjoy", "Clumsy", "Switcher")]

    def test_a_tripwire_stops_the_run_with_its_reason(self, sandbox: Sandbox) -> None:
        values = {**REFERENCE, "id": "stopped", "input_processors": ["killjoy"]}
        agent = agents.create_agent(caller(), values)
        with pytest.raises(RunStopped, match="not today") as raised:
            generate(caller(), agent.id, GenerateRequest(messages="hello", thread_id="t-1"))
        run = Run.objects.get(id=raised.value.run_id)
        assert (run.status, run.error_message) == ("stopped", "killjoy: not today")
        assert sandbox.requests() == []

    def test_one_that_raises_is_noted_on_the_run_and_skipped(self, sandbox: Sandbox) -> None:
        values = {**REFERENCE, "id": "clumsy-agent", "input_processors": ["clumsy", "message-history"]}
        agent = agents.create_agent(caller(), values)
        result = generate(caller(), agent.id, GenerateRequest(messages="hello", thread_id="t-1"))
        event = RunEvent.objects.get(run_id=result.run_id, type="processor-failed")
        assert json.loads(event.data)["message"] == "ValueError: stumbled"

    def test_one_may_change_model_and_settings_of_a_step(self, sandbox: Sandbox) -> None:
        values = {**REFERENCE, "id": "switched", "input_processors": ["switcher"]}
        agent = agents.create_agent(caller(), values)
        tools = [*TOOLS, {"name": "other", "parameters": {"type": "object"}}]
        request = GenerateRequest(messages="hello", thread_id="t-1", tools=tools)
        prepared = runs.prepare(caller(), agent.id, request)
        runs.cancel_run(caller(), prepared.run_id)
        shown = prepared.shown
        result = generate(caller(), agent.id, request)
        (sent,) = sandbox.requests()
        assert sent["path"] == "/openai/v1/chat/completions"
        body = sent["body"]
        assert (body["model"], body["temperature"], body["user"], "top_k" in body) == ("gpt-4o", 0.5, "u-1", False)
        assert [tool["function"]["name"] for tool in body["tools"]] == ["lookup"]
        assert msgspec.json.decode(shown.request.body) == body
        row = Message.objects.get(thread_id="t-1", message_id=result.message_ids[-1])
        assert json.loads(row.content)["metadata"]["provider"] == "openai"


class TestRerun:
    def test_a_run_that_goes_on_is_not_run_again(self, agent_id: str) -> None:
        run = TestLeases().open_run(agent_id)
        with pytest.raises(Conflict):
            runs.rerun(caller(), run.id)


class TestPrepare:
    def test_gives_the_request_a_run_would_send_and_calls_nobody(self, agent_id: str, sandbox: Sandbox) -> None:
        thread = foreign_thread()
        request = GenerateRequest(messages="and now?", thread_id=thread.id)
        prepared = runs.prepare(caller(), agent_id, request)
        assert sandbox.requests() == []
        run = Run.objects.get(id=prepared.run_id)
        assert (run.status, json.loads(run.input)[0]["role"]) == ("running", "user")
        assert [change.rule for change in prepared.shown.changes] == ["anthropic-thinking-signature-missing"]
        runs.cancel_run(caller(), prepared.run_id)
        rules.switch_rule(caller(), "anthropic-tool-id-format", "off")
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, request)
        sent = queries.attempt_bodies(raised.value.run_id, 1).sent.content
        assert sent == prepared.shown.request.body

    def test_leaves_the_thread_as_it_was(self, agent_id: str) -> None:
        thread = foreign_thread()
        runs.prepare(caller(), agent_id, GenerateRequest(messages="and now?", thread_id=thread.id))
        assert Message.objects.filter(thread=thread).count() == 2
        assert runs.close_expired_runs() == 0
