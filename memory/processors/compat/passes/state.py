"""A conversation whose beginning lies at the server: what is sent of it, and what when the server has lost it."""

from __future__ import annotations

from memory.messages.prompt import Prompt
from memory.processors.changes import Change, Spot
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

PREVIOUS = "previous_response_id"


def is_lost(_: Profile, facts: Facts) -> bool:
    return False  # only the server knows: an error asks for it


def forget_previous(prompt: Prompt, _: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """The request without the id of a previous response, so with the whole history."""
    previous = facts.call.settings.get(PREVIOUS)
    if not previous:
        return prompt, []
    facts.call.settings = {key: value for key, value in facts.call.settings.items() if key != PREVIOUS}
    facts.call.needs["without"] = [PREVIOUS]
    reason = "The server does not know the previous response; the whole history is sent instead."
    return prompt, [Change(rule, reason, "same", Spot(""), str(previous))]


def goes_on(profile: Profile, facts: Facts) -> bool:
    return profile.item_ids and bool(facts.call.settings.get(PREVIOUS))


def send_what_follows(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Only what follows the last assistant message: the rest is what the previous response went on from."""
    last = max((i for i, message in enumerate(prompt.messages) if message.role == "assistant"), default=-1)
    known = [message for message in prompt.messages[: last + 1] if message.role != "system"]
    if not known:
        return prompt, []
    reason = f"{profile.title} keeps the conversation up to the previous response; what follows it is sent."
    changes = [Change(rule, reason, "same", Spot(message.id), f"{message.role} message") for message in known]
    system = tuple(message for message in prompt.messages[: last + 1] if message.role == "system")
    return Prompt((*system, *prompt.messages[last + 1 :])), changes
