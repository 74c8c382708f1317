"""Who is calling, an API key's holder or an operator at the dashboard, what it may do, and which texts rows know.

Every route and page names one permission; a key's scopes and an operator's role say which ones it has. Nothing is
granted that does not stand in one of the two tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

SCOPES = ("read", "write", "run", "admin")
ROLES = ("viewer", "reader", "operator", "admin")
PERMISSIONS: Mapping[str, str] = {
    "shape": "see threads, sizes, types, rules and decisions, but no content",
    "read": "read messages, requests and answers",
    "write": "make, change and delete threads and messages",
    "run": "run turns",
    "operate": "switch rules",
    "token": "make short-lived tokens for a resource",
    "admin": "manage keys, agents, connections and users",
}
FELT_BY_ALL = frozenset({"operate", "admin"})
"""What no caller that acts for one resource may do: agents, rules, connections and keys belong to none."""
OF_SCOPE: Mapping[str, frozenset[str]] = {
    "read": frozenset({"shape", "read", "token"}),
    "write": frozenset({"write", "token"}),
    "run": frozenset({"run", "token"}),
    "admin": frozenset({"operate", "admin"}),
}
OF_ROLE: Mapping[str, frozenset[str]] = {
    "viewer": frozenset({"shape"}),
    "reader": frozenset({"shape", "read"}),
    "operator": frozenset({"shape", "read", "write", "run", "operate"}),
    "admin": frozenset(PERMISSIONS),
}


class Principal(Struct, frozen=True):
    """A caller. `resource_id` is the only resource it may act for; empty: any. Only operators have a `role`.

    A token, which the key `maker_id` made for a resource, may not make further ones.
    """

    name: str
    key_id: int | None = None
    resource_id: str = ""
    scopes: frozenset[str] = frozenset()
    role: str = ""
    maker_id: int | None = None

    @property
    def is_token(self) -> bool:
        return self.maker_id is not None

    @property
    def owner_id(self) -> int | None:
        """The server's key behind the caller: a token's maker, else the key itself."""
        return self.key_id if self.maker_id is None else self.maker_id

    def may(self, permission: str) -> bool:
        if (permission == "token" and self.is_token) or (permission in FELT_BY_ALL and self.resource_id):
            return False
        of_scopes = (OF_SCOPE[scope] for scope in self.scopes if scope in OF_SCOPE)
        return permission in OF_ROLE.get(self.role, ()) or any(permission in granted for granted in of_scopes)

    def may_act_for(self, resource_id: str) -> bool:
        return self.resource_id in ("", resource_id)


def can_be_looked_up(text: str) -> bool:
    """Whether a row can hold the text: PostgreSQL refuses U+0000, and no driver encodes half surrogates."""
    return "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
