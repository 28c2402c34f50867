"""Rows of schemas, tables, columns, views and macros that a change set creates, alters or drops."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from lakeport.ducklake.metadata.rows import (
    CatalogRow,
    ColumnRow,
    ColumnTagRow,
    DataFileRow,
    DeleteFileRow,
    MacroImplRow,
    MacroParameterRow,
    MacroRow,
    PartitionColumnRow,
    PartitionInfoRow,
    SchemaRow,
    SortExpressionRow,
    SortInfoRow,
    TableColumnStatsRow,
    TableRow,
    TagRow,
    ViewColumnTagRow,
    ViewRow,
)
from lakeport.ducklake.writing.change_set import (
    ChangeSet,
    MacroChange,
    SchemaChange,
    TableChange,
    ViewChange,
)
from lakeport.ducklake.writing.database import Delete, EndRows, Insert, Statement, Update
from lakeport.ducklake.writing.ddl.definitions import TableDefinition, same_column
from lakeport.ducklake.writing.rows.changes_made import Change
from lakeport.ducklake.writing.rows.ids import CommitIds
from lakeport.ducklake.writing.state import CommitState
from lakeport.errors import CorruptLakeError
from lakeport.types import Column, parse_value

__all__ = ["ObjectRows", "object_rows"]

# What ends with a table, by the column that holds the table's id.
_PARTS_OF_A_TABLE: tuple[type[CatalogRow], ...] = (
    TableRow,
    PartitionInfoRow,
    ColumnRow,
    ColumnTagRow,
    DataFileRow,
    DeleteFileRow,
    SortInfoRow,
)


@dataclass(slots=True)
class ObjectRows:
    """What the changes of objects write."""

    statements: list[Statement] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    versioned: list[int] = field(default_factory=list)
    """Ids of the tables that get a row in `schema_versions`."""
    layouts: list[tuple[int, TableDefinition]] = field(default_factory=list)
    """Tables with a new table for inlined rows."""

    def end(self, table: type[CatalogRow], snapshot: int, **key: object) -> None:
        """End the rows with a key."""
        self.statements.append(EndRows(table, tuple(key), (tuple(key.values()),), snapshot))

    def insert(self, rows: Iterable[CatalogRow]) -> None:
        """Insert rows."""
        found = tuple(rows)
        if found:
            self.statements.append(Insert(found))


def object_rows(changes: ChangeSet, state: CommitState, ids: CommitIds) -> ObjectRows:
    """Return the rows for all objects, and allocate their ids in the order of the reference."""
    for id in _created(changes):
        ids.allocate_object(id)
    rows = ObjectRows()
    for schema in changes.schemas:
        _schema(rows, schema, ids)
    for table in changes.tables:
        _table(rows, table, state, ids)
    for view in changes.views:
        _view(rows, view, ids, has_column_tags=state.has_prefix)
    for macro in changes.macros:
        _macro(rows, macro, ids)
    return rows


def _created(changes: ChangeSet) -> Iterator[int]:
    """Return the ids of all objects and specs that exist afterwards."""
    yield from (change.after.id for change in changes.schemas if change.after)
    for table in changes.tables:
        if table.after is not None:
            specs = (table.after.id, table.after.partition_id, table.after.sort_id)
            yield from (id for id in specs if id is not None)
    yield from (change.after.id for change in changes.views if change.after)
    yield from (change.after.id for change in changes.macros if change.after)


def _schema(rows: ObjectRows, change: SchemaChange, ids: CommitIds) -> None:
    if change.before is not None and change.after is None:
        rows.end(SchemaRow, ids.snapshot, schema_id=change.before.id)
        rows.changes.append(Change("dropped_schema", change.before.id))
    elif change.after is not None and change.before is None:
        new = change.after
        rows.insert(
            [
                SchemaRow(
                    schema_id=ids.object(new.id),
                    schema_uuid=new.uuid,
                    begin_snapshot=ids.snapshot,
                    end_snapshot=None,
                    schema_name=new.name,
                    path=new.path,
                    path_is_relative=new.path_is_relative,
                )
            ]
        )
        rows.changes.append(Change("created_schema", schema=new.name))


def _table(rows: ObjectRows, change: TableChange, state: CommitState, ids: CommitIds) -> None:
    before, after = change.before, change.after
    if after is None:
        if before is not None:
            for part in _PARTS_OF_A_TABLE:
                rows.end(part, ids.snapshot, table_id=before.id)
            rows.end(TagRow, ids.snapshot, object_id=before.id)
            rows.changes.append(Change("dropped_table", before.id))
        return
    id = ids.object(after.id)
    is_renamed = before is not None and before.name != after.name
    if before is None or is_renamed:
        if is_renamed:
            rows.end(TableRow, ids.snapshot, table_id=id)
        rows.insert([_table_row(after, ids)])
        rows.changes.append(Change("created_table", None, after.schema.name, after.name))
    partition = _partition(rows, before, after, ids)
    is_tagged = _tags(rows, id, before.tags if before else {}, after.tags, ids)
    is_tagged |= _column_tags(rows, before, after, ids)
    is_reshaped, is_redefined = _columns(rows, before, after, ids)
    if before is not None and state.has_prefix:
        _end_tags_of_dropped_columns(rows, before, after, ids)
    is_sorted = _sort(rows, before, after, ids)
    if before is not None:
        _retyped_statistics(rows, before, after, state)
        if partition or is_tagged or is_reshaped or is_redefined or is_sorted:
            rows.changes.append(Change("altered_table", id))
    has_new_layout = before is None or is_renamed or partition or is_reshaped
    if has_new_layout or is_redefined:
        rows.versioned.append(id)
    if has_new_layout and change.inlines:
        rows.layouts.append((id, after))


def _table_row(table: TableDefinition, ids: CommitIds) -> TableRow:
    return TableRow(
        table_id=ids.object(table.id),
        table_uuid=table.uuid,
        begin_snapshot=ids.snapshot,
        end_snapshot=None,
        schema_id=ids.object(table.schema.id),
        table_name=table.name,
        path=table.path,
        path_is_relative=table.path_is_relative,
    )


def _partition(
    rows: ObjectRows, before: TableDefinition | None, after: TableDefinition, ids: CommitIds
) -> bool:
    old = before.partition_id if before else None
    if after.partition_id == old or after.partition_id is None:
        return False
    id, table_id = ids.object(after.partition_id), ids.object(after.id)
    if before is not None:
        rows.end(PartitionInfoRow, ids.snapshot, table_id=table_id)
    rows.insert([PartitionInfoRow(id, table_id, ids.snapshot, None)])
    rows.insert(
        PartitionColumnRow(id, table_id, index, key.column_id, key.transform)
        for index, key in enumerate(after.partition_keys)
    )
    return True


def _sort(
    rows: ObjectRows, before: TableDefinition | None, after: TableDefinition, ids: CommitIds
) -> bool:
    old = before.sort_id if before else None
    if after.sort_id == old:
        return False
    table_id = ids.object(after.id)
    if old is not None:
        rows.end(SortInfoRow, ids.snapshot, table_id=table_id)
    if after.sort_id is not None:
        id = ids.object(after.sort_id)
        rows.insert([SortInfoRow(id, table_id, ids.snapshot, None)])
        rows.insert(
            SortExpressionRow(
                id, table_id, index, key.expression, key.dialect, key.direction, key.null_order
            )
            for index, key in enumerate(after.sort_keys)
        )
    return True


def _tags(
    rows: ObjectRows,
    object_id: int,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    ids: CommitIds,
) -> bool:
    changed = [key for key in after if key not in before or before[key] != after[key]]
    for key in changed:
        if key in before:
            rows.end(TagRow, ids.snapshot, object_id=object_id, key=key)
        rows.insert([TagRow(object_id, ids.snapshot, None, key, after[key])])
    return bool(changed)


def _column_tags(
    rows: ObjectRows, before: TableDefinition | None, after: TableDefinition, ids: CommitIds
) -> bool:
    table_id = ids.object(after.id)
    is_changed = False
    for column_id, tags in after.column_tags.items():
        old = before.column_tags.get(column_id, {}) if before else {}
        for key, value in tags.items():
            if key in old and old[key] == value:
                continue
            is_changed = True
            if key in old:
                rows.end(
                    ColumnTagRow, ids.snapshot, table_id=table_id, column_id=column_id, key=key
                )
            rows.insert([ColumnTagRow(table_id, column_id, ids.snapshot, None, key, value)])
    return is_changed


def _end_tags_of_dropped_columns(
    rows: ObjectRows, before: TableDefinition, after: TableDefinition, ids: CommitIds
) -> None:
    """End the tags of columns that are dropped; writers of format 1.0 leave them."""
    left = {row.column_id for row in after.columns}
    for column_id in before.column_tags:
        if column_id not in left:
            rows.end(ColumnTagRow, ids.snapshot, table_id=before.id, column_id=column_id)


def _columns(
    rows: ObjectRows, before: TableDefinition | None, after: TableDefinition, ids: CommitIds
) -> tuple[bool, bool]:
    """Write the changed columns; return whether the layout changed, and whether anything did."""
    table_id = ids.object(after.id)
    old = {row.column_id: row for row in before.columns} if before else {}
    new = {row.column_id: row for row in after.columns}
    dropped = [id for id in old if id not in new]
    changed = [id for id in new if id in old and not same_column(old[id], new[id])]
    added = [id for id in new if id not in old]
    ended = tuple((table_id, id) for id in sorted({*dropped, *changed}))
    if ended:
        rows.statements.append(EndRows(ColumnRow, ("table_id", "column_id"), ended, ids.snapshot))
    rows.insert(
        replace(new[id], table_id=table_id, begin_snapshot=ids.snapshot, end_snapshot=None)
        for id in sorted({*changed, *added})
    )
    is_reshaped = bool(dropped or added) or any(
        (old[id].column_name, old[id].column_type) != (new[id].column_name, new[id].column_type)
        for id in changed
    )
    return is_reshaped, bool(changed)


def _retyped_statistics(
    rows: ObjectRows, before: TableDefinition, after: TableDefinition, state: CommitState
) -> None:
    """Rewrite the bounds of retyped columns: each text must be a value of the new type.

    The reference leaves them: a bound `true` makes every insert and every `min` fail after the
    column has become a number (DuckDB 1.5.5).
    """
    old = {row.column_id: row.column_type for row in before.columns}
    for row in after.columns:
        recorded = state.table(before.id).column_stats.get(row.column_id)
        type = old.get(row.column_id, row.column_type)
        if recorded is None or type == row.column_type:
            continue
        key = {"table_id": before.id, "column_id": row.column_id}
        bounds = {
            "min_value": _retyped_bound(recorded.min_value, type, row.column_type),
            "max_value": _retyped_bound(recorded.max_value, type, row.column_type),
        }
        is_text = row.column_type in ("json", "variant")
        if is_text or not _are_values(bounds.values(), row.column_type):
            # Texts have another order than values of the old type, and a date before 1677 is no
            # TIMESTAMP_NS. A column without a row is safe, one with unknown bounds is not.
            rows.statements.append(Delete(TableColumnStatsRow, tuple(key), (tuple(key.values()),)))
        elif bounds != {"min_value": recorded.min_value, "max_value": recorded.max_value}:
            rows.statements.append(Update(TableColumnStatsRow, bounds, key))


def _are_values(bounds: Iterable[str | None], type: str) -> bool:
    """Return whether bounds are values of a type."""
    column = Column(id=0, name="bound", type=type)
    try:
        for text in bounds:
            parse_value(text, column)
    except CorruptLakeError:
        return False
    return True


def _retyped_bound(text: str | None, old: str, new: str) -> str | None:
    if text is None:
        return None
    if old == "boolean":
        return {"true": "1", "false": "0"}.get(text.lower(), text)
    if old == "float32" and new == "float64":
        # The shortest text of a float is another double than the float itself.
        number = float(text)
        if math.isfinite(number):
            return repr(struct.unpack("<f", struct.pack("<f", number))[0])
    return text


def _view(rows: ObjectRows, change: ViewChange, ids: CommitIds, *, has_column_tags: bool) -> None:
    before, after = change.before, change.after
    if before is not None and (after is None or after.id != before.id):
        rows.end(ViewRow, ids.snapshot, view_id=before.id)
        rows.end(TagRow, ids.snapshot, object_id=before.id)
        if has_column_tags:
            rows.end(ViewColumnTagRow, ids.snapshot, view_id=before.id)
        rows.changes.append(Change("dropped_view", before.id))
        before = None
    if after is None:
        return
    id = ids.object(after.id)
    definition = replace(after, tags={})
    if before is None or replace(before, tags={}) != definition:
        if before is not None:
            rows.end(ViewRow, ids.snapshot, view_id=id)
        rows.insert(
            [
                ViewRow(
                    view_id=id,
                    view_uuid=after.uuid,
                    begin_snapshot=ids.snapshot,
                    end_snapshot=None,
                    schema_id=ids.object(after.schema.id),
                    view_name=after.name,
                    dialect=after.dialect,
                    sql=after.sql,
                    column_aliases=after.column_aliases,
                )
            ]
        )
        rows.changes.append(Change("created_view", None, after.schema.name, after.name))
    if _tags(rows, id, before.tags if before else {}, after.tags, ids) and before is not None:
        rows.changes.append(Change("altered_view", id))


def _macro(rows: ObjectRows, change: MacroChange, ids: CommitIds) -> None:
    if change.before is not None:
        rows.end(MacroRow, ids.snapshot, macro_id=change.before.id)
        rows.changes.append(Change(f"dropped_{change.before.type}_macro", change.before.id))
    after = change.after
    if after is not None:
        id = ids.object(after.id)
        rows.insert([MacroRow(ids.object(after.schema.id), id, after.name, ids.snapshot, None)])
        rows.insert(
            MacroImplRow(id, index, implementation.dialect, implementation.sql, after.type)
            for index, implementation in enumerate(after.implementations)
        )
        rows.insert(_parameters(id, change))
        keyword = f"created_{after.type}_macro"
        rows.changes.append(Change(keyword, None, after.schema.name, after.name))


def _parameters(macro_id: int, change: MacroChange) -> Iterator[MacroParameterRow]:
    for index, implementation in enumerate(change.after.implementations if change.after else ()):
        for position, parameter in enumerate(implementation.parameters):
            yield MacroParameterRow(
                macro_id,
                index,
                position,
                parameter.name,
                parameter.type,
                parameter.default,
                parameter.default_type,
            )
