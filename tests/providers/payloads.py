"""Bodies of our own making, by provider and name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from memory.providers.wire import Encoded

FOLDER = Path(__file__).parent.parent / "payloads"


def payload(provider: str, name: str) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode((FOLDER / provider / f"{name}.json").read_bytes())
    return value


def body_of(encoded: Encoded) -> dict[str, Any]:
    value: dict[str, Any] = msgspec.json.decode(encoded.body)
    return value


def at(body: Mapping[str, Any], pointer: str) -> Any:
    """What a JSON pointer points at."""
    value: Any = body
    for step in pointer.split("/")[1:]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value
