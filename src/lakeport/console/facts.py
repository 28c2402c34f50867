"""What the pages show of a lake, read from the tables and functions of its schema `lakeport`.

Every function takes a client of the server and blocks. Pages call them in threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.airport.client import Client
from lakeport.console.cells import shown_value
from lakeport.errors import LakeportError, NotFoundError, PermissionDeniedError
from lakeport.filters import col
from lakeport.types import duckdb_identifier, from_arrow_type

__all__ = [
    "ColumnFacts",
    "Commit",
    "FileFacts",
    "LakeFacts",
    "TableFacts",
    "changed_rows",
    "changed_sizes",
    "column_facts",
    "file_facts",
    "growth",
    "is_table_of_lake",
    "lake_facts",
    "layout",
    "partitions",
    "restore_table",
    "row_counts",
    "sample",
    "schema_differences",
    "snapshot_ids",
    "tables",
]

FUNCTIONS: Final = "lakeport"
"""The schema of tables and functions about a lake."""

_MAX_COUNTED_FILES: Final = 200
_MAX_COUNTS: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """A table or view in the list of a lake."""

    schema: str
    name: str
    kind: str
    comment: str = ""
    files: int | None = None
    bytes: int | None = None
    delete_files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """Who made a snapshot, and when."""

    id: int
    time: datetime
    author: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFacts:
    """A catalog of the server at a glance."""

    name: str
    comment: str
    is_lake: bool
    tables: int = 0
    views: int = 0
    files: int = 0
    bytes: int = 0
    snapshots: int = 0
    newest: Commit | None = None
    problems: tuple[str, ...] = field(default=())
    """Tables and views that cannot be read, each with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """A column with its statistics."""

    name: str
    type: str
    nullable: bool
    default: str
    comment: str
    has_null: bool | None = None
    null_share: float | None = None
    """Of the rows in files, deleted ones included."""
    min: str = ""
    max: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """A data file of a table."""

    path: str
    bytes: int
    delete_bytes: int | None


def lake_facts(client: Client, name: str, comment: str) -> LakeFacts:
    """Return a catalog at a glance."""
    if not is_lake(client):
        return LakeFacts(name=name, comment=comment, is_lake=False, tables=len(client.tables()))
    listed = tables(client)
    ids = snapshot_ids(client)
    problems = client.table(f"{FUNCTIONS}.unlisted").scan().to_arrow().to_pylist()
    return LakeFacts(
        name=name,
        comment=comment,
        is_lake=True,
        tables=sum(table.kind == "BASE TABLE" for table in listed),
        views=sum(table.kind == "VIEW" for table in listed),
        files=sum(table.files or 0 for table in listed),
        bytes=sum(table.bytes or 0 for table in listed),
        snapshots=len(ids),
        newest=_commit(client, ids[-1]) if ids else None,
        problems=tuple(
            f"{row['schema_name']}.{row['table_name']}: {row['reason']}" for row in problems
        ),
    )


def is_lake(client: Client) -> bool:
    """Return whether a catalog is a lake, with tables about itself."""
    return any(schema.name == FUNCTIONS for schema in client.schemas())


def is_table_of_lake(client: Client, schema: str, name: str) -> bool:
    """Return whether a name is that of a table with files, not of a view or a function's table."""
    if not is_lake(client):
        return False
    wanted = (col("schema_name") == schema) & (col("table_name") == name)
    rows = client.table(f"{FUNCTIONS}.tables").scan(["table_type"], wanted).to_arrow()
    return "BASE TABLE" in rows["table_type"].to_pylist()


