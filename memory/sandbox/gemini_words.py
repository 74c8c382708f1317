"""What the checks and the replies of the pretend Gemini share: keys, models, signatures."""

import base64
import hashlib
import re
from collections.abc import Callable
from typing import Any

from memory.sandbox.wire import Refused

DATA_KEYS = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
"""Keys of a part that hold its data; a part has one of them."""
_MARK = b"sandbox thought of "
_VERSION = re.compile(r"gemini-(\d+)")


def camelled(value: dict[str, Any]) -> dict[str, Any]:
    """The object with its own keys in camelCase, without nulls, which mean absent."""
    return {
        re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), key): item
        for key, item in value.items()
        if item is not None
    }


def items_of(
    value: dict[str, Any], key: str, wrong_type: Callable[[str, str, Any], Refused], place: str = ""
) -> list[Any]:
    """The list under a key, one object being short for a list of it."""
    item = value.get(key)
    if item is None:
        return []
    if isinstance(item, dict):
        return [item]
    if not isinstance(item, list):
        raise wrong_type(f"{place}.{key}" if place else key, "a list", item)
    return item


def version(model_id: str) -> int:
    """Main number of a Gemini model; a name without one is taken for the newest kind."""
    found = _VERSION.search(model_id)
    return int(found[1]) if found else 3


def signature(platform: str, thought: str) -> str:
    """The signature of a thought: the checks know it again, and refuse it on the other platform."""
    return base64.b64encode(_MARK + platform.encode() + b" " + hashlib.sha256(thought.encode()).digest()).decode()


def made_on(sealed: bytes) -> str | None:
    """The platform when this sandbox made the signature."""
    return sealed[len(_MARK) :].partition(b" ")[0].decode("ascii", "replace") if sealed.startswith(_MARK) else None
