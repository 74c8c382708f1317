"""Whether a request begins with what the last one sent: where it does not, the provider's prompt cache is of no use."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from memory.errors import InvalidInput
from memory.messages.stored import decode_json
from memory.models import Attempt
from memory.principal import can_be_looked_up
from memory.services.preview import Preview


class CacheBreak(Struct, frozen=True):
    """Where a request stops beginning with what the last answered one to this model sent, so that its cache is lost.

    `place` names the first message that differs, or the key outside of them; `size_bytes` is what both share.
    """

    place: str
    size_bytes: int
    run_id: str
    number: int


def cache_break(thread_id: str, agent_id: str, shown: Preview) -> CacheBreak | None:
    """The first difference to the thread's last answered request of this agent to the same model.

    None where its prefix is kept, or where there was none.
    """
    if not can_be_looked_up(shown.model):
        return None
    last = (
        Attempt.objects.filter(
            run__thread=thread_id,
            run__agent=agent_id or None,
            provider=shown.provider,
            model_id=shown.model,
            protocol=shown.protocol,
            decision="answered",
        )
        .order_by("-started_at")
        .values_list("run_id", "number", "request_body")
        .first()
    )
    if last is None:
        return None
    run_id, number, packed = last
    before, now = zlib.decompress(packed) if packed else b"", shown.request.body
    try:
        old, new = _unmarked(decode_json(before)), _unmarked(decode_json(now))
    except InvalidInput:
        return None
    place = _first_difference(old, new) if isinstance(old, dict) and isinstance(new, dict) else ""
    return CacheBreak(place, _shared(before, now), run_id, number) if place else None


def _shared(before: bytes, now: bytes) -> int:
    """How many bytes both begin with, found by halving: a comparison of slices costs far less than one of bytes."""
    low, high = 0, min(len(before), len(now))
    while low < high:
        middle = (low + high + 1) // 2
        if before[:middle] == now[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _first_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    for key in ("tools", "system", "instructions", "systemInstruction"):
        if old.get(key) != new.get(key):
            return key
    for key in ("messages", "input", "contents"):
        had, has = old.get(key), new.get(key)
        if isinstance(had, list) and isinstance(has, list):
            same = next((i for i, (a, b) in enumerate(zip(had, has, strict=False)) if a != b), min(len(had), len(has)))
            if same < len(had):
                return f"{key}[{same}]"
    return ""


def _unmarked(value: Any) -> Any:
    """Without cache markers: they move with every turn, and mark the prefix without being part of it."""
    if isinstance(value, dict):
        return {key: _unmarked(entry) for key, entry in value.items() if key not in ("cache_control", "cachePoint")}
    return [_unmarked(entry) for entry in value] if isinstance(value, list) else value
