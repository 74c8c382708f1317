"""Where histories lie: files, folders, stores. Each gives its units one by one: JSON texts, or whole threads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from memory.errors import InvalidInput
from memory.imports import assistants, detect
from memory.imports.mastra_store import is_postgres, is_sqlite, postgres_dumps, shown, sqlite_dumps
from memory.imports.values import Dump
from memory.messages.stored import decode_json

Unit = bytes | str | Dump
_ENDINGS = (".json", ".jsonl", ".ndjson", ".db", ".sqlite", ".sqlite3")


class Source(Struct, frozen=True):
    """A place and what it holds. `name` may be shown: it has no password."""

    name: str
    units: Iterable[Unit]


def sources_of(name: str) -> Iterator[Source]:
    """The sources that a file, a folder or the URL of a PostgreSQL means.

    A folder's are its files that end like JSON or a database, by name; its lists of one Assistants thread are read
    together. Raises OSError for what can't be opened, InvalidInput for a URL of something else and an empty folder.
    """
    if is_postgres(name):
        yield Source(shown(name), postgres_dumps(name))
        return
    if "://" in name and not name.startswith("file:"):
        raise InvalidInput("expected a file, a folder or a postgresql:// URL")
    path = Path(name.removeprefix("file:"))
    if path.is_dir():
        yield from _folder(path)
    else:
        yield Source(str(path), _units_of(path))


def _folder(folder: Path) -> Iterator[Source]:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.endswith(_ENDINGS))
    if not files:
        raise InvalidInput(f"no file in it ends with {', '.join(_ENDINGS)}")
    together: dict[Path, list[Any]] = {}
    for path in files:
        value = _assistants_list(path)
        if value is not None:
            together.setdefault(path.parent, []).append(value)
        else:
            yield Source(str(path), _units_of(path))
    for parent, values in together.items():
        yield Source(str(parent), [assistants.combined(values)])


def _assistants_list(path: Path) -> Any:
    """The value of a file that is such a list, else None."""
    if path.suffix != ".json":
        return None
    try:
        value = decode_json(path.read_bytes())
    except InvalidInput:
        return None
    return value if detect.is_assistants_list(value) else None


def _units_of(path: Path) -> Iterable[Unit]:
    with open(path, "rb") as file:
        head = file.read(16)
    return sqlite_dumps(path) if is_sqlite(head) else _lines_of(path)


def _lines_of(path: Path) -> Iterator[bytes]:
    with open(path, "rb") as file:
        yield from lines_in(file)


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """The histories of a file, each as JSON: one a line; or one, or a list of them, over several lines.

    A list of the messages or items of one history is one.
    """
    first = file.readline().removeprefix(b"\xef\xbb\xbf")
    if not first.lstrip().startswith(b"[") and (not first.strip() or _is_json(first)):
        yield first
        yield from file
        return
    whole = first + file.read()
    try:
        found = msgspec.json.decode(whole, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        yield from [whole] if _is_json(whole) else whole.splitlines()
        return
    yield from [whole] if _is_one_history(whole) else map(bytes, found)


def _is_one_history(text: bytes) -> bool:
    try:
        value = decode_json(text)
    except InvalidInput:
        return False
    return detect.is_one_history(value)


def _is_json(text: bytes) -> bool:
    try:
        decode_json(text)
    except InvalidInput:
        return False
    return True
