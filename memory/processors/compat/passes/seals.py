"""Signatures on calls and ids of items: marks that only the host that set them can check."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from memory.messages.prompt import Message, Part, Prompt, Reasoning, Text, ToolCall, ToolResult
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
        own = profile.own(first.options)
        is_own = message.origin is None or profile.takes_seals_of(message.origin.provider)
        has_good = is_own and not facts.call.is_forced and _may_be_real(own.get("thoughtSignature"))
        if has_good or own.get("thoughtSignature") == SENTINEL:
            out.append(message)
            continue
        reason = f"{profile.title} wants a signature on the first call of a step; the stand-in says there is none."
        before = "a signature of another origin" if own.get("thoughtSignature") else None
        changes.append(Change(rule, reason, "same", spot_of(message, first), before, SENTINEL))
        options = profile.with_own(first.options, {**own, "thoughtSignature": SENTINEL})
        signed = replace(first, options=options)
        out.append(replace(message, content=tuple(signed if part is first else part for part in message.content)))
    return prompt.with_messages(out), changes


def may_hold_signatures(profile: Profile, facts: Facts) -> bool:
    return profile.signs_parts and not facts.option_keys.isdisjoint(("thoughtSignature", "resultPart"))


def drop_foreign_signatures(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Signatures of another origin go from their parts, which stay; the first call of a step gets a stand-in later.

    Asked for by an error: all of them go.
    """
    changes: list[Change] = []
    signed_later = _first_calls(prompt) if profile.signs_calls else set()

    def change(message: Message, part: Part) -> Part:
        own = signed = profile.own(part.options)
        if isinstance(part, ToolResult):  # what the call is signed with stands beside it, as they share their options
            signed = value if isinstance(value := own.get("resultPart"), Mapping) else {}
        signature = signed.get("thoughtSignature")
        if signature is None or signature == SENTINEL or id(part) in signed_later:
            return part
        is_own = message.origin is None or profile.takes_seals_of(message.origin.provider)
        if is_own and not facts.call.is_forced and _may_be_real(signature):
            return part
        reason = f"{profile.title} can't verify a signature of another origin; the part is sent without it."
        changes.append(Change(rule, reason, "same", spot_of(message, part), "a signature of another origin"))
        rest = {key: value for key, value in signed.items() if key != "thoughtSignature"}
        kept = rest if signed is own else {**own, "resultPart": rest}
        return replace(part, options=profile.with_own(part.options, kept))

    return prompt.map_parts(change, roles=("user", "assistant"), at=facts.options_at), changes


def _first_calls(prompt: Prompt) -> set[int]:
    firsts = (
        next((part for part in m.parts if isinstance(part, ToolCall) and not part.provider_executed), None)
        for m in prompt.messages
        if m.role == "assistant"
    )
    return {id(part) for part in firsts if part is not None}


def _may_be_real(signature: Any) -> bool:
    """Signatures are bytes in base64, of either alphabet."""
    if not isinstance(signature, str) or not signature:
        return False
    plain = signature.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return bool(base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True))
    except (binascii.Error, ValueError):
        return False


_IDS = ("itemId", "resultItemId")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PREFIXES: dict[type, str] = {Text: "msg_", Reasoning: "rs_", ToolCall: "fc_"}


def may_hold_item_ids(profile: Profile, facts: Facts) -> bool:
    return profile.item_ids and not facts.option_keys.isdisjoint((*_IDS, "reasoningEncryptedContent"))


