"""The metadata of a lake as tables: schemas, tables, columns, files.

A caller gets rows about objects that it may list, and rows about files of tables that it may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeport.ducklake import LakeTable, Snapshot
from lakeport.ducklake.metadata import FileTotals, LakeContents
from lakeport.errors import LakeportError, UnsupportedError
from lakeport.lakehouse.names import default_sql, published_schema
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.visible import visible_columns
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.views import sees_reads, shown_reason
from lakeport.types import Column, duckdb_type

__all__ = [
    "COLUMNS_SCHEMA",
    "FILES_OF_TABLE_SCHEMA",
    "FILES_SCHEMA",
    "SCHEMAS_SCHEMA",
    "TABLES_SCHEMA",
    "TABLE_INFO_SCHEMA",
    "UNLISTED_SCHEMA",
    "columns",
    "files",
    "files_of_table",
    "schemas",
    "table_info",
    "tables",
    "unlisted",
]

SCHEMAS_SCHEMA: Final = pa.schema(
    [
        ("schema_name", pa.string()),
        ("name_in_lake", pa.string()),
        ("schema_id", pa.int64()),
        ("schema_uuid", pa.string()),
        ("comment", pa.string()),
    ]
)

TABLES_SCHEMA: Final = pa.schema(
    [
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("table_type", pa.string()),
        ("table_id", pa.int64()),
        ("table_uuid", pa.string()),
        ("comment", pa.string()),
        ("view_definition", pa.string()),
    ]
)

UNLISTED_SCHEMA: Final = pa.schema(
    [
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("table_type", pa.string()),
        ("reason", pa.string()),
    ]
)

COLUMNS_SCHEMA: Final = pa.schema(
    [
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("column_name", pa.string()),
        ("ordinal_position", pa.int64()),
        ("column_id", pa.int64()),
        ("data_type", pa.string()),
        ("is_nullable", pa.bool_()),
        ("column_default", pa.string()),
        ("comment", pa.string()),
    ]
)

TABLE_INFO_SCHEMA: Final = pa.schema(
    [
        ("table_name", pa.string()),
        ("schema_id", pa.int64()),
        ("table_id", pa.int64()),
        ("table_uuid", pa.string()),
        ("file_count", pa.int64()),
        ("file_size_bytes", pa.int64()),
        ("delete_file_count", pa.int64()),
        ("delete_file_size_bytes", pa.int64()),
    ]
)

# Without the encryption keys, which DuckLake's own function returns.
FILES_OF_TABLE_SCHEMA: Final = pa.schema(
    [
        ("data_file", pa.string()),
        ("data_file_size_bytes", pa.uint64()),
        ("data_file_footer_size", pa.uint64()),
        ("delete_file", pa.string()),
        ("delete_file_size_bytes", pa.uint64()),
        ("delete_file_footer_size", pa.uint64()),
    ]
)

FILES_SCHEMA: Final = pa.schema(
    [
        ("schema_name", pa.string()),
        ("table_name", pa.string()),
        ("data_file_id", pa.int64()),
        ("record_count", pa.int64()),
        ("begin_snapshot", pa.int64()),
        ("is_encrypted", pa.bool_()),
        *FILES_OF_TABLE_SCHEMA,
    ]
)


def schemas(contents: LakeContents, permissions: Permissions) -> pa.Table:
    """Return the schemas, with their published names and their names in the lake."""
    published = permissions.names.published
    return _table(
        SCHEMAS_SCHEMA,
        (
            (published(schema.name), schema.name, schema.id, schema.uuid, schema.comment)
            for schema in contents.schemas
            if permissions.sees_schema(schema.name)
        ),
    )


def tables(contents: LakeContents, permissions: Permissions) -> pa.Table:
    """Return the tables and views."""
    published = permissions.names.published
    rows: list[tuple[Any, ...]] = [
        (
            published(table.schema),
            table.name,
            "BASE TABLE",
            table.id,
            table.uuid,
            table.comment,
            None,
        )
        for table in contents.tables
        if permissions.sees(table)
    ]
    rows += [
        (
            published(view.schema),
            view.name,
            "VIEW",
            view.id,
            view.uuid,
            view.comment,
            view.sql if sees_reads(view, contents, permissions) else None,
        )
        for view in contents.views
        if permissions.sees(view)
    ]
    return _table(TABLES_SCHEMA, rows)


def unlisted(
    contents: LakeContents, permissions: Permissions, refused: Mapping[int, str]
) -> pa.Table:
    """Return the tables and views that cannot be read, with the reason.

    `refused` are the reasons of views, by their ids.
    """
    published = permissions.names.published
    rows: list[tuple[str, str, str, str]] = []
    for table in contents.tables:
        if permissions.sees(table):
            try:
                published_schema(table.columns, with_rowid=False)
            except LakeportError as error:
                is_all = permissions.restriction(table) is None
                reason = str(error) if is_all else "the type of a column is not supported"
                rows.append((published(table.schema), table.name, "BASE TABLE", reason))
    for view in contents.views:
        if view.id in refused and permissions.sees(view):
            reason = shown_reason(view, contents, permissions, refused[view.id])
            rows.append((published(view.schema), view.name, "VIEW", reason))
    return _table(UNLISTED_SCHEMA, rows)


def columns(contents: LakeContents, permissions: Permissions) -> pa.Table:
    """Return the columns of all tables."""
    published = permissions.names.published
    return _table(
        COLUMNS_SCHEMA,
        (
            (
                published(table.schema),
                table.name,
                column.name,
                position,
                column.id,
                _type_name(column),
                column.nullable,
                default_sql(column),
                column.comment,
            )
            for table in contents.tables
            if permissions.sees(table)
            for position, column in enumerate(visible_columns(table, permissions)[0], start=1)
        ),
    )


def table_info(
    access: LakeResources, contents: LakeContents, permissions: Permissions, *, snapshot: Snapshot
) -> pa.Table:
    """Return the number and size of the files of every table."""
    totals = access.lake.file_totals(version=snapshot.id)
    nothing = FileTotals()
    ids = {schema.name: schema.id for schema in contents.schemas}
    rows = []
    for table in contents.tables:
        # Sizes of files show how much a caller does not see.
        if not permissions.reads(table) or permissions.restriction(table) is not None:
            continue
        of_table = totals.get(table.id, nothing)
        rows.append(
            (
                table.name,
                ids[table.schema],
                table.id,
                table.uuid,
                of_table.files,
                of_table.bytes,
                of_table.delete_files,
                of_table.delete_bytes,
            )
        )
    return _table(TABLE_INFO_SCHEMA, rows)


def files_of_table(table: LakeTable) -> pa.Table:
    """Return the data files of a table, each with its delete files."""
    width = len(FILES_OF_TABLE_SCHEMA)
    return _table(FILES_OF_TABLE_SCHEMA, (row[-width:] for row in _files(table, "")))


def files(
    access: LakeResources, contents: LakeContents, permissions: Permissions, *, snapshot: Snapshot
) -> Iterator[pa.RecordBatch]:
    """Yield the files of all tables, one table at a time."""
    published = permissions.names.published
    for summary in contents.tables:
        if permissions.reads(summary) and permissions.restriction(summary) is None:
            table = access.table(summary.schema, summary.name, snapshot.id)
            yield from _table(FILES_SCHEMA, _files(table, published(summary.schema))).to_batches()


def _files(table: LakeTable, schema: str) -> Iterator[tuple[Any, ...]]:
    for file in table.files():
        for delete in file.deletes or (None,):
            yield (
                schema,
                table.name,
                file.id,
                file.record_count,
                file.begin_snapshot,
                file.encryption_key is not None,
                file.path,
                file.file_size_bytes,
                file.footer_size,
                delete and delete.path,
                delete and delete.file_size_bytes,
                delete and delete.footer_size,
            )


def _type_name(column: Column) -> str:
    try:
        return duckdb_type(column)
    except UnsupportedError:
        return column.type


def _table(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    values = list(rows)
    arrays = [
        pa.array([row[index] for row in values], field.type) for index, field in enumerate(schema)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)
