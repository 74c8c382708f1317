"""Further keys of messages and blocks that the target does not know: left behind by other hosts and libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import File, Message, Options, Part, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.processors.changes import Change, Spot, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.processors.compat.passes.media import true_type
from memory.profiles.profile import Profile

FAULT = "unknown-field"

_HOLDERS: dict[type, tuple[str, ...]] = {
    Text: ("extra", "item", "content"),
    Reasoning: ("extra", "item"),
    File: ("extra", "inner", "content"),
    ToolCall: ("extra", "callExtra", "call"),
    ToolResult: ("resultExtra", "result", "resultPart"),
    Message: ("extra", "item", "content", "part"),
}
"""Under which options the wire modules keep what they did not know, by what holds them."""
_HELD = frozenset(name for names in _HOLDERS.values() for name in names)
_SPELT = {"cache_control": "cacheControl", "cachePoint": "cachePoint", "citations": "citations"}
"""Options of our own that a host may not know either, by their key on the wire."""


def may_hold_further(profile: Profile, facts: Facts) -> bool:
    return profile.further is not None and not facts.option_keys.isdisjoint(_HELD)


def drop_further_keys(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Without the keys that are not on the target's list, or say what it does not take under them; asked for by an
    error, without the one it names too.

    A host without a list that refuses a key looks at all of them: then all further keys go.
    """
    named = facts.call.named(FAULT)
    changes: list[Change] = []

    def is_refused(place: str, key: str, value: Any) -> bool:
        if key in named or profile.further is None:
            return facts.call.is_forced
        taken = profile.further.get(place, ())
        return "*" not in taken and (key not in taken or not _has_form(value, place, key, profile))

    def kept(holder: Message | Part, role: str, spot: Spot) -> Options | None:
        options = holder.options
        own = profile.own(options)
        out = dict(own)
        for name in _HOLDERS[type(holder)]:
            value = own.get(name)
            if not isinstance(value, Mapping):
                continue
            place = f"{_kind(holder, role, value)}.{name}"
            if gone := {key: item for key, item in value.items() if is_refused(place, key, item)}:
                changes.append(_dropped(rule, profile, spot, gone))
                out[name] = {key: item for key, item in value.items() if key not in gone}
        if facts.call.is_forced:
            for key in named & _SPELT.keys():
                if (gone_value := out.pop(_SPELT[key], None)) is not None:
                    changes.append(_dropped(rule, profile, spot, {key: gone_value}))
        return options if out == own else profile.with_own(options, out)

    messages = []
    for message in prompt.messages:
        new = message
        if message.options is not None:
            options = kept(message, message.role, Spot(message.id))
            new = message if options is message.options else replace(message, options=options)
        if not isinstance(message.content, str) and any(part.options for part in message.content):
            parts = tuple(_with(part, kept(part, message.role, spot_of(message, part))) for part in message.content)
            if any(a is not b for a, b in zip(parts, message.content, strict=True)):
                new = replace(new, content=parts)
        messages.append(new)
    out = prompt.with_messages(messages)
    if facts.call.is_forced:
        changes += list(_of_the_request(named, facts, profile, rule))
    return out, changes


def _of_the_request(named: frozenset[str], facts: Facts, profile: Profile, rule: str) -> Iterator[Change]:
    """A key of the request itself, which is left out of it."""
    for key in sorted(named & facts.call.settings.keys()):
        facts.call.needs["without"] = [*facts.call.needs.get("without", ()), key]
        yield _dropped(rule, profile, Spot(""), {key: facts.call.settings[key]})


def _dropped(rule: str, profile: Profile, spot: Spot, gone: Mapping[str, Any]) -> Change:
    names = ", ".join(sorted(gone))
    reason = f"{profile.title} does not know the key {names}, or not what it says. It stays in the thread."
    return Change(rule, reason, "same", spot, {key: str(value)[:100] for key, value in gone.items()}, {})


def _has_form(value: Any, place: str, key: str, profile: Profile) -> bool:
    """Whether a key says what the target takes under it; a null counts as nothing said."""
    form = profile.further_forms.get(f"{place}.{key}") or profile.further_forms.get(key)
    if form is None or value is None:
        return True
    if isinstance(value, str):
        return value in form
    kinds = ((Mapping, "{}"), (list, "[]"), (int | float, "0"))
    return any(isinstance(value, kind) and sign in form for kind, sign in kinds)


def _with(part: Part, options: Options | None) -> Part:
    return part if options is part.options else replace(part, options=options)


