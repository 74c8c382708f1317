"""Blank texts, and blocks only their own provider understands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import (
    File,
    Message,
    Options,
    Output,
    Part,
    Prompt,
    Text,
    ToolResult,
    holds_raw_block,
    raw_block,
)
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
        kept: list[Part] = []
        for part in message.parts:
            behind_file = bool(kept) and isinstance(kept[-1], File) and profile.break_after_file
            if _is_blank(part, profile) and not (behind_file and isinstance(part, Text) and part.text == "\n"):
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


def may_be_empty(profile: Profile, facts: Facts) -> bool:
    return bool(profile.drops_empty) and (facts.has_blank_text or facts.has_block)


def drop_empty(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Messages without anything to say go: no parts, or only empty texts."""
    changes: list[Change] = []
    gone: list[Message] = []
    for message in prompt.messages:
        role, content = message.role, message.content
        if role == "tool" or (type(content) is tuple and content and not _is_empty(content[0], profile)):
            continue
        if role == "system":
            is_empty = not message.text.strip()
        else:
            is_empty = all(_is_empty(part, profile) for part in message.parts)
        if is_empty and (role in profile.drops_empty or (role != "system" and not content)):
            reason = f"{profile.title} takes no message without content."
            changes.append(Change(rule, reason, "same", spot_of(message), f"empty {role} message"))
            gone.append(message)
    if not gone:
        return prompt, changes
    ids = set(map(id, gone))
    return prompt.with_messages([message for message in prompt.messages if id(message) not in ids]), changes


def _is_empty(part: Part, profile: Profile) -> bool:
    if type(part) is not Text or (part.text and not part.text.isspace()):
        return False
    if part.options and part.options.get(profile.namespace):
        return False
    return not part.text or profile.blank_text == "drop"


def has_foreign_blocks(_: Profile, facts: Facts) -> bool:
    return facts.has_block or facts.has_media_result


def drop_foreign_blocks(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Blocks of another provider: their visible text is sent, the block itself stays in the thread."""
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part | None:
        if isinstance(part, ToolResult):
            return _without_foreign_items(message, part, profile, rule, changes)
        if not isinstance(part, Text) or not holds_raw_block(part) or _reads(profile, part.options):
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


def _without_foreign_items(
    message: Message, part: ToolResult, profile: Profile, rule: str, changes: list[Change]
) -> ToolResult:
    """The result without items that only another provider can read; their visible text stays."""
    if part.output.type != "content" or not isinstance(part.output.value, list):
        return part
    kept: list[Any] = []
    lost: list[str] = []
    for item in part.output.value:
        block = _foreign_item(item, profile)
        if block is None:
            kept.append(item)
            continue
        lost.append(str(block.get("type", "unknown")))
        if isinstance(item.get("text"), str) and item["text"].strip():
            kept.append({"type": "text", "text": item["text"]})
    if not lost:
        return part
    reason = "Only the provider that wrote these items of a result can read them. They stay in the thread."
    note = f"[{', '.join(lost)}]"
    changes.append(
        Change(rule, reason, "content lost", spot_of(message, part), {"items": lost}, note, severity="degrades")
    )
    return replace(part, output=Output("content", kept) if kept else Output("text", note))


def _foreign_item(item: Any, profile: Profile) -> Mapping[str, Any] | None:
    options = item.get("providerOptions") if isinstance(item, dict) else None
    if not isinstance(options, dict) or _reads(profile, options):
        return None
    blocks = [value.get("block") for value in options.values() if isinstance(value, Mapping)]
    return next((block for block in blocks if isinstance(block, Mapping)), None)


def _reads(profile: Profile, options: Options | None) -> bool:
    """Whether the target knows the block kept under its namespace. Items of the Responses API name their host."""
    own = options.get(profile.namespace) if options else None
    if not isinstance(own, Mapping) or not isinstance(own.get("block"), Mapping):
        return False
    is_responses = profile.protocol == "openai-responses"
    return own.get("host") == profile.provider if is_responses else "host" not in own
