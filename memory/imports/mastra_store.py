"""A Mastra store, read thread by thread: its PostgreSQL, or its LibSQL or SQLite file. Nothing is ever written to it.

Source: the tables `mastra_threads` and `mastra_messages` as `@mastra/pg` and `@mastra/libsql` make them. Messages stand
in the order of their times, then (PostgreSQL) of their ids, as those packages give them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg
from psycopg.rows import dict_row

from memory.errors import InvalidInput
from memory.imports import sqlite_jsonb
from memory.imports.mastra import dump_of
from memory.imports.values import Dump, word
from memory.messages.stored import decode_json

POSTGRES = ("postgres", "postgresql")
_MAGIC = b"SQLite format 3\x00"

_THREADS = "SELECT * FROM mastra_threads ORDER BY {at}, id"
_LONE = (
    "SELECT DISTINCT thread_id AS id FROM mastra_messages"
    " WHERE thread_id NOT IN (SELECT id FROM mastra_threads) ORDER BY thread_id"
)
_MESSAGES = "SELECT * FROM mastra_messages WHERE thread_id = {mark} ORDER BY {at}, {then}"


def is_postgres(name: str) -> bool:
    """Whether a name is the URL of a PostgreSQL."""
    return name.partition("://")[0] in POSTGRES and "://" in name


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins so is a SQLite file, which LibSQL's are, too."""
    return head.startswith(_MAGIC)


def shown(url: str) -> str:
    """A URL as it may be shown: without user, password and options."""
    try:
        parts = urlsplit(url)
        place = parts.hostname or ""
        return f"{parts.scheme}://{place}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return url.partition(":")[0] + "://…"


def postgres_dumps(url: str) -> Iterator[Dump]:
    """The threads of a PostgreSQL store, oldest first, as they were at one moment. Raises InvalidInput.

    A schema of its own is named as libpq does it: `?options=-csearch_path%3Dname`.
    """
    try:
        with psycopg.connect(url, row_factory=dict_row, connect_timeout=15, application_name="import") as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            columns = _columns(connection)
            at = 'COALESCE("createdAtZ", "createdAt")' if "createdAtZ" in columns else '"createdAt"'
            query = _MESSAGES.format(mark="%s", at=at, then="id")
            for thread in connection.execute(_THREADS.format(at='"createdAt"')).fetchall():
                yield _dump(thread, connection.execute(query, [thread["id"]]).fetchall())
            for thread in connection.execute(_LONE).fetchall():
                yield _dump(thread, connection.execute(query, [thread["id"]]).fetchall())
    except psycopg.errors.UndefinedTable as error:
        raise InvalidInput("it is no Mastra store: it has no mastra_threads and mastra_messages") from error
    except psycopg.Error as error:
        raise InvalidInput(f"the store can't be read: {' '.join(str(error).split())}") from error


def _columns(connection: psycopg.Connection[dict[str, Any]]) -> set[str]:
    cursor = connection.execute("SELECT * FROM mastra_messages LIMIT 0")
    return {column.name for column in cursor.description or ()}


def sqlite_dumps(path: Path) -> Iterator[Dump]:
    """The threads of a LibSQL or SQLite file, oldest first, as they were at one moment. Raises InvalidInput."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro", uri=True)) as connection:
            connection.isolation_level = None
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            query = _MESSAGES.format(mark="?", at='"createdAt"', then="rowid")
            for statement in (_THREADS.format(at='"createdAt"'), _LONE):
                for row in connection.execute(statement).fetchall():
                    thread = dict(row)
                    yield _dump(thread, [dict(m) for m in connection.execute(query, [thread["id"]]).fetchall()])
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            raise InvalidInput("it is no Mastra store: it has no mastra_threads and mastra_messages") from error
        raise InvalidInput(f"the store can't be read: {error}") from error
    except sqlite3.Error as error:
        raise InvalidInput(f"the store can't be read: {error}") from error


def _dump(thread: Mapping[str, Any], rows: list[dict[str, Any]]) -> Dump:
    messages = [{**row, "content": _body(row["content"]), "createdAt": _at(row)} for row in rows]
    about = {**thread, "metadata": _body(thread.get("metadata")), "createdAt": _at(thread)}
    return dump_of(word(thread, "id"), about, messages)


def _at(row: Mapping[str, Any]) -> Any:
    """The time of a row: PostgreSQL has a column with the zone beside the older one without, which is UTC."""
    return row.get("createdAtZ") or row.get("createdAt")


def _body(text: Any) -> Any:
    """The value of a column with JSON; an old row's text is no JSON. One that can't be read says so in an object."""
    if isinstance(text, bytes):
        try:
            return sqlite_jsonb.decode(text)
        except ValueError as error:
            return {"unreadable": str(error)}
    if not isinstance(text, str):
        return text
    try:
        value = decode_json(text.encode("utf-8", "surrogatepass"))
    except InvalidInput:
        return text
    return value if isinstance(value, dict | list | str) else text
