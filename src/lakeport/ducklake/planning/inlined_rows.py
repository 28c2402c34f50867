"""Read inlined rows, which are stored in the catalog database, in the table's columns.

A DuckDB file stores them in native types and returns them as Arrow. The other databases store
values of some types as text. All values are read from them as text, and DuckDB casts the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from lakeport.arrow import combine, relabel
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.union_query import UnionQuery
from lakeport.ducklake.model import InlinedTable
from lakeport.ducklake.planning.inlined_values import as_text, decode, is_binary
from lakeport.ducklake.reading.alignment import column_converter, constant_column
from lakeport.errors import CorruptLakeError
from lakeport.types import Column, duckdb_identifier, select_expression, with_field_ids

__all__ = ["InlinedRows", "read_inlined"]


@dataclass(frozen=True, slots=True)
class InlinedRows:
    """Rows of one inlined table, in the columns of the table they belong to."""

    name: str
    row_ids: pa.Array
    begin_snapshots: pa.Array
    end_snapshots: pa.Array
    columns: list[pa.Array]

    def take(self, keep: pa.Array) -> InlinedRows:
        """Return the rows where `keep` is true."""
        return InlinedRows(
            self.name,
            self.row_ids.filter(keep),
            self.begin_snapshots.filter(keep),
            self.end_snapshots.filter(keep),
            [column.filter(keep) for column in self.columns],
        )


def read_inlined(
    catalog: CatalogReader,
    connection: sa.Connection,
    tables: Sequence[InlinedTable],
    columns: Sequence[Column],
    snapshot: int,
    *,
    from_snapshot: int | None = None,
) -> list[InlinedRows]:
    """Return the inlined rows visible at a snapshot, read by one statement.

    With `from_snapshot`, return the rows inserted or deleted from there up to the snapshot instead.
    """
    if not tables:
        return []
    for table in tables:
        if not table.physical:
            raise CorruptLakeError(
                f"the catalog database has no table {table.name!r}, in which the catalog records "
                "inlined rows: restore it from a backup"
            )
    if catalog.database.kind == "duckdb":
        raw = _read_native(catalog, connection, tables, columns, snapshot, from_snapshot)
    else:
        raw = _read_text(catalog, connection, tables, columns, snapshot, from_snapshot)
    parts = []
    for table, arrays in zip(tables, raw, strict=True):
        if len(arrays[0]):
            converted = _convert(arrays[3:], table.columns, columns, len(arrays[0]))
            parts.append(InlinedRows(table.name, arrays[0], arrays[1], arrays[2], converted))
    return parts


def _convert(
    arrays: Sequence[pa.Array], stored: Sequence[Column], columns: Sequence[Column], length: int
) -> list[pa.Array]:
    """Convert as for a Parquet file: by column id, with defaults and promotions."""
    positions = {column.id: position for position, column in enumerate(stored)}
    converted = []
    for column in columns:
        position = positions.get(column.id)
        if position is None:
            converted.append(constant_column(column, column.initial_default)(length))
        else:
            field = with_field_ids(stored[position])
            converted.append(column_converter(field, column, None)(arrays[position]))
    return converted


def _condition(table: InlinedTable, snapshot: int, from_snapshot: int | None) -> Any:
    begin: Any = sa.column(table.physical[1][0])
    end: Any = sa.column(table.physical[2][0])
    if from_snapshot is None:
        return sa.and_(begin <= snapshot, sa.or_(end.is_(None), end > snapshot))
    return sa.or_(begin.between(from_snapshot, snapshot), end.between(from_snapshot, snapshot))


def _read_native(
    catalog: CatalogReader,
    connection: sa.Connection,
    tables: Sequence[InlinedTable],
    requested: Sequence[Column],
    snapshot: int,
    from_snapshot: int | None,
) -> list[list[pa.Array]]:
    """Read all inlined tables by one UNION ALL in which each table has a struct column.

    Columns that are not requested are null arrays: their types may be unknown to Lakeport.
    """
    ids = {column.id for column in requested}
    # A SQL NULL and a JSON null differ. Only this query still distinguishes them, so variants that
    # became JSON are converted here.
    documents = {
        column.id: column for column in requested if column.type == "json" or column.as_bytes
    }
    branches = []
    for index, table in enumerate(tables):
        system = [
            f"{duckdb_identifier(name)} AS n{i}" for i, (name, _) in enumerate(table.physical[:3])
        ]
        members = [
            f"c{i} := "
            + select_expression(
                name, type, documents.get(stored.id) if stored.type == "variant" else None
            )
            for i, ((name, type), stored) in enumerate(
                zip(table.physical[3:], table.columns, strict=True)
            )
            if stored.id in ids
        ]
        struct = f"struct_pack({', '.join(members)})" if members else "NULL"
        packed = [f"{struct if i == index else 'NULL'} AS v{i}" for i in range(len(tables))]
        where = _condition(table, snapshot, from_snapshot).compile(
            compile_kwargs={"literal_binds": True}
        )
        schema = catalog.database.schema or "main"
        source = f"{duckdb_identifier(schema)}.{duckdb_identifier(table.name)}"
        selected = ", ".join([f"{index} AS part", *system, *packed])
        branches.append(f"SELECT {selected} FROM {source} WHERE {where}")  # noqa: S608
    rows = catalog.database.read_arrow(connection, " UNION ALL ".join(branches))
    part = np.asarray(rows.column(0))
    arrays = []
    for index, table in enumerate(tables):
        own = rows.filter(pa.array(part == index)) if len(tables) > 1 else rows
        packed_column = combine(own.column(f"v{index}"))
        columns = [
            relabel(packed_column.field(f"c{i}"), with_field_ids(column).type)
            if column.id in ids
            else pa.nulls(len(own))
            for i, column in enumerate(table.columns)
        ]
        numbers = [combine(own.column(f"n{i}")).cast(pa.int64()) for i in range(3)]
        arrays.append(numbers + columns)
    return arrays


def _read_text(
    catalog: CatalogReader,
    connection: sa.Connection,
    tables: Sequence[InlinedTable],
    requested: Sequence[Column],
    snapshot: int,
    from_snapshot: int | None,
) -> list[list[pa.Array]]:
    """Read all inlined tables by one union query; decode only the requested columns."""
    ids = {column.id for column in requested}
    query = UnionQuery()
    for index, table in enumerate(tables):
        source = sa.table(
            table.name,
            *(sa.column(name) for name, _ in table.physical),
            schema=catalog.database.schema,
        )
        columns: dict[str, Any] = {
            f"n{i}": sa.type_coerce(source.c[name], sa.BigInteger)
            for i, (name, _) in enumerate(table.physical[:3])
        }
        for i, (name, type) in enumerate(table.physical[3:]):
            if table.columns[i].id in ids:
                columns[f"c{i}"] = as_text(catalog.database.kind, source.c[name], type)
        query.add_select(f"i{index}", columns, source, _condition(table, snapshot, from_snapshot))
    result = query.prepare(catalog.database.engine.dialect).run(connection)
    arrays = []
    for index, table in enumerate(tables):
        rows = result[f"i{index}"]
        numbers = [pa.array([row[f"n{i}"] for row in rows], pa.int64()) for i in range(3)]
        decoded = [
            decode(
                [row[f"c{i}"] for row in rows], column, is_hex=is_binary(table.physical[3 + i][1])
            )
            if rows and column.id in ids
            else pa.nulls(len(rows))
            for i, column in enumerate(table.columns)
        ]
        arrays.append(numbers + decoded)
    return arrays
