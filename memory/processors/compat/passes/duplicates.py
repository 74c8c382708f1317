"""The same call id twice where the target can't tell the calls apart."""

from __future__ import annotations

from msgspec.structs import replace

from memory.messages.prompt import Message, Output, Part, Prompt, ToolCall, ToolResult
from memory.processors.changes import Change, spot_of
from memory.processors.compat.passes.facts import Facts, facts_of
from memory.profiles.profile import Profile


def may_repeat_ids(profile: Profile, facts: Facts) -> bool:
    return bool(profile.unique_ids) and facts.has_repeated_id


def part_repeated_ids(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """The same call twice in a message is sent once, another one of its id is renamed with its result.

    The id again in a later message, each call followed by its own result, is a fault only where ids have to be unique
    in the whole thread.
    """
    changes: list[Change] = []
    messages = list(prompt.messages)
    used: set[str] = set()
    numbers: dict[str, int] = {}
    for i, message in enumerate(messages):
        if message.role != "assistant":
            continue
        sent: dict[str, list[ToolCall]] = {}
        parts: list[Part] = []
        here = {part.id for part in message.parts if isinstance(part, ToolCall)}
        taken = used if profile.unique_ids == "thread" else set()
        if profile.unique_ids != "thread":
            numbers = {}
        for part in message.parts:
            if not isinstance(part, ToolCall):
                parts.append(part)
                continue
            same = sent.setdefault(part.id, [])
            if any((part.name, part.input) == (call.name, call.input) for call in same):
                reason = "The same call stands twice in one message."
                changes.append(Change(rule, reason, "same", spot_of(message, part), part.id))
                continue
            new = part
            if part.id in taken:
                new = replace(part, id=_form(part.id, numbers, taken, here))
                reason = "Two calls have the same id; the later one gets its own, as does its result."
                changes.append(Change(rule, reason, "same", spot_of(message, part), part.id, new.id))
            taken.add(new.id)
            same.append(new)
            parts.append(new)
        if all(a is b for a, b in zip(parts, message.parts, strict=False)) and len(parts) == len(message.parts):
            continue
        messages[i] = replace(message, content=tuple(parts))
        facts.has_unpaired = True  # perhaps: a second result of the call that was left out
        _rename_results(messages, i + 1, {old: [call.id for call in calls] for old, calls in sent.items()})
    out = prompt.with_messages(messages)
    if out is not prompt:
        facts.tool_ids = facts_of(out).tool_ids
    return out, changes


def _form(call_id: str, numbers: dict[str, int], taken: set[str], here: set[str]) -> str:
    """The id with the first number that is free. `numbers` holds the next one to try, by id."""
    while True:
        numbers[call_id] = number = numbers.get(call_id, 1) + 1
        form = f"{call_id}_{number}"
        if form not in taken and form not in here:
            return form


def _rename_results(messages: list[Message], start: int, ids: dict[str, list[str]]) -> None:
    """Results of an id go to its calls in order. The same result again goes with the call that was left out."""
    seen: dict[str, list[Output]] = {}
    for i in range(start, len(messages)):
        if messages[i].role != "tool":
            return
        parts: list[Part] = []
        for part in messages[i].parts:
            if not isinstance(part, ToolResult) or part.call_id not in ids:
                parts.append(part)
                continue
            before = seen.setdefault(part.call_id, [])
            if ids[part.call_id]:
                new = ids[part.call_id].pop(0)
                parts.append(part if new == part.call_id else replace(part, call_id=new))
            elif part.output not in before:
                parts.append(part)
            before.append(part.output)
        messages[i] = replace(messages[i], content=tuple(parts))
