"""One writer at a time: a thread that has to wait is woken when it is its turn.

SQLite has one writer. Left to itself, whoever finds it busy sleeps and tries again, so under load some wait for
seconds while others pass them, and give up with "database is locked". Here the threads of a process wait for each
other; only other processes are left to SQLite.
"""

from __future__ import annotations

import threading
from typing import Any

from django.db.backends.sqlite3 import base, operations

_writing = threading.Lock()


class DatabaseOperations(operations.DatabaseOperations):
    """Emptying all tables begins with the runs: what belongs to none may be deleted (`memory.append_only`)."""

    def sql_flush(self, *args: Any, **options: Any) -> list[str]:
        statements: list[str] = super().sql_flush(*args, **options)
        return sorted(statements, key=lambda statement: 'memory_run"' not in statement)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose transactions begin in turn."""

    ops_class = DatabaseOperations

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_turn = False

    def _start_transaction_under_autocommit(self) -> None:
        # Who waits longer than SQLite itself would is told so by SQLite.
        self._has_turn = self._has_turn or _writing.acquire(timeout=self.settings_dict["OPTIONS"].get("timeout", 5))
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]
        except BaseException:
            self._end_turn()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]  # the stubs lack it
        finally:
            self._end_turn()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]  # the stubs lack it
        finally:
            self._end_turn()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]  # the stubs lack it
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _writing.release()
