"""Pages of lists that are held in memory, with the manners of those read from rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from django.core import signing

from memory.errors import InvalidInput
from memory.queries import Page

T = TypeVar("T")


def page_of(items: Sequence[T], *, name: str, key_of: Callable[[T], str], cursor: str | None, limit: int) -> Page[T]:
    """The items after the cursor's one. `name` is the list's own: a cursor of another list is refused.

    Keys are unique. Raises InvalidInput (bad_cursor) also when the cursor's item is gone.
    """
    signer = signing.Signer(sep=".", salt=f"cursor.{name}")
    start = 0
    if cursor:
        keys = [key_of(item) for item in items]
        try:
            start = keys.index(signing.b64_decode(signer.unsign(cursor).encode()).decode()) + 1
        except (signing.BadSignature, ValueError) as error:
            raise InvalidInput(
                "this cursor was not given out by this list", field="cursor", code="bad_cursor"
            ) from error
    shown = list(items[start : start + limit])
    if start + limit >= len(items):
        return Page(shown, None)
    return Page(shown, signer.sign(signing.b64_encode(key_of(shown[-1]).encode()).decode()))
