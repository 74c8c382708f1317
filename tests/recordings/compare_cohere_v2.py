"""Whether two bodies of Cohere's chat mean the same: both in one plain form, tolerances with reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.recordings.compare import _compare


def differences(sent: Mapping[str, Any], again: Mapping[str, Any]) -> list[str]:
    """Where two bodies differ in meaning, as `place: one | other`; empty when they mean the same."""
    return _compare(_plain(sent), _plain(again), "")


def _plain(body: Mapping[str, Any]) -> dict[str, Any]:
    out = {key: value for key, value in body.items() if value is not None}
    out.pop("stream", None)  # How the answer travels, not what was asked.
    out["messages"] = [_message(message) for message in body["messages"]]
    return out


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    """A text as content is short for one text part."""
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return {**message, "content": content or []}
