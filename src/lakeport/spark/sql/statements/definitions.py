"""Run CREATE, ALTER, DROP and COMMENT ON: each is one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

from lakeport.ducklake import PartitionField
from lakeport.ducklake.writing import WriteResult, option_text
from lakeport.ducklake.writing.ddl import column_of
from lakeport.errors import NotFoundError, UnsupportedError
from lakeport.spark.frames.columns import arrow_schema as frame_schema
from lakeport.spark.frames.columns import frame_columns
from lakeport.spark.sql.statements.expressions import (
    default_parts,
    duckdb_sql,
    lake_type,
    partition_key,
    partition_key_text,
)
from lakeport.spark.sql.statements.model import (
    AddColumn,
    Alteration,
    Change,
    ColumnText,
    CommentOn,
    CommentOnColumn,
    CreateSchema,
    CreateTable,
    CreateView,
    Drop,
    DropColumn,
    ObjectName,
    RenameColumn,
    RenameTo,
    SetDefault,
    SetKeys,
    SetNullable,
    SetProperties,
    SetType,
)
from lakeport.spark.sql.statements.sources import Queries
from lakeport.types import Column, duckdb_identifier, fold_name

if TYPE_CHECKING:
    from lakeport.ducklake import Lake, LakeTable
    from lakeport.ducklake.writing import TableWriter, Transaction
    from lakeport.ducklake.writing.tasks import Progress
    from lakeport.spark.sql.statements.model import Query

__all__ = ["Definition", "run_definition"]

Definition: TypeAlias = CreateSchema | CreateTable | CreateView | Drop | CommentOn | Alteration

_UNCHANGED: Final = WriteResult(snapshot=None, attempts=0)


def run_definition(
    statement: Definition, queries: Queries, progress: Progress | None = None
) -> WriteResult:
    """Run a statement that defines, changes or drops an object of a lake."""
    lake = queries.lake
    if isinstance(statement, CreateTable) and statement.query is not None:
        return _create_table_as(statement, statement.query, queries, progress)
    if isinstance(statement, Alteration) and isinstance(statement.changes[0], SetProperties):
        return _set_options(lake, statement, statement.changes[0])
    if isinstance(statement, CreateView) and statement.must_exist and not _is_view(lake, statement):
        raise NotFoundError(f"there is no view {statement.view}")
    if isinstance(statement, CreateView) and statement.if_not_exists and _is_view(lake, statement):
        return _UNCHANGED
    with lake.transaction() as transaction:
        match statement:
            case CreateSchema():
                transaction.create_schema(statement.name, if_not_exists=statement.if_not_exists)
            case CreateTable(like=ObjectName(schema, name)):
                _create_table_like(transaction, statement, lake.table(name, schema))
            case CreateTable():
                _create_table(transaction, statement)
            case CreateView():
                transaction.create_view(
                    statement.view.name,
                    statement.query,
                    statement.view.schema,
                    column_aliases=statement.columns,
                    comment=statement.comment,
                    or_replace=statement.or_replace,
                )
            case Drop():
                _drop(transaction, statement)
            case CommentOn():
                _comment(transaction, statement)
            case Alteration():
                _alter(transaction, statement)
    return transaction.commit_result


def _is_view(lake: Lake, statement: CreateView) -> bool:
    name = fold_name(statement.view.name)
    return any(fold_name(view.name) == name for view in lake.views(statement.view.schema))


def _create_table(transaction: Transaction, statement: CreateTable) -> None:
    parts = {c.path[-1]: default_parts(c.default) for c in statement.columns if c.default}
    table = transaction.create_table(
        statement.table.name,
        [_column(column) for column in statement.columns],
        statement.table.schema,
        partition_by=[partition_key(key) for key in statement.partition_by],
        sort_by=[duckdb_sql(key) for key in statement.sort_by],
        comment=statement.comment,
        defaults={name: value for name, (value, _) in parts.items() if value is not None},
        default_expressions={name: text for name, (_, text) in parts.items() if text is not None},
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    if table.table is None:
        for column in statement.columns:
            if column.comment is not None:
                table.set_comment(column.comment, column=column.path)


def _create_table_like(transaction: Transaction, statement: CreateTable, model: LakeTable) -> None:
    """Create a table with the columns, defaults, partition keys and sort order of another."""
    by_id = {column.id: duckdb_identifier(column.name) for column in model.columns}
    keys = [(f.transform, by_id[f.column_id]) for f in _partition_fields(model)]
    order = [
        f"{key.expression} {'DESC' if key.descending else 'ASC'} "
        f"NULLS {'FIRST' if key.nulls_first else 'LAST'}"
        for key in model.sort_order
    ]
    with_default = [column for column in model.columns if column.default is not None]
    table = transaction.create_table(
        statement.table.name,
        model.columns,
        statement.table.schema,
        partition_by=[partition_key(key) for key in statement.partition_by]
        or [partition_key_text(transform, name) for transform, name in keys],
        sort_by=[duckdb_sql(key) for key in statement.sort_by] or order,
        comment=statement.comment,
        defaults={c.name: c.default for c in with_default if not c.default_is_expression},
        default_expressions={
            c.name: c.default for c in with_default if c.default and c.default_is_expression
        },
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
    )
    if table.table is None:
        for column in model.columns:
            if column.comment is not None:
                table.set_comment(column.comment, column=(column.name,))


def _partition_fields(table: LakeTable) -> Sequence[PartitionField]:
    return table.partition_spec.fields if table.partition_spec is not None else ()


def _set_options(lake: Lake, statement: Alteration, change: SetProperties) -> WriteResult:
    """Set options of a table, which have no snapshots."""
    name = statement.name
    try:
        lake.table(name.name, name.schema)
    except NotFoundError:
        if statement.if_exists:
            return _UNCHANGED
        raise
    for key, value in change.values:
        option_text(key, value)  # every option is checked before the first is set
    for key, value in change.values:
        lake.set_option(key, value, schema=name.schema, table=name.name)
    return _UNCHANGED


def _column(column: ColumnText) -> Column:
    if len(column.path) > 1:
        raise UnsupportedError(
            f"the name {'.'.join(column.path)} of a column has a dot: quote it, or write a struct"
        )
    return replace(column_of(column.path[0], lake_type(column.type)), nullable=column.nullable)


def _create_table_as(
    statement: CreateTable, query: Query, queries: Queries, progress: Progress | None
) -> WriteResult:
    lake = queries.lake
    name, schema = statement.table.name, statement.table.schema
    if statement.if_not_exists and any(
        fold_name(found) == fold_name(name) for _, found in lake.tables(schema)
    ):
        return _UNCHANGED
    frame = queries.frame(query)
    columns = frame_schema(frame_columns(frame.schema))
    with lake.transaction(progress=progress) as transaction:
        table = transaction.create_table(
            name,
            columns,
            schema,
            partition_by=[partition_key(key) for key in statement.partition_by],
            sort_by=[duckdb_sql(key) for key in statement.sort_by],
            comment=statement.comment,
            or_replace=statement.or_replace,
        )
        table.append(frame)
    return transaction.commit_result


def _drop(transaction: Transaction, statement: Drop) -> None:
    name, if_exists = statement.name, statement.if_exists
    if statement.kind == "SCHEMA":
        transaction.drop_schema(name.name, cascade=statement.cascade, if_exists=if_exists)
    elif statement.kind == "TABLE":
        transaction.drop_table(name.name, name.schema, if_exists=if_exists)
    else:
        transaction.drop_view(name.name, name.schema, if_exists=if_exists)


def _comment(transaction: Transaction, statement: CommentOn) -> None:
    name = statement.name
    if statement.kind == "VIEW":
        transaction.comment_on_view(name.name, statement.comment, name.schema)
        return
    column = statement.column or None
    transaction.table(name.name, name.schema).set_comment(statement.comment, column=column)


def _alter(transaction: Transaction, statement: Alteration) -> None:
    name = statement.name
    try:
        if statement.kind == "VIEW":
            for change in statement.changes:
                if isinstance(change, RenameTo):
                    transaction.rename_view(name.name, change.new_name, name.schema)
            return
        table = _table(transaction, name)
    except NotFoundError:
        if statement.if_exists:
            return
        raise
    for change in statement.changes:
        _change(table, change)


def _table(transaction: Transaction, name: ObjectName) -> TableWriter:
    return transaction.table(name.name, name.schema)


def _change(table: TableWriter, change: Change) -> None:
    match change:
        case AddColumn():
            _add_column(table, change)
        case DropColumn():
            if not change.if_exists or _has(table.columns, change.path):
                table.drop_column(change.path)
        case RenameColumn(path, new_name):
            table.rename_column(path, new_name)
        case RenameTo(new_name):
            table.rename(new_name)
        case SetType(path, type):
            table.alter_column(path, lake_type(type))
        case SetDefault(path, default):
            value, expression = (None, None) if default is None else default_parts(default)
            table.set_default(path, value, expression=expression)
        case SetNullable():
            table.set_nullable(change.path, nullable=change.nullable)
        case CommentOnColumn(path, comment):
            table.set_comment(comment, column=path)
        case SetKeys("PARTITIONED", keys):
            table.set_partitioning([partition_key(key) for key in keys])
        case SetKeys(_, keys):
            table.set_sorting([duckdb_sql(key) for key in keys])


def _add_column(table: TableWriter, change: AddColumn) -> None:
    column = change.column
    if change.if_not_exists and _has(table.columns, column.path):
        return
    value, expression = (None, None) if column.default is None else default_parts(column.default)
    if expression is not None and expression.upper() in ("TRUE", "FALSE"):
        value, expression = expression.lower(), None
    if expression is not None:
        raise UnsupportedError(
            f"the default of the new column {column.path[-1]!r} must be a constant: set the "
            "expression afterwards, with ALTER COLUMN … SET DEFAULT"
        )
    table.add_column(column.path, lake_type(column.type), default=value, nullable=column.nullable)
    if column.comment is not None:
        table.set_comment(column.comment, column=column.path)


def _has(columns: Sequence[Column], path: Sequence[str]) -> bool:
    for name in path:
        found = next((c for c in columns if fold_name(c.name) == fold_name(name)), None)
        if found is None:
            return False
        columns = found.children
    return True
