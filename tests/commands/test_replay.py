"""A run's bundle is whole, holds no key, and is played again; what was tampered with is named."""

import io
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import CommandError, call_command

from memory.errors import InvalidInput, NotFound, RunFailed
from memory.models import Agent, Attempt, Message, Provider, RuleSetting, Run, Thread
from memory.sandbox import Sandbox
from memory.services import agents, rules, runs, threads
from memory.services.bundles import bundle_of, read_bundle
from memory.services.reports import report_error, report_reply
from memory.services.retention import remove_expired
from memory.services.runs import GenerateRequest, generate
from tests.make import add_messages, caller, make_thread, message, streamed, text, tool_call
from tests.services.conftest import running_sandbox as running_sandbox
from tests.services.conftest import sandbox as sandbox
from tests.services.test_retention import after
from tests.services.test_tool_steps import TOOLS, script_calls

KEY = "sk-secret-0123456789abcdef"
BAD_ID = "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"


@pytest.fixture
def agent_id(sandbox: Sandbox) -> str:
    values: dict[str, Any] = {
        "id": "plain",
        "name": "Plain",
        "model": "anthropic/claude-sonnet-4-5",
        "instructions": "Be kind.",
        "settings": {"max_tokens": 90},
        "processors": ["message-history", "provider-history-compat", "stream-error-retry-processor"],
    }
    return agents.create_agent(caller(), values).id


def thread() -> Thread:
    made = make_thread("u-1", id="t-1")
    call = tool_call("call:1.a", "result", result={"n": 12345678901234567890123})
    add_messages(made, text("before"), message(call, {"type": "text", "text": "It is."}, id="foreign"))
    return made


def repaired_run(agent_id: str, sandbox: Sandbox) -> str:
    """A run that waits for an overloaded provider, then repairs an id that was refused, and is answered."""
    thread()
    rules.switch_rule(caller(), "anthropic-tool-id-charset", "off")
    sandbox.script("anthropic", status=529)
    made = generate(caller(), agent_id, GenerateRequest(messages="the question", thread_id="t-1"), wait=lambda _: False)
    assert made.attempt_count == 3
    return made.run_id


def played(tmp_path: Path, content: bytes) -> tuple[int, str]:
    """Exit code and output of the command."""
    file = tmp_path / "run.json"
    file.write_bytes(content)
    out = io.StringIO()
    try:
        call_command("replay", str(file), stdout=out)
    except SystemExit as error:
        return int(error.code or 0), out.getvalue()
    return 0, out.getvalue()


def changed(content: bytes, change: Any) -> bytes:
    """The bundle after `change(bundle)`."""
    found = msgspec.json.decode(content)
    change(found)
    return msgspec.json.encode(found)


