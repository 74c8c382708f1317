"""Reasoning of another origin: some providers refuse it, and everybody refuses what they did not sign."""

from __future__ import annotations

from collections.abc import Callable

from memory.messages.prompt import Message, Origin, Part, Prompt, Reasoning
from memory.processors.changes import Change, brief, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles import plain_model
from memory.profiles.profile import Profile

SIGNED_ELSEWHERE = "foreign-signature"
_REASONING: frozenset[type[Part]] = frozenset((Reasoning,))


def may_act(profile: Profile, facts: Facts) -> bool:
    return facts.has_reasoning and profile.reasoning != "keep"


def may_be_signed_elsewhere(profile: Profile, facts: Facts) -> bool:
    if not facts.has_reasoning or profile.reasoning != "native":
        return False
    if SIGNED_ELSEWHERE in facts.call.forced:
        return True
    return any(_has_foreign_seals(by, profile, facts.call.model_id) for by in facts.reasoners)


def drop_unsigned(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Leave out all reasoning where the target takes none, else what carries no seal of the target."""
    if profile.reasoning == "own":
        own = f"{profile.title} takes its own reasoning back, not another provider's. It stays in the thread."
        return _drop(prompt, facts, rule, own, lambda part: _is_by_another(part, profile, facts.call.model_id))
    if profile.reasoning == "native":
        reason = f"{profile.title} takes only reasoning that it signed itself. It stays in the thread."
        return _drop(prompt, facts, rule, reason, lambda part: not is_sealed(part, profile))
    reason = f"{profile.title} does not take reasoning in a request. It stays in the thread."
    return _drop(prompt, facts, rule, reason, lambda _part: True)


def drop_signed_elsewhere(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Leave out reasoning in the target's own format that another provider wrote: its signature is refused.

    Signatures that several platforms share are no strangers to any of them (`Profile.signers`).
    """
    reason = f"Another provider signed this reasoning in {profile.title}'s format. It stays in the thread."
    foreign = {by for by in facts.reasoners if _has_foreign_seals(by, profile, facts.call.model_id)}

    def is_foreign(part: Reasoning) -> bool:
        is_refused = facts.call.is_forced or part.origin in foreign or not _may_be_sealed(part, profile)
        return is_refused and is_sealed(part, profile)

    return _drop(prompt, facts, rule, reason, is_foreign)


def _may_be_sealed(part: Reasoning, profile: Profile) -> bool:
    """Whether the seal, if there is one, looks as this provider makes them."""
    if not profile.seal_prefix:
        return True
    sealed = profile.own(part.options).get("reasoningEncryptedContent")
    return not sealed or str(sealed).startswith(profile.seal_prefix)


def _has_foreign_seals(by: Origin | None, profile: Profile, model_id: str) -> bool:
    if by is None:
        return False
    if not profile.takes_seals_of(by.provider):
        return True
    if not (profile.seals_by_model and by.model_id and (own := plain_model(model_id))):
        return False
    return plain_model(by.model_id) != own


def _is_by_another(part: Reasoning, profile: Profile, model_id: str) -> bool:
    """Whether a stamp, or where there is none the only marks on it, names another provider."""
    if not profile.reads_sealed and any(
        value.get("redactedData") for value in (part.options or {}).values() if isinstance(value, dict)
    ):
        return True
    if part.origin is not None:
        by_model = bool(profile.seals_by_model and part.origin.model_id and model_id)
        return part.origin.provider != profile.provider or (by_model and part.origin.model_id != model_id)
    named = {name for name in part.options or () if name != "mastra"}
    return bool(named) and named.isdisjoint({profile.namespace, profile.also_under})


def is_sealed(part: Reasoning, profile: Profile) -> bool:
    """Whether the part carries a seal of the target's format: a signature, sealed data, an item id."""
    if not part.options:
        return False
    space = profile.namespace
    if profile.also_under and profile.space(part.options) == profile.also_under:
        space = profile.also_under
    own = part.options.get(space)
    if type(own) is not dict:
        return False
    for key in profile.seals:  # noqa: SIM110  # met for every thought of a prompt; a generator costs twice as much
        if own.get(key):
            return True
    return False


def _drop(
    prompt: Prompt, facts: Facts, rule: str, reason: str, is_refused: Callable[[Reasoning], bool]
) -> tuple[Prompt, list[Change]]:
    changes: list[Change] = []
    kept: list[Origin | None] = []  # neighbours are mostly of one origin

    def keep(message: Message, part: Reasoning) -> Part | None:
        if not is_refused(part):
            if not kept or kept[-1] is not part.origin:
                kept.append(part.origin)
            return part
        changes.append(Change(rule, reason, "reasoning hidden", spot_of(message, part), brief(part)))
        return None

    out = prompt.map_parts(keep, roles=("assistant",), of=_REASONING, at=facts.reasoning_at)
    facts.reasoners, facts.has_reasoning = set(kept), bool(kept)
    return out, changes
