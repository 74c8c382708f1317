"""One's own rule for a provider's quirk."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from memory.errors import InvalidOption
from memory.messages.names import ModelRef
from memory.messages.prompt import Prompt
from memory.messages.stored import StoredMessage

Fix = Callable[[list[StoredMessage]], bool]
ApplyToPrompt = Callable[..., "Prompt | None"]


class CompatRule:
    """A named correction, proactive, reactive or both. Runs after the built-in rules.

    `apply_to_prompt(prompt, *, model, messages) -> Prompt | None` rewrites one call's prompt; None leaves it.
    `fix(messages) -> bool` repairs stored messages after an error that one of `error_patterns` matches. It gets a
    copy: on True the difference is stored as new versions, on False or an exception it is thrown away.
    Raises InvalidOption for a rule without a name, and for a `fix` that no pattern can ever call.
    """

    def __init__(
        self,
        name: str,
        *,
        error_patterns: Sequence[str | re.Pattern[str]] = (),
        fix: Fix | None = None,
        apply_to_prompt: ApplyToPrompt | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise InvalidOption("name: a rule needs a name", field="name")
        for option, hook in (("fix", fix), ("apply_to_prompt", apply_to_prompt)):
            if hook is not None and not callable(hook):
                raise InvalidOption(f"{option}: expected a function, got {hook!r}", field=option)
        if isinstance(error_patterns, str | re.Pattern):
            raise InvalidOption(f"error_patterns: expected a list, got {error_patterns!r}", field="error_patterns")
        if fix is not None and not error_patterns:
            message = f"error_patterns: rule {name!r} has a fix that no error can ask for"
            raise InvalidOption(message, field="error_patterns")
        self.name = name
        self.error_patterns = tuple(map(_compiled, error_patterns))
        self.fix = fix
        self.apply_to_prompt = apply_to_prompt

    def matches(self, texts: Sequence[str]) -> bool:
        """Whether any pattern occurs in any of the error's texts."""
        return any(pattern.search(text) for pattern in self.error_patterns for text in texts)

    def __repr__(self) -> str:
        return f"CompatRule({self.name!r})"


def _compiled(pattern: Any) -> re.Pattern[str]:
    try:
        return pattern if isinstance(pattern, re.Pattern) else re.compile(pattern, re.S)
    except (re.error, TypeError) as error:
        raise InvalidOption(f"error_patterns: {pattern!r} is no pattern: {error}", field="error_patterns") from error


def model_ref_of(model: Any) -> ModelRef:
    """The model a custom rule is given, whatever form the hook got it in."""
    if isinstance(model, ModelRef):
        return model
    if isinstance(model, dict):
        return ModelRef(str(model.get("provider") or ""), str(model.get("modelId") or ""))
    if isinstance(model, list | tuple):
        entries = [(entry.get("model") or entry) if isinstance(entry, dict) else entry for entry in model]
        return next((model_ref_of(entry) for entry in entries if entry), ModelRef("", ""))
    if isinstance(model, str):
        head, _, tail = re.sub(":", "/", model, count=1).partition("/") if "/" not in model else model.partition("/")
        return ModelRef(head, tail) if tail else ModelRef("", head)
    return ModelRef("", "")
