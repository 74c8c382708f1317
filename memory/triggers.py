"""The database's own archive: a closed message whose content changes leaves its former text as a version.

No code path can overwrite history, raw SQL included. An update that does not raise `version` itself came from outside
the application, so the new text is not left with the name of the former one's author. Deleting archives nothing.
The ledger's own triggers (`append_only`) are put in place here, too.

Not in migrations: on SQLite a rebuilt table loses its triggers in silence, and a table that a trigger names can't be
rebuilt. So they are dropped before a migration of these tables and put back after every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core import checks
from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from memory import append_only
from memory.models import Message

TRIGGER = "memory_message_history"
FUNCTION = "memory_archive_message"

_ARCHIVE = """
INSERT INTO memory_messageversion
  (message_id, version, content, byte_count, written_by, reason, rule, run_id, archived_at)
VALUES
  (OLD.id, OLD.version, OLD.content, OLD.byte_count, OLD.written_by, OLD.reason, OLD.rule, OLD.run_id, {now});
"""

# SQLite can't change NEW, so there the row is updated again, without its content.
_SQLITE = [
    f"""
CREATE TRIGGER {TRIGGER} AFTER UPDATE OF content ON memory_message
WHEN NOT OLD.is_open AND OLD.content IS NOT NEW.content
BEGIN
{_ARCHIVE.format(now="strftime('%Y-%m-%d %H:%M:%f000', 'now')")}
UPDATE memory_message SET version = OLD.version + 1 WHERE id = NEW.id;
UPDATE memory_message
  SET written_by = 'database', reason = 'changed outside the application', rule = '', run_id = ''
  WHERE id = NEW.id AND NEW.version <= OLD.version;
END
"""
]

_POSTGRESQL = [
    f"""
CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
{_ARCHIVE.format(now="clock_timestamp()")}
IF NEW.version <= OLD.version THEN
  NEW.written_by := 'database';
  NEW.reason := 'changed outside the application';
  NEW.rule := '';
  NEW.run_id := '';
END IF;
NEW.version := OLD.version + 1;
RETURN NEW;
END
$$
""",
    f"""
CREATE TRIGGER {TRIGGER} BEFORE UPDATE ON memory_message FOR EACH ROW
WHEN (NOT OLD.is_open AND OLD.content IS DISTINCT FROM NEW.content)
EXECUTE FUNCTION {FUNCTION}()
""",
]


TRIGGERS = {TRIGGER: "memory_message", **append_only.TRIGGERS}
"""The table of each trigger."""

_LOST = dict.fromkeys(append_only.TRIGGERS, "attempts and events of runs could be changed or deleted")
_LOST |= {TRIGGER: "changed messages leave no version"}


def drop_before_migration(sender: Any, *, using: str, plan: Sequence[tuple[Any, bool]], **kwargs: Any) -> None:
    """Drop the triggers when the plan holds a migration of this app; any other leaves them in force."""
    if any(migration.app_label == "memory" for migration, _ in plan):
        connection = connections[using]
        with transaction.atomic(using=using):
            _drop(connection)


def create_after_migration(sender: Any, *, using: str, **kwargs: Any) -> None:
    """Put the triggers in place, in their present form, where their tables are there."""
    connection = connections[using]
    if not _has_columns(connection):
        return
    with transaction.atomic(using=using), connection.cursor() as cursor:
        _drop(connection)
        history = _SQLITE if connection.vendor == "sqlite" else _POSTGRESQL
        for statement in [*history, *append_only.statements(connection.vendor)]:
            cursor.execute(statement)


def check_triggers(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[checks.CheckMessage]:
    """An error for each database that has the tables without one of their triggers."""
    return [
        checks.Error(
            f"The trigger {name} is missing in the database {alias!r}: {_LOST[name]}.",
            hint="manage.py migrate --skip-checks puts it back.",
            id="memory.E001",
        )
        for alias in databases or ()
        if _has_table(connections[alias])
        for name in TRIGGERS
        if not _has_trigger(connections[alias], name)
    ]


def _drop(connection: BaseDatabaseWrapper) -> None:
    has_table = _has_table(connection)
    with connection.cursor() as cursor:
        for name, table in TRIGGERS.items():
            if connection.vendor == "sqlite":
                cursor.execute(f"DROP TRIGGER IF EXISTS {name}")
            elif has_table:
                cursor.execute(f"DROP TRIGGER IF EXISTS {name} ON {table}")


def _has_table(connection: BaseDatabaseWrapper) -> bool:
    return Message._meta.db_table in connection.introspection.table_names()


def _has_columns(connection: BaseDatabaseWrapper) -> bool:
    """Whether the tables are there as the triggers know them; migrated back to an earlier state they may not be."""
    if not _has_table(connection):
        return False
    with connection.cursor() as cursor:
        columns = {column.name for column in connection.introspection.get_table_description(cursor, "memory_run")}
    return "removed_at" in columns


def _has_trigger(connection: BaseDatabaseWrapper, name: str) -> bool:
    if connection.vendor == "sqlite":
        query, values = "SELECT 1 FROM sqlite_master WHERE type = 'trigger' AND name = %s", [name]
    else:
        query = "SELECT 1 FROM pg_trigger WHERE tgname = %s AND tgrelid = to_regclass(%s) AND tgenabled <> 'D'"
        values = [name, TRIGGERS[name]]
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return cursor.fetchone() is not None
