"""What a pass may know and want of the call as a whole, beside the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field


class Call(Struct):
    """The target's model, further settings of the request, declared tools; and what the call needs because of a pass.

    `forced`: faults that an error of this run asked to be repaired; `is_forced`: the running pass is for one of them.
    """

    model_id: str = ""
    settings: Mapping[str, Any] = {}
    declared: frozenset[str] = frozenset()
    forced: tuple[str, ...] = ()
    is_forced: bool = False
    needs: dict[str, Any] = field(default_factory=dict)

    def named(self, fault: str) -> frozenset[str]:
        """What the error that asked for a fault's pass named: kept beside the fault as `fault:name`."""
        return frozenset(entry.partition(":")[2] for entry in self.forced if entry.startswith(f"{fault}:"))

    @property
    def is_thinking(self) -> bool:
        thinking = self.settings.get("thinking")
        return isinstance(thinking, Mapping) and thinking.get("type") not in (None, "disabled")

    @property
    def is_thinking_off(self) -> bool:
        thinking = self.settings.get("thinking")
        return self.needs.get("thinking") == "off" or (
            isinstance(thinking, Mapping) and thinking.get("type") == "disabled"
        )
