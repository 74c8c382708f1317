"""From an error's words to the rules that know it."""

from __future__ import annotations

from typing import Any

from memory.errors import ProviderError
from memory.processors.retry import cause_of


def texts_of(error: Any) -> list[str]:
    """Message and response body of an error and of what caused it. What is no exception says nothing."""
    out: list[str] = []
    seen: set[int] = set()
    while isinstance(error, BaseException) and id(error) not in seen:
        seen.add(id(error))
        message = getattr(error, "message", None)
        out.append(message if isinstance(message, str) else str(error))
        body = getattr(error, "response_body", None)
        if isinstance(error, ProviderError) and isinstance(body, str):
            out.append(body)
        error = cause_of(error)
    return out
