"""What the request as a whole needs: tools declared, cache markers within the limit."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import Options, Prompt, Reasoning, ToolCall, ToolResult
from memory.processors.changes import Change, Spot, spot_of
from memory.processors.compat.passes.facts import Facts, tail_of
from memory.profiles.profile import Profile


def lacks_tools(profile: Profile, facts: Facts) -> bool:
    return profile.declares_called_tools and bool(facts.tool_ids)


def declare_called_tools(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Tools that the history calls and nobody declared are declared by name, where none is declared at all."""
    if facts.call.declared or facts.call.needs.get("declare_tools"):
        return prompt, []
    places = range(len(prompt.messages)) if facts.tools_at is None else facts.tools_at
    called = {
        part.name: None
        for i in places
        for part in prompt.messages[i].parts
        if type(part) is ToolResult or (type(part) is ToolCall and not part.provider_executed)
    }
    if not called:
        return prompt, []
    facts.call.needs["declare_tools"] = list(called)
    reason = f"{profile.title} wants tools declared when the history holds calls."
    tail = tail_of(prompt)
    known = (prompt.messages[i] for i in places if i < tail)
    old = {part.name for message in known for part in message.parts if isinstance(part, ToolCall)}
    # Tools stand before all messages: one more of them, and nothing that was kept is good any more.
    is_new = bool(old) and not called.keys() <= old
    made = {"declared": list(called)}
    return prompt, [Change(rule, reason, "reshaped", Spot(""), None, made, breaks_prefix=is_new)]


def marks_too_many(profile: Profile, facts: Facts) -> bool:
    is_over = 0 < profile.cache_markers < facts.cache_markers
    return is_over or (bool(facts.cache_markers) and facts.has_reasoning and not profile.marks_reasoning)


def limit_cache_markers(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """The oldest cache markers go until the target takes the rest, and those on reasoning it refuses. Blocks stay."""
    marked = [
        (i, j)
        for i, message in enumerate(prompt.messages)
        for j, holder in enumerate((message, *message.parts))
        if holder.options is not None and _marker(holder.options, profile) is not None
    ]
    system = [place for place in marked if prompt.messages[place[0]].role == "system"]
    rest = [place for place in marked if place not in system]
    odd = [] if profile.marks_reasoning else [place for place in rest if _is_on_reasoning(prompt, *place)]
    rest = [place for place in rest if place not in odd]
    # An error says that there are too many, and not how many there may be.
    most = profile.cache_markers or (0 if facts.call.is_forced else len(marked))
    surplus = {*odd, *rest[: max(0, len(marked) - len(odd) - most)]}
    if not surplus:
        return prompt, []
    changes: list[Change] = []
    messages = list(prompt.messages)
    tail = tail_of(prompt)
    before = sum(place[0] < tail for place in rest) + sum(place in system for place in marked)
    known = set(rest[: max(0, before - most)])  # earlier requests went without these already
    for i, j in sorted(surplus):
        is_new = i < tail and (i, j) not in known and (i, j) not in odd
        message = messages[i]
        reason = f"{profile.title} takes {most} cache markers; the oldest go, their blocks stay."
        if (i, j) in odd:
            reason = f"{profile.title} takes no cache marker on reasoning; the block stays."
        if j == 0:
            changes.append(Change(rule, reason, "same", Spot(message.id), "cache marker", breaks_prefix=is_new))
            messages[i] = replace(message, options=_unmarked(message.options, profile))
            continue
        part = message.parts[j - 1]
        changes.append(Change(rule, reason, "same", spot_of(message, part), "cache marker", breaks_prefix=is_new))
        new = replace(part, options=_unmarked(part.options, profile))
        messages[i] = replace(message, content=(*message.parts[: j - 1], new, *message.parts[j:]))
    return prompt.with_messages(messages), changes


def _is_on_reasoning(prompt: Prompt, i: int, j: int) -> bool:
    """Whether a marker stands on reasoning; a message's own goes with its last part."""
    parts = prompt.messages[i].parts
    return bool(parts) and isinstance(parts[j - 1], Reasoning)


_MARKS = ("cacheControl", "cache_control", "cachePoint")


def _marker(options: Options | None, profile: Profile) -> Any:
    own = profile.own(options)
    return next((own[key] for key in _MARKS if own.get(key)), None)


def _unmarked(options: Options | None, profile: Profile) -> Options:
    return profile.with_own(options, {key: value for key, value in profile.own(options).items() if key not in _MARKS})
