"""Column types as users give them: Arrow types, DuckDB's SQL types, or columns of a lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeport.errors import InvalidArgumentError, UnsupportedError, first_line
from lakeport.types import BY_ID, TYPES, Column, LogicalType, fold_name, from_arrow_type, normalize

__all__ = ["ColumnLike", "ColumnsLike", "TypeLike", "column_of", "columns_of"]

TypeLike: TypeAlias = pa.DataType | str
"""An Arrow type, or DuckDB's SQL text of a type."""
ColumnLike: TypeAlias = Column | pa.Field
ColumnsLike: TypeAlias = (
    pa.Schema | Mapping[str, TypeLike] | Sequence[ColumnLike | tuple[str, TypeLike]]
)
"""The columns of a table."""

_BY_DUCKDB_ID: Final = {row.id: row.name for row in BY_ID.values()}
# A variant is published as JSON, but JSON of a client is stored as JSON.
_BY_ALIAS: Final = {
    (row.id, row.id_alias): row.name for row in TYPES if row.id_alias and row.name != "variant"
}
# Types of DuckDB whose id in `duckdb.sqltype` is not the name of the type.
_PY_IDS: Final = {
    "timestamp with time zone": "timestamptz",
    "time with time zone": "timetz",
    "timestamp_s": "timestamp_s",
    "timestamp_ms": "timestamp_ms",
    "timestamp_ns": "timestamp_ns",
}
_REFUSED: Final = "a lake cannot store"


def columns_of(columns: ColumnsLike) -> tuple[Column, ...]:
    """Return columns without ids, from any of the forms; raise for duplicate names."""
    given: Iterable[Any] = columns
    if isinstance(columns, Mapping):
        given = columns.items()
    found = tuple(
        column_of(*item) if isinstance(item, tuple) else _from_column_like(item) for item in given
    )
    if not found:
        raise InvalidArgumentError("a table needs at least one column")
    _check_distinct(found)
    return found


def _from_column_like(column: ColumnLike) -> Column:
    if isinstance(column, Column):
        return column
    metadata = column.metadata or {}
    if metadata.get(b"ARROW:extension:name") == b"geoarrow.wkb":
        return Column(id=0, name=column.name, type="geometry", nullable=column.nullable)
    return replace(column_of(column.name, column.type), nullable=column.nullable)


def column_of(name: str, type: TypeLike) -> Column:
    """Return a column without ids."""
    column = (
        _from_text(name, type)
        if isinstance(type, str)
        else _from_logical(name, from_arrow_type(type))
    )
    for node in column.walk():
        _check_distinct(node.children)
    return column


def _check_distinct(columns: Iterable[Column]) -> None:
    seen: set[str] = set()
    for column in columns:
        folded = fold_name(column.name)
        if not column.name or "\0" in column.name:
            raise InvalidArgumentError(f"{column.name!r} is not the name of a column")
        if folded in seen:
            raise InvalidArgumentError(f"two columns are called {column.name!r}")
        seen.add(folded)


def _from_logical(name: str, type: LogicalType) -> Column:
    if type.id == "STRUCT" and type.fields:
        fields = tuple(_from_logical(f.name, f.type) for f in type.fields)
        return Column(id=0, name=name, type="struct", children=fields)
    if type.id in ("LIST", "ARRAY") and type.child is not None:
        element = _from_logical("element", type.child)
        return Column(id=0, name=name, type="list", children=(element,))
    if type.id == "MAP":
        key, value = type.key_type, type.value_type
        children = (_from_logical("key", key), _from_logical("value", value))
        return Column(id=0, name=name, type="map", children=children)
    if type.id == "DECIMAL":
        return Column(id=0, name=name, type=f"decimal({type.width},{type.scale})")
    found = _BY_ALIAS.get((type.id, type.alias)) if type.alias else _BY_DUCKDB_ID.get(type.id)
    if found is None:
        raise UnsupportedError(
            f"column {name!r} has type {type.alias or type.id}, which {_REFUSED}"
        )
    return Column(id=0, name=name, type=found)


def _from_text(name: str, text: str) -> Column:
    """Return a column from a type's text. DuckLake's `int8` is one byte, DuckDB's has eight."""
    folded = text.strip().lower()
    if folded in ("int8", "uint8"):
        meant = "TINYINT or BIGINT" if folded == "int8" else "UTINYINT or UBIGINT"
        raise InvalidArgumentError(
            f"the type {text} of column {name!r} is ambiguous, because DuckDB counts bytes and "
            f"DuckLake bits: write {meant}"
        )
    if folded in _LAKE_NAMES:
        return Column(id=0, name=name, type=folded)
    import duckdb

    try:
        parsed = duckdb.sqltype(text)
        return _from_duckdb(name, parsed, text)
    except (duckdb.Error, RuntimeError) as error:
        raise InvalidArgumentError(
            f"the type {text!r} of column {name!r} is not understood: {first_line(error)}"
        ) from None


# The names of DuckLake that DuckDB does not have, or that mean the same in both.
_LAKE_NAMES: Final = frozenset(
    row.name for row in TYPES if row.name not in ("int8", "uint8", "int16", "uint16")
)


def _from_duckdb(name: str, type: Any, given: str) -> Column:
    id = str(type.id).lower()
    if id == "struct":
        fields = tuple(_from_duckdb(n, child, given) for n, child in type.children)
        return Column(id=0, name=name, type="struct", children=fields)
    if id == "list":
        element = _from_duckdb("element", type.children[0][1], given)
        return Column(id=0, name=name, type="list", children=(element,))
    if id == "map":
        (_, key), (_, value) = type.children
        children = (_from_duckdb("key", key, given), _from_duckdb("value", value, given))
        return Column(id=0, name=name, type="map", children=children)
    text = str(type).lower()
    found = normalize(_PY_IDS.get(text, text))
    if found not in _LAKE_NAMES and not found.startswith("decimal(") and found not in _SMALL:
        raise UnsupportedError(f"column {name!r} has type {given}, which {_REFUSED}")
    return Column(id=0, name=name, type=found)


_SMALL: Final = frozenset({"int8", "uint8", "int16", "uint16"})
