"""The permission that each address asks for stands on its view, so that a walk over all addresses can read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

V = TypeVar("V", bound=Callable[..., Any])

ANYONE = "anyone"
"""Nobody is asked who they are."""
SIGNED_IN = "signed in"
"""Every operator, whatever its role."""
PUBLIC: Mapping[str, str] = {"": ANYONE}


def names(needs: Mapping[str, str]) -> Callable[[V], V]:
    """A decorator that notes what a view asks for: permissions by method, under an empty one for all other methods."""

    def note(view: V) -> V:
        view.needs = dict(needs)  # type: ignore[attr-defined]  # a plain function has no such field
        return view

    return note


def needs_of(view: Callable[..., Any]) -> Mapping[str, str]:
    """The permissions of a view by method; empty for a view that names none."""
    found: Mapping[str, str] = getattr(view, "needs", {})
    return found
