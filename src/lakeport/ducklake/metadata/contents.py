"""What a lake holds at a snapshot: its schemas, tables with their columns, and views."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from lakeport.ducklake.metadata.queries import Row
from lakeport.ducklake.metadata.soundness import Omission, sound_names
from lakeport.ducklake.metadata.table_state import column_tree
from lakeport.ducklake.model import Schema, Snapshot, View
from lakeport.errors import CorruptLakeError
from lakeport.types import Column

__all__ = [
    "FileTotals",
    "LakeContents",
    "TableSummary",
    "contents_of",
    "file_totals_of",
    "schemas_of",
    "views_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """A table as a listing shows it."""

    id: int
    uuid: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeContents:
    """Everything that a lake holds at one snapshot."""

    snapshot: Snapshot
    schemas: tuple[Schema, ...]
    tables: tuple[TableSummary, ...]
    """By schema and name."""
    views: tuple[View, ...]
    """By schema and name."""
    omitted: tuple[Omission, ...] = ()
    """What is left out because its rows in the catalog cannot be understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotals:
    """How many files a table has, and how large they are."""

    files: int = 0
    bytes: int = 0
    delete_files: int = 0
    delete_bytes: int = 0


def contents_of(snapshot: Snapshot, rows: Mapping[str, list[Row]]) -> LakeContents:
    """The contents of a lake from the rows of one lookup."""
    columns: dict[int, list[Row]] = defaultdict(list)
    for row in rows["column"]:
        columns[row["table_id"]].append(row)
    comments: dict[int, dict[int, str | None]] = defaultdict(dict)
    for row in rows["column_tag"]:
        comments[row["table_id"]][row["column_id"]] = row["value"]
    sound = sound_names(rows, columns)
    names = {row["schema_id"]: row["schema_name"] for row in sound.rows["schema"]}
    table_comments = _comments(rows)
    tables: list[TableSummary] = []
    omitted = list(sound.omitted)
    for row in sound.rows["table"]:
        id, schema, name = row["table_id"], names[row["schema_id"]], row["table_name"]
        try:
            tree = column_tree(columns[id], snapshot.id, comments[id])
        except CorruptLakeError as error:
            omitted.append(
                Omission(kind="table", id=id, schema=schema, name=name, reason=str(error))
            )
            continue
        tables.append(
            TableSummary(
                id=id,
                uuid=_uuid(row["table_uuid"]),
                schema=schema,
                name=name,
                columns=tree,
                comment=table_comments.get(id),
            )
        )
    return LakeContents(
        snapshot=snapshot,
        schemas=tuple(schemas_of(sound.rows)),
        tables=tuple(sorted(tables, key=lambda table: (table.schema, table.name))),
        views=tuple(views_of(sound.rows)),
        omitted=tuple(omitted),
    )


def schemas_of(rows: Mapping[str, list[Row]]) -> list[Schema]:
    """The schemas among the rows of a lookup, by id."""
    tags = _tags(rows)
    return [
        Schema(
            id=row["schema_id"],
            name=row["schema_name"],
            uuid=_uuid(row["schema_uuid"]),
            comment=tags[row["schema_id"]].get("comment"),
            tags=tags[row["schema_id"]],
        )
        for row in sorted(rows["schema"], key=lambda row: row["schema_id"])
    ]


def views_of(rows: Mapping[str, list[Row]]) -> list[View]:
    """The views among the rows of a lookup, by schema and name."""
    tags = _tags(rows)
    names = {row["schema_id"]: row["schema_name"] for row in rows["schema"]}
    column_comments: dict[int, dict[str, str]] = defaultdict(dict)
    for row in rows["view_column_tag"]:
        if row["key"] == "comment" and row["value"] is not None:
            column_comments[row["view_id"]][row["column_name"]] = row["value"]
    found = [
        View(
            id=row["view_id"],
            schema=names[row["schema_id"]],
            name=row["view_name"],
            uuid=_uuid(row["view_uuid"]),
            dialect=row["dialect"] or "duckdb",
            sql=row["sql"],
            column_aliases=_aliases(row["column_aliases"]),
            comment=tags[row["view_id"]].get("comment"),
            column_comments=column_comments.get(row["view_id"], {}),
            tags=tags[row["view_id"]],
        )
        for row in rows["view"]
        if row["schema_id"] in names
    ]
    return sorted(found, key=lambda view: (view.schema, view.name))


def file_totals_of(rows: Mapping[str, list[Row]]) -> dict[int, FileTotals]:
    """The totals of every table that has files."""
    data = {row["table_id"]: row for row in rows["data_file"]}
    deletes = {row["table_id"]: row for row in rows["delete_file"]}
    nothing: Row = {"files": 0, "bytes": 0}
    return {
        id: FileTotals(
            files=data.get(id, nothing)["files"],
            bytes=data.get(id, nothing)["bytes"] or 0,
            delete_files=deletes.get(id, nothing)["files"],
            delete_bytes=deletes.get(id, nothing)["bytes"] or 0,
        )
        for id in {*data, *deletes}
    }


def _uuid(value: object) -> str:
    """The text of a UUID, which identifies an object for people only; empty if there is none."""
    return "" if value is None else str(value)


def _comments(rows: Mapping[str, list[Row]]) -> dict[int, str | None]:
    return {row["object_id"]: row["value"] for row in rows["tag"] if row["key"] == "comment"}


def _tags(rows: Mapping[str, list[Row]]) -> defaultdict[int, dict[str, str | None]]:
    found: defaultdict[int, dict[str, str | None]] = defaultdict(dict)
    for row in rows["tag"]:
        found[row["object_id"]][row["key"]] = row["value"]
    return found


def _aliases(text: str | None) -> tuple[str, ...]:
    """A comma list of double-quoted names."""
    names, rest = [], (text or "").strip()
    while rest.startswith('"'):
        end = 1
        while rest[end : end + 2] == '""' or rest[end] != '"':
            end += 2 if rest[end] == '"' else 1
        names.append(rest[1:end].replace('""', '"'))
        rest = rest[end + 1 :].lstrip(", ")
    return tuple(names)
