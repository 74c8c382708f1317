"""Blank texts, and blocks only their own provider understands."""

from __future__ import annotations

from msgspec.structs import replace

from memory.messages.prompt import Message, Part, Prompt, Text, holds_raw_block, raw_block
from memory.processors.changes import Change, Loss, brief, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def may_have_blank(profile: Profile, facts: Facts) -> bool:
    return facts.has_blank_text and profile.blank_text != "accept"


def drop_blank(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """White space only: always out of user messages, out of others when something else of the stored message remains.

    Messages left empty go. Blocks of the target itself are no text and stay.
    """
    changes: list[Change] = []
    solid: dict[str, int] = {}
    for message in prompt.messages:
        count = sum(not _is_blank(part, profile) for part in message.parts)
        solid[message.id] = solid.get(message.id, 0) + count
    out: list[Message] = []
    for message in prompt.messages:
        if message.role in ("system", "tool"):
            out.append(message)
            continue
        others = solid[message.id] if message.id else sum(not _is_blank(p, profile) for p in message.parts)
        if message.role != "user" and not others:
            out.append(message)
            continue
        kept = []
        for part in message.parts:
            if _is_blank(part, profile):
                reason = "Text blocks must hold more than white space."
                changes.append(Change(rule, reason, "same", spot_of(message, part), brief(part)))
            else:
                kept.append(part)
        if len(kept) == len(message.parts):
            if kept or message.content:
                out.append(message)
        elif kept:
            out.append(replace(message, content=tuple(kept)))
    return prompt.with_messages(out), changes


def _is_blank(part: Part, profile: Profile) -> bool:
    if not isinstance(part, Text) or (part.text and not part.text.isspace()):
        return False
    return raw_block(part, profile.namespace) is None


def has_foreign_blocks(_: Profile, facts: Facts) -> bool:
    return facts.has_options_on_text


def drop_foreign_blocks(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Blocks of another provider: their visible text is sent, the block itself stays in the thread."""
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part | None:
        if not isinstance(part, Text) or not holds_raw_block(part) or raw_block(part, profile.namespace) is not None:
            return part
        kept = replace(part, options=None) if part.text.strip() else None
        reason = "Only the provider that wrote this block can read it. It stays in the thread."
        block = next(raw for name in part.options or () if (raw := raw_block(part, name)) is not None)
        before = {"block": str(block.get("type", "unknown"))}
        loss: Loss = "reshaped" if kept else "content lost"
        after = brief(kept) if kept else None
        changes.append(Change(rule, reason, loss, spot_of(message, part), before, after, severity="degrades"))
        return kept

    return prompt.map_parts(change), changes
