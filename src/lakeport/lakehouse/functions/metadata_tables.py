"""The metadata of a lake as tables: snapshots, schemas, tables, columns, files.

A caller gets rows about objects that it may list, and rows about files of tables that it may read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa

from lakeport.ducklake import Lake, LakeTable, Snapshot
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
    "SNAPSHOTS_SCHEMA",
    "TABLES_SCHEMA",
    "TABLE_INFO_SCHEMA",
    "UNLISTED_SCHEMA",
    "changes_by_kind",
    "columns",
    "files",
    "files_of_table",
    "schemas",
    "snapshots",
    "table_info",
    "tables",
    "unlisted",
    "visible_changes",
]

SNAPSHOTS_SCHEMA: Final = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("snapshot_time", pa.timestamp("us", "UTC")),
        ("schema_version", pa.int64()),
        ("changes", pa.map_(pa.string(), pa.list_(pa.string()))),
        ("author", pa.string()),
        ("commit_message", pa.string()),
        ("commit_extra_info", pa.string()),
    ]
)

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


def snapshots(
    lake: Lake, permissions: Permissions, columns: Collection[str] | None = None
) -> pa.Table:
    """Return all snapshots, oldest first, with the changes to objects that the caller may list.

    The changes are empty if they are not among the columns to read.
    """
    shown = visible_changes(lake, permissions)
    with_changes = columns is None or "changes" in columns
    return _table(
        SNAPSHOTS_SCHEMA,
        (
            (
                snapshot.id,
                snapshot.time,
                snapshot.schema_version,
                changes_by_kind(snapshot.changes, shown) if with_changes else [],
                *_said(snapshot, shown, permissions),
            )
            for snapshot in lake.snapshots()
        ),
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


def _said(
    snapshot: Snapshot, is_shown: Callable[[str], bool], permissions: Permissions
) -> tuple[str | None, str | None, str | None]:
    """Return what the author of a snapshot wrote, if the caller may see all that it changed."""
    arguments = [argument for _, argument in _CHANGE.findall(snapshot.changes)]
    if permissions.have_policies and not all(map(is_shown, arguments)):
        return None, None, None
    return snapshot.author, snapshot.commit_message, snapshot.commit_extra_info


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


_KINDS: Final = {
    "created_schema": "schemas_created",
    "created_table": "tables_created",
    "created_view": "views_created",
    "created_scalar_macro": "scalar_macros_created",
    "created_table_macro": "table_macros_created",
    "dropped_schema": "schemas_dropped",
    "dropped_table": "tables_dropped",
    "dropped_view": "views_dropped",
    "dropped_scalar_macro": "scalar_macros_dropped",
    "dropped_table_macro": "table_macros_dropped",
    "inserted_into_table": "tables_inserted_into",
    "deleted_from_table": "tables_deleted_from",
    "altered_table": "tables_altered",
    "altered_view": "views_altered",
    "inline_flush": "flushed_inlined",
    "compacted_table": "merge_adjacent",
}

_QUOTED = r'"(?:[^"]|"")*"'
_CHANGE = re.compile(rf"(\w+):((?:{_QUOTED})(?:\.{_QUOTED})?|[^,]*)(?:,|$)")
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def changes_by_kind(
    text: str, is_shown: Callable[[str], bool] = lambda _: True
) -> list[tuple[str, list[str]]]:
    """Return the changes in a text such as `created_table:"main"."t"`: names and ids by kind.

    `is_shown` takes the argument of a change, as it is written in the lake.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for keyword, argument in _CHANGE.findall(text):
        if is_shown(argument):
            found[_KINDS.get(keyword, keyword)].append(_shown(argument))
    return list(found.items())


def visible_changes(lake: Lake, permissions: Permissions) -> Callable[[str], bool]:
    """Return a function that decides whether the caller may see the argument of a change.

    The caller must be allowed to list every name that an object with this id ever had. An id
    without a name is not shown, because the authorizer cannot decide about it.
    """
    if permissions.are_all_given:
        return lambda _: True
    names_by_id: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for lifetime in lake.lifetimes():
        names_by_id[str(lifetime.id)].add((lifetime.schema, lifetime.name))

    def sees(schema: str, name: str) -> bool:
        return permissions.sees_name(schema, name) if name else permissions.sees_schema(schema)

    def is_shown(argument: str) -> bool:
        parts = _names(argument)
        if not parts:
            names = names_by_id.get(argument, set())
            return bool(names) and all(sees(*name) for name in names)
        return sees(parts[0], parts[1] if len(parts) > 1 else "")

    return cache(is_shown)


def _names(argument: str) -> list[str]:
    """Return the quoted names in an argument; an id has none."""
    return [part[1:-1].replace('""', '"') for part in re.findall(_QUOTED, argument)]


def _shown(argument: str) -> str:
    """Return a name with quotes only where they are needed."""
    names = _names(argument)
    if len(names) < 2:
        return names[0] if names else argument
    return ".".join(
        name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"' for name in names
    )
