"""Statements about one row whose SQL is made once, for what every turn does: the ORM builds it anew each time.

Values are prepared and read by the model's own fields, so rows are the same as the ORM writes and reads.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import (
    BinaryField,
    BooleanField,
    CharField,
    Field,
    FloatField,
    ForeignKey,
    IntegerField,
    Model,
    TextField,
)

M = TypeVar("M", bound=Model)


def load_row(model: type[M], key: str) -> M | None:
    """The row with this primary key, or None."""
    sql, names, columns = _select(model)
    with connection.cursor() as cursor:
        cursor.execute(sql, [key])
        found = cursor.fetchone()
    if found is None:
        return None
    values, here = list(found), connections[DEFAULT_DB_ALIAS]
    for at, column, converters in columns:
        for convert in converters:
            values[at] = convert(values[at], column, here)
    return model.from_db(DEFAULT_DB_ALIAS, names, values)


def insert_row(row: Model) -> None:
    """Insert the row. One whose key the database makes does not learn it."""
    sql, columns = _insert(type(row))
    here = connections[DEFAULT_DB_ALIAS]  # `connection` looks for it anew each time that it is asked something.
    given = row.__dict__
    with here.cursor() as cursor:
        cursor.execute(sql, [_prepared(column, given[column[0].attname], here) for column in columns])


def update_rows(model: type[Model], where: dict[str, Any], **values: Any) -> int:
    """Set fields of the rows whose fields equal `where`; how many there were. Keys are the names of columns."""
    wanted = {name: value for name, value in where.items() if value is not None}
    empty = tuple(name for name, value in where.items() if value is None)
    sql, columns = _update(model, tuple(values), tuple(wanted), empty)
    given = [*values.values(), *wanted.values()]
    here = connections[DEFAULT_DB_ALIAS]
    with here.cursor() as cursor:
        cursor.execute(sql, [_prepared(column, value, here) for column, value in zip(columns, given, strict=True)])
        count: int = cursor.rowcount
    return count


# What a database takes as it is. Everything else goes through the field, such as times and JSON.
_PLAIN: dict[type[Field[Any, Any]], type] = {
    CharField: str,
    TextField: str,
    IntegerField: int,
    FloatField: float,
    BooleanField: bool,
    BinaryField: bytes,
}
_Column = tuple["Field[Any, Any]", "type | None"]
"""A field, and the type of values that are given as they are."""


def _column(field: Field[Any, Any]) -> _Column:
    target = field.target_field if isinstance(field, ForeignKey) else field
    return field, next((plain for kind, plain in _PLAIN.items() if isinstance(target, kind)), None)


def _prepared(column: _Column, value: Any, here: Any) -> Any:
    field, plain = column
    return value if value is None or type(value) is plain else field.get_db_prep_save(value, here)


@cache
def _select(model: type[Model]) -> tuple[str, list[str], list[tuple[int, Any, list[Any]]]]:
    """The statement, the names of what it gives, and the columns whose values have to be read."""
    fields = model._meta.concrete_fields
    table = model._meta.db_table
    columns = []
    for at, field in enumerate(fields):
        column = field.get_col(table)
        converters = [*connection.ops.get_db_converters(column), *column.get_db_converters(connection)]
        if converters:
            columns.append((at, column, converters))
    assert model._meta.pk is not None
    listed = ", ".join(f'"{field.column}"' for field in fields)
    sql = f'SELECT {listed} FROM "{table}" WHERE "{model._meta.pk.column}" = %s'
    return sql, [field.attname for field in fields], columns


@cache
def _insert(model: type[Model]) -> tuple[str, list[_Column]]:
    fields = [field for field in model._meta.concrete_fields if not field.get_internal_type().endswith("AutoField")]
    names, marks = ", ".join(f'"{field.column}"' for field in fields), ", ".join(["%s"] * len(fields))
    return f'INSERT INTO "{model._meta.db_table}" ({names}) VALUES ({marks})', [_column(field) for field in fields]


@cache
def _update(
    model: type[Model], names: tuple[str, ...], where: tuple[str, ...], empty: tuple[str, ...]
) -> tuple[str, list[_Column]]:
    by_column = {field.column: field for field in model._meta.concrete_fields}
    assigned = ", ".join(f'"{name}" = %s' for name in names)
    conditions = " AND ".join([*(f'"{name}" = %s' for name in where), *(f'"{name}" IS NULL' for name in empty)])
    sql = f'UPDATE "{model._meta.db_table}" SET {assigned} WHERE {conditions}'
    return sql, [_column(by_column[name]) for name in (*names, *where)]