def settle_item_ids(prompt: Prompt, profile: Profile, facts: Facts, rule: str) -> tuple[Prompt, list[Change]]:
    """Item ids the server can't know: one in a foreign form, of another maker or that stands twice.

    With them goes reasoning that an answer cut off ends with. All of them when nothing is stored there. Asked for by an
    error: all, and the sealed reasoning they belong to.
    """
    forced, unstored = facts.call.is_forced, facts.call.settings.get("store") is False
    again = _with_an_id_again(prompt, profile, facts)
    changes: list[Change] = []

    def is_unknown(message: Message, part: Part, own: Mapping[str, Any]) -> bool:
        if forced or unstored or id(part) in again:
            return True
        if profile.checks_item_ids and message.origin is not None and message.origin.provider != profile.provider:
            return True
        return profile.checks_item_ids and not _has_form(part, own)

    def change(message: Message, part: Part) -> Part | None:
        own = profile.own(part.options) if part.options else None
        if not own:
            return part
        has_unknown = ("itemId" in own or "resultItemId" in own) and is_unknown(message, part, own)
        if isinstance(part, Reasoning):
            is_lost = unstored or (has_unknown and "itemId" in own)
            if forced or (is_lost and not own.get("reasoningEncryptedContent")):
                why = "This reasoning can't be read there: nothing of it is stored, and its seal is refused or missing."
                changes.append(Change(rule, why, "reasoning hidden", spot_of(message, part), "reasoning item"))
                return None
        if not has_unknown:
            return part
        why = "An item id that the server does not know, or that stands twice, is refused; the item goes without it."
        changes.append(Change(rule, why, "same", spot_of(message, part), own.get("itemId")))
        rest = {key: value for key, value in own.items() if key not in _IDS}
        return replace(part, options=profile.with_own(part.options, rest))

    out = prompt.map_parts(change, roles=("assistant", "tool"), at=facts.options_at)
    places = facts.options_at if len(out.messages) == len(prompt.messages) else None
    if profile.checks_item_ids and (alone := _led_nowhere(out, profile, places)):

        def keep(message: Message, part: Part) -> Part | None:
            if id(part) not in alone:
                return part
            why = "Reasoning that the server knows by its id is refused without the item it led to, and there is none."
            changes.append(Change(rule, why, "reasoning hidden", spot_of(message, part), "reasoning item"))
            return None

        out = out.map_parts(keep, roles=("assistant",), at=places)
    return out, changes


def _led_nowhere(prompt: Prompt, profile: Profile, places: list[int] | None) -> set[int]:
    """Identities of reasoning with an item id that nothing follows in its stored message, as of an answer cut off.

    `places` are those of the messages that have such parts, where they are known.
    """
    alone: set[int] = set()
    if places is not None and not any(type(prompt.messages[at].parts[-1]) is Reasoning for at in places):
        return alone
    follows, stored = False, ""
    for message in reversed(prompt.messages):
        if message.role != "assistant" or message.id != stored:
            follows, stored = False, message.id
        if message.role != "assistant":
            continue
        for part in reversed(message.parts):
            if not isinstance(part, Reasoning):
                follows = True
            elif not follows and profile.own(part.options).get("itemId"):
                alone.add(id(part))
    return alone


def _with_an_id_again(prompt: Prompt, profile: Profile, facts: Facts) -> set[int]:
    """Identities of parts whose item id an earlier item has: the first keeps it, so that old turns keep their bytes.

    Parts of one item stand beside each other in one message; a call and its result have ids of their own.
    """
    seen: set[str] = set()
    again: set[int] = set()
    for i in range(len(prompt.messages)) if facts.options_at is None else facts.options_at:
        before: tuple[Any, bool, type | None] = (None, False, None)
        for part in prompt.messages[i].parts:
            own = profile.own(part.options) if part.options else None
            if not own:
                before = (None, False, None)
                continue
            item_id = own.get("resultItemId" if type(part) is ToolResult else "itemId")
            is_joined = (item_id, type(part)) == (before[0], before[2]) and not isinstance(part, ToolCall | ToolResult)
            is_again = isinstance(item_id, str) and (before[1] if is_joined else item_id in seen)
            if is_again:
                again.add(id(part))
            if isinstance(item_id, str):
                seen.add(item_id)
            before = (item_id, is_again, type(part))
    return again


def _has_form(part: Part, own: Mapping[str, Any]) -> bool:
    """Whether the ids are such as this API makes: letters and digits, behind the prefix of the item's kind."""
    for key in _IDS:
        item_id = own.get(key)
        if item_id is not None and (not isinstance(item_id, str) or not _ID.fullmatch(item_id)):
            return False
    prefix = _PREFIXES.get(type(part))
    item_id = str(own.get("itemId", prefix))
    if type(part) is ToolCall and (part.provider_executed or own.get("custom") or _kind(own)):
        return bool(_kind(own) or own.get("custom")) or item_id.partition("_")[0] in _KINDS
    return not prefix or item_id.startswith(prefix)


def _kind(own: Mapping[str, Any]) -> Any:
    call = own.get("call")
    return call.get("type") if isinstance(call, Mapping) else None


_KINDS = frozenset(
    [
        "msg",
        "rs",
        "fc",
        "ws",
        "fs",
        "ci",
        "ig",
        "cu",
        "ct",
        "lsh",
        "sh",
        "sho",
        "tsc",
        "tso",
        "cmp",
        "mcp",
        "mcpl",
        "mcpr",
        "ap",
    ]
)
"""How ids of items begin, by which one is named that is not sent again."""
