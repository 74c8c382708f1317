"""The smallest history that shows each rule at work: data for the rules' pages, their tests and `probe`.

What the pipeline makes of an example is computed where it is asked for (`memory.trials`), never stored here.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from memory.messages.stored import StoredMessage

_FILE = Path(__file__).with_name("examples.jsonl")


class Refusal(Struct, frozen=True):
    """What a provider answered with: its status and its body, in its own spelling."""

    status: int
    body: Any


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """One history that a target does not take as it is, and the rule that makes it fit.

    `messages` are stored messages; where stored ones can't show the fault, `prompt` holds a prompt in its JSON form.
    `settings` are further keys of the request in the protocol's spelling. `error` is the refusal that asks for a rule
    which acts after an error. `also_off`: rules that would mend the same history in another way, so that it goes out
    as it is only with these off too. `without`: rules that are off throughout, as the rule is a net below them.
    """

    rule: str
    provider: str
    model: str
    wrong: str
    """One sentence on what is wrong with it."""
    protocol: str = ""
    """Empty: the provider's default."""
    messages: tuple[StoredMessage, ...] = ()
    prompt: tuple[dict[str, Any], ...] = ()
    system: tuple[str, ...] = ()
    tools: tuple[dict[str, Any], ...] = ()
    settings: dict[str, Any] = {}
    max_tokens: int = 64
    error: Refusal | None = None
    also_off: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


def examples_for(rule_id: str) -> tuple[Example, ...]:
    """Failing histories of a rule, the plainest first; none for an id that no rule has."""
    return tuple(example for example in all_examples() if example.rule == rule_id)


@cache
def all_examples() -> tuple[Example, ...]:
    """Every example, in the order of the file."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    # The standard reader: half characters, which one example is about, are no JSON to the faster ones.
    return tuple(msgspec.convert(json.loads(line), Example) for line in lines)
