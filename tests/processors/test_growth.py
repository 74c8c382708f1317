"""Twice the thread is twice the work: lines of Python that run are counted, no time is taken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from memory.messages.names import ModelRef
from memory.messages.prompt import File, Message, Output, Prompt, Text, ToolCall, ToolResult
from memory.processors import Switches
from memory.processors.compat.passes import CATALOGUE, overflow
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.processors.compat.repairs import rename_bad_tool_ids
from memory.profiles import profile_for

CLAUDE = ("anthropic", "anthropic-messages", "claude-sonnet-4-5")
CHAT = ("openai", "openai-chat", "gpt-4o")
NOVA = ("bedrock", "bedrock-converse", "amazon.nova-pro-v1:0")
GLM = ("zhipu", "openai-chat", "glm-4.7")


def call(number: int, call_id: str, *, pending: bool = False) -> Message:
    part = ToolCall(call_id, "f", {"n": number}, pending=pending)
    return Message("assistant", (part,), id=f"m{number}")


def result(number: int, call_id: str) -> Message:
    return Message("tool", (ToolResult(call_id, "f", Output("text", "b")),), id=f"m{number}")


def same_id(number: int) -> Message:
    return result(number, "f:0") if number % 2 else call(number, "f:0")


SHAPES: dict[str, tuple[tuple[str, str, str], Callable[[int], Message]]] = {
    "ids that come to one": (CLAUDE, lambda n: call(n, chr(0x4E00 + n))),
    "one id again": (GLM, same_id),
    "calls without results": (CHAT, lambda n: call(n, f"a{n}", pending=True)),
    "results without calls": (CHAT, lambda n: result(n, f"a{n}")),
    "documents of one name": (NOVA, lambda n: Message("user", (File("application/pdf", "JVBERi0x", "a.pdf"),))),
    "one role": (NOVA, lambda n: Message("user", (Text(f"And {n}"),), id=f"m{n}")),
}


def lines_run(work: Callable[[], Any]) -> int:
    count = 0

    def see(_frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return see

    before = sys.gettrace()
    sys.settrace(see)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def passes(prompt: Prompt, target: tuple[str, str, str], *forced: str) -> Callable[[], Any]:
    provider, protocol, model_id = target
    call = Call(model_id, {}, frozenset(), forced)
    profile = profile_for(ModelRef(provider, model_id), protocol)
    return lambda: run_steps(CATALOGUE, prompt, profile, Switches(), call=call)


def grows(make: Callable[[int], Callable[[], Any]]) -> float:
    make(20)()  # what is made once only
    few, many = lines_run(make(150)), lines_run(make(300))
    return many / few


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("forced", [(), (overflow.FAULT,)])
def test_passes_are_linear(shape: str, forced: tuple[str, ...]) -> None:
    target, make = SHAPES[shape]

    assert passes(Prompt(tuple(map(make, range(9)))), target)()[1], "nothing is to be changed"
    assert grows(lambda count: passes(Prompt(tuple(map(make, range(count)))), target, *forced)) < 2.3


def test_a_lasting_repair_is_linear() -> None:
    def work(count: int) -> Callable[[], Any]:
        parts = [{"type": "tool-invocation", "toolInvocation": {"toolCallId": chr(0x4E00 + n)}} for n in range(count)]
        content = {"format": 2, "parts": parts}
        return lambda: rename_bad_tool_ids([{"id": "m", "role": "assistant", "content": content}])

    assert grows(work) < 2.3
