"""What is left out when the target said that the request is too long, and the agent allows it."""

from __future__ import annotations

from msgspec import UNSET

from memory.messages.halves import write_mended
from memory.messages.prompt import Message, Prompt
from memory.processors.changes import Change, Spot
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

FAULT = "context-overflow"


def has_overflowed(_: Profile, facts: Facts) -> bool:
    return FAULT in facts.call.forced


def drop_oldest_turns(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Without the oldest turns, whole, until half is left; each further overflow halves again. The last turn stays."""
    count = facts.call.forced.count(FAULT)
    system = [message for message in prompt.messages if message.role == "system"]
    turns = _turns(prompt)
    sizes = [sum(map(_size, turn)) for turn in turns]
    left = sum(sizes)
    allowed = left / 2**count
    at = 0
    while at < len(turns) - 1 and (at < count or left > allowed):
        left -= sizes[at]
        at += 1
    reason = f"{profile.title} said that the request is too long; the oldest turns are left out of it."
    dropped = [message for turn in turns[:at] for message in turn]
    changes = [
        Change(rule, reason, "content lost", Spot(message.id), f"{message.role} message of an earlier turn")
        for message in dropped
    ]
    if not changes:
        return prompt, []
    return Prompt((*system, *(message for turn in turns[at:] for message in turn))), changes


def _turns(prompt: Prompt) -> list[list[Message]]:
    """From one message of the user to the next."""
    turns: list[list[Message]] = []
    for message in prompt.messages:
        if message.role == "system":
            continue
        if not turns or message.role == "user":
            turns.append([])
        turns[-1].append(message)
    return turns


def _size(message: Message) -> int:
    total = 0
    for part in message.parts:
        for value in (getattr(part, name, None) for name in ("text", "data", "input")):
            if isinstance(value, str):
                total += len(value)
            elif value is not None and value is not UNSET:
                total += len(write_mended(value))
        if (output := getattr(part, "output", None)) is not None:
            total += len(write_mended(output.value))
    return total
