"""System messages between the turns: taken as they are, or told to the model as the user's."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from memory.messages.prompt import Message, Prompt, Text
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
        role = value.get("role") if isinstance(value, Mapping) else None
        if role in _ROLES:
            return namespace, str(role)
    return None


def settle_system_turns(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Where the target takes system messages between turns they go as such, else as labelled text of the user.

    Moving them to the front would change what they mean, and break the prefix.
    """
    changes: list[Change] = []
    out: list[Message] = []
    for message in prompt.messages:
        told = told_role(message)
        if told is None or (profile.system_between and told[0] == profile.namespace):
            out.append(message)
            continue
        options = {name: value for name, value in (message.options or {}).items() if name != told[0]}
        if profile.system_between:
            options[profile.namespace] = {"role": "system"}
            out.append(replace(message, options=options))
            continue
        texts = [part for part in message.parts if isinstance(part, Text) and part.text.strip()]
        parts = tuple(Text(f"[System] {part.text}", None, part.at) for part in texts)
        reason = f"{profile.title} takes system text at the beginning only."
        changes += [
            Change(rule, reason, "reshaped", spot_of(message, old), brief(old), brief(new))
            for old, new in zip(texts, parts, strict=True)
        ]
        if len(texts) < len(message.parts):
            lost = "Blocks of a system message that only the system can hold are left out."
            changes.append(Change(rule, lost, "content lost", spot_of(message), message.text or "(no text)"))
        if parts:
            out.append(replace(message, content=parts, options=options or None))
    return prompt.with_messages(out), changes