class TestReplay:
    def test_of_a_retried_and_repaired_run_sends_the_same(
        self, agent_id: str, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        content = bundle_of(caller(), repaired_run(agent_id, sandbox))
        kinds = (Agent, Attempt, Message, Provider, RuleSetting, Run, Thread)
        before = [list(kind.objects.order_by("pk").values()) for kind in kinds]
        code, said = played(tmp_path, content)
        assert said.count("the same bytes") == 3
        assert code == 0
        assert [list(kind.objects.order_by("pk").values()) for kind in kinds] == before

    def test_needs_nothing_but_the_file(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        content = bundle_of(caller(), repaired_run(agent_id, sandbox))
        threads.delete_thread(caller(), Thread.objects.get())
        RuleSetting.objects.all().delete()
        Provider.objects.all().delete()
        Agent.objects.all().delete()
        assert played(tmp_path, content)[0] == 0

    def test_goes_by_agent_rules_and_thread_of_then(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        run_id = repaired_run(agent_id, sandbox)
        agents.update_agent(caller(), agent_id, {"instructions": "Be brief.", "model": "openai/gpt-4o"})
        rules.switch_rule(caller(), "anthropic-tool-id-charset", "on")
        add_messages(Thread.objects.get(), text("said later"))
        Message.objects.filter(message_id="foreign").update(content='{"format":2,"parts":[]}')
        found = read_bundle(bundle_of(caller(), run_id))
        assert [m.id for m in found.messages][-1] == "foreign"
        assert b"call:1.a" in bytes(found.messages[-1].content)
        assert played(tmp_path, msgspec.json.encode(found))[0] == 0

    def test_says_where_a_message_was_tampered_with(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        content = bundle_of(caller(), repaired_run(agent_id, sandbox))

        def tamper(bundle: Any) -> None:
            bundle["messages"][0]["content"]["parts"][0]["text"] = "after"

        code, said = played(tmp_path, changed(content, tamper))
        assert code == 1
        assert said.count("in messages[0]") == 3
        assert "before" in said
        assert "after" in said

    def test_says_where_a_request_was_tampered_with(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        content = bundle_of(caller(), repaired_run(agent_id, sandbox))

        def tamper(bundle: Any) -> None:
            body = bundle["attempts"][1]["request"]["body"]
            body["text"] = body["text"].replace("the question", "the answer")

        code, said = played(tmp_path, changed(content, tamper))
        assert code == 1
        first, second, third = said.splitlines()
        assert first.endswith("the same bytes")
        assert "differs at byte" in second
        assert "in messages[" in second
        assert third.endswith("the same bytes")

    def test_says_when_an_attempt_was_not_made(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        content = bundle_of(caller(), repaired_run(agent_id, sandbox))

        def tamper(bundle: Any) -> None:
            bundle["attempts"][0]["response"]["status"] = 401

        code, said = played(tmp_path, changed(content, tamper))
        assert (code, "attempt 2" in said, "it was not made" in said) == (1, True, True)

    def test_of_a_stream_that_broke_sends_the_same(
        self, agent_id: str, sandbox: Sandbox, tmp_path: Path, transactional_db: None
    ) -> None:
        thread()
        sandbox.script("anthropic", drop="mid")
        run = streamed(agent_id, messages="hello", thread_id="t-1")
        runs.wait_until_over(run.id)
        code, said = played(tmp_path, bundle_of(caller(), run.id))
        assert code == 0, said

    def test_of_a_run_whose_caller_made_the_calls(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        thread()
        made = runs.prepare(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        report_error(caller(), made.run_id, status=529, body={"error": {"type": "overloaded_error"}})
        said = {"content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn", "role": "assistant"}
        report_reply(caller(), made.run_id, reply=said)
        assert played(tmp_path, bundle_of(caller(), made.run_id))[1].count("the same bytes") == 2

    def test_of_a_run_that_brings_the_results_of_tools(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        thread()
        script_calls(sandbox, 2)
        agents.update_agent(caller(), agent_id, {"tools": TOOLS})
        made = generate(caller(), agent_id, GenerateRequest(messages="find it", thread_id="t-1"))
        played_runs = [made.run_id]
        while made.status == "waiting":
            result = {"type": "tool-result", "toolCallId": made.tool_calls[0]["id"], "toolName": "lookup"}
            brought = [{"role": "tool", "content": [{**result, "output": {"type": "text", "value": "found"}}]}]
            made = generate(caller(), agent_id, GenerateRequest(messages=brought, thread_id="t-1"))
            played_runs.append(made.run_id)
        assert len(played_runs) == 3
        for run_id in played_runs:
            code, said = played(tmp_path, bundle_of(caller(), run_id))
            assert code == 0, said

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"{", "no bundle of a run"),
            (b'{"format":"other"}', "no bundle of a run"),
            (b"\xff", "no bundle of a run"),
        ],
    )
    def test_refuses_what_is_no_bundle(self, db: None, tmp_path: Path, content: bytes, said: str) -> None:
        with pytest.raises(CommandError, match=said) as raised:
            played(tmp_path, content)
        assert raised.value.returncode == 2

    def test_refuses_a_later_version(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        content = changed(bundle_of(caller(), repaired_run(agent_id, sandbox)), lambda bundle: bundle.update(version=2))
        with pytest.raises(CommandError, match="has version 2"):
            played(tmp_path, content)

    def test_refuses_one_whose_bodies_are_gone(self, agent_id: str, sandbox: Sandbox, tmp_path: Path) -> None:
        run_id = repaired_run(agent_id, sandbox)
        remove_expired(now=after(8))
        content = bundle_of(caller(), run_id)
        assert "were removed on" in read_bundle(content).missing[0]
        with pytest.raises(CommandError, match="no bodies of attempt 1"):
            played(tmp_path, content)

    def test_says_when_there_is_no_such_file(self, db: None, tmp_path: Path) -> None:
        with pytest.raises(CommandError, match="can't be read"):
            call_command("replay", str(tmp_path / "absent.json"))


class TestBundle:
    def test_holds_no_key_and_no_owner(self, agent_id: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LEDGER_TEST_KEY", KEY)
        Provider.objects.filter(id="anthropic").update(
            base_url=f"{sandbox.url}/anthropic/v1", key_ref="env:LEDGER_TEST_KEY", headers={"x-team-secret": KEY}
        )
        make_thread("owner-of-it", id="t-1")
        sandbox.script("anthropic", status=400, body={"error": {"message": f"bad key {KEY}"}}, headers={"x-echo": KEY})
        with pytest.raises(RunFailed) as raised:
            generate(caller(), agent_id, GenerateRequest(messages=f"is {KEY} mine?", thread_id="t-1"))
        content = bundle_of(caller(), raised.value.run_id).decode()
        assert "is [key] mine?" in content
        assert KEY not in content
        assert "LEDGER_TEST_KEY" not in content

    def test_holds_no_key_of_a_provider_without_a_connection_of_its_own(
        self, agent_id: str, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        made = generate(caller(), agent_id, GenerateRequest(messages=f"is {KEY} mine?", thread_id="t-1"))
        assert KEY not in bundle_of(caller(), made.run_id).decode()

    def test_is_of_the_callers_own_runs(self, agent_id: str, sandbox: Sandbox) -> None:
        run_id = repaired_run(agent_id, sandbox)
        with pytest.raises(NotFound):
            bundle_of(caller("somebody-else"), run_id)

    def test_has_as_many_messages_as_were_recalled(self, agent_id: str, sandbox: Sandbox) -> None:
        lists = [{"id": "message-history", "options": {"lastMessages": 1}}]
        agents.update_agent(caller(), agent_id, {"input_processors": lists})
        thread()
        made = generate(caller(), agent_id, GenerateRequest(messages="hello", thread_id="t-1"))
        assert [m.id for m in read_bundle(bundle_of(caller(), made.run_id)).messages] == ["foreign"]

    def test_keeps_big_numbers(self, agent_id: str, sandbox: Sandbox) -> None:
        assert b"12345678901234567890123" in bundle_of(caller(), repaired_run(agent_id, sandbox))

    def test_says_what_is_wrong(self) -> None:
        with pytest.raises(InvalidInput, match="missing required field"):
            read_bundle(b'{"format":"compat-admin-run","version":1}')