def _kind(holder: Message | Part, role: str, value: Mapping[str, Any]) -> str:
    match holder:
        case Message():
            return role
        case Text():
            return "said" if role == "assistant" else "text"
        case File():
            # By the type it is sent under, which a later pass settles.
            return "image" if true_type(holder.media_type, holder.data).startswith("image/") else "file"
        case Reasoning():
            return "reasoning"
        case ToolCall():
            return "hosted" if holder.provider_executed or "type" in value else "call"
    return "hosted" if role == "assistant" or "type" in value else "result"


# Keys that are null, and names of speakers


def may_hold_nulls(profile: Profile, facts: Facts) -> bool:
    return not profile.null_fields and (bool(facts.option_keys) or facts.has_hosted_call)


def drop_nulls(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Blocks that go back as they came, without their keys that are null."""
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part:
        new: Part
        own = profile.own(part.options)
        made = {key: _without_nulls(value) if key in _WHOLE else value for key, value in own.items()}
        new = part if made == own else replace(part, options=profile.with_own(part.options, made))
        # What a provider's own tool took and gave stands among the keys of its item.
        if isinstance(new, ToolCall) and new.provider_executed:
            new = replace(new, input=_without_nulls(new.input))
        elif isinstance(new, ToolResult) and message.role == "assistant":
            new = replace(new, output=replace(new.output, value=_without_nulls(new.output.value)))
        if new == part:
            return part
        reason = f"{profile.title} takes no key that is null."
        changes.append(Change(rule, reason, "same", spot_of(message, part), "null", None))
        return new

    return prompt.map_parts(change), changes


_WHOLE = ("block", "item", "call", "result", "content")


def _without_nulls(value: Any) -> Any:
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, Mapping) else value


def may_name_speakers(profile: Profile, facts: Facts) -> bool:
    return profile.message_names is not None and not facts.option_keys.isdisjoint(("extra", "resultExtra"))


def mend_names(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Names of speakers with the refused characters as `_`; one of which nothing is left goes."""
    form = profile.message_names
    changes: list[Change] = []

    def named(options: Options | None, holder: str, spot: Spot) -> Options | None:
        own = profile.own(options)
        extra = own.get(holder)
        name = extra.get("name") if isinstance(extra, Mapping) else None
        if name is None or form is None or (isinstance(name, str) and form.fits(name)):
            return options
        assert isinstance(extra, Mapping)
        mended = next(form.forms(name)) if isinstance(name, str) and re.search(r"[a-zA-Z0-9]", name) else None
        reason = f"{profile.title} takes letters, digits, _ and - in the name of a speaker."
        changes.append(Change(rule, reason, "same", spot, name, mended))
        rest = {key: value for key, value in extra.items() if key != "name"}
        new = {**own, holder: rest if mended is None else {**rest, "name": mended}}
        return profile.with_own(options, new)

    messages = []
    for message in prompt.messages:
        options = named(message.options, "extra", Spot(message.id))
        new = message if options is message.options else replace(message, options=options)
        if message.role == "tool" and not isinstance(message.content, str):
            parts = tuple(_with(p, named(p.options, "resultExtra", spot_of(message, p))) for p in message.content)
            if any(a is not b for a, b in zip(parts, message.content, strict=True)):
                new = replace(new, content=parts)
        messages.append(new)
    return prompt.with_messages(messages), changes


# What an error says


_NAMED = (
    re.compile(r"([\w-]+): Extra inputs are not permitted"),
    re.compile(r"Extra inputs are not permitted, field: '(?:[^']*[.\]])?([\w-]+)'"),
    re.compile(r"""extra_forbidden.{0,40}?\\?"loc\\?":\s?\[[^\]]*\\?"([\w-]+)\\?"\]""", re.S),
    re.compile(r"property '(?:[^']*\.)?([\w-]+)' is unsupported"),
    re.compile(r"Unknown parameter: '(?:[^']*[.\]])?([\w-]+)'"),
    re.compile(r"Unrecognized request argument supplied: ([\w-]+)"),
    re.compile(r"""Unrecognized key(?:\(s\)|s)?(?: in object)?:? \\?['"]([\w-]+)"""),
    re.compile(r"""Unknown name \\?"([\w-]+)\\?" at"""),
    re.compile(r"extraneous key \[([\w-]+)\] is not permitted"),
    re.compile(r"unknown field (?:`|'|\\?\")?(?:[^\s`'\"]*\.)?([\w-]+)"),
    re.compile(r"has invalid field\(s\): ([\w-]+)"),
)


def named_keys(texts: Sequence[str]) -> tuple[str, ...]:
    """Keys that an error calls unknown, in whatever words."""
    return tuple(dict.fromkeys(found[1] for text in texts for pattern in _NAMED if (found := pattern.search(text))))
