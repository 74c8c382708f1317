"""Blank texts, and blocks only their own provider understands."""

from __future__ import annotations

import operator
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
    Reasoning,
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


def drop_blank(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """White space only: always out of user messages, out of others when something else of the stored message remains.

    Messages left empty go, a result left empty says nothing. Blocks of the target itself are no text and stay.
    """
    changes: list[Change] = []
    solid: dict[str, int] = {}
    for message in prompt.messages:
        count = sum(not _is_blank(part, profile) for part in message.parts)
        solid[message.id] = solid.get(message.id, 0) + count
    out: list[Message] = []
    for message in prompt.messages:
        if message.role in ("system", "tool"):
            parts = tuple(_without_blank_items(message, part, profile, rule, changes) for part in message.parts)
            is_same = isinstance(message.content, str) or all(map(operator.is_, parts, message.content))
            facts.has_empty_result |= not is_same
            out.append(message if is_same else replace(message, content=parts))
            continue
        if profile.blank_text == "drop-empty" and message.role not in profile.drops_empty:
            out.append(message)
            continue
        others = solid[message.id] if message.id else sum(not _is_blank(p, profile) for p in message.parts)
        # Where nothing is said, texts stay that are there for something else, and all of them where none is.
        is_silent = message.role != "user" and not others
        if is_silent and len({_is_marked(part, profile) for part in message.parts}) < 2:
            out.append(message)
            continue
        kept: list[Part] = []
        for part in message.parts:
            behind_file = bool(kept) and isinstance(kept[-1], File) and profile.break_after_file
            stays = behind_file and isinstance(part, Text) and part.text == "\n"
            if _is_blank(part, profile) and not stays and not (is_silent and _is_marked(part, profile)):
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
    if isinstance(part, Reasoning):
        return profile.blank_text == "drop-empty" and not part.text and not profile.own(part.options)
    if not isinstance(part, Text) or not _says_nothing(part.text, profile):
        return False
    return raw_block(part, profile.space(part.options)) is None


def _says_nothing(text: str, profile: Profile) -> bool:
    return not text or (profile.blank_text == "drop" and text.isspace())


def _without_blank_items(message: Message, part: Part, profile: Profile, rule: str, changes: list[Change]) -> Part:
    """A result without its blank texts."""
    if not isinstance(part, ToolResult) or part.output.type != "content" or not isinstance(part.output.value, list):
        return part
    kept = [item for item in part.output.value if not _is_blank_item(item, profile)]
    if len(kept) == len(part.output.value):
        return part
    reason = "Text blocks must hold more than white space, those of a result too."
    changes.append(Change(rule, reason, "same", spot_of(message, part), "blank text in a result"))
    return replace(part, output=Output("content", kept) if kept else Output("text", ""))


def _is_blank_item(item: Any, profile: Profile) -> bool:
    if not isinstance(item, dict) or item.get("type") != "text" or item.get("providerOptions"):
        return False
    text = item.get("text")
    return isinstance(text, str) and _says_nothing(text, profile)


def may_hold_empty_result(profile: Profile, facts: Facts) -> bool:
    return profile.empty_result is not None and facts.has_empty_result


def say_empty_results(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A result that says nothing says so: an empty text in place of an empty list, or words where a text is wanted."""
    changes: list[Change] = []
    said = profile.empty_result or ""

    def change(message: Message, part: Part) -> Part:
        if not isinstance(part, ToolResult) or part.output.value not in ([], ""):
            return part
        if part.output.value == said or (part.output.type == "json" and part.output.value == []):
            return part
        reason = f"{profile.title} wants a text as the content of a result."
        changes.append(Change(rule, reason, "same", spot_of(message, part), part.output.value, said))
        return replace(part, output=Output("error-text" if part.output.is_error else "text", said))

    return prompt.map_parts(change, roles=("tool",)), changes


def may_be_empty(profile: Profile, facts: Facts) -> bool:
    if facts.has_reasoning and not profile.thinks_alone:
        return True
    return bool(profile.drops_empty) and (facts.has_blank_text or "block" in facts.option_keys)


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
            thoughts = any(isinstance(part, Reasoning) for part in message.parts)
            loss: Loss = "reasoning hidden" if thoughts else "same"
            before = "nothing but reasoning" if thoughts else f"empty {role} message"
            changes.append(Change(rule, reason, loss, spot_of(message), before))
            gone.append(message)
    if not gone:
        return prompt, changes
    ids = set(map(id, gone))
    return prompt.with_messages([message for message in prompt.messages if id(message) not in ids]), changes


_SAID_BESIDE = ("block", "thoughtSignature", "itemId", "isEmpty")
"""What an empty text may be there for."""


def _is_marked(part: Part, profile: Profile) -> bool:
    return bool(part.options) and any(profile.own(part.options).get(key) for key in _SAID_BESIDE)


def _is_empty(part: Part, profile: Profile) -> bool:
    if type(part) is Reasoning:
        return not profile.thinks_alone or _is_blank(part, profile)
    if type(part) is not Text or (part.text and not part.text.isspace()):
        return False
    if _is_marked(part, profile):
        return False
    return not part.text or profile.blank_text == "drop"


def has_foreign_blocks(_: Profile, facts: Facts) -> bool:
    return "block" in facts.option_keys or facts.has_media_result


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
    own = profile.own(options)
    if not profile.reads_blocks or not isinstance(own.get("block"), Mapping):
        return False
    is_responses = profile.protocol == "openai-responses"
    return own.get("host") == profile.provider if is_responses else "host" not in own
