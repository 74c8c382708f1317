"""What there is to know about a host of the chat format: plain facts, read by everybody who deals with one.

The entries take from it where the host is and how it spells things, the profiles what its requests have to be like, the
sandbox what it refuses and how it answers. Lists, pages, the checker and the tests follow from those.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

LIST_ROLES = ("system", "user", "assistant", "tool")
"""Roles of the chat format, whose content may be a list of parts at OpenAI."""


class Source(Struct, frozen=True):
    """Where facts come from: which ones, a document or a public report, and the day it was last seen to hold."""

    fact: str
    source: str
    seen_on: str


class Host(Struct, frozen=True, kw_only=True):
    """The defaults are those of a host that takes what OpenAI takes, texts and images."""

    id: str
    title: str
    base_url: str
    key_variable: str
    """Environment variable that holds the key by convention."""
    model_id: str
    """A model that it serves, for examples and tests."""
    sources: tuple[Source, ...]

    reasoning: str = ""
    """Key of an assistant message under which it takes its reasoning back; empty: it takes none."""
    shows_reasoning: str = ""
    """Key under which its answers show reasoning."""
    max_tokens: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    stream_options: bool = True
    """Whether a stream may be asked for its usage."""

    list_roles: tuple[str, ...] = LIST_ROLES
    """Whose content may be a list of parts; that of others is one text."""
    images: bool = True
    """Whether users may show images, as base64 or by URL."""
    tool_id_refused: str = ""
    """Pattern of one character that a call id may not hold."""
    tool_id_longest: int = 0
    """0: any length; else 30 or more, which an id that is too long is shortened to."""
    system_first: bool = False
    """System messages stand at the beginning only."""
    roles_alternate: bool = False
    """Neighbouring messages of the user, or of the assistant, are refused."""
    user_last: bool = False
    """A request ends with the user, or with the result of a tool."""
    refuses_with: int = 400
    """Status of a refused request."""
