"""What the wire modules have in common: options of a namespace, files, the one JSON encoder, checks of a body read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import UNSET, Struct

from memory.errors import EncodingError, InvalidInput, ProviderError
from memory.messages.halves import write_mended
from memory.messages.prompt import Message, Options, Part, Text
from memory.messages.values import encode_json
from memory.providers.classify import classify

Wire = Struct | dict[str, Any]
"""A block as it is written: a Struct, or a dict where it has keys that no Struct knows. Absent keys are UNSET."""

Landed = tuple[int, int, int, str, int]
"""Where a part landed: message and part of the prompt, message of the body, what it is there, its number (-1: none)."""

Run = tuple[int, int, int, int, int]
"""Neighbouring parts that landed side by side in a content: message and first part of the prompt, message of the body,
number of the first one there, how many."""

NOTHING: Mapping[str, Any] = {}
_DATA_URI = re.compile(r"data:([^;,]*)[^,]*?(;base64)?,")


class Places(Mapping[tuple[int, int], str]):
    """JSON pointers of all parts, written out when first asked for: most requests are sent without a look at them."""

    def __init__(
        self,
        landed: list[Landed],
        runs: Sequence[Run] = (),
        *,
        system: str = "/system",
        messages: str = "/messages",
        content: str = "content",
    ) -> None:
        self._landed = landed
        self._runs = runs
        self._system = system
        self._messages = messages
        self._content = content

    @cached_property
    def _pointers(self) -> dict[tuple[int, int], str]:
        out: dict[tuple[int, int], str] = {}
        for i, j, number, name, index in self._landed:
            whole = f"{self._system if name == 'system' else self._messages}/{number}"
            pointer = whole
            if name and name != "system":
                pointer = f"{whole}/{name}" if index < 0 else f"{whole}/{name}/{index}"
            out.setdefault((i, -1), whole)
            if j >= 0:
                out[i, j] = pointer
        for i, j, number, first, count in self._runs:
            whole = f"{self._messages}/{number}"
            out.setdefault((i, -1), whole)
            for further in range(count):
                out[i, j + further] = f"{whole}/{self._content}/{first + further}"
        return out

    def __getitem__(self, key: tuple[int, int]) -> str:
        return self._pointers[key]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._pointers)

    def __len__(self) -> int:
        return len(self._pointers)


def lone_text(message: Message) -> str | None:
    """The text of a message that holds one text without options, and nothing else: so do most."""
    content = message.content
    if isinstance(content, str):
        return content
    return part.text if len(content) == 1 and type(part := content[0]) is Text and not part.options else None


def own(options: Options | None, namespace: str) -> Mapping[str, Any]:
    """What these options hold for `namespace`; an empty mapping when nothing."""
    return mapping(options.get(namespace)) if options else NOTHING


def mapping(value: Any) -> Mapping[str, Any]:
    """The value when it is an object, else an empty one."""
    # Nothing and a dict are nearly all there is; the general question costs ten times as much.
    if value is None:
        return NOTHING
    return value if type(value) is dict or isinstance(value, Mapping) else NOTHING


def extra_keys(value: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Its keys that are not `known` and not null: everywhere on the wire null means absent."""
    return {key: item for key, item in value.items() if key not in known and item is not None}


def namespaced(namespace: str, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Options that hold those of `values` that say something (not None, not empty, not false); None when none does."""
    kept = {key: value for key, value in values.items() if value is not None and value is not False and value != {}}
    return {namespace: kept} if kept else None


def with_extra(block: Wire, extra: Any) -> Wire:
    """The block with further keys, which never replace its own."""
    if not extra or not isinstance(extra, Mapping):
        return block
    out = as_dict(block)
    return {**out, **{key: value for key, value in extra.items() if key not in out}}


def as_dict(block: Wire) -> dict[str, Any]:
    """The keys that are written for a block."""
    if isinstance(block, dict):
        return block
    config = block.__struct_config__
    out = {config.tag_field: config.tag} if config.tag_field else {}
    for name in block.__struct_fields__:
        if (value := getattr(block, name)) is not UNSET:
            out[name] = value
    return out


def bare(media_type: str, data: str) -> tuple[str, str]:
    """Media type and base64 of a file's data, which may be a data URI."""
    head = _DATA_URI.match(data) if data.startswith("data:") else None
    if head is None or not head[2]:
        return media_type, data
    return head[1] or media_type, data[head.end() :]


def encode_body(body: Mapping[str, Any]) -> bytes:
    """The bytes of a body. Raises EncodingError when a text holds half a surrogate pair or a value is no JSON."""
    try:
        return encode_json(body)
    except (UnicodeError, TypeError, ValueError, RecursionError) as error:
        raise EncodingError(f"the request can't be written as JSON: {error}") from error


def refuse(part: Part, role: str, place: str) -> EncodingError:
    return EncodingError(f"a {role} message can't hold {type(part).__name__}", place=place)


# Reading a body


def invalid(place: str, expected: str, value: Any) -> InvalidInput:
    """The error for a value of the wrong type at `place`."""
    return InvalidInput(f"{place}: expected {expected}, got {kind(value)}", field=place, code="invalid_request_body")


def kind(value: Any) -> str:
    """What a JSON value is, in JSON's words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case int() | float():
            return "a number"
        case Mapping():
            return "an object"
        case _:
            return "a list"


def text_at(value: Mapping[str, Any], key: str, place: str) -> str:
    """The text under `key`. Raises InvalidInput naming the place when there is none."""
    item = value.get(key)
    if not isinstance(item, str):
        raise invalid(f"{place}.{key}", "a text", item)
    return item


def list_at(value: Mapping[str, Any], key: str, place: str = "") -> list[Any]:
    """The list under `key`; empty when absent or null. Raises InvalidInput naming the place when it is no list."""
    item = value.get(key)
    if item is None:
        return []
    if not isinstance(item, list):
        raise invalid(f"{place}.{key}" if place else key, "a list", item)
    return item


def is_plain_text(block: Any) -> bool:
    """Whether a content block is a text and nothing else: both protocols write it alike."""
    return isinstance(block, Mapping) and block.keys() == {"type", "text"} and isinstance(block["text"], str)


def object_in(value: Any, place: str) -> Mapping[str, Any]:
    """The value as an object. Raises InvalidInput naming the place when it is none."""
    if not isinstance(value, Mapping):
        raise invalid(place, "an object", value)
    return value


def scalar_at(value: Mapping[str, Any], key: str, *types: type) -> Any:
    """The value under `key`, None when absent or null. Raises InvalidInput when it is of none of the types."""
    item = value.get(key)
    if item is None or (isinstance(item, types) and not isinstance(item, bool)):
        return item
    raise invalid(key, "a text" if str in types else "a number", item)


# Reading an answer


def word_at(value: Mapping[str, Any], key: str) -> str:
    """The text under `key`; empty when there is none."""
    item = value.get(key)
    return item if isinstance(item, str) else ""


def count_at(value: Mapping[str, Any], key: str) -> int:
    """The number of tokens under `key`; 0 when there is none."""
    item = value.get(key)
    return item if isinstance(item, int) else 0


def not_an_answer(provider: str, body: Mapping[str, Any], what: str) -> ProviderError:
    """The error that a body with status 200 means: the one it holds, else that it can't be read as an answer."""
    if body.get("error"):
        return classify(provider, 200, {}, write_mended(body))
    message = f"{provider}: an answer that can't be read: {what}"
    return ProviderError(message, status=200, error_class="transient", is_retryable=True, data=body)
