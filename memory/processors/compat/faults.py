"""From an error's words to the fault it names, and what a pass has to insist on when an error asked for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory.processors.compat.passes import fields
from memory.processors.compat.patterns import PATTERNS
from memory.profiles import PROFILES
from memory.profiles.profile import Profile

STRICT: Mapping[str, Mapping[str, Any]] = {
    "reasoning": {"reasoning": "drop"},
    "pending-call": {"pending_call": "synthesise", "unpaired": "to-text"},
    "unpaired": {"pending_call": "synthesise", "unpaired": "to-text"},
    "blank-text": {"blank_text": "drop"},
    "system-turn": {"system_between": False},
    "first-user": {"first_user": "synthesise"},
    "reasoning-required": {"reasoning_filler": "placeholder"},
    "media-in-result": {"media_in_results": False},
    "file": {"files_inline": (), "files_by_url": ()},
    "user-after-tool": {"bridge_after_tool": True},
    "role-order": {"merge_roles": ("user", "assistant")},
    "tools-declared": {"declares_called_tools": True},
    "call-signature": {"signs_calls": True},
    "developer-role": {"developer_role": False},
    "content-string": {"listed_system": False},
    "null-field": {"null_fields": False},
    "document-name": {"unique_documents": True},
    "document-text": {"text_beside_documents": True},
}
"""Facts that a pass takes for granted for the rest of a run, by fault."""

_ALIASES = {
    "any-lone-surrogate": "lone-surrogate",
    "any-nul-character": "nul-character",
    "any-unknown-field": "unknown-field",
    "anthropic-tool-result-grouping": "unpaired",
    "anthropic-tool-result-duplicate": "unpaired",
    "anthropic-server-tool-orphan": "hosted-tool",
    "anthropic-thinking-empty": "reasoning",
    "anthropic-thinking-modified": "reasoning",
    "anthropic-whitespace-text": "blank-text",
    "anthropic-cache-control-empty": "blank-text",
    "anthropic-image-unreadable": "file",
    "anthropic-image-bytes": "file",
    "openai-responses-reasoning-orphan": "item-ids",
    "openai-responses-reasoning-required": "item-ids",
    "openai-responses-item-not-found": "item-ids",
    "openai-responses-item-id-format": "item-ids",
    "openai-responses-duplicate-item": "item-ids",
    "openai-responses-encrypted-content": "item-ids",
    "bedrock-empty-content": "empty-message",
    "gemini-thought-signature-invalid": "call-signature part-signature",
    "gemini-function-response-name": "tool-name",
    "ollama-arguments-object": "input-object",
    "gemini-function-response-order": "unpaired",
    "mistral-extra-field": "reasoning unknown-field",
    "groq-unsupported-property": "reasoning unknown-field",
    "fireworks-extra-field": "reasoning unknown-field",
    "openrouter-reasoning-details": "reasoning",
    "ollama-content-type": "file",
    "deepseek-reasoning-forbidden": "reasoning",
}
"""Faults by the rules that no profile names for them, or not for all of them."""

_FAULTS: dict[str, tuple[str, ...]] = {}
for _profile in PROFILES:
    for _fault, _rule in _profile.rules.items():
        _FAULTS[_rule] = tuple(dict.fromkeys((*_FAULTS.get(_rule, ()), _fault)))
_FAULTS |= {rule: tuple(faults.split()) for rule, faults in _ALIASES.items()}
_COMPILED = {rule: re.compile(pattern) for rule, pattern in PATTERNS.items() if rule in _FAULTS}


_THOUGHTS = {"reasoning", "reasoning_content", "reasoning_details", "thinking"}


def known_faults(texts: Sequence[str], profile: Profile) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Rule and faults of every pattern found in an error's texts; those of the target's own provider first.

    Keys that an error calls unknown are named beside the fault: `unknown-field`, `unknown-field:index`.
    """
    found = [rule for rule, pattern in _COMPILED.items() if any(map(pattern.search, texts))]
    own = set(profile.rules.values())
    named = fields.named_keys(texts)
    for rule in sorted(found, key=lambda rule: (rule not in own, not rule.startswith(f"{profile.provider}-"))):
        faults = _FAULTS[rule]
        if fields.FAULT in faults and named:
            is_thought = not _THOUGHTS.isdisjoint(named) and "reasoning" in faults
            further = (fields.FAULT, *(f"{fields.FAULT}:{key}" for key in named))
            faults = ("reasoning",) if is_thought else further
        yield rule, faults


def faults_by_refusal() -> dict[str, tuple[str, ...]]:
    """The faults whose passes each refusal asks for that is known by its words."""
    return {rule: _FAULTS[rule] for rule in _COMPILED}


def faults_of(rule: str) -> tuple[str, ...]:
    """The faults a rule repairs, by the names that passes have for them; none for one that repairs the thread."""
    return _FAULTS.get(rule) or ((rule.removeprefix("any-"),) if rule.startswith("any-") else ())


def known_rules() -> frozenset[str]:
    """Rules whose error is known by its words."""
    return frozenset(_COMPILED)
