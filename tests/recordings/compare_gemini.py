"""Whether two Gemini request bodies mean the same: both in one plain form, tolerances with reasons."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.recordings.compare import _compare

# A user's own data: its keys are not the protocol's, and its nulls say something.
_OWN = {"args", "response", "parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}


def differences(sent: Mapping[str, Any], again: Mapping[str, Any], *, was_stored: bool = False) -> list[str]:
    """Where two bodies differ in meaning, as `place: one | other`; empty when they mean the same.

    `was_stored`: storing keeps each result with its call, so that results of one content may come in another order
    where they name their calls.
    """
    one, other = _body(sent), _body(again)
    for body in (one, other) if was_stored else ():
        for content in body["contents"]:
            content["parts"].sort(key=_result_id)
    return _compare(one, other, "")


def _result_id(part: Mapping[str, Any]) -> tuple[int, str]:
    """Sorts results with an id before the rest, which stays in its order."""
    call_id = part.get("functionResponse", {}).get("id")
    return (1, "") if call_id is None else (0, call_id)


def _body(body: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = plain(body)
    out["contents"] = [_content(content) for content in _list(out.get("contents"))]
    # Which tools there are; how they are spread over entries says nothing.
    out["tools"] = [tool for entry in _list(out.get("tools")) for tool in _tools(entry)]
    # An empty list of allowed names allows all of them.
    calling = out.get("toolConfig", {}).get("functionCallingConfig", {})
    if calling.get("allowedFunctionNames") == []:
        del calling["allowedFunctionNames"]
    # No settings, said in two ways.
    if out.get("generationConfig") == {}:
        del out["generationConfig"]
    return out


def plain(value: Any) -> Any:
    """Keys in camelCase (the vendor takes both spellings), without nulls, which mean absent."""
    if isinstance(value, Mapping):
        out = {}
        for key, item in value.items():
            name = re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), key)
            if item is not None:
                out[name] = item if name in _OWN else plain(item)
        return out
    return [plain(item) for item in value] if isinstance(value, list) else value


def _list(value: Any) -> list[Any]:
    """One object is short for a list of it."""
    return [value] if isinstance(value, Mapping) else list(value or [])


def _content(content: dict[str, Any]) -> dict[str, Any]:
    return {**content, "parts": [_part(part) for part in _list(content.get("parts"))]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    # Arguments and the answer of a tool are empty objects where they are absent.
    for kind, key in (("functionCall", "args"), ("toolCall", "args"), ("functionResponse", "response")):
        if kind in part:
            part = {**part, kind: {key: {}, **part[kind]}}
    return part


def _tools(entry: dict[str, Any]) -> list[Any]:
    declared = _list(entry.get("functionDeclarations"))
    hosted = {key: item for key, item in entry.items() if key != "functionDeclarations"}
    # An empty description describes nothing.
    found = [{key: item for key, item in tool.items() if key != "description" or item} for tool in declared]
    return ([hosted] if hosted else []) + found
