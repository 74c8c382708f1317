"""Half characters: one part of a surrogate pair without the other, which no JSON text and no row can hold."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from memory.errors import InvalidInput
from memory.messages.stored import decode_json
from memory.messages.values import write_json

HALF = re.compile("[\ud800-\udfff]")


def mended(value: Any) -> Any:
    """A JSON value whose halves are joined where both are there, and else U+FFFD. The same object without any."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if HALF.search(value) else value
    if isinstance(value, dict):
        new = {mended(key): mended(item) for key, item in value.items()}
        return new if any(map(_differ, (*new, *new.values()), (*value, *value.values()))) else value
    if isinstance(value, list | tuple):
        items = [mended(item) for item in value]
        return type(value)(items) if any(map(_differ, items, value)) else value
    return value


def read_mended(data: bytes | str) -> Any:
    """The value of a JSON text somebody else wrote, with halves and bytes that are no UTF-8 mended.

    Raises InvalidInput when it is no JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        try:
            return mended(decode_json(text.encode("utf-8", "surrogatepass")))
        except RecursionError:
            raise InvalidInput(f"not JSON: {error}", code="not_json") from error


def write_mended(value: Any) -> str:
    """The JSON text of a value somebody else wrote, mended where it holds halves."""
    try:
        return write_json(value)
    except UnicodeEncodeError:
        return write_json(mended(value))


def storable(text: str) -> str:
    """The text as a row can hold it: mended, and U+FFFD for U+0000. It may quote what somebody else sent."""
    whole: str = mended(text)
    return whole.replace("\x00", "\ufffd")


def _differ(new: Any, old: Any) -> bool:
    return new is not old
