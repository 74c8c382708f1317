"""What a provider takes, as plain facts. Passes read facts; no pass knows a provider's name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

Handling = Literal["accept", "drop", "synthesise", "to-text"]


class Fact(Struct, frozen=True):
    """Where a fact comes from: the rule it serves, a source and the day it was last seen to hold."""

    rule: str
    source: str
    seen_on: str


class IdFormat(Struct, frozen=True):
    """Which tool call ids are taken."""

    refused: str = ""
    """Pattern of one refused character; empty: any character is taken."""
    longest: int = 0
    """0: any length."""
    may_be_empty: bool = True

    def fits(self, call_id: str) -> bool:
        if not call_id and not self.may_be_empty:
            return False
        if self.longest and len(call_id) > self.longest:
            return False
        return not (self.refused and re.search(self.refused, call_id))

    def forms(self, call_id: str) -> Iterator[str]:
        """Forms of an id in order of preference: plain, then with `_2`, `_3`. Too long: a hash, never a cut prefix."""
        plain = re.sub(self.refused, "_", call_id) if self.refused else call_id
        if not plain and not self.may_be_empty:
            plain = "_"
        if self.longest and len(plain) > self.longest:
            plain = "call_" + hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        yield plain
        number = 2
        while True:
            yield f"{plain}_{number}"
            number += 1


class Profile(Struct, frozen=True):
    """Facts about a provider and a family of its models. The defaults are those of a provider we know nothing about.

    `rules` maps a fault to the rule id that changes carry for this target; a fault without an entry goes by its
    `any-` id.
    """

    id: str
    provider: str
    title: str
    protocol: str = ""
    models: tuple[str, ...] = ("*",)
    tool_ids: IdFormat = IdFormat()
    tool_names: IdFormat = IdFormat("[^a-zA-Z0-9_-]")
    reasoning: Literal["keep", "drop", "native"] = "keep"
    """`native`: only what this provider wrote itself, signed."""
    seals: tuple[str, ...] = ()
    """Keys of this namespace that show who made a reasoning part: a signature, an item id."""
    namespace: str = ""
    """Key of this provider's options, by which its own reasoning is known."""
    files_inline: tuple[str, ...] = ("*",)
    """Media types taken as base64, as globs."""
    files_by_url: tuple[str, ...] = ("*",)
    media_in_results: bool = True
    """Whether a tool result may hold images."""
    blank_text: Handling = "accept"
    pending_call: Handling = "accept"
    unpaired: Handling = "accept"
    system_between: bool = True
    """Whether a system message may stand between the turns."""
    first_user: Literal["accept", "synthesise"] = "accept"
    rules: Mapping[str, str] = {}
    facts: tuple[Fact, ...] = ()

    def rule(self, fault: str) -> str:
        """The rule id a change for this fault carries."""
        return self.rules.get(fault, f"any-{fault}")
