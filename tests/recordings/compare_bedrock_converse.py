"""Whether two Converse bodies mean the same: both in one plain form, tolerances with reasons."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.recordings.compare import _compare


def differences(sent: Mapping[str, Any], again: Mapping[str, Any], *, was_stored: bool = False) -> list[str]:
    """Where two bodies differ in meaning, as `place: one | other`; empty when they mean the same.

    `was_stored`: storing keeps each result with its call, so results come before what the user says beside them.
    """
    one, other = _plain(sent), _plain(again)
    for body in (one, other) if was_stored else ():
        for message in body["messages"]:
            message["content"].sort(
                key=lambda block: (0, block["toolResult"]["toolUseId"]) if "toolResult" in block else (1, "")
            )
    return _compare(one, other, "")


def _plain(body: Mapping[str, Any]) -> dict[str, Any]:
    out = copy.deepcopy(dict(body))
    # Absent and empty are the same here.
    for key in ("system", "inferenceConfig"):
        if not out.get(key):
            out.pop(key, None)
    for tool in out.get("toolConfig", {}).get("tools", ()):
        # An empty description describes nothing.
        if "toolSpec" in tool and not tool["toolSpec"].get("description"):
            tool["toolSpec"].pop("description", None)
    for message in out["messages"]:
        for block in message["content"]:
            # A result is a success unless it says otherwise.
            if block.get("toolResult", {}).get("status") == "success":
                del block["toolResult"]["status"]
    return out
