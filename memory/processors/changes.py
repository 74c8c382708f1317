"""What a rule changed or would change: shown beside the message, kept with the attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from memory.messages.prompt import Message, Part, Prompt, Reasoning, Text, ToolCall, ToolResult
from memory.messages.stored import StoredMessage

Loss = Literal["same", "reshaped", "reasoning hidden", "content lost"]
Severity = Literal["breaks", "degrades", "cosmetic"]


class Spot(Struct, frozen=True, gc=False):
    """Where in the history a change happened: a stored message and one of its parts. Stays true through all passes."""

    message_id: str
    part: int | None = None
    is_result: bool = False
    """Only the result of a tool part, not its call."""


class Change(Struct, frozen=True, gc=False):
    """One change by one rule. `before` and `after` are short JSON values; None where nothing was or nothing is left."""

    rule: str
    reason: str
    loss: Loss
    spot: Spot
    before: Any = None
    after: Any = None
    severity: Severity = "breaks"
    breaks_prefix: bool = False
    """It changes what an earlier request of the thread sent, or adds what no later one will send."""


def told_of_cache(change: Change) -> Change:
    """The change, whose reason says it where the provider's prompt cache begins anew."""
    if not change.breaks_prefix or change.reason.endswith(_ANEW):
        return change
    return replace(change, reason=f"{change.reason} {_ANEW}")


_ANEW = "The prompt cache begins anew from here."


class Placed(Struct, frozen=True):
    """A change with its number and its places: JSON pointers into the stored thread and into the request body."""

    number: int
    rule: str
    family: str
    severity: Severity
    stored: str | None
    sent: str | None
    also_sent: tuple[str, ...]
    message_id: str
    before: Any
    after: Any
    reason: str
    loss: Loss


class Finding(Struct, frozen=True):
    """A change that was not made because its rule is only reporting."""

    rule: str
    place: str
    severity: Severity
    reason: str
    would_do: str


def spot_of(message: Message, part: Part | None = None) -> Spot:
    if part is None:
        return Spot(message.id)
    return Spot(part.of or message.id, part.at)


def place_changes(
    changes: list[Change],
    *,
    stored: list[StoredMessage],
    prompt: Prompt,
    places: Mapping[tuple[int, int], str],
    families: Mapping[str, str],
) -> list[Placed]:
    """Changes in message order, numbered from 1, with their places in the thread and in the encoded request."""
    position = {message["id"]: i for i, message in enumerate(stored) if message.get("id")}
    sent: dict[Spot, list[str]] = {}
    changed = {change.spot.message_id for change in changes}
    for i, message in enumerate(prompt.messages):
        for j, part in enumerate(message.parts):
            if message.id not in changed and part.of not in changed:
                continue
            pointer = places.get((i, j)) or places.get((i, -1))
            if pointer is not None:
                spot = spot_of(message, part)
                for known in {spot, Spot(message.id), Spot(spot.message_id)}:
                    sent.setdefault(known, []).append(pointer)
                if isinstance(part, ToolResult):
                    sent.setdefault(replace(spot, is_result=True), []).append(pointer)
    ordered = sorted(
        changes, key=lambda c: (position.get(c.spot.message_id, -1), c.spot.part if c.spot.part is not None else -1)
    )
    out = []
    for number, change in enumerate(ordered, start=1):
        at = position.get(change.spot.message_id)
        pointer = None if at is None else f"/messages/{at}"
        if pointer is not None and change.spot.part is not None:
            pointer += f"/content/parts/{change.spot.part}"
        landed = sent.get(change.spot, []) if change.after is not None else []
        out.append(
            Placed(
                number=number,
                rule=change.rule,
                family=families.get(change.rule, ""),
                severity=change.severity,
                stored=pointer,
                sent=landed[0] if landed else None,
                also_sent=tuple(landed[1:]) if change.spot.part is not None else (),
                message_id=change.spot.message_id,
                before=change.before,
                after=change.after,
                reason=change.reason,
                loss=change.loss,
            )
        )
    return out


def brief(part: Part, *, limit: int = 300) -> Any:
    """A part as a short value for `before` and `after`."""
    if isinstance(part, (Reasoning, Text)):
        text = part.text
        return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"
    if isinstance(part, ToolCall):
        return {"call": part.id, "tool": part.name}
    if isinstance(part, ToolResult):
        return {"result": part.call_id, "tool": part.name}
    return {"file": part.media_type}


def changes_by_comparison(rule: str, before: Prompt, after: Prompt) -> list[Change]:
    """What one's own rule or processor did, message by message: it does not say so itself."""
    reason = "Changed by a rule of this installation."
    old = {(m.id, m.role, i if not m.id else 0): m for i, m in enumerate(before.messages)}
    new = {(m.id, m.role, i if not m.id else 0): m for i, m in enumerate(after.messages)}
    out: list[Change] = []
    for key in [*old, *(key for key in new if key not in old)]:
        was, now = old.get(key), new.get(key)
        if was is not now and was != now:
            spot = Spot(key[0])
            out.append(
                Change(rule, reason, "reshaped", spot, was.text[:300] if was else None, now.text[:300] if now else None)
            )
    return out
