"""What the request as a whole needs: tools declared, cache markers within the limit, legal text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from memory.messages.halves import HALF, mended
from memory.messages.prompt import File, Message, Options, Part, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.processors.changes import Change, Spot, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def lacks_tools(profile: Profile, facts: Facts) -> bool:
    return profile.declares_called_tools and bool(facts.tool_ids)


def declare_called_tools(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Tools that the history calls and nobody declared are declared by name, where none is declared at all."""
    if facts.call.declared or facts.call.needs.get("declare_tools"):
        return prompt, []
    called = {
        part.name: None
        for message in prompt.messages
        for part in message.parts
        if isinstance(part, ToolCall | ToolResult) and not getattr(part, "provider_executed", False)
    }
    if not called:
        return prompt, []
    facts.call.needs["declare_tools"] = list(called)
    reason = f"{profile.title} wants tools declared when the history holds calls."
    return prompt, [Change(rule, reason, "reshaped", Spot(""), None, {"declared": list(called)})]


def marks_too_many(profile: Profile, facts: Facts) -> bool:
    return 0 < profile.cache_markers < facts.cache_markers


def limit_cache_markers(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """The oldest cache markers go until the target takes the rest; the blocks stay."""
    marked = [
        (i, j)
        for i, message in enumerate(prompt.messages)
        for j, holder in enumerate((message, *message.parts))
        if holder.options is not None and _marker(holder.options, profile.namespace) is not None
    ]
    system = [place for place in marked if prompt.messages[place[0]].role == "system"]
    rest = [place for place in marked if place not in system]
    surplus = set(rest[: max(0, len(marked) - profile.cache_markers)])
    if not surplus:
        return prompt, []
    changes: list[Change] = []
    messages = list(prompt.messages)
    for i, j in sorted(surplus):
        message = messages[i]
        reason = f"{profile.title} takes {profile.cache_markers} cache markers; the oldest go, their blocks stay."
        if j == 0:
            changes.append(Change(rule, reason, "same", Spot(message.id), "cache marker"))
            messages[i] = replace(message, options=_unmarked(message.options, profile.namespace))
            continue
        part = message.parts[j - 1]
        changes.append(Change(rule, reason, "same", spot_of(message, part), "cache marker"))
        new = replace(part, options=_unmarked(part.options, profile.namespace))
        messages[i] = replace(message, content=(*message.parts[: j - 1], new, *message.parts[j:]))
    return prompt.with_messages(messages), changes


_MARKS = ("cacheControl", "cache_control")


def _marker(options: Options | None, namespace: str) -> Any:
    own = options.get(namespace) if options else None
    return next((own[key] for key in _MARKS if own.get(key)), None) if isinstance(own, Mapping) else None


def _unmarked(options: Options | None, namespace: str) -> Options | None:
    own = options.get(namespace) if options else None
    if options is None or not isinstance(own, Mapping):
        return options
    return {**options, namespace: {key: value for key, value in own.items() if key not in _MARKS}}


def may_hold_halves(_: Profile, facts: Facts) -> bool:
    return facts.has_odd_text


def mend_surrogates(prompt: Prompt, _: Profile, __: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Halves of characters are joined where both are there, else replaced by U+FFFD: no JSON can carry them."""
    changes: list[Change] = []
    reason = "Half a character makes the request invalid JSON."

    def change(message: Message, part: Part) -> Part:
        new = _mended_part(part)
        if new is not part:
            changes.append(Change(rule, reason, "content lost", spot_of(message, part), "half a character", "\ufffd"))
        return new

    out = prompt.map_parts(change)
    messages = []
    for message in out.messages:
        if isinstance(message.content, str) and HALF.search(message.content):
            changes.append(Change(rule, reason, "content lost", Spot(message.id), "half a character", "\ufffd"))
            message = replace(message, content=mended(message.content))
        messages.append(message)
    return out.with_messages(messages), changes


def _mended_part(part: Part) -> Part:
    match part:
        case Text() | Reasoning() if HALF.search(part.text):
            return replace(part, text=mended(part.text))
        case ToolCall() if (new := mended(part.input)) != part.input:
            return replace(part, input=new)
        case ToolResult() if (new := mended(part.output.value)) != part.output.value:
            return replace(part, output=replace(part.output, value=new))
        case File() if part.filename and HALF.search(part.filename):
            return replace(part, filename=mended(part.filename))
        case _:
            return part
