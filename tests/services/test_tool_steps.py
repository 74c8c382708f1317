"""Tool steps: what a run keeps between requests makes them the same as one run in one process."""

from typing import Any

import pytest

from memory.models import Message, MessageVersion, Run
from memory.processors import Chain, MessageHistory, MessageList, ToolCallFilter, run_turn
from memory.sandbox import Sandbox
from memory.services import agents
from memory.services.calls import ProviderModel, settings_for
from memory.services.connections import connection_for, http_client, target_model
from memory.services.runs import GenerateRequest, generate
from memory.store import DjangoStorage
from tests.make import add_messages, caller, make_thread, message, text, tool_call

TOOLS = [{"name": "lookup", "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}]
MODEL = "anthropic/claude-sonnet-4-5"


def script_calls(sandbox: Sandbox, count: int) -> None:
    """The next replies are `count` tool calls, then a text."""
    for number in range(1, count + 1):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "lookup", "input": {"q": f"question {number}"}}
        sandbox.script("anthropic", status=200, body=reply([block], "tool_use"))
    sandbox.script("anthropic", status=200, body=reply([{"type": "text", "text": "All found."}], "end_turn"))


def reply(content: list[dict[str, Any]], stop_reason: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def history(owner: str) -> str:
    """A thread with a tool call of an earlier turn."""
    thread = make_thread(owner)
    add_messages(
        thread,
        text("before?", id="q0"),
        message(tool_call("old", "result", result="old result"), {"type": "text", "text": "so."}, id="a0"),
    )
    return thread.id


def sent_messages(sandbox: Sandbox) -> list[Any]:
    return [request["body"]["messages"] for request in sandbox.requests("anthropic")]


@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_same_prompts_are_sent_over_requests_as_in_one_process(sandbox: Sandbox, keep: int) -> None:
    thread_id = history("alone")
    listed = MessageList(thread_id=thread_id, resource_id="alone")
    listed.add("find it", "input")
    storage = DjangoStorage()
    chain = Chain(
        input=[MessageHistory(storage=storage), ToolCallFilter(filter_after_tool_steps=keep)],
        output=[MessageHistory(storage=storage)],
    )
    ref = target_model(MODEL)
    model = ProviderModel(
        connection_for("anthropic", with_key=True), ref, settings_for(ref, tools=TOOLS), http_client()
    )
    script_calls(sandbox, 4)
    turn = run_turn(chain, listed, model, wait=lambda _: False, execute_tool=lambda call: f"for {call.id}", max_steps=9)
    assert turn.text == "All found."
    alone = sent_messages(sandbox)
    assert len(alone) == 5

    sandbox.clear()
    agent = agents.create_agent(
        caller(),
        {
            "name": "Stepwise",
            "model": MODEL,
            "tools": TOOLS,
            "input_processors": [
                "message-history",
                {"id": "tool-call-filter", "options": {"filterAfterToolSteps": keep}},
            ],
            "output_processors": ["message-history"],
        },
    )
    thread_id = history("stepwise")
    script_calls(sandbox, 4)
    result = generate(caller(), agent.id, GenerateRequest(messages="find it", thread_id=thread_id))
    while result.status == "waiting":
        (call,) = result.tool_calls
        output = {"type": "text", "value": f"for {call['id']}"}
        answer = {"type": "tool-result", "toolCallId": call["id"], "toolName": "lookup", "output": output}
        request = GenerateRequest(messages=[{"role": "tool", "content": [answer]}], thread_id=thread_id)
        result = generate(caller(), agent.id, request)
    assert result.text == "All found."
    assert sent_messages(sandbox) == alone


def test_a_stepwise_turn_leaves_one_row_and_no_version(sandbox: Sandbox) -> None:
    agent = agents.create_agent(caller(), {"name": "Stepwise", "model": MODEL, "tools": TOOLS})
    script_calls(sandbox, 2)
    result = generate(caller(), agent.id, GenerateRequest(messages="find it", thread_id="t"))
    while result.status == "waiting":
        output = {"type": "text", "value": "found"}
        answer = {"type": "tool-result", "toolCallId": result.tool_calls[0]["id"], "toolName": "", "output": output}
        request = GenerateRequest(messages=[{"role": "tool", "content": [answer]}], thread_id="t")
        result = generate(caller(), agent.id, request)
    assert [row.role for row in Message.objects.order_by("seq")] == ["user", "assistant"]
    assert MessageVersion.objects.count() == 0
    assert set(Run.objects.values_list("status", flat=True)) == {"succeeded"}
