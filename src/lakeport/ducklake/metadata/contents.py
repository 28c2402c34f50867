"""The contents of a lake at a snapshot: schemas, tables with their columns, and views."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from lakeport.ducklake.metadata.queries import DataFileTotals, DeleteFileTotals, QueryResult
from lakeport.ducklake.metadata.rows import (
    ColumnRow,
    ColumnTagRow,
    MacroImplRow,
    MacroParameterRow,
    MacroRow,
    SchemaRow,
    TableRow,
    TagRow,
    ViewColumnTagRow,
    ViewRow,
    column_types,
    from_values,
)
from lakeport.ducklake.metadata.soundness import Omission, sound_names
from lakeport.ducklake.metadata.table_state import column_tree
from lakeport.ducklake.model import Macro, MacroDefinition, Schema, Snapshot, View
from lakeport.errors import CorruptLakeError
from lakeport.types import Column, duckdb_string, duckdb_type

__all__ = [
    "FileTotals",
    "LakeContents",
    "TableSummary",
    "contents_of",
    "file_totals_of",
    "schemas_of",
    "view_aliases",
    "views_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSummary:
    """A table in a listing."""

    id: int
    uuid: str
    schema: str
    name: str
    columns: tuple[Column, ...]
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeContents:
    """All schemas, tables and views of a lake at one snapshot."""

    snapshot: Snapshot
    schemas: tuple[Schema, ...]
    tables: tuple[TableSummary, ...]
    """By schema and name."""
    views: tuple[View, ...]
    """By schema and name."""
    omitted: tuple[Omission, ...] = ()
    """The objects that are left out because their rows in the catalog are not valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTotals:
    """The number and size of a table's files."""

    files: int = 0
    bytes: int = 0
    delete_files: int = 0
    delete_bytes: int = 0


def contents_of(snapshot: Snapshot, rows: QueryResult) -> LakeContents:
    """Return the contents of a lake from the rows of one lookup."""
    columns: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for values in rows.values(ColumnRow):
        columns[values[_TABLE_ID]].append(values)
    comments: dict[int, dict[int, str | None]] = defaultdict(dict)
    for tag in rows[ColumnTagRow]:
        comments[tag.table_id][tag.column_id] = tag.value
    sound = sound_names(rows, columns)
    names = {row.schema_id: row.schema_name for row in sound.rows[SchemaRow]}
    tags = _tags(rows)
    tables: list[TableSummary] = []
    omitted = list(sound.omitted)
    trees = _ColumnTrees(snapshot.id)
    for row in sound.rows[TableRow]:
        id, schema, name = row.table_id, names[row.schema_id], row.table_name
        try:
            tree = trees.of(columns[id], comments.get(id))
        except CorruptLakeError as error:
            omitted.append(
                Omission(kind="table", id=id, schema=schema, name=name, reason=str(error))
            )
            continue
        tables.append(
            TableSummary(
                id=id,
                uuid=row.table_uuid or "",
                schema=schema,
                name=name,
                columns=tree,
                comment=tags[id].get("comment"),
            )
        )
    return LakeContents(
        snapshot=snapshot,
        schemas=tuple(schemas_of(sound.rows)),
        tables=tuple(sorted(tables, key=lambda table: (table.schema, table.name))),
        views=tuple(views_of(sound.rows)),
        omitted=tuple(omitted),
    )


_NAMES: Final = tuple(column_types(ColumnRow))
_TABLE_ID: Final = _NAMES.index("table_id")
# What makes one table's column different from another's. Of a row that is visible, not since when.
_definition = itemgetter(
    *(i for i, n in enumerate(_NAMES) if n not in ("table_id", "begin_snapshot", "end_snapshot"))
)
_column_id = itemgetter(_NAMES.index("column_id"))


class _ColumnTrees:
    """The columns of tables. Tables with the same columns share them, which saves most objects."""

    def __init__(self, snapshot: int) -> None:
        self._snapshot = snapshot
        self._known: dict[Hashable, tuple[Column, ...]] = {}

    def of(
        self, rows: Sequence[tuple[Any, ...]], comments: Mapping[int, str | None] | None
    ) -> tuple[Column, ...]:
        """Return the columns of a table; raise CorruptLakeError if they make no sense."""
        if len(set(map(_column_id, rows))) < len(rows):
            # Of several versions of a column the newest counts, so they differ by their snapshots.
            return self._build(rows, comments)
        key = (frozenset(map(_definition, rows)), frozenset((comments or {}).items()))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._build(rows, comments)
        return known

    def _build(
        self, rows: Sequence[tuple[Any, ...]], comments: Mapping[int, str | None] | None
    ) -> tuple[Column, ...]:
        history = [from_values(ColumnRow, row) for row in rows]
        return column_tree(history, self._snapshot, comments)


