"""Turns whose calls their callers make themselves: what is reported becomes what a call of ours would have."""

import json
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest
from django.utils import timezone

from memory.errors import Conflict, InvalidInput, NotFound
from memory.models import Attempt, Message, MessageVersion, Provider, Run, RunEvent, Thread
from memory.providers import sse
from memory.providers.eventstream import frames
from memory.sandbox import Sandbox
from memory.services import agents, reports, runs
from memory.services.runs import GenerateRequest
from tests.make import add_messages, caller, make_thread, message, text, tool_call
from tests.services.test_runs import REFERENCE, TOOLS

OK = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-4-5",
    "content": [{"type": "text", "text": "Four."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
CLAUDE_ON_BEDROCK = "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0"
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


@pytest.fixture
def agent_id(sandbox: Sandbox) -> str:
    return agents.create_agent(caller(), REFERENCE).id


def prepare(agent_id: str, **more: Any) -> runs.Prepared:
    values = {"messages": "Two and two?", "thread_id": "t", **more}
    return runs.prepare(caller(), agent_id, GenerateRequest(**values))


def connect(provider: str, protocol: str) -> None:
    """Have the sandbox play the provider."""
    Provider.objects.update_or_create(id=provider, defaults={"protocol": protocol, "base_url": f"sandbox:{provider}"})


def send(sandbox: Sandbox, request: Any) -> httpx.Response:
    """What a caller does with a prepared request: its own key, our bytes."""
    url = request.url.replace("http://sandbox.invalid", sandbox.url)
    own = dict.fromkeys(("x-api-key", "x-goog-api-key"), "my own")
    headers = {**request.headers, **own, "authorization": "Bearer my own"}
    return httpx.post(url, content=request.body, headers=headers, trust_env=False)


def attempts(run_id: str) -> list[tuple[int, str]]:
    return list(Attempt.objects.filter(run=run_id).order_by("number").values_list("number", "decision"))


class TestReply:
    def test_ends_the_turn_as_a_call_of_ours_does(self, agent_id: str, sandbox: Sandbox) -> None:
        made = prepare(agent_id)
        assert attempts(made.run_id) == [(1, "open")]
        came = send(sandbox, made.shown.request)
        report = reports.report_reply(caller(), made.run_id, reply=came.json(), headers=dict(came.headers))
        assert (report.status, report.retry, report.result and report.result.text) == (
            "succeeded",
            False,
            "You said: Two and two?",
        )
        ours = runs.generate(caller(), agent_id, GenerateRequest(messages="Two and two?", thread_id="ours"))
        ignored = ("threadId", "id", "createdAt")
        stored = [
            [json.loads(row.content), row.role, row.provider, row.protocol, row.is_open]
            for thread_id in ("t", "ours")
            for row in Message.objects.filter(thread_id=thread_id).order_by("seq")
        ]
        plain = json.loads(json.dumps(stored), object_hook=lambda d: {k: v for k, v in d.items() if k not in ignored})
        assert plain[:2] == plain[2:]
        mine, theirs = Attempt.objects.get(run=made.run_id), Attempt.objects.get(run=ours.run_id)
        for name in ("request_sha256", "decision", "status", "usage", "protocol", "changes"):
            assert getattr(mine, name) == getattr(theirs, name), name
        assert Run.objects.get(id=made.run_id).usage == Run.objects.get(id=ours.run_id).usage

    def test_may_come_as_the_text_of_a_stream(self, agent_id: str, sandbox: Sandbox) -> None:
        made = prepare(agent_id, stream=True)
        came = send(sandbox, made.shown.request)
        assert came.headers["content-type"].startswith("text/event-stream")
        report = reports.report_reply(caller(), made.run_id, stream=came.text)
        assert report.result is not None and report.result.text == "You said: Two and two?"

    @pytest.mark.parametrize(
        ("model", "protocol"),
        [
            ("anthropic/claude-sonnet-4-5", "anthropic-messages"),
            ("openai/gpt-4o", "openai-chat"),
            ("openai/gpt-5", "openai-responses"),
            ("gemini/gemini-2.5-pro", "gemini-contents"),
            ("cohere/command-a-03-2025", "cohere-v2"),
        ],
    )
    def test_may_come_as_the_events_of_a_stream(
        self, agent_id: str, sandbox: Sandbox, model: str, protocol: str
    ) -> None:
        connect(model.partition("/")[0], protocol)
        made = prepare(agent_id, stream=True, model=model)
        came = send(sandbox, made.shown.request)
        events = [json.loads(event.data) for event in sse.events([came.content]) if event.data != "[DONE]"]
        report = reports.report_reply(caller(), made.run_id, events=events)
        assert report.result is not None and report.result.text == "You said: Two and two?"
        assert report.result.usage["output_tokens"] > 0

    def test_may_come_as_the_events_of_a_binary_stream(self, agent_id: str, sandbox: Sandbox) -> None:
        connect("bedrock", "bedrock-converse")
        made = prepare(agent_id, stream=True, model=CLAUDE_ON_BEDROCK)
        came = send(sandbox, made.shown.request)
        events = [{frame.text(":event-type"): json.loads(frame.payload)} for frame in frames([came.content])]
        broken = reports.report_reply(caller(), made.run_id, events=[{"throttlingException": {"message": "slow down"}}])
        assert broken.retry and "slow down" in Attempt.objects.earliest("number").error_message
        report = reports.report_reply(caller(), made.run_id, events=events)
        assert report.result is not None and report.result.text == "You said: Two and two?"

    @pytest.mark.parametrize(
        "event",
        [{"type": "messageStop", "stopReason": "end_turn"}, {}, {"messageStop": "x"}, {"x" * 300: {}}, {"\ud83d": {}}],
    )
    def test_refuses_events_of_another_form_and_stays_open(self, agent_id: str, event: Any) -> None:
        connect("bedrock", "bedrock-converse")
        made = prepare(agent_id, stream=True, model=CLAUDE_ON_BEDROCK)
        with pytest.raises(InvalidInput):
            reports.report_reply(caller(), made.run_id, events=[event])
        assert attempts(made.run_id) == [(1, "open")]

    @pytest.mark.parametrize("event", [{"type": "\ud83d\ndata: x"}, {"type": "ping", "x": "\ud83d"}, {"type": 1}, {}])
    def test_takes_events_that_say_nothing_for_a_stream_that_broke_off(self, agent_id: str, event: Any) -> None:
        made = prepare(agent_id, stream=True)
        report = reports.report_reply(caller(), made.run_id, events=[event])
        assert report.retry
        assert Attempt.objects.earliest("number").decision == "retry"

    def test_may_come_as_messages(self, agent_id: str) -> None:
        made = prepare(agent_id)
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Four."}]}
        report = reports.report_reply(caller(), made.run_id, messages=[answer])
        assert report.result is not None and report.result.text == "Four."
        assert Message.objects.get(thread_id="t", role="assistant").provider == "anthropic"

    def test_that_broke_off_keeps_what_came_marked_incomplete(self, agent_id: str, sandbox: Sandbox) -> None:
        made = prepare(agent_id, stream=True)
        whole = send(sandbox, made.shown.request).text
        part = whole[: whole.index("event: content_block_stop")]
        report = reports.report_reply(caller(), made.run_id, stream=part)
        while report.retry:
            report = reports.report_reply(caller(), made.run_id, stream=part)
        assert (report.status, attempts(made.run_id)) == ("failed", [(1, "retry"), (2, "retry"), (3, "give-up")])
        row = Message.objects.get(thread_id="t", role="assistant")
        assert json.loads(row.content)["metadata"]["incomplete"] is True

    def test_with_tool_calls_waits_for_their_results_and_goes_on(self, agent_id: str, sandbox: Sandbox) -> None:
        made = prepare(agent_id, messages="please lookup", tools=TOOLS)
        report = reports.report_reply(caller(), made.run_id, reply=send(sandbox, made.shown.request).json())
        assert report.status == "waiting" and report.result is not None
        (call,) = report.result.tool_calls
        output = {"type": "text", "value": "found it"}
        result = {"type": "tool-result", "toolCallId": call["id"], "toolName": "lookup", "output": output}
        after = prepare(agent_id, messages=[{"role": "tool", "content": [result]}], tools=TOOLS)
        assert msgspec.json.decode(after.shown.request.body)["messages"][-1]["content"][0]["type"] == "tool_result"
        done = reports.report_reply(caller(), after.run_id, reply=send(sandbox, after.shown.request).json())
        assert done.status == "succeeded"
        assert [row.role for row in Message.objects.filter(thread_id="t").order_by("seq")] == ["user", "assistant"]
        assert set(Run.objects.values_list("status", flat=True)) == {"succeeded"}

    @pytest.mark.parametrize("given", [{}, {"reply": OK, "stream": "data: x"}])
    def test_is_one_thing(self, agent_id: str, given: Any) -> None:
        made = prepare(agent_id)
        with pytest.raises(InvalidInput):
            reports.report_reply(caller(), made.run_id, **given)
        assert attempts(made.run_id) == [(1, "open")]


class TestError:
    def test_says_when_to_call_again_and_with_what(self, agent_id: str) -> None:
        made = prepare(agent_id)
        report = reports.report_error(
            caller(), made.run_id, status=429, headers={"Retry-After": "7"}, body={"type": "error", "error": {}}
        )
        assert (report.retry, report.delay_ms, report.attempt, report.status) == (True, 7000, 2, "running")
        assert report.shown is not None and report.shown.request.body == made.shown.request.body
        assert attempts(made.run_id) == [(1, "retry"), (2, "open")]
        done = reports.report_reply(caller(), made.run_id, reply=OK, attempt=2)
        assert (done.status, Run.objects.get(id=made.run_id).attempt_count) == ("succeeded", 2)

    def test_that_a_rule_knows_gives_the_repaired_request(self, agent_id: str, sandbox: Sandbox) -> None:
        thread = make_thread("user-1")
        add_messages(
            thread,
            text("Where is the parcel?"),
            message(tool_call("call:1.a", "result", result="packed"), {"type": "text", "text": "Packed."}, id="bad"),
        )
        made = prepare(agent_id, messages="and now?", thread_id=thread.id)
        refused = send(sandbox, made.shown.request)
        assert refused.status_code == 400
        report = reports.report_error(caller(), made.run_id, status=400, body=refused.text)
        assert report.retry and report.shown is not None
        assert b"call_1_a" in report.shown.request.body
        assert MessageVersion.objects.filter(message__thread=thread).count() == 1
        came = send(sandbox, report.shown.request)
        assert reports.report_reply(caller(), made.run_id, reply=came.json()).status == "succeeded"

    def test_counts_like_an_error_of_ours(self, agent_id: str) -> None:
        made = prepare(agent_id)
        told = []
        for _ in range(3):
            report = reports.report_error(caller(), made.run_id, status=529, body=OVERLOADED)
            told.append(report.retry)
        assert told == [True, True, False]
        assert report.reason == "No processor asked for a retry."
        run = Run.objects.get(id=made.run_id)
        assert (run.status, run.error_class, run.attempt_count) == ("failed", "overloaded", 3)
        assert Message.objects.count() == 0
        assert Thread.objects.get(id="t").active_run == ""

    def test_may_be_that_no_answer_came(self, agent_id: str) -> None:
        made = prepare(agent_id)
        report = reports.report_error(caller(), made.run_id, body="ECONNRESET: socket hang up")
        assert (report.retry, report.status) == (False, "failed")
        (attempt,) = Attempt.objects.filter(run=made.run_id)
        assert (attempt.status, attempt.error_class) == (None, "connection")

    def test_falls_back_to_the_next_model(self, sandbox: Sandbox) -> None:
        values = {**REFERENCE, "id": "fallen", "fallback_models": ["openai/gpt-4o"], "error_processors": []}
        agent = agents.create_agent(caller(), values)
        made = prepare(agent.id)
        report = reports.report_error(caller(), made.run_id, status=529, body=OVERLOADED)
        assert report.retry and report.shown is not None
        assert (report.shown.provider, report.shown.model, report.delay_ms) == ("openai", "gpt-4o", 0)
        done = reports.report_reply(caller(), made.run_id, reply=send(sandbox, report.shown.request).json())
        assert done.status == "succeeded"
        assert Message.objects.get(thread_id="t", role="assistant").provider == "openai"


class TestFit:
    def test_of_a_report_to_no_open_attempt_is_refused(self, agent_id: str) -> None:
        made = prepare(agent_id)
        with pytest.raises(Conflict, match="attempt 2 is not open; attempt 1 is"):
            reports.report_reply(caller(), made.run_id, reply=OK, attempt=2)
        reports.report_reply(caller(), made.run_id, reply=OK)
        with pytest.raises(Conflict, match="no open attempt: it is succeeded") as raised:
            reports.report_error(caller(), made.run_id, status=500)
        assert (raised.value.code, raised.value.run_id) == ("no_open_attempt", made.run_id)
        assert Message.objects.filter(thread_id="t").count() == 2

    def test_of_a_run_whose_calls_are_made_here(self, agent_id: str) -> None:
        done = runs.generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t"))
        with pytest.raises(Conflict, match="made here"):
            reports.report_reply(caller(), done.run_id, reply=OK)

    def test_shows_no_other_resources_run(self, agent_id: str) -> None:
        made = prepare(agent_id)
        with pytest.raises(NotFound):
            reports.report_reply(caller("somebody-else"), made.run_id, reply=OK)
        assert attempts(made.run_id) == [(1, "open")]

    def test_a_call_that_nobody_reports_gives_its_thread_free(self, agent_id: str) -> None:
        made = prepare(agent_id)
        with pytest.raises(Conflict) as raised:
            prepare(agent_id)
        assert (raised.value.code, raised.value.run_id) == ("run_active", made.run_id)
        assert runs.close_expired_runs(now=timezone.now() + timedelta(days=1)) == 1
        assert (Run.objects.get(id=made.run_id).status, attempts(made.run_id)) == ("interrupted", [(1, "interrupted")])
        assert prepare(agent_id).run_id

    def test_a_cancelled_one_takes_no_report(self, agent_id: str) -> None:
        made = prepare(agent_id)
        assert runs.cancel_run(caller(), made.run_id).status == "cancelled"
        with pytest.raises(Conflict):
            reports.report_reply(caller(), made.run_id, reply=OK)
        with pytest.raises(Conflict):
            runs.cancel_run(caller(), made.run_id)
        assert RunEvent.objects.filter(run=made.run_id).order_by("-seq").values_list("type", flat=True)[0] == "finished"
