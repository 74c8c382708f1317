"""Reasoning of another origin: some providers refuse it, and everybody refuses what they did not sign."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memory.messages.prompt import Message, Part, Prompt, Reasoning
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile


def may_act(profile: Profile, facts: Facts) -> bool:
    return facts.has_reasoning and profile.reasoning != "keep"


def may_be_signed_elsewhere(profile: Profile, facts: Facts) -> bool:
    return facts.has_reasoning and profile.reasoning == "native"


def drop_unsigned(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Leave out all reasoning where the target takes none, else what carries no seal of the target."""
    if profile.reasoning == "native":
        reason = f"{profile.title} takes only reasoning that it signed itself. It stays in the thread."
        return _drop(prompt, rule, reason, lambda part: not is_sealed(part, profile))
    reason = f"{profile.title} does not take reasoning in a request. It stays in the thread."
    return _drop(prompt, rule, reason, lambda _part: True)


def drop_signed_elsewhere(prompt: Prompt, profile: Profile, _: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Leave out reasoning in the target's own format that another provider wrote: its signature is refused.

    Vertex and Bedrock serve the same signatures for Claude, so they are no strangers to Anthropic.
    """
    own = (profile.provider, "vertex", "bedrock") if profile.namespace == "anthropic" else (profile.provider,)
    reason = f"Another provider signed this reasoning in {profile.title}'s format. It stays in the thread."

    def is_foreign(part: Reasoning) -> bool:
        sealed = is_sealed(part, profile)
        return sealed and part.origin is not None and part.origin.provider not in own

    return _drop(prompt, rule, reason, is_foreign)


def is_sealed(part: Reasoning, profile: Profile) -> bool:
    """Whether the part carries a seal of the target's format: a signature, sealed data, an item id."""
    own = part.options.get(profile.namespace) if part.options else None
    return isinstance(own, Mapping) and any(own.get(key) for key in profile.seals)


def _drop(
    prompt: Prompt, rule: str, reason: str, is_refused: Callable[[Reasoning], bool]
) -> tuple[Prompt, list[Change]]:
    changes: list[Change] = []

    def keep(message: Message, part: Part) -> Part | None:
        if not isinstance(part, Reasoning) or not is_refused(part):
            return part
        changes.append(Change(rule, reason, "reasoning hidden", spot_of(message, part), brief(part)))
        return None

    return prompt.map_parts(keep, roles=("assistant",)), changes
