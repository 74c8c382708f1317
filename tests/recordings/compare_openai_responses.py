"""Whether two Responses bodies mean the same: both in one plain form, tolerances with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tests.recordings.compare import _compare

# What a user's own schema or arguments say is left alone.
_OWN = ("parameters", "schema", "arguments")


def differences(sent: Mapping[str, Any], again: Mapping[str, Any], *, was_stored: bool = False) -> list[str]:
    """Where two bodies differ in meaning, as `place: one | other`; empty when they mean the same.

    `was_stored`: storing keeps each output with its call. An output names its call, so that it may stand directly
    behind the calls of its turn and before that turn's other items. An empty text beside other items of a turn says
    nothing and is not stored.
    """
    one, other = _plain(sent), _plain(again)
    if was_stored:
        one["input"], other["input"] = _outputs_apart(one["input"]), _outputs_apart(other["input"])
    return _compare(one, other, "")


def _outputs_apart(items: list[dict[str, Any]]) -> list[Any]:
    """Turns of an assistant between what others said: its own items in order, and the outputs in theirs."""
    turns: list[Any] = [([], [])]
    for item in items:
        if item.get("role") in ("user", "system", "developer"):
            turns += [item, ([], [])]
        elif item["type"] != "message" or item["content"]:
            turns[-1][str(item["type"]).endswith("_output")].append(item)
    return [list(map(list, turn)) if isinstance(turn, tuple) else turn for turn in turns]


def _without_nulls(value: Any) -> Any:
    """Null means absent."""
    if isinstance(value, dict):
        return {key: item if key in _OWN else _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _plain(body: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = _without_nulls(dict(body))
    out.pop("stream", None)  # How the answer travels, not what was asked.
    given = out.get("input") or []
    # A text as input is documented as short for one message of the user.
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    out["input"] = [_item(item) for item in items]
    # No tools, said in two ways; an empty description describes nothing.
    out["tools"] = [
        {key: item for key, item in tool.items() if key != "description" or item} for tool in out.get("tools") or ()
    ]
    return out


def _item(item: dict[str, Any]) -> dict[str, Any]:
    # An item with a role is a message by default, and one that is sent is completed.
    out = {"type": "message", "status": "completed", **item}
    if out["type"] == "message":
        out["content"] = _content(out.get("content"), "output_text" if out["role"] == "assistant" else "input_text")
    if out["type"] == "reasoning":
        out["content"] = out.get("content") or []  # No texts, said in two ways.
    if isinstance(out.get("arguments"), str):
        # Arguments are JSON in a text: white space within it says nothing.
        try:
            out["arguments"] = msgspec.json.decode(out["arguments"])
        except msgspec.DecodeError:
            return out
    if out["type"] == "function_call_output":
        out["output"] = _content(out["output"], "input_text")
    return out


def _content(content: Any, kind: str) -> list[Any]:
    """A text as content is documented as short for one text part."""
    parts = [{"type": kind, "text": content}] if isinstance(content, str) else list(content or [])
    parts = [part for part in parts if part.get("text") != ""]
    # No annotations, said in two ways.
    return [{key: value for key, value in part.items() if (key, value) != ("annotations", [])} for part in parts]
