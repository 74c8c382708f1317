"""Connections that are used again, and one writer at a time: a thread that has to wait is woken when it is its turn.

To open a connection and read the file's tables takes longer than most requests do, so a few are kept for the next one.

SQLite has one writer. Left to itself, whoever finds it busy sleeps and tries again, so under load some wait for
seconds while others pass them, and give up with "database is locked". Here the threads of a process wait for each
other; only other processes are left to SQLite.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from functools import lru_cache
from typing import Any

from django.db.backends.sqlite3 import base, operations

_writing = threading.Lock()

_IDLE_MOST = 16
_File = tuple[str, int, int]
_idle: list[tuple[_File, sqlite3.Connection]] = []
_changing_idle = threading.Lock()


def _file(path: str) -> _File | None:
    """The file behind a path, as this process has it open; None where there is none."""
    try:
        return path, os.stat(path).st_ino, os.getpid()
    except OSError:
        return None


def _taken(file: _File | None) -> sqlite3.Connection | None:
    with _changing_idle:
        for at in range(len(_idle) - 1, -1, -1):
            if _idle[at][0] == file:
                return _idle.pop(at)[1]
    return None


@lru_cache(maxsize=500)
def _with_question_marks(query: str) -> str:
    return base.FORMAT_QMARK_REGEX.sub("?", query).replace("%%", "%")


class _Cursor(base.SQLiteCursorWrapper):
    """A cursor that remembers how SQLite spells a statement: the same few are executed again and again."""

    def convert_query(self, query: str, *, param_names: Any = None) -> str:
        if param_names is None:
            return _with_question_marks(query)
        return str(super().convert_query(query, param_names=param_names))


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
        self._file: _File | None = None

    def get_new_connection(self, conn_params: Any) -> Any:
        self._file = _file(str(self.settings_dict["NAME"]))
        return _taken(self._file) or super().get_new_connection(conn_params)

    def create_cursor(self, name: str | None = None) -> Any:
        return self.connection.cursor(factory=_Cursor)

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
            if not self._kept():
                super()._close()  # type: ignore[misc]  # the stubs lack it
        finally:
            self._end_turn()

    def _kept(self) -> bool:
        """Whether the connection now waits for its next use: one that is as it was when it was opened."""
        file, opened = self._file, self.connection
        if file is None or opened.in_transaction or self.errors_occurred:
            return False
        with _changing_idle:
            _idle.append((file, opened))
            oldest = _idle.pop(0)[1] if len(_idle) > _IDLE_MOST else None
        if oldest is not None:
            oldest.close()
        return True

    def _end_turn(self) -> None:
        if self._has_turn:
            self._has_turn = False
            _writing.release()
