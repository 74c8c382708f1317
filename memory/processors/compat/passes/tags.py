"""Reminder tags under a name that a content filter lets pass."""

from __future__ import annotations

import re

from msgspec.structs import replace

from memory.messages.prompt import Message, Part, Prompt, Text
from memory.processors.changes import Change, Spot, brief, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

_OPEN_TAG = re.compile(r"<system-reminder(?=\s|/?>)([^>]*)>")


def may_hold_tags(profile: Profile, _: Facts) -> bool:
    return not profile.reminder_tags


def settle_tags(prompt: Prompt, _: Profile, __: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    return rename_reminders(prompt, rule)


def rename_reminders(prompt: Prompt, rule: str) -> tuple[Prompt, list[Change]]:
    """The tag system-reminder as memory-context, in what the system and the user say."""
    changes: list[Change] = []
    reason = "Azure's content filter takes the tag system-reminder for an injection."

    def change(message: Message, part: Part) -> Part:
        if not isinstance(part, Text) or (new := _renamed(part.text)) == part.text:
            return part
        changes.append(Change(rule, reason, "same", spot_of(message, part), brief(part), new[:300]))
        return replace(part, text=new)

    out = prompt.map_parts(change, roles=("user",))
    messages = []
    for message in out.messages:
        if isinstance(message.content, str) and message.role in ("system", "user"):
            new = _renamed(message.content)
            if new != message.content:
                changes.append(Change(rule, reason, "same", Spot(message.id), message.content[:300], new[:300]))
                message = replace(message, content=new)
        messages.append(message)
    return out.with_messages(messages), changes


def _renamed(text: str) -> str:
    return _OPEN_TAG.sub(r"<memory-context\1>", text).replace("</system-reminder>", "</memory-context>")
