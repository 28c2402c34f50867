"""Rows that live in the catalog database itself, as Arrow in the table's columns.

DuckDB files hold them in native types and hand them over as Arrow. The other databases hold some of
them as text; their rows travel as text, and DuckDB turns it into values as it once wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from lakeport.arrow import combine, relabel
from lakeport.ducklake.metadata.inlined_values import _as_text, _decode, _is_binary
from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.union_query import UnionQuery
from lakeport.ducklake.model import InlinedTable
from lakeport.ducklake.reading.alignment import aligner, constant
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
        """Only the rows where `keep` is true."""
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
    since: int | None = None,
) -> list[InlinedRows]:
    """The inlined rows visible at a snapshot, in one statement.

    With `since`, instead: all rows begun or ended from there up to the snapshot.
    """
    if not tables:
        return []
    if catalog.database.kind == "duckdb":
        raw = _read_native(catalog, connection, tables, columns, snapshot, since)
    else:
        raw = _read_text(catalog, connection, tables, columns, snapshot, since)
    found = []
    for table, arrays in zip(tables, raw, strict=True):
        if len(arrays[0]):
            shaped = _align(arrays[3:], table.columns, columns, len(arrays[0]))
            found.append(InlinedRows(table.name, arrays[0], arrays[1], arrays[2], shaped))
    return found


def _align(
    arrays: Sequence[pa.Array], stored: Sequence[Column], wanted: Sequence[Column], length: int
) -> list[pa.Array]:
    """Fit stored columns to the table as those of a Parquet file: by column id, with defaults."""
    positions = {column.id: position for position, column in enumerate(stored)}
    aligned = []
    for column in wanted:
        position = positions.get(column.id)
        if position is None:
            aligned.append(constant(column, column.initial_default)(length))
        else:
            field = with_field_ids(stored[position])
            aligned.append(aligner(field, column, None)(arrays[position]))
    return aligned


def _condition(table: InlinedTable, snapshot: int, since: int | None) -> Any:
    begin: Any = sa.column(table.physical[1][0])
    end: Any = sa.column(table.physical[2][0])
    if since is None:
        return sa.and_(begin <= snapshot, sa.or_(end.is_(None), end > snapshot))
    return sa.or_(begin.between(since, snapshot), end.between(since, snapshot))


def _read_native(
    catalog: CatalogReader,
    connection: sa.Connection,
    tables: Sequence[InlinedTable],
    wanted: Sequence[Column],
    snapshot: int,
    since: int | None,
) -> list[list[pa.Array]]:
    """Read with one UNION ALL in which each inlined table fills its own struct.

    Columns that are not requested are null arrays: their types may be unknown to Lakeport.
    """
    ids = {column.id for column in wanted}
    # A SQL NULL and a JSON null differ. Only this query still distinguishes them, so variants are
    # converted here.
    documents = {column.id: column for column in wanted if column.type == "json"}
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
        where = _condition(table, snapshot, since).compile(compile_kwargs={"literal_binds": True})
        schema = catalog.database.schema or "main"
        source = f"{duckdb_identifier(schema)}.{duckdb_identifier(table.name)}"
        chosen = ", ".join([f"{index} AS part", *system, *packed])
        branches.append(f"SELECT {chosen} FROM {source} WHERE {where}")  # noqa: S608
    rows = catalog.database.read_arrow(connection, " UNION ALL ".join(branches))
    part = np.asarray(rows.column(0))
    found = []
    for index, table in enumerate(tables):
        chosen = rows.filter(pa.array(part == index)) if len(tables) > 1 else rows
        packed_column = combine(chosen.column(f"v{index}"))
        columns = [
            relabel(packed_column.field(f"c{i}"), with_field_ids(column).type)
            if column.id in ids
            else pa.nulls(len(chosen))
            for i, column in enumerate(table.columns)
        ]
        found.append([combine(chosen.column(f"n{i}")).cast(pa.int64()) for i in range(3)] + columns)
    return found


def _read_text(
    catalog: CatalogReader,
    connection: sa.Connection,
    tables: Sequence[InlinedTable],
    wanted: Sequence[Column],
    snapshot: int,
    since: int | None,
) -> list[list[pa.Array]]:
    """One bundle with a part for each inlined table; only columns that are wanted are decoded."""
    ids = {column.id for column in wanted}
    bundle = UnionQuery()
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
                columns[f"c{i}"] = _as_text(catalog.database.kind, source.c[name], type)
        bundle.add_select(f"i{index}", columns, source, _condition(table, snapshot, since))
    answer = bundle.prepare(catalog.database.engine.dialect).run(connection)
    found = []
    for index, table in enumerate(tables):
        rows = answer[f"i{index}"]
        numbers = [pa.array([row[f"n{i}"] for row in rows], pa.int64()) for i in range(3)]
        decoded = [
            _decode(
                [row[f"c{i}"] for row in rows], column, is_hex=_is_binary(table.physical[3 + i][1])
            )
            if rows and column.id in ids
            else pa.nulls(len(rows))
            for i, column in enumerate(table.columns)
        ]
        found.append(numbers + decoded)
    return found