def schemas_of(rows: QueryResult) -> list[Schema]:
    """Return the schemas among the rows of a lookup, by id."""
    tags = _tags(rows)
    return [
        Schema(
            id=row.schema_id,
            name=row.schema_name,
            uuid=row.schema_uuid or "",
            comment=tags[row.schema_id].get("comment"),
            tags=tags[row.schema_id],
        )
        for row in sorted(rows[SchemaRow], key=lambda row: row.schema_id)
    ]


def views_of(rows: QueryResult) -> list[View]:
    """Return the views among the rows of a lookup, by schema and name."""
    tags = _tags(rows)
    names = {row.schema_id: row.schema_name for row in rows[SchemaRow]}
    column_comments: dict[int, dict[str, str]] = defaultdict(dict)
    for tag in rows[ViewColumnTagRow]:
        if tag.key == "comment" and tag.value is not None:
            column_comments[tag.view_id][tag.column_name] = tag.value
    macros = _macros(rows, names) if rows[ViewRow] else ()
    views = [
        View(
            id=row.view_id,
            schema=names[row.schema_id],
            name=row.view_name,
            uuid=row.view_uuid or "",
            dialect=row.dialect or "duckdb",
            sql=row.sql,
            column_aliases=view_aliases(row.column_aliases),
            comment=tags[row.view_id].get("comment"),
            column_comments=column_comments.get(row.view_id, {}),
            tags=tags[row.view_id],
            macros=macros,
        )
        for row in rows[ViewRow]
        if row.schema_id in names
    ]
    return sorted(views, key=lambda view: (view.schema, view.name))


def _macros(rows: QueryResult, schemas: Mapping[int, str]) -> tuple[Macro, ...]:
    """Return the macros in DuckDB's SQL, by schema and name."""
    parameters: dict[tuple[int, int], list[MacroParameterRow]] = defaultdict(list)
    for parameter in rows[MacroParameterRow]:
        parameters[parameter.macro_id, parameter.impl_id].append(parameter)
    definitions: dict[int, list[MacroDefinition]] = defaultdict(list)
    for row in sorted(rows[MacroImplRow], key=lambda row: row.impl_id):
        if row.dialect.lower() == "duckdb":
            own = sorted(parameters[row.macro_id, row.impl_id], key=lambda each: each.column_id)
            pairs = tuple((each.parameter_name, _default(each)) for each in own)
            is_table = row.type.lower() == "table"
            definitions[row.macro_id].append(MacroDefinition(row.sql, is_table, pairs))
    found = [
        Macro(schemas[row.schema_id], row.macro_name, tuple(definitions[row.macro_id]))
        for row in rows[MacroRow]
        if row.schema_id in schemas and definitions[row.macro_id]
    ]
    return tuple(sorted(found, key=lambda macro: (macro.schema, macro.name)))


def _default(parameter: MacroParameterRow) -> str | None:
    """Return the default value of a parameter as SQL; a parameter without one has no type."""
    if parameter.default_value_type in (None, "", "unknown"):
        return None
    type = duckdb_type(Column(id=0, name="", type=parameter.default_value_type))
    return f"CAST({duckdb_string(parameter.default_value)} AS {type})"


def file_totals_of(rows: QueryResult) -> dict[int, FileTotals]:
    """Return the totals of every table that has files."""
    data = {row.table_id: row for row in rows[DataFileTotals]}
    deletes = {row.table_id: row for row in rows[DeleteFileTotals]}
    return {
        id: FileTotals(
            files=data[id].files if id in data else 0,
            bytes=(data[id].bytes or 0) if id in data else 0,
            delete_files=deletes[id].files if id in deletes else 0,
            delete_bytes=(deletes[id].bytes or 0) if id in deletes else 0,
        )
        for id in {*data, *deletes}
    }


def _tags(rows: QueryResult) -> defaultdict[int, dict[str, str | None]]:
    tags: defaultdict[int, dict[str, str | None]] = defaultdict(dict)
    for row in rows[TagRow]:
        tags[row.object_id][row.key] = row.value
    return tags


def view_aliases(text: str | None) -> tuple[str, ...]:
    """Parse a comma list of double-quoted names."""
    names, rest = [], (text or "").strip()
    while rest.startswith('"'):
        end = 1
        while rest[end : end + 2] == '""' or rest[end] != '"':
            end += 2 if rest[end] == '"' else 1
        names.append(rest[1:end].replace('""', '"'))
        rest = rest[end + 1 :].lstrip(", ")
    return tuple(names)
