"""JSON as it came: objects that stay text until somebody looks into them, and the one way to write JSON."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Raw

_BRACE, _QUOTE = b'{"'


class JsonObject(Mapping[str, Any]):
    """A JSON object, read from its text when first looked into and written as that text.

    Numbers and key order reach a provider as they were stored, and what nobody looks at costs nothing to read.
    """

    __slots__ = ("_value", "raw")
    _value: dict[str, Any]

    def __init__(self, raw: Raw) -> None:
        self.raw = raw

    @property
    def text(self) -> str:
        return str(self.raw, "utf-8")

    @property
    def value(self) -> dict[str, Any]:
        """The plain object. Not to be changed: what is written stays the text."""
        try:
            return self._value
        except AttributeError:
            value: dict[str, Any] = msgspec.json.decode(self.raw)
            self._value = value
            return value

    def __getitem__(self, key: str) -> Any:
        return self.value[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)

    def __bool__(self) -> bool:
        return memoryview(self.raw)[1] == _QUOTE or bool(self.value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, JsonObject):
            return self.value == other.value
        return isinstance(other, Mapping) and self.value == other

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        """A plain object: a copy is made to be changed."""
        return copy.deepcopy(self.value, memo)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"JsonObject({self.text!r})"


def value_of(raw: Any) -> Any:
    """The value of valid JSON text: objects stay text, everything else is read; None for no text. Others are values."""
    if type(raw) is not Raw:
        return raw
    if not raw:
        return None
    return JsonObject(raw) if memoryview(raw)[0] == _BRACE else msgspec.json.decode(raw)


def plain(value: Any) -> Any:
    """The value as plain dicts and lists where it is an object kept as text."""
    return value.value if isinstance(value, JsonObject) else value


def as_written(value: Any) -> Any:
    """The value, or the text of an object kept as text, which the encoder takes as it is."""
    return value.raw if type(value) is JsonObject else value


def _hook(value: Any) -> Raw:
    if isinstance(value, JsonObject):
        return value.raw
    raise TypeError(f"{type(value).__name__} is no JSON value")


encode_json = msgspec.json.Encoder(enc_hook=_hook).encode
"""The JSON bytes of a value, keys in their given order, big integers exact."""


def write_json(value: Any) -> str:
    """The same as a text."""
    return value.text if type(value) is JsonObject else encode_json(value).decode()
