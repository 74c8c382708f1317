"""Lasting repairs of stored messages: what a provider's error asks for, for faults that every later turn would meet.

Each takes the messages of a thread as plain dicts it may change, and says whether anything changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from memory.messages.stored import StoredMessage, content_of, parts_of, tool_invocations
from memory.profiles.profile import IdFormat

LASTING = ("anthropic-tool-id-format", "openai-responses-reasoning-orphan")
"""The rules that these are for."""
_CLAUDE_IDS = IdFormat(refused="[^a-zA-Z0-9_-]")


def rename_bad_tool_ids(messages: list[StoredMessage]) -> bool:
    """Characters outside letters, digits, `_` and `-` become `_`, distinct over the thread; valid ids never change."""
    ids: dict[str, None] = {}
    for message in messages:
        for invocation in tool_invocations(content_of(message["content"])):
            if isinstance(call_id := invocation.get("toolCallId"), str) and call_id:
                ids.setdefault(call_id)
    taken = {call_id for call_id in ids if _CLAUDE_IDS.fits(call_id)}
    table: dict[str, str] = {}
    further: dict[str, Iterator[str]] = {}  # where ids that come to the same go on trying
    for call_id in ids:
        if call_id not in taken:
            forms = _CLAUDE_IDS.forms(call_id)
            plain = next(forms)
            if plain in taken:
                forms = further.setdefault(plain, forms)
                plain = next(form for form in forms if form not in taken)
            table[call_id] = plain
            taken.add(plain)
    if not table:
        return False
    for message in messages:
        content = message["content"]
        if not isinstance(content, dict):
            continue
        for holder in _id_holders(content):
            if holder.get("toolCallId") in table:
                holder["toolCallId"] = table[holder["toolCallId"]]
        metadata = content.get("metadata")
        for key in ("pendingToolApprovals", "suspendedTools"):
            waiting = metadata.get(key) if isinstance(metadata, dict) else None
            if isinstance(waiting, dict) and isinstance(metadata, dict):
                metadata[key] = {table.get(name, name): value for name, value in waiting.items()}
    return True


def _id_holders(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every object of a message that names a call id."""
    yield from tool_invocations(content)
    for part in parts_of(content):
        if part.get("type") in ("data-tool-call-approval", "data-tool-call-suspended"):
            data = part.get("data")
            if isinstance(data, dict):
                yield data
    metadata = content.get("metadata")
    for key in ("pendingToolApprovals", "suspendedTools"):
        waiting = metadata.get(key) if isinstance(metadata, dict) else None
        values = waiting.values() if isinstance(waiting, dict) else waiting if isinstance(waiting, list) else ()
        yield from (value for value in values if isinstance(value, dict))


def drop_orphan_item_ids(messages: list[StoredMessage]) -> bool:
    """Responses item ids go from assistant messages whose reasoning item is not there any more."""
    changed = False
    before: StoredMessage | None = None
    for message in messages:
        if message["role"] == "assistant" and not _has(message, "reasoning"):
            continues = before is not None and before["role"] == "assistant" and _has(before, "reasoning")
            if not (continues and before is not None and not _has(before, "text")):
                for part in parts_of(content_of(message["content"])):
                    changed |= _drop_item_ids(part)
        before = message
    return changed


def _has(message: StoredMessage, kind: str) -> bool:
    return any(part.get("type") == kind for part in parts_of(content_of(message["content"])))


def _drop_item_ids(part: dict[str, Any]) -> bool:
    changed = False
    for holder in (part.get("providerMetadata"), part.get("providerOptions")):
        for namespace in ("openai", "azure"):
            options = holder.get(namespace) if isinstance(holder, dict) else None
            if isinstance(options, dict) and ("itemId" in options or "resultItemId" in options):
                options.pop("itemId", None)
                options.pop("resultItemId", None)
                changed = True
    return changed


TOOL_ID_ERRORS = (
    re.compile(r"tool_use\.id:.*should match pattern", re.I | re.S),
    re.compile(r"tool_call_id.*invalid", re.I | re.S),
)
ORPHAN_ITEM_ERRORS = (
    re.compile(r"Item '[^']*' of type 'message' was provided without its required 'reasoning' item", re.I),
)
