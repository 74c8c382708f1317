"""System messages between the turns: taken as they are, or told to the model as the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import File, Message, Part, Prompt, Text, holds_raw_block
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

_ROLES = ("system", "developer")


def has_system_turn(_: Profile, facts: Facts) -> bool:
    return facts.has_system_turn


def told_role(message: Message) -> tuple[str, str] | None:
    """Namespace and role of a system message that an import kept in its place, as a user message."""
    if message.role != "user" or message.options is None:
        return None
    for namespace, value in message.options.items():
        if (role := told_role_of(value)) is not None:
            return namespace, role
    return None


def told_role_of(own: Any) -> str | None:
    role = own.get("role") if isinstance(own, Mapping) else None
    return str(role) if role in _ROLES else None


def settle_system_turns(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Where the target takes system messages between turns they go as such, else as labelled text of the user.

    Moving them to the front would change what they mean, and break the prefix. Pictures and files are the user's.
    """
    changes: list[Change] = []
    out: list[Message] = []
    for message in prompt.messages:
        told = told_role(message)
        if told is None:
            out.append(_without_role(message, profile, rule, changes))
            continue
        stays = _may_stay(message, out, profile)
        if stays and told[0] == profile.space(message.options):
            out.append(message)
            continue
        options = {name: value for name, value in (message.options or {}).items() if told_role_of(value) is None}
        if stays:
            options[profile.space(options)] = {"role": "system"}
            kept_role = f"{profile.title} takes a system message here too; it is sent as one."
            changes.append(Change(rule, kept_role, "same", spot_of(message), told[1], "system", severity="cosmetic"))
            out.append(replace(message, options=options))
            continue
        kept = [part for part in message.parts if isinstance(part, File) or _says_something(part)]
        parts = tuple(Text(f"[System] {part.text}", None, part.at) if isinstance(part, Text) else part for part in kept)
        reason = f"{profile.title} takes system text at the beginning only."
        if profile.system_between:
            reason = f"{profile.title} takes a system message only with text, and where the user spoke before."
        changes += [
            Change(rule, reason, "reshaped", spot_of(message, old), brief(old), brief(new))
            for old, new in zip(kept, parts, strict=True)
        ]
        if len(kept) < len(message.parts):
            lost = "Blocks of a system message that only the system can hold are left out."
            changes.append(Change(rule, lost, "content lost", spot_of(message), message.text or "(no text)"))
        if parts:
            out.append(replace(message, content=parts, options=options or None))
    return prompt.with_messages(out), changes


def _without_role(message: Message, profile: Profile, rule: str, changes: list[Change]) -> Message:
    """What the assistant said or a tool gave is not sent as the system's, whatever its options say."""
    own = profile.own(message.options)
    if message.role not in ("assistant", "tool") or own.get("role") not in _ROLES:
        return message
    reason = f"A message of the {message.role} can't be sent as one of the system."
    changes.append(Change(rule, reason, "same", spot_of(message), own.get("role"), message.role))
    rest = {key: value for key, value in own.items() if key != "role"}
    return replace(message, options=profile.with_own(message.options, rest))


def _may_stay(message: Message, before: Sequence[Message], profile: Profile) -> bool:
    if not profile.system_between or not all(isinstance(part, Text) for part in message.parts):
        return False
    if not profile.system_after_user:
        return True
    return bool(before) and (before[-1].role == "tool" or before[-1].role == "user")


def _says_something(part: Part) -> bool:
    return isinstance(part, Text) and bool(part.text.strip())


# What a system message is called, and what it may hold


def _is_listed(message: Message) -> bool:
    """Whether a message of texts goes as a list: there are several, or one with keys of its own."""
    are_texts = all(isinstance(part, Text) and not holds_raw_block(part) for part in message.parts)
    return are_texts and (len(message.parts) > 1 or any(part.options for part in message.parts))


def has_developer(profile: Profile, facts: Facts) -> bool:
    return not profile.developer_role and "role" in facts.option_keys


def name_developers(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Messages of the role `developer` under the role `system`."""
    changes: list[Change] = []
    out: list[Message] = []
    for message in prompt.messages:
        own = profile.own(message.options)
        if own.get("role") != "developer" or message.role not in ("system", "user"):
            out.append(message)
            continue
        reason = f"{profile.title} has no role developer; it is called system there."
        changes.append(Change(rule, reason, "same", spot_of(message), "developer", "system"))
        named = {**own, "role": "system"} if message.role == "user" else {k: v for k, v in own.items() if k != "role"}
        out.append(replace(message, options=profile.with_own(message.options, named)))
    return prompt.with_messages(out), changes


def has_listed_system(profile: Profile, facts: Facts) -> bool:
    return not profile.listed_system and not facts.option_keys.isdisjoint(("role", "joined", "part"))


def join_system_texts(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A system message as one plain text: leading ones stand for themselves, one between the turns is joined."""
    changes: list[Change] = []
    out: list[Message] = []
    reason = f"{profile.title} takes one text in a system message, not a list."
    for message in prompt.messages:
        own, new = profile.own(message.options), message
        if message.role == "system" and (own.get("joined") or own.get("part")):
            rest = {key: value for key, value in own.items() if key not in ("joined", "part")}
            new = replace(message, options=profile.with_own(message.options, rest))
        elif told_role(message) and _is_listed(message):
            new = replace(message, content=(Text(message.text, None, message.parts[0].at),))
        if new is not message:
            changes.append(Change(rule, reason, "same", spot_of(message), "a list of texts", new.text[:300]))
        out.append(new)
    return prompt.with_messages(out), changes
