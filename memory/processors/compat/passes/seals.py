"""Signatures on calls and ids of items: marks that only the host that set them can check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import Message, Options, Part, Prompt, Reasoning, ToolCall
from memory.processors.changes import Change, spot_of
from memory.processors.compat.passes.facts import Facts
from memory.profiles.profile import Profile

SENTINEL = "skip_thought_signature_validator"


def needs_call_signature(profile: Profile, facts: Facts) -> bool:
    return profile.signs_calls and bool(facts.tool_ids)


def sign_first_calls(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """The first call of each step without a signature of the target gets the documented stand-in for one.

    Asked for by an error: whatever stands there is replaced.
    """
    changes: list[Change] = []
    out: list[Message] = []
    for message in prompt.messages:
        calls = [part for part in message.parts if isinstance(part, ToolCall)] if message.role == "assistant" else []
        first = next((call for call in calls if not call.provider_executed), None)
        if first is None or isinstance(message.content, str):
            out.append(message)
            continue
        own = dict((first.options or {}).get(profile.namespace) or {})
        is_own = message.origin is None or profile.takes_seals_of(message.origin.provider)
        has_good = own.get("thoughtSignature") and is_own and not facts.call.is_forced
        if has_good or own.get("thoughtSignature") == SENTINEL:
            out.append(message)
            continue
        reason = f"{profile.title} wants a signature on the first call of a step; the stand-in says there is none."
        before = "a signature of another origin" if own.get("thoughtSignature") else None
        changes.append(Change(rule, reason, "same", spot_of(message, first), before, SENTINEL))
        options = {**(first.options or {}), profile.namespace: {**own, "thoughtSignature": SENTINEL}}
        signed = replace(first, options=options)
        out.append(replace(message, content=tuple(signed if part is first else part for part in message.content)))
    return prompt.with_messages(out), changes


_IDS = ("itemId", "resultItemId")


def may_hold_item_ids(profile: Profile, facts: Facts) -> bool:
    return profile.item_ids


def settle_item_ids(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Item ids the server can't know: all of them when nothing is stored there, else those that stood earlier.

    Asked for by an error: all ids go, and the sealed reasoning they belong to.
    """
    forced, unstored = facts.call.is_forced, facts.call.settings.get("store") is False
    seen: dict[str, Message] = {}
    is_repeated = False
    for message in prompt.messages:
        if message.role != "assistant":
            continue
        for part in message.parts:
            item_id = _own(part.options, profile.namespace).get("itemId")
            # Parts of one item stand in one message.
            if isinstance(item_id, str) and seen.setdefault(item_id, message) is not message:
                is_repeated = True
    if not forced and not unstored and not is_repeated:
        return prompt, []
    changes: list[Change] = []

    def change(message: Message, part: Part) -> Part | None:
        own = _own(part.options, profile.namespace)
        item_id = own.get("itemId")
        is_unreadable = forced or (unstored and not own.get("reasoningEncryptedContent"))
        if isinstance(part, Reasoning) and own and is_unreadable:
            why = "This reasoning can't be read there: nothing of it is stored, and its seal is refused or missing."
            changes.append(Change(rule, why, "reasoning hidden", spot_of(message, part), "reasoning item"))
            return None
        # A result carries its call's id and is sent without it.
        is_known = isinstance(item_id, str) and message.role == "assistant" and seen.get(item_id) is not message
        if not any(key in own for key in _IDS) or not (forced or unstored or is_known):
            return part
        why = (
            "An item id that the server does not know, or that stood earlier, is refused; the item is taken without it."
        )
        changes.append(Change(rule, why, "same", spot_of(message, part), item_id))
        rest = {key: value for key, value in own.items() if key not in _IDS}
        return replace(part, options={**(part.options or {}), profile.namespace: rest})

    return prompt.map_parts(change), changes


def _own(options: Options | None, namespace: str) -> Mapping[str, Any]:
    value = options.get(namespace) if options else None
    return value if isinstance(value, Mapping) else {}
