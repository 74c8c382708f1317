"""Characters that no JSON can carry, and one that some databases behind a host can't store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from memory.messages.halves import HALF
from memory.messages.prompt import File, Message, Part, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.messages.values import JsonObject
from memory.processors.changes import Change, Spot, spot_of
from memory.processors.compat.passes.facts import Facts, facts_of
from memory.profiles.profile import Profile


def may_hold_halves(_: Profile, facts: Facts) -> bool:
    return facts.has_odd_text


def mend_surrogates(prompt: Prompt, _: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Halves of characters are joined where both are there, else replaced by U+FFFD: no JSON can carry them."""
    reason = "Half a character makes the request invalid JSON."
    return _rewritten(prompt, facts, _whole, "half a character", rule, reason)


def replace_nul(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """U+0000 becomes U+FFFD, once a host said that its database can't store it."""
    reason = f"{profile.title} can't store the character U+0000."
    return _rewritten(prompt, facts, lambda text: text.replace("\x00", "\ufffd"), "U+0000", rule, reason)


def needs_error(_: Profile, __: Facts) -> bool:
    return False


def _whole(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if HALF.search(text) else text


def _rewritten(
    prompt: Prompt, facts: Facts, mend: Callable[[str], str], what: str, rule: str, reason: str
) -> tuple[Prompt, list[Change]]:
    """Every text of the prompt mended: what is said, ids and names, keys and options."""
    changes: list[Change] = []
    ids, names = _table(facts.tool_ids, mend), _table(facts.tool_names, mend)

    def change(message: Message, part: Part) -> Part:
        new = _mended_part(part, mend, ids, names)
        if new != part:
            changes.append(Change(rule, reason, "content lost", spot_of(message, part), what, "\ufffd"))
            return new
        return part

    out = prompt.map_parts(change)
    messages = []
    for message in out.messages:
        content = mend(message.content) if isinstance(message.content, str) else message.content
        options = _mapped(message.options, mend)
        if content != message.content or options != message.options:
            changes.append(Change(rule, reason, "content lost", Spot(message.id), what, "\ufffd"))
            message = replace(message, content=content, options=options)
        messages.append(message)
    out = out.with_messages(messages)
    if out is not prompt:
        fresh = facts_of(out)
        declared = (name for name in facts.tool_names if name not in names)
        facts.tool_ids, facts.tool_names = fresh.tool_ids, fresh.tool_names | dict.fromkeys(declared)
        facts.has_blank_text |= fresh.has_blank_text
    return out, changes


def _table(names: Iterable[str], mend: Callable[[str], str]) -> dict[str, str]:
    """New names for those that have to be mended, distinct from the others."""
    known = list(names)
    taken = {name for name in known if mend(name) == name}
    table: dict[str, str] = {}
    for name in known:
        if name in taken:
            continue
        new = plain = mend(name)
        number = 2
        while new in taken:
            new, number = f"{plain}_{number}", number + 1
        taken.add(new)
        table[name] = new
    return table


def _mended_part(part: Part, mend: Callable[[str], str], ids: dict[str, str], names: dict[str, str]) -> Part:
    options = _mapped(part.options, mend)
    match part:
        case Text() | Reasoning():
            return replace(part, text=mend(part.text), options=options)
        case ToolCall():
            new_id, name = ids.get(part.id, part.id), names.get(part.name, part.name)
            return replace(part, id=new_id, name=name, input=_mapped(part.input, mend), options=options)
        case ToolResult():
            new_id, name = ids.get(part.call_id, part.call_id), names.get(part.name, part.name)
            output = replace(part.output, value=_mapped(part.output.value, mend))
            made = _mapped(part.input, mend)
            return replace(part, call_id=new_id, name=name, output=output, input=made, options=options)
        case File():
            filename = None if part.filename is None else mend(part.filename)
            data, media_type = mend(part.data), mend(part.media_type)
            return replace(part, filename=filename, data=data, media_type=media_type, options=options)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text changed, keys too; two keys that become one stay apart as `k` and `k_2`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, JsonObject):
        made = _mapped(value.value, change)
        return value if made == value.value else made
    if isinstance(value, dict):
        out: dict[Any, Any] = {}
        for key, item in value.items():
            new = plain = change(key) if isinstance(key, str) else key
            number = 2
            while new in out:
                new, number = f"{plain}_{number}", number + 1
            out[new] = _mapped(item, change)
        return out
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    return value
