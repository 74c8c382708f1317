"""Tools that another provider ran itself: the target knows neither the call nor the form of its result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memory.messages.halves import write_mended
from memory.messages.prompt import Message, Part, Prompt, Text, ToolCall, ToolResult
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

_READABLE = ("text", "title", "url", "content", "value", "stdout", "stderr", "error_code", "output")
_LONGEST = 4000


def has_hosted(_: Profile, facts: Facts) -> bool:
    return facts.has_hosted_call


def tell_foreign_calls(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A foreign provider-run call and its result become one text: tool, input, what can be read of the result."""
    foreign = {
        id(part): part
        for message in prompt.messages
        if message.role == "assistant"
        for part in message.parts
        if isinstance(part, ToolCall) and part.provider_executed and not _is_own(message, part, profile)
    }
    if not foreign:
        return prompt, []
    results = {call: result for call, result in prompt.answers().items() if call in foreign}
    told = {id(result) for result in results.values()}
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part | None:
        if isinstance(part, ToolCall) and id(part) in foreign:
            text = _told(part, results.get(id(part)))
            reason = "Another provider ran this tool itself. What can be read of it is sent as text."
            changes.append(Change(rule, reason, "reshaped", spot_of(message, part), brief(part), text[:300]))
            return Text(text, None, part.at)
        if isinstance(part, ToolResult) and id(part) in told:
            return None
        return part

    return prompt.map_parts(change, roles=("assistant", "tool")), changes


def _is_own(message: Message, part: ToolCall, profile: Profile) -> bool:
    if not profile.hosts_tools:
        return False
    if message.origin is not None:
        return message.origin.provider == profile.provider
    return bool(profile.namespace) and part.options is not None and profile.namespace in part.options


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
