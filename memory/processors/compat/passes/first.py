"""Who speaks first."""

from __future__ import annotations

from memory.messages.prompt import Message, Prompt, Text
from memory.processors.changes import Change, Spot
from memory.processors.compat.passes.facts import Facts
from memory.processors.compat.passes.system import told_role
from memory.profiles.profile import Profile

PLACEHOLDER = "."


def begins_wrong(profile: Profile, _: Facts) -> bool:
    return profile.first_user == "synthesise"


def begin_with_user(prompt: Prompt, _: Profile, __: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """A user message with a single dot where the assistant begins, or where only the system spoke."""
    messages = prompt.messages
    first = next((i for i, message in enumerate(messages) if not _is_systems(message)), len(messages))
    if not messages or (first < len(messages) and messages[first].role != "assistant"):
        return prompt, []
    dot = Message("user", (Text(PLACEHOLDER),))
    reason = "The first message has to be the user's."
    before = messages[first] if first < len(messages) else messages[-1]
    is_last = first == len(messages)
    change = Change(rule, reason, "reshaped", Spot(before.id), None, PLACEHOLDER, breaks_prefix=is_last)
    return Prompt((*messages[:first], dot, *messages[first:])), [change]


def _is_systems(message: Message) -> bool:
    return message.role == "system" or told_role(message) is not None