def tables(client: Client) -> list[TableFacts]:
    """Return the tables and views that the caller may list, with the sizes it may read."""
    if not is_lake(client):
        return [
            TableFacts(schema=t.schema_name, name=t.name, kind="TABLE", comment=t.comment)
            for t in client.tables()
        ]
    listed = client.table(f"{FUNCTIONS}.tables").scan().to_arrow().to_pylist()
    sizes = {
        row["table_id"]: row
        for row in client.call_table(f"{FUNCTIONS}.table_info").to_arrow().to_pylist()
    }
    found = []
    for row in listed:
        size = sizes.get(row["table_id"], {}) if row["table_type"] == "BASE TABLE" else {}
        found.append(
            TableFacts(
                schema=row["schema_name"],
                name=row["table_name"],
                kind=row["table_type"],
                comment=row["comment"] or "",
                files=size.get("file_count"),
                bytes=size.get("file_size_bytes"),
                delete_files=size.get("delete_file_count"),
            )
        )
    return found


def snapshot_ids(client: Client) -> list[int]:
    """Return the ids of all snapshots, oldest first."""
    rows = client.table(f"{FUNCTIONS}.snapshots").scan(["snapshot_id"]).to_arrow()
    ids: list[int] = rows["snapshot_id"].to_pylist()
    return ids


def _commit(client: Client, id: int) -> Commit | None:
    """Return who made a snapshot; None if it has been expired meanwhile."""
    columns = ["snapshot_time", "author"]
    found = client.table(f"{FUNCTIONS}.snapshots").scan(columns, col("snapshot_id") == id)
    rows = found.to_arrow().to_pylist()
    if not rows:
        return None
    return Commit(id=id, time=rows[0]["snapshot_time"], author=rows[0]["author"] or "")


def growth(client: Client, table: str | None = None) -> list[tuple[int, int, int]]:
    """Return the rows and the bytes in files after each snapshot, of the lake or of a table."""
    changes = changed_sizes(client, table)
    rows = pc.cumulative_sum(pc.subtract(changes["rows_added"], changes["rows_removed"]))
    size = pc.cumulative_sum(pc.subtract(changes["bytes_added"], changes["bytes_removed"]))
    ids = changes["snapshot_id"].to_pylist()
    return list(zip(ids, rows.to_pylist(), size.to_pylist(), strict=True))


def changed_sizes(client: Client, table: str | None = None) -> pa.Table:
    """Return what each snapshot added and removed, in the lake or in a table."""
    named = {} if table is None else {"table_name": table}
    return client.call_table(f"{FUNCTIONS}.growth", **named).to_arrow()


def column_facts(client: Client, schema: str, name: str) -> list[ColumnFacts]:
    """Return the columns of a table with their statistics, as far as the server has them."""
    table = client.table(name, schema=schema)
    recorded = _column_info(client, schema, name)
    found = []
    for column in table.columns:
        has_null = None
        known = recorded.get(column.name, {})
        low, high = (known.get(bound) or "" for bound in ("min_value", "max_value"))
        # Those of the server are values, and exact where the recorded ones are only bounds.
        if table.has_statistics:
            try:
                statistics = table.statistics(column.name)
                has_null = statistics.has_null
                low, high = (
                    shown_value(each, column.type) for each in (statistics.min, statistics.max)
                )
            except LakeportError:
                pass  # the server has none for this type
        found.append(
            ColumnFacts(
                name=column.name,
                type=from_arrow_type(column.type).sql(),
                nullable=not column.not_null,
                default=column.default or "",
                comment=column.comment,
                has_null=has_null,
                null_share=_null_share(known),
                min=low,
                max=high,
            )
        )
    return found


def _column_info(client: Client, schema: str, name: str) -> dict[str, dict[str, Any]]:
    """Return what is recorded of each column; nothing for views and restricted tables."""
    if not is_lake(client):
        return {}
    try:
        called = client.call_table(f"{FUNCTIONS}.column_info", _path(schema, name))
        rows = called.to_arrow().to_pylist()
    except (NotFoundError, PermissionDeniedError):
        return {}
    return {row["column_name"]: row for row in rows}


def _null_share(known: dict[str, Any]) -> float | None:
    if not known.get("row_count") or known["null_count"] is None:
        return None
    return float(known["null_count"] / known["row_count"])


