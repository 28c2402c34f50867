"""Statements that change rows of a table in a transaction: append, overwrite, delete, update.

A delete or an update has two phases. The first one finds the addresses of the touched rows and
reads only the columns of the condition. The second one reads the touched rows, computes what they
become, and writes them with the row ids that they had.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import pyarrow as pa

from lakeport.arrow import RowSource, reader_of
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID, VIRTUAL_COLUMNS
from lakeport.ducklake.writing.changes.expressions import (
    SqlExpression,
    Workspace,
    open_workspace,
    parse_expression,
)
from lakeport.ducklake.writing.changes.file_search import search_files
from lakeport.ducklake.writing.changes.sources import (
    ADDRESS,
    PLACE,
    POSITION,
    ROW_ID,
    Place,
    PlaceKey,
    group_addresses,
)
from lakeport.ducklake.writing.changes.table_rows import TableRows
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.distributed import add_rows, engine_rows, is_frame
from lakeport.ducklake.writing.files import Partitioner
from lakeport.ducklake.writing.tasks import WrittenRows
from lakeport.errors import InvalidArgumentError, LakeportError, UnsupportedError
from lakeport.filters import Filter, parse_sql_filter
from lakeport.types import (
    Column,
    arrow_schema,
    duckdb_identifier,
    expression_type,
    fold_name,
    has_zoned_nanoseconds,
)

__all__ = [
    "append_rows",
    "assignments_of",
    "check_exact",
    "delete_rows",
    "has_own_rows",
    "overwrite_partitions",
    "overwrite_rows",
    "pruning_filter",
    "read_columns",
    "same_places",
    "typed",
    "update_rows",
    "write_updated",
]


def append_rows(rows: TableRows, source: RowSource) -> None:
    """Add rows of any kind that `reader_of` accepts, or those of a DataFrame."""
    add_rows(rows, source)


def overwrite_rows(rows: TableRows, source: RowSource, where: str | None) -> None:
    """Replace the rows that pass a condition, or all rows, by others."""
    # The source is opened first: it may be a scan of the table.
    if not is_frame(source) and not isinstance(source, WrittenRows):
        source = reader_of(source, arrow_schema(rows.writer.columns))
    delete_rows(rows, where)
    add_rows(rows, source, title="overwrite")


def overwrite_partitions(rows: TableRows, source: RowSource) -> None:
    """Replace the partitions of the table in which rows of the source are."""
    spec = file_target(rows.writer).partition_spec
    if spec is None:
        raise InvalidArgumentError(
            f"table {rows.writer.definition.name} is not partitioned: overwrite the rows that pass "
            "a condition instead, with where=..."
        )
    keys = {field.column_id for field in spec.fields}
    columns = [column for column in rows.writer.columns if column.id in keys]
    names = [column.name for column in columns]
    before = rows.places(names, Filter.always())
    add_rows(rows, source, title="overwrite partitions of")
    partitioner = Partitioner(spec, (*_ADDRESS_COLUMNS, *columns))
    known = {place.key for place in before}
    values = {file.path: file.partition_values for file in rows.written()[0]}
    added = [place for place in rows.places(names, Filter.always()) if place.key not in known]
    replaced = {values[str(place.key[1])] for place in added if place.key[0] == "written"}
    inlined = [place for place in added if place.key[0] == "added"]
    replaced |= {v for batch in rows.read(inlined) for v, _ in partitioner(batch)}
    # A file of the present partitioning is in one partition, of which the catalog has the values.
    whole = [p for p in before if p.file is not None and p.file.partition_id == spec.id]
    rows.delete_places([p for p in whole if p.file and p.file.partition_values in replaced])
    others = [place for place in before if place not in whole]
    found = [
        part.select([PLACE, POSITION])
        for batch in rows.read(others)
        for v, part in partitioner(batch)
        if v in replaced
    ]
    if found:
        rows.delete(group_addresses(pa.Table.from_batches(found), others), others)


_ADDRESS_COLUMNS: Final = tuple(
    Column(id=-number, name=name, type="int64")
    for number, name in enumerate((PLACE, POSITION, ROW_ID), 1)
)


def delete_rows(rows: TableRows, where: str | None) -> None:
    """Delete the rows that pass a condition, or all rows."""
    if where is None:
        rows.delete_all()
        return
    condition = parse_expression(where, "the condition")
    places, touched = _find(rows, condition, where, "delete from")
    rows.delete(touched, places)


def update_rows(rows: TableRows, assignments: Mapping[str, str], where: str | None) -> None:
    """Set columns to the values of expressions, in the rows that pass a condition or in all."""
    if not assignments:
        raise InvalidArgumentError("an update needs at least one column and its expression")
    columns = rows.writer.columns
    check_exact(columns)
    values = assignments_of(columns, assignments)
    condition = parse_expression("true" if where is None else where, "the condition")
    names = [column.name for column in columns]
    used = [name for name in VIRTUAL_COLUMNS if any(e.mentions(name) for e in values.values())]
    virtual = [name for name in used if fold_name(name) not in {fold_name(n) for n in names}]
    with open_workspace() as workspace:
        places, touched = _find(rows, condition, where, "update", workspace)
        if not touched:
            return
        wide = same_places(rows, places, [*names, *virtual], pruning_filter(where, columns))
        selected = [
            f"{typed(values[column.id].sql, column)} AS {duckdb_identifier(column.name)}"
            if column.id in values
            else duckdb_identifier(column.name)
            for column in columns
        ]
        remote = engine_rows(rows, wide, "update")
        if remote is not None and not has_own_rows(touched):
            remote.write(wide, touched, [*selected, ROW_ID])
            rows.delete(touched, places)
            return
        write_updated(rows, workspace, rows.read(wide, touched), selected, touched, places)


def same_places(
    rows: TableRows, places: Sequence[Place], columns: Sequence[str], filter: Filter
) -> list[Place]:
    """Return the places of a search again, in their order, with other columns."""
    wide = {place.key: place for place in rows.places(columns, filter)}
    return [wide[place.key] for place in places]


def write_updated(
    rows: TableRows,
    workspace: Workspace,
    found: pa.RecordBatchReader,
    selected: Sequence[str],
    touched: Mapping[PlaceKey, Any],
    places: Sequence[Place],
    *,
    source: str = "{found}",
) -> None:
    """Write the new form of found rows and delete the old one; `source` may join more to them."""
    schema = arrow_schema(rows.writer.columns)
    with_ids = pa.schema([*schema, pa.field(INTERNAL_ROW_ID, pa.int64())])
    own = has_own_rows(touched)
    columns, joined = ", ".join(selected), source.format(found="found")
    if own:
        # Rows that the transaction has added have no row ids: the two kinds are read apart.
        workspace.register("found_stream", found)
        workspace.execute("CREATE TABLE found AS FROM found_stream")
        fresh = workspace.stream(f"SELECT {columns} FROM {joined} WHERE {ROW_ID} IS NULL", schema)
        new_rows = fresh.read_all()
        rows_kept = workspace.stream(
            f"SELECT {columns}, {ROW_ID} FROM {joined} WHERE {ROW_ID} IS NOT NULL", with_ids
        )
    else:
        workspace.register("found", found)
        new_rows = None
        rows_kept = workspace.stream(f"SELECT {columns}, {ROW_ID} FROM {joined}", with_ids)
    rows.add(rows_kept, has_row_ids=True, in_order=True)
    rows.delete(touched, places)
    if new_rows is not None:
        rows.add(new_rows.to_reader(), in_order=True)


def has_own_rows(touched: Mapping[PlaceKey, Any]) -> bool:
    """Return whether rows are touched that the transaction has added, which have no row ids."""
    return any(key[0] in ("written", "added") for key in touched)


def assignments_of(
    columns: Sequence[Column], assignments: Mapping[str, str]
) -> dict[int, SqlExpression]:
    """Return the expressions by the ids of the columns that they set."""
    known = {fold_name(column.name): column for column in columns}
    found: dict[int, SqlExpression] = {}
    for name, text in assignments.items():
        column = known.get(fold_name(name))
        if column is None:
            close = difflib.get_close_matches(name, [c.name for c in columns], 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InvalidArgumentError(f"the table has no column {name!r} to set{hint}")
        if column.id in found:
            raise InvalidArgumentError(f"column {column.name!r} is set twice")
        found[column.id] = parse_expression(text, f"the expression for column {column.name!r}")
    return found


def check_exact(columns: Sequence[Column]) -> None:
    """Raise UnsupportedError if DuckDB cannot hold all values of the columns.

    DuckDB 1.5 has no TIMESTAMPTZ_NS and drops the nanoseconds of an instant; 2.0 keeps them.
    """
    for column in columns:
        if not has_zoned_nanoseconds() and any(n.type == "timestamptz_ns" for n in column.walk()):
            raise UnsupportedError(
                f"rows with column {column.name!r}, a timestamptz_ns, can be appended and deleted; "
                "to update or merge them, DuckDB 2.0 or newer is needed"
            )


def typed(sql: str, column: Column) -> str:
    """Return an expression as a value of a column."""
    return f"CAST({sql} AS {expression_type(column)})"


def pruning_filter(where: str | None, columns: Sequence[Column]) -> Filter:
    """Return a filter that every matching row passes; parts that it cannot contain pass all."""
    if where is None:
        return Filter.always()
    try:
        return parse_sql_filter(where, columns)
    except LakeportError:
        return Filter.always()


def read_columns(columns: Sequence[Column], expressions: Sequence[SqlExpression]) -> list[str]:
    """Return the columns, virtual ones too, that expressions may read."""
    own = [column.name for column in columns]
    taken = {fold_name(name) for name in own}
    names = [*own, *(name for name in VIRTUAL_COLUMNS if name not in taken)]
    return [name for name in names if any(e.mentions(name) for e in expressions)]


def _find(
    rows: TableRows,
    condition: SqlExpression,
    where: str | None,
    title: str,
    workspace: Workspace | None = None,
) -> tuple[list[Place], dict[PlaceKey, Any]]:
    """Return the places that may have matching rows, and the addresses of the matching ones."""
    columns = rows.writer.columns
    names = read_columns(columns, [condition])
    places = rows.places(names, pruning_filter(where, columns))
    if not places:
        return [], {}
    sql = f"SELECT {PLACE}, {POSITION} FROM candidates WHERE {condition.sql}"
    remote = engine_rows(rows, places, title)
    if remote is not None:
        return places, group_addresses(remote.find(places, sql, ADDRESS), places)
    used = [column for column in columns if column.name in names]
    found = (
        search_files(places, used, rows.base_columns, condition) if len(used) == len(names) else {}
    )
    touched = {key: rows.undeleted(key, positions) for key, positions in found.items()}
    rest = [place for place in places if place.key not in found]
    if rest:
        with nullcontext(workspace) if workspace else open_workspace() as evaluator:
            evaluator.register("candidates", rows.read(rest))
            touched |= group_addresses(evaluator.stream(sql, ADDRESS).read_all(), rest)
    return places, {key: positions for key, positions in touched.items() if len(positions)}
