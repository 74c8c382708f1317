"""Histories from elsewhere, read: foreign data becomes exchanges (`Line`) or whole threads (`Dump`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memory.errors import InvalidInput
from memory.imports import ai_sdk, assistants, detect, items, langchain, mastra
from memory.imports.detect import BODIES, FORMATS
from memory.imports.exchange import Conversation, joined, read_line, thread_id_of
from memory.imports.values import Dump, Line

__all__ = ["FORMATS", "Conversation", "Dump", "Line", "joined", "read", "read_line", "thread_id_of"]

_READERS = {
    "mastra": mastra.read,
    "langchain": langchain.read,
    "ai-sdk": ai_sdk.read,
    "openai-items": items.read,
    "openai-assistants": assistants.read,
}


def read(value: Any, format_: str = "") -> Iterator[Line | Dump]:
    """What a decoded JSON value holds, in the format of that name (one of FORMATS), else told from the content.

    Raises InvalidInput for a value of none of the formats, and for an unknown name.
    """
    if format_ and format_ not in FORMATS:
        raise InvalidInput(f"no format is called {format_!r}; known are {', '.join(FORMATS)}", field="format")
    name = format_ or detect.format_of(value)
    if (reader := _READERS.get(name)) is not None:
        yield from reader(value)
    else:
        yield read_line(value, protocol=name if name in BODIES else "")
