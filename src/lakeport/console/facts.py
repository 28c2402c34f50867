"""What the pages show of a lake, read from the tables and functions of its schema `lakeport`.

Every function takes a client of the server and blocks. Pages call them in threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeport.airport.client import Client
from lakeport.errors import LakeportError, NotFoundError, PermissionDeniedError
from lakeport.types import duckdb_identifier, from_arrow_type

__all__ = [
    "ColumnFacts",
    "FileFacts",
    "LakeFacts",
    "SnapshotFacts",
    "TableFacts",
    "changed_rows",
    "column_facts",
    "file_facts",
    "growth",
    "lake_facts",
    "restore_table",
    "row_counts",
    "sample",
    "schema_differences",
    "shown",
    "snapshot_ids",
    "snapshots",
    "tables",
]

FUNCTIONS: Final = "lakeport"
"""The schema of tables and functions about a lake."""

_MAX_CELL: Final = 200


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
class SnapshotFacts:
    """A snapshot in the history of a lake."""

    id: int
    time: datetime
    author: str
    message: str
    changes: tuple[tuple[str, tuple[str, ...]], ...]
    """What it changed: a kind such as `tables_created`, and names or ids of objects."""


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
    newest: SnapshotFacts | None = None
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
    history = snapshots(client)
    problems = client.table(f"{FUNCTIONS}.unlisted").scan().to_arrow().to_pylist()
    return LakeFacts(
        name=name,
        comment=comment,
        is_lake=True,
        tables=sum(table.kind == "BASE TABLE" for table in listed),
        views=sum(table.kind == "VIEW" for table in listed),
        files=sum(table.files or 0 for table in listed),
        bytes=sum(table.bytes or 0 for table in listed),
        snapshots=len(history),
        newest=history[-1] if history else None,
        problems=tuple(
            f"{row['schema_name']}.{row['table_name']}: {row['reason']}" for row in problems
        ),
    )


def is_lake(client: Client) -> bool:
    """Return whether a catalog is a lake, with tables about itself."""
    return any(schema.name == FUNCTIONS for schema in client.schemas())


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


def snapshots(client: Client) -> list[SnapshotFacts]:
    """Return the history of a lake, oldest first."""
    rows = client.table(f"{FUNCTIONS}.snapshots").scan().to_arrow().to_pylist()
    listed = client.table(f"{FUNCTIONS}.tables").scan().to_arrow().to_pylist()
    # Some changes name tables by their ids.
    names = {str(row["table_id"]): f"{row['schema_name']}.{row['table_name']}" for row in listed}
    return [
        SnapshotFacts(
            id=row["snapshot_id"],
            time=row["snapshot_time"],
            author=row["author"] or "",
            message=row["commit_message"] or "",
            changes=tuple(
                (kind, tuple(names.get(each, each) for each in changed))
                for kind, changed in row["changes"]
            ),
        )
        for row in rows
    ]


def snapshot_ids(client: Client) -> list[int]:
    """Return the ids of all snapshots, oldest first."""
    rows = client.table(f"{FUNCTIONS}.snapshots").scan(["snapshot_id"]).to_arrow()
    ids: list[int] = rows["snapshot_id"].to_pylist()
    return ids


def growth(client: Client) -> list[tuple[int, int, int]]:
    """Return snapshot, rows and bytes of the live files that it or an earlier one added."""
    columns = ["begin_snapshot", "record_count", "data_file_size_bytes"]
    files = client.table(f"{FUNCTIONS}.files").scan(columns).to_arrow()
    grouped = (
        files.group_by("begin_snapshot")
        .aggregate([("record_count", "sum"), ("data_file_size_bytes", "sum")])
        .sort_by("begin_snapshot")
    )
    rows = pc.cumulative_sum(grouped["record_count_sum"])
    size = pc.cumulative_sum(grouped["data_file_size_bytes_sum"])
    ids = grouped["begin_snapshot"].to_pylist()
    return list(zip(ids, rows.to_pylist(), size.to_pylist(), strict=True))


def column_facts(client: Client, schema: str, name: str) -> list[ColumnFacts]:
    """Return the columns of a table with their statistics, as far as the server has them."""
    table = client.table(name, schema=schema)
    found = []
    for column in table.columns:
        has_null, low, high = None, "", ""
        if table.has_statistics:
            try:
                statistics = table.statistics(column.name)
                has_null = statistics.has_null
                low, high = shown(statistics.min), shown(statistics.max)
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
                min=low,
                max=high,
            )
        )
    return found


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


def row_counts(
    client: Client, schema: str, name: str, versions: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the number of rows of a table at each snapshot where it exists."""
    table = client.table(name, schema=schema)
    counts = []
    for version in versions:
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


def shown(value: Any) -> str:
    """Return a value as the text of a cell."""
    text = "NULL" if value is None else str(value)
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}…"


def _types(schema: pa.Schema) -> dict[str, str]:
    return {field.name: from_arrow_type(field.type).sql() for field in schema}


def _path(schema: str, name: str) -> str:
    return f"{duckdb_identifier(schema)}.{duckdb_identifier(name)}"
