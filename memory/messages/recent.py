"""What was made of the same bytes a moment ago, up to a size: a thread is read again at each of its turns."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Values by key, for all threads. What was not asked for while `most_bytes` of others came in is forgotten.

    Values are shared by whoever asks, so they have to be immutable.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._size = 0
        self._young: dict[Hashable, tuple[V, int]] = {}
        self._old: dict[Hashable, tuple[V, int]] = {}

    def get(self, key: Hashable) -> V | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Remember a value of so many bytes."""
        # Two threads here at once count a size twice or empty it twice, which forgets something early.
        if self._size + size > self._most_bytes:
            self._old, self._young, self._size = self._young, {}, 0
        self._young[key] = value, size
        self._size += size

    def clear(self) -> None:
        self._young, self._old, self._size = {}, {}, 0
