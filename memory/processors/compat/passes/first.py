"""Who speaks first."""

from __future__ import annotations

from memory.messages.prompt import Message, Prompt, Text
from memory.processors.changes import Change, Spot
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

PLACEHOLDER = "."


def begins_wrong(profile: Profile, _: Facts) -> bool:
    return profile.first_user == "synthesise"


def begin_with_user(prompt: Prompt, _: Profile, __: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A user message with a single dot before a history that begins with the assistant."""
    for i, message in enumerate(prompt.messages):
        if message.role == "system":
            continue
        if message.role != "assistant":
            break
        dot = Message("user", (Text(PLACEHOLDER),))
        reason = "The first message has to be the user's."
        change = Change(rule, reason, "reshaped", Spot(message.id), None, PLACEHOLDER)
        return Prompt((*prompt.messages[:i], dot, *prompt.messages[i:])), [change]
    return prompt, []
