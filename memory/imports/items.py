"""Items of OpenAI's Responses and Conversations APIs, as their lists give them.

A list without times comes newest first unless it was asked for otherwise, so the order is told from the items: a
result follows its call, reasoning what it led to, an answer its question. Source: OpenAI's reference of
`GET /v1/conversations/{id}/items` and `GET /v1/responses/{id}/input_items`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.errors import InvalidInput
from memory.imports.values import PREFIX, Dump, digest, key_of, moment, objects, settled, stamp_of, stamped, word
from memory.messages.from_prompt import from_prompt
from memory.providers import openai_responses

_ASKING = ("user", "system", "developer")
_NO_MESSAGE = "item_reference"


def read(value: Any) -> Iterator[Dump]:
    """The one conversation of a list of items, of `{data: [items]}` or `{items: ...}` (with the conversation's id).

    Raises InvalidInput when it holds none.
    """
    listed = value.get("items", value) if isinstance(value, Mapping) else value
    given = objects(listed)
    if not given:
        raise InvalidInput("it holds no items")
    items = given if _is_oldest_first(given) else given[::-1]
    left_out = [(word(item, "id"), "an item is left out: it only refers") for item in items if _refers(item)]
    items = [item for item in items if not _refers(item)]
    about = _conversation(value)
    key = key_of(word(about, "id") or word(items[0] if items else {}, "id") or digest(items[:1]), kind="items")
    if isinstance(listed, Mapping) and listed.get("has_more"):
        left_out.append((key, "the list says that there are more items than it holds"))
    read_ = openai_responses.decode_request({"input": items}, provider="openai")
    stamp = stamp_of("openai", openai_responses.PROTOCOL, word(about, "model"))
    messages = [stamped(message, stamp) for message in from_prompt(read_.prompt)]
    begun = moment(about.get("created_at"))
    if begun and messages:
        messages[0] = {**messages[0], "createdAt": begun}
    held = settled(messages, key)
    metadata = about.get("metadata")
    yield Dump(
        format="openai-items",
        thread_id=PREFIX + key,
        messages=held.messages,
        created_at=begun,
        metadata=metadata if isinstance(metadata, Mapping) else {},
        system=[message.text for message in read_.prompt.messages if message.role == "system"],
        provider="openai",
        protocol=openai_responses.PROTOCOL,
        model=word(about, "model"),
        left_out=[*left_out, *held.left_out],
    )


def _conversation(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        return {}
    about = value.get("conversation", value if "items" in value else {})
    return about if isinstance(about, Mapping) else {}


def _refers(item: Mapping[str, Any]) -> bool:
    return item.get("type") == _NO_MESSAGE


def _is_oldest_first(items: Sequence[Mapping[str, Any]]) -> bool:
    calls: dict[str, int] = {}
    for place, item in enumerate(items):
        kind, call_id = word(item, "type"), word(item, "call_id")
        if not call_id:
            continue
        if call_id in calls and calls[call_id] >= 0:
            return kind.endswith("_output")
        calls[call_id] = place
    for place, item in enumerate(items):
        if item.get("type") == "reasoning":
            # Reasoning never stands last in a turn, and never first behind an answer of the same turn.
            after = items[place + 1] if place + 1 < len(items) else {}
            return bool(after) and after.get("role") not in _ASKING
    roles = [word(item, "role") for item in items if word(item, "role")]
    if roles and (roles[0] in _ASKING) != (roles[-1] in _ASKING):
        return roles[0] in _ASKING
    return len(items) == 1
