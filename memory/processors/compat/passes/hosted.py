"""Tools that another provider ran itself: the target knows neither the call nor the form of its result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memory.messages.halves import write_mended
from memory.messages.prompt import Message, Part, Prompt, Text, ToolCall, ToolResult
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.facts import Facts, tail_of
from memory.profiles.profile import Profile

_READABLE = ("text", "title", "url", "content", "value", "stdout", "stderr", "error_code", "output")
_LONGEST = 4000


def has_hosted(_: Profile, facts: Facts) -> bool:
    return facts.has_hosted_call


def tell_foreign_calls(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A foreign provider-run call and its result become one text: tool, input, what can be read of the result."""
    answers = prompt.answers()
    foreign = {
        id(part): part
        for message in prompt.messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, ToolCall)
        and part.provider_executed
        and not _is_own(message, part, answers.get(id(part)), profile)
    }
    if not foreign:
        return prompt, []
    results = {call: result for call, result in answers.items() if call in foreign}
    told = {id(result) for result in results.values()}
    fresh = {id(part) for message in prompt.messages[tail_of(prompt) :] for part in (message, *message.parts)}
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part | None:
        if isinstance(part, ToolCall) and id(part) in foreign:
            text = _told(part, results.get(id(part)))
            reason = "Another provider ran this tool itself. What can be read of it is sent as text."
            is_late = id(results.get(id(part))) in fresh and id(message) not in fresh
            changes.append(
                Change(rule, reason, "reshaped", spot_of(message, part), brief(part), text[:300], breaks_prefix=is_late)
            )
            return Text(text, None, part.at)
        if isinstance(part, ToolResult) and id(part) in told:
            return None
        return part

    return prompt.map_parts(change, roles=("assistant", "tool")), changes


def _is_own(message: Message, part: ToolCall, result: ToolResult | None, profile: Profile) -> bool:
    """Whether the target ran this call itself, and call and result can go back to it."""
    if not profile.hosts_tools:
        return False
    if message.origin is not None:
        if message.origin.provider != profile.provider:
            return False
    elif not profile.namespace or part.options is None or profile.space(part.options) not in part.options:
        return False
    own = profile.own(part.options)
    is_named = _at(own, "call.type") == "mcp_tool_use" or re.fullmatch(profile.hosted_ids or ".*", part.id, re.S)
    result_own = profile.own(result.options if result is not None else None)
    has_marks = not profile.hosted_call_marks or any(_at(own, mark) for mark in profile.hosted_call_marks)
    is_whole = (
        result is None
        or not profile.hosted_result_marks
        or any(_at(result_own, mark) for mark in profile.hosted_result_marks)
    )
    return bool(is_named) and has_marks and is_whole


def _at(own: Any, path: str) -> Any:
    for key in path.split("."):
        own = own.get(key) if isinstance(own, Mapping) else None
    return own


def _told(call: ToolCall, result: ToolResult | None) -> str:
    words = f"[{call.name} was run by its provider. Input: {write_mended(call.input)}."
    readable = "\n".join(dict.fromkeys(_texts(result.output.value))) if result is not None else ""
    if len(readable) > _LONGEST:
        readable = f"{readable[:_LONGEST]}… ({len(readable):,} characters)"
    return f"{words} Result: {readable}]" if readable else f"{words}]"


def _texts(value: Any) -> Iterator[str]:
    """What a person could read of a result: sealed and encrypted values stay out."""
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, Mapping):
        for key in _READABLE:
            if key in value:
                yield from _texts(value[key])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
