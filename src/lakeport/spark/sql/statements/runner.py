"""Run statements by the methods of a lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lakeport.ducklake.writing.changes import default_sql
from lakeport.errors import InvalidInputError
from lakeport.spark.sql.statements.definitions import run_definition
from lakeport.spark.sql.statements.expressions import (
    Qualifiers,
    assigned_column,
    duckdb_sql,
    qualifiers,
    table_names,
)
from lakeport.spark.sql.statements.model import (
    Assignment,
    Delete,
    Insert,
    Merge,
    MergeClause,
    Query,
    Truncate,
    Update,
    Values,
    With,
)
from lakeport.spark.sql.statements.parser import parse_statement
from lakeport.spark.sql.statements.sources import (
    Queries,
    inserted_frame,
    values_table,
    with_constants,
)
from lakeport.spark.sql.statements.subqueries import without_subqueries
from lakeport.types import Column, duckdb_identifier, fold_name, sql_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.ducklake import Lake, LakeTable
    from lakeport.ducklake.writing import Merge as TableMerge
    from lakeport.ducklake.writing import WriteResult
    from lakeport.ducklake.writing.tasks import Progress

__all__ = ["run_statement"]


def run_statement(
    lake: Lake,
    text: str,
    spark: Callable[[], SparkSession],
    *,
    progress: Progress | None = None,
) -> WriteResult:
    """Run a statement that changes a lake; `spark` is called only if it has a query.

    `progress` is called with a `WriteProgress` from time to time while Spark writes.

    Raises:
        InvalidInputError: The text cannot be parsed.
        UnsupportedError: A part of the statement is not supported.
    """
    parsed = parse_statement(text)
    queries = Queries(lake, spark, parsed.ctes if isinstance(parsed, With) else "")
    statement = parsed.statement if isinstance(parsed, With) else parsed
    statement = without_subqueries(queries, statement)
    match statement:
        case Insert():
            return _insert(statement, queries, progress)
        case Update():
            return _update(lake, statement, progress)
        case Delete():
            table = lake.table(statement.table.name, statement.table.schema)
            names = qualifiers(table_names(statement.table, statement.alias), "")
            return table.delete(_condition(statement.where, names), progress=progress)
        case Truncate():
            table = lake.table(statement.table.name, statement.table.schema)
            return table.delete(progress=progress)
        case Merge():
            return _merge(statement, queries, progress)
        case _:
            return run_definition(statement, queries, progress)


def _insert(statement: Insert, queries: Queries, progress: Progress | None) -> WriteResult:
    table = queries.lake.table(statement.table.name, statement.table.schema)
    fixed = _partition_values(table, statement)
    columns = [column for column in table.columns if column not in fixed]
    if statement.columns is not None:
        columns = [table.column(name) for name in statement.columns]
    if len({column.id for column in (*columns, *fixed)}) < len(columns) + len(fixed):
        raise InvalidInputError("INSERT has a column twice in its list of columns")
    where = _condition(statement.where, qualifiers(table_names(statement.table, None), ""))
    constants = values_table(Values((tuple(fixed.values()),)), [*fixed]) if fixed else None
    values = [] if constants is None else [column[0].as_py() for column in constants.columns]
    if isinstance(statement.source, Query):
        frame = queries.frame(statement.source)
        rows: Any = inserted_frame(frame, columns, by_name=statement.by_name)
        rows = with_constants(rows, list(zip(fixed, values, strict=True)))
    else:
        given = tuple((*row, *fixed.values()) for row in statement.source.rows)
        rows = values_table(Values(given), [*columns, *fixed])
    if not statement.overwrite:
        return table.append(rows, progress=progress)
    if len(fixed) < len(statement.partition):
        return table.overwrite(rows, dynamic=True, progress=progress)
    if fixed:
        where = " AND ".join(
            f"{duckdb_identifier(column.name)} "
            + ("IS NULL" if value is None else f"= CAST(({text}) AS {sql_type(column)})")
            for (column, text), value in zip(fixed.items(), values, strict=True)
        )
    return table.overwrite(rows, where, progress=progress)


def _partition_values(table: LakeTable, statement: Insert) -> dict[Column, str]:
    """Return the columns to which PARTITION gives a value; it may name partition keys only."""
    fields = table.partition_spec.fields if table.partition_spec is not None else ()
    transforms = {field.column_id: field.transform for field in fields}
    found: dict[Column, str] = {}
    for name, value in statement.partition:
        column = table.column(name)
        transform = transforms.get(column.id)
        if transform is None:
            raise InvalidInputError(
                f"PARTITION of INSERT names the column {name!r}, which is no partition key of "
                f"{statement.table}"
            )
        if value is not None and transform != "identity":
            raise InvalidInputError(
                f"PARTITION of INSERT gives a value to {name!r}, of which {statement.table} has "
                f"the partition key {transform}: write INSERT INTO … REPLACE WHERE"
            )
        if value is not None:
            found[column] = duckdb_sql(value)
    return found


def _update(lake: Lake, statement: Update, progress: Progress | None) -> WriteResult:
    table = lake.table(statement.table.name, statement.table.schema)
    names = qualifiers(table_names(statement.table, statement.alias), "")
    values = _assignments(table, statement.assignments, names, names)
    return table.update(values, _condition(statement.where, names), progress=progress)


def _merge(statement: Merge, queries: Queries, progress: Progress | None) -> WriteResult:
    table = queries.lake.table(statement.table.name, statement.table.schema)
    target = qualifiers(table_names(statement.table, statement.alias), "target.")
    source = statement.source_name
    own = qualifiers([source, source[-1:]], "source.")
    names = {**target, **own}
    if len(names) < len(target) + len(own):
        raise InvalidInputError(
            f"the name {'.'.join(source)!r} stands for both of the statement's tables: give one of "
            "them an alias"
        )
    rows: Any = queries.frame(statement.source)
    on = _join_condition(statement, names)
    merge = table.merge(rows, on, merge_schema=statement.merge_schema, progress=progress)
    for clause in statement.clauses:
        merge = _with_clause(merge, table, clause, target, names)
    return merge.execute()


def _join_condition(statement: Merge, names: Qualifiers) -> str:
    if not statement.using:
        return duckdb_sql(statement.on, names)
    quoted = [duckdb_identifier(name) for name in statement.using]
    return " AND ".join(f"target.{name} = source.{name}" for name in quoted)


def _with_clause(
    merge: TableMerge[WriteResult],
    table: LakeTable,
    clause: MergeClause,
    target: Qualifiers,
    names: Qualifiers,
) -> TableMerge[WriteResult]:
    condition = _condition(clause.condition, names)
    if clause.rows == "not_matched":
        values = clause.values or "*"
        if values != "*":
            values = _named(table, values)
            # A column that is left out gets its default.
            given = tuple(a for a in values if not _is_default(a[1]))
            return merge.when_not_matched(
                condition, insert=_assignments(table, given, target, names)
            )
        return merge.when_not_matched(condition)
    if clause.values is None:
        if clause.rows == "matched":
            return merge.when_matched(condition, delete=True)
        return merge.when_not_matched_by_source(condition, delete=True)
    if clause.values == "*":
        return merge.when_matched(condition, update="*")
    update = _assignments(table, clause.values, target, names)
    if clause.rows == "matched":
        return merge.when_matched(condition, update=update)
    return merge.when_not_matched_by_source(condition, update=update)


def _named(table: LakeTable, values: tuple[Assignment, ...]) -> tuple[Assignment, ...]:
    """Return assignments with names; expressions without names are of all columns in order."""
    if all(path for path, _ in values):
        return values
    if len(values) != len(table.columns):
        raise InvalidInputError(
            f"table {table.name} has {len(table.columns)} columns, and INSERT of MERGE has "
            f"{len(values)} values"
        )
    return tuple(((c.name,), text) for c, (_, text) in zip(table.columns, values, strict=True))


def _assignments(
    table: LakeTable, assignments: tuple[Assignment, ...], target: Qualifiers, names: Qualifiers
) -> dict[str, str]:
    """Return the expressions by the columns that they set."""
    found: dict[str, str] = {}
    known: dict[str, Column] = {fold_name(column.name): column for column in table.columns}
    for assignment in assignments:
        name = assigned_column(assignment, target)
        column = known.get(fold_name(name))
        name = column.name if column else name
        if name in found:
            raise InvalidInputError(f"column {name!r} is set twice")
        text = assignment[1]
        found[name] = (
            default_sql(column) if column and _is_default(text) else duckdb_sql(text, names)
        )
    return found


def _is_default(text: str) -> bool:
    return text.strip().upper() == "DEFAULT"


def _condition(text: str | None, names: Qualifiers) -> str | None:
    return None if text is None else duckdb_sql(text, names)
