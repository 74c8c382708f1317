"""What a pretend model says: an echo of the last words of the user, or the tool calls these words ask for.

The same request always gets the same answer.
"""

import re
from typing import Any

from msgspec import Struct

ECHO_CHARS = 200
_DEPTH = 6


class Tool(Struct, frozen=True):
    """A function the caller declared, with the JSON schema of its arguments."""

    name: str
    schema: dict[str, Any]


class Call(Struct, frozen=True):
    name: str
    arguments: dict[str, Any]


class Answer(Struct, frozen=True):
    """Text, or calls; `reasoning` is what a reasoning model would show before them."""

    text: str
    calls: tuple[Call, ...]
    reasoning: str


def compose(said: str, asked: str, tools: list[Tool], *, forced: str | None = None, parallel: bool = True) -> Answer:
    """The answer to a conversation.

    `said` is the last text of a user, `asked` the text of the last message alone: empty after tool results, so that a
    loop of calls ends. `forced` names the tool that must be called; an empty name means any tool.
    """
    named = _named(asked, tools)
    if forced is not None:
        named = [tool for tool in tools if tool.name == forced] or named or tools[:1]
    calls = tuple(Call(tool.name, sample(tool.schema)) for tool in (named if parallel else named[:1]))
    if calls:
        return Answer("", calls, f"The user wants {' and '.join(call.name for call in calls)}.")
    cut = said if len(said) <= ECHO_CHARS else said[:ECHO_CHARS] + "…"
    return Answer(f"You said: {cut}" if cut else "You said nothing in words.", (), "The user wants to be repeated.")


def _named(text: str, tools: list[Tool]) -> list[Tool]:
    """Tools whose whole name stands in the text, in the order the text names them."""
    places = ((re.search(rf"(?<![A-Za-z0-9_-]){re.escape(tool.name)}(?![A-Za-z0-9_-])", text), tool) for tool in tools)
    return [
        tool for _, tool in sorted(((found.start(), tool) for found, tool in places if found), key=lambda at: at[0])
    ]


def sample(schema: Any) -> dict[str, Any]:
    """Arguments that fit an object schema: its required properties with simple values."""
    value = _value(schema, schema, _DEPTH)
    return value if isinstance(value, dict) else {}


def _value(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth == 0:
        return "example"
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    if isinstance(schema.get("$ref"), str):
        return _value(_resolve(schema["$ref"], root), root, depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _value(schema[key][0], root, depth - 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0] if kind else "null"
    match kind:
        case "object":
            known, required = schema.get("properties"), schema.get("required")
            known = known if isinstance(known, dict) else {}
            names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
            return {name: _value(known.get(name), root, depth - 1) for name in names}
        case "array":
            return [_value(schema.get("items"), root, depth - 1)] if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            return "example"


def _resolve(reference: str, root: Any) -> Any:
    """The schema a local reference such as `#/$defs/City` points at."""
    found = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        found = found.get(step) if isinstance(found, dict) and step else found
    return found
