"""Who is calling, an API key's holder or an operator at the dashboard, and which of a caller's texts rows know."""

from __future__ import annotations

from msgspec import Struct

SCOPES = ("read", "write", "run", "admin")


class Principal(Struct, frozen=True):
    """A caller. `resource_id` is the only resource it may act for; empty: any. Operators may do everything."""

    name: str
    key_id: int | None = None
    resource_id: str = ""
    scopes: frozenset[str] = frozenset()
    is_operator: bool = False

    def has_scope(self, scope: str) -> bool:
        return self.is_operator or scope in self.scopes

    def may_act_for(self, resource_id: str) -> bool:
        return self.resource_id in ("", resource_id)


def can_be_looked_up(text: str) -> bool:
    """Whether a row can hold the text: PostgreSQL refuses U+0000, and no driver encodes half surrogates."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
