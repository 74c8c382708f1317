"""Halves of characters, which no JSON can carry: joined where both are there, else replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from memory.messages.values import JsonObject

_HALF = re.compile("[\ud800-\udfff]")


def has_half(text: str) -> bool:
    """Whether a text holds half a character."""
    return not text.isascii() and _HALF.search(text) is not None


def whole(text: str) -> str:
    """The text with valid halves joined and each other one as U+FFFD; the same text where there is none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if has_half(text) else text


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """A JSON value with every text changed, keys too; two keys that become one stay apart as `k` and `k_2`."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, JsonObject):
        made = mapped(value.value, change)
        return value if made == value.value else made
    if isinstance(value, dict):
        out: dict[Any, Any] = {}
        for key, item in value.items():
            new = plain = change(key) if isinstance(key, str) else key
            number = 2
            while new in out:
                new, number = f"{plain}_{number}", number + 1
            out[new] = mapped(item, change)
        return out
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    return value
