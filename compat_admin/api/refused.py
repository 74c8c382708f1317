"""The one failure of HTTP's own."""

from __future__ import annotations


class Refused(Exception):
    """A request that HTTP itself lets us refuse, before any of the product is asked."""

    def __init__(self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.headers = status, code, headers or {}
