"""`fields=`: items with some of their fields only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, UnsetType, structs

from memory.errors import InvalidInput
from memory.queries import Page


def wanted_fields(text: str | None, shape: type[Struct]) -> Sequence[str] | None:
    """The names that were asked for, None for all. Raises InvalidInput for one that the shape does not have."""
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = shape.__struct_fields__
    if unknown := [name for name in names if name not in known]:
        raise InvalidInput(
            f"no field is called {unknown[0][:100]!r}: expected some of {', '.join(known)}", field="fields"
        )
    if not names:
        raise InvalidInput(f"expected some of {', '.join(known)}", field="fields")
    return names


def only(page: Page[Any], names: Sequence[str] | None) -> Page[Any]:
    """The page with items of these fields."""
    if names is None:
        return page
    items = [{name: getattr(item, name) for name in names} for item in page.items]
    return structs.replace(page, items=items)


def only_of(item: Struct, names: Sequence[str] | None) -> Any:
    """The item with these fields."""
    if names is None:
        return item
    return {name: value for name in names if not isinstance(value := getattr(item, name), UnsetType)}