def layout(client: Client, schema: str, name: str) -> list[tuple[str, str, str]] | None:
    """Return how a table is partitioned and sorted, and its options: property, name, value.

    None if the caller may not see it.
    """
    try:
        called = client.call_table(f"{FUNCTIONS}.table_layout", _path(schema, name))
        return [tuple(row.values()) for row in called.to_arrow().to_pylist()]
    except (NotFoundError, PermissionDeniedError):
        return None


def partitions(client: Client, schema: str, name: str) -> list[tuple[str, int]]:
    """Return the partitions of a table with the numbers of their files; none if it has none."""
    try:
        called = client.call_table(f"{FUNCTIONS}.partitions", _path(schema, name))
        rows = called.to_arrow().to_pylist()
    except (NotFoundError, PermissionDeniedError):
        return []
    return [(row["partition"], row["file_count"]) for row in rows if row["partition"]]


def file_facts(client: Client, schema: str, name: str) -> list[FileFacts]:
    """Return the data files of a table, largest first; none for views."""
    try:
        rows = client.call_table(f"{FUNCTIONS}.list_files", _path(schema, name)).to_arrow()
    except (NotFoundError, PermissionDeniedError):
        return []
    files = [
        FileFacts(
            path=row["data_file"],
            bytes=row["data_file_size_bytes"],
            delete_bytes=row["delete_file_size_bytes"],
        )
        for row in rows.to_pylist()
    ]
    return sorted(files, key=lambda file: file.bytes, reverse=True)


def sample(
    client: Client, schema: str, name: str, *, rows: int = 100, version: int | None = None
) -> pa.Table:
    """Return the first rows of a table."""
    return client.table(name, schema=schema).scan(version=version, limit=rows).to_arrow()


def row_counts(client: Client, schema: str, name: str) -> list[tuple[int, int]]:
    """Return the number of rows of a table after the snapshots that changed it.

    They are counted if the table has few files. The sums of the catalog are there for every
    snapshot, and put deleted rows with the last snapshot that deleted some of the same file.
    """
    path = _path(schema, name)
    known = [(snapshot, rows) for snapshot, rows, _ in growth(client, path)]
    files = client.call_table(f"{FUNCTIONS}.list_files", path).select("data_file")
    if files.limit(_MAX_COUNTED_FILES + 1).to_arrow().num_rows > _MAX_COUNTED_FILES:
        return known
    step = -(-len(known) // _MAX_COUNTS) or 1
    table = client.table(name, schema=schema)
    counts = []
    for version, _ in known[::-1][::step][::-1]:
        try:
            counts.append((version, table.scan(version=version).count()))
        except LakeportError:
            continue  # the table did not exist, or the snapshot was expired
    return counts


def schema_differences(
    client: Client, schema: str, name: str, before: int, after: int
) -> list[tuple[str, str, str]]:
    """Return the columns whose types differ between two snapshots: name, then, now."""
    table = client.table(name, schema=schema)
    then = _types(table.scan(version=before).schema)
    now = _types(table.scan(version=after).schema)
    return [
        (column, then.get(column, ""), now.get(column, ""))
        for column in dict.fromkeys([*then, *now])
        if then.get(column) != now.get(column)
    ]


def changed_rows(
    client: Client, schema: str, name: str, before: int, after: int, *, limit: int
) -> pa.Table:
    """Return the changes of rows after one snapshot, up to another."""
    feed = client.call_table(
        f"{FUNCTIONS}.table_changes", _path(schema, name), before + 1, after
    ).limit(limit)
    return feed.to_arrow()


def restore_table(client: Client, schema: str, name: str, version: int) -> None:
    """Give a table the columns and rows of an earlier snapshot, as a new snapshot."""
    client.call_table(f"{FUNCTIONS}.restore", _path(schema, name), version).to_arrow()


def _types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: from_arrow_type(field.type).sql() for field in schema}


def _path(schema: str, name: str) -> str:
    return f"{duckdb_identifier(schema)}.{duckdb_identifier(name)}"
