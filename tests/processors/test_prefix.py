"""Where the prompt cache begins anew, the change says so; what was so before says nothing."""

from __future__ import annotations

from typing import Any

from memory.messages.names import ModelRef
from memory.messages.prompt import Message, Output, Prompt, Text, ToolCall, ToolResult
from memory.processors import Switches
from memory.processors.changes import Change
from memory.processors.compat.passes import CATALOGUE
from memory.processors.compat.passes.call import Call
from memory.processors.compat.processor import run_steps
from memory.profiles import profile_for


def user(text: str, **more: Any) -> Message:
    return Message("user", (Text(text, **more),), id=text)


def said(text: str) -> Message:
    return Message("assistant", (Text(text),), id=text)


def changes_of(*messages: Message, model: str = "claude-sonnet-4-5", provider: str = "anthropic") -> list[Change]:
    profile = profile_for(ModelRef(provider, model))
    _, changes, *_ = run_steps(CATALOGUE, Prompt(messages), profile, Switches(), call=Call(model))
    return changes


def breaking(changes: list[Change]) -> list[str]:
    assert all(change.breaks_prefix == change.reason.endswith("begins anew from here.") for change in changes)
    return [change.rule for change in changes if change.breaks_prefix]


CALL = Message("assistant", (ToolCall("t1", "find", {}),), id="call")
LATE = Message("tool", (ToolResult("t1", "find", Output("text", "found")),), id="late")


def test_a_late_result_breaks_it_when_it_comes() -> None:
    grown = (user("a"), CALL, user("b"), said("c"), LATE)
    assert breaking(changes_of(*grown)) == ["anthropic-tool-result-missing"]
    assert breaking(changes_of(*grown, user("d"), said("e"), user("f"))) == []


def test_a_marker_too_many_breaks_it_when_it_comes() -> None:
    marked = [user(f"m{n}", options={"anthropic": {"cacheControl": {"type": "ephemeral"}}}) for n in range(6)]
    turns = [turn for one in marked for turn in (one, said(f"to {one.id}"))]
    assert changes_of(*turns[:7]) == []
    assert breaking(changes_of(*turns[:9])) == ["anthropic-cache-control-limit"]
    later = changes_of(*turns[:9], said("once more"), user("plain"))
    assert [change.rule for change in later] == ["anthropic-cache-control-limit"]
    assert breaking(later) == []


def test_a_word_that_only_this_request_holds_breaks_it() -> None:
    assert breaking(changes_of(user("a"), said("b"), model="claude-sonnet-4-6")) == ["anthropic-prefill-unsupported"]


def test_a_tool_that_was_not_called_before_breaks_it() -> None:
    first = (user("a"), CALL, LATE)
    second = (Message("assistant", (ToolCall("t2", "keep", {}),), id="second"),)
    result = Message("tool", (ToolResult("t2", "keep", Output("text", "kept")),), id="kept")
    model = {"model": "claude-3-5-haiku-20241022"}
    assert breaking(changes_of(*first, **model)) == []
    assert breaking(changes_of(*first, *second, result, **model)) == ["anthropic-tools-missing"]


def test_what_an_error_asked_for_breaks_it() -> None:
    call = Call("claude-sonnet-4-5", forced=("role-order",))
    profile = profile_for(ModelRef("anthropic", "claude-sonnet-4-5"))
    _, changes, *_ = run_steps(CATALOGUE, Prompt((user("a"), user("b"))), profile, Switches(), call=call)
    assert breaking(changes) == ["anthropic-role-alternation"]
