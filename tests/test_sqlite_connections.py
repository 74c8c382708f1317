"""Connections to SQLite's file are used again, but for none of another file and none that is at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import DEFAULT_DB_ALIAS, connections

from compat_admin.sqlite import base

pytestmark = pytest.mark.django_db


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[base.DatabaseWrapper]:
    monkeypatch.setattr(base, "_idle", [])
    known = connections[DEFAULT_DB_ALIAS]
    options = {"transaction_mode": "IMMEDIATE"}
    settings = {**known.settings_dict, "NAME": str(tmp_path / "rows.sqlite3"), "OPTIONS": options}
    made = base.DatabaseWrapper(settings, alias="other")
    made.ensure_connection()
    made.close()
    yield made
    made.close()
    for _, opened in base._idle:
        opened.close()


def run(wrapper: base.DatabaseWrapper, sql: str) -> list[tuple[object, ...]]:
    with wrapper.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_the_next_one_takes_what_the_last_one_left(other: base.DatabaseWrapper) -> None:
    run(other, "CREATE TABLE word (text)")
    first = other.connection
    other.close()
    run(other, "SELECT * FROM word")
    assert other.connection is first


def test_none_is_left_in_a_transaction(other: base.DatabaseWrapper) -> None:
    run(other, "CREATE TABLE word (text)")
    other.set_autocommit(False)
    run(other, "INSERT INTO word VALUES ('lost')")
    other.close()
    assert base._idle == []
    assert run(other, "SELECT * FROM word") == []


def test_a_new_file_in_the_place_of_an_old_one_is_opened(other: base.DatabaseWrapper, tmp_path: Path) -> None:
    run(other, "CREATE TABLE word (text)")
    other.close()
    (tmp_path / "rows.sqlite3").rename(tmp_path / "old.sqlite3")
    assert run(other, "SELECT name FROM sqlite_master") == []


def test_no_more_than_a_few_are_kept(other: base.DatabaseWrapper) -> None:
    many = [base.DatabaseWrapper(other.settings_dict, alias=f"other{number}") for number in range(20)]
    for one in many:
        one.ensure_connection()
    for one in many:
        one.close()
    assert len(base._idle) == base._IDLE_MOST
