"""Where history is kept, as `MessageHistory` sees it: five calls. A dict keeps it in memory; rows keep it for good."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from memory.errors import Conflict, NotFound
from memory.messages.stored import StoredMessage, instant, timestamp


class HistoryStorage(Protocol):
    """Threads and messages of one deployment. Message ids are unique in their thread, never global."""

    def load_messages(self, thread_id: str, resource_id: str | None, *, last: int | None) -> list[StoredMessage]:
        """The newest `last` messages (None: all), oldest first by stored order. Of a foreign thread: none."""
        ...

    def save_messages(self, thread_id: str, resource_id: str | None, messages: Sequence[StoredMessage]) -> None:
        """Insert or replace by id within the thread; moves only `updatedAt`. Raises NotFound for a foreign thread."""
        ...

    def load_thread(self, thread_id: str) -> dict[str, Any] | None:
        """`{id, resourceId, title, metadata, createdAt, updatedAt}`, or None.

        With `messageCount` where messages are counted: it saves a steady window from loading all of them.
        """
        ...

    def create_thread(self, thread: dict[str, Any]) -> None:
        """Make the thread; one that its own resource has made meanwhile stays as it is.

        Raises Conflict (id_taken) when the id is another resource's.
        """
        ...

    def repair_messages(self, messages: Sequence[StoredMessage], *, rule: str, reason: str) -> int:
        """Store repaired messages (each names its thread) as new versions; how many really differed."""
        ...


class MemoryStorage:
    """A dict. Keeps versions too, so that a repair can be looked at."""

    def __init__(self) -> None:
        self.threads: dict[str, dict[str, Any]] = {}
        self._messages: dict[str, dict[str, StoredMessage]] = {}
        self.versions: dict[tuple[str, str], list[StoredMessage]] = {}

    def load_messages(self, thread_id: str, resource_id: str | None, *, last: int | None) -> list[StoredMessage]:
        thread = self.threads.get(thread_id)
        if thread is None or (resource_id is not None and thread["resourceId"] != resource_id):
            return []
        rows = self._messages.get(thread_id, {}).values()
        messages = [m for m in rows if resource_id is None or m.get("resourceId") in (None, resource_id)]
        if last is None:
            return messages
        return messages[-last:] if last else []

    def save_messages(self, thread_id: str, resource_id: str | None, messages: Sequence[StoredMessage]) -> None:
        thread = self.threads.get(thread_id)
        if thread is None or (resource_id is not None and thread["resourceId"] != resource_id):
            raise NotFound(f"no thread {thread_id}")
        rows = self._messages.setdefault(thread_id, {})
        first = datetime.min.replace(tzinfo=UTC)
        for message in sorted(messages, key=lambda m: instant(m.get("createdAt")) or first):
            rows[message["id"]] = message
        thread["updatedAt"] = timestamp(datetime.now(UTC))

    def load_thread(self, thread_id: str) -> dict[str, Any] | None:
        thread = self.threads.get(thread_id)
        return None if thread is None else {**thread, "messageCount": len(self._messages.get(thread_id, {}))}

    def create_thread(self, thread: dict[str, Any]) -> None:
        taken = self.threads.setdefault(thread["id"], dict(thread))
        if taken["resourceId"] != thread["resourceId"]:
            raise Conflict(f"thread id {thread['id']} is taken", code="id_taken")

    def repair_messages(self, messages: Sequence[StoredMessage], *, rule: str, reason: str) -> int:
        count = 0
        for message in messages:
            thread_id = message["threadId"]
            rows = self._messages.get(thread_id, {})
            old = rows.get(message["id"])
            if old is not None and old["content"] != message["content"]:
                self.versions.setdefault((thread_id, message["id"]), []).append(old)
                rows[message["id"]] = message
                count += 1
        return count
