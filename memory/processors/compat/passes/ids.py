"""Give every tool call an id, and every tool a name, that the target accepts; its result the same one.

First come, first served in order of first appearance, so a new turn never renames an old one and a growing thread
keeps its prefix. Stored ids stay: the thread may go back to the provider that made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from memory.messages.prompt import Message, Part, Prompt, ToolCall, ToolResult
from memory.processors.changes import Change, Spot, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import IdFormat, Profile

_TOOL_PARTS: frozenset[type[Part]] = frozenset((ToolCall, ToolResult))


def renames(names: Iterable[str], form: IdFormat) -> dict[str, str]:
    """New names for those that can't keep theirs."""
    held: dict[str, str] = {}
    further: dict[str, Iterator[str]] = {}  # where names that come to the same go on trying
    for old in names:
        if old not in held and form.fits(old):
            held[old] = old
            continue
        forms = form.forms(old)
        plain = next(forms)
        if plain in held:
            forms = further.setdefault(plain, forms)
            plain = next(new for new in forms if new not in held)
        held[plain] = old
    return {old: new for new, old in held.items() if new != old}


def has_bad_ids(profile: Profile, facts: Facts) -> bool:
    return not profile.tool_ids.fit_all(facts.tool_ids)


def has_bad_names(profile: Profile, facts: Facts) -> bool:
    return not profile.tool_names.fit_all(facts.tool_names)


def rename_tool_ids(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    table = renames(facts.tool_ids, profile.tool_ids)
    changes: list[Change] = []
    called: set[Spot] = set()  # a result beside its call needs no change of its own

    def rename(message: Message, part: ToolCall | ToolResult) -> Part:
        old = part.id if isinstance(part, ToolCall) else part.call_id
        if old not in table:
            return part
        spot = spot_of(message, part)
        if isinstance(part, ToolCall) or spot not in called:
            changes.append(_renamed(rule, message, part, old, table[old], "Ids", profile.tool_ids))
        if not isinstance(part, ToolCall):
            return replace(part, call_id=table[old])
        called.add(spot)
        return replace(part, id=table[old])

    return prompt.map_parts(rename, roles=("assistant", "tool"), of=_TOOL_PARTS, at=facts.tools_at), changes


def rename_tools(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    table = renames(facts.tool_names, profile.tool_names)
    changes: list[Change] = []

    def rename(message: Message, part: ToolCall | ToolResult) -> Part:
        if part.name not in table:
            return part
        if isinstance(part, ToolCall):
            changes.append(_renamed(rule, message, part, part.name, table[part.name], "Tool names", profile.tool_names))
        return replace(part, name=table[part.name])

    return prompt.map_parts(rename, roles=("assistant", "tool"), of=_TOOL_PARTS, at=facts.tools_at), changes


def _renamed(rule: str, message: Message, part: Part, old: str, new: str, what: str, form: IdFormat) -> Change:
    if form.longest and len(old) > form.longest:
        reason = f"{what} may have at most {form.longest} characters. The thread keeps the first one."
    elif not old:
        reason = f"{what} must not be empty."
    elif form.refused and form.fits(new) and not form.fits(old):
        reason = f"{what} may hold letters, digits, _ and - only. Call and result are renamed together."
    else:
        reason = f"{old} is what another id became before; {what.lower()} stay distinct."
    return Change(rule, reason, "same", spot_of(message, part), old, new)
