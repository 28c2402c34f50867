"""Build a table's state from rows of the catalog: column trees, specs, mappings, inlined tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence

from lakeport.ducklake.metadata.queries import QueryResult, partition_columns_are_ordinals
from lakeport.ducklake.metadata.rows import (
    ColumnRow,
    ColumnTagRow,
    InlinedDataTableRow,
    NameMappingRow,
    PartitionColumnRow,
    PartitionInfoRow,
    SchemaRow,
    SchemaVersionRow,
    SortExpressionRow,
    SortInfoRow,
    TableColumnStatsRow,
    TableRow,
    TableStatsRow,
    TagRow,
    VersionedRow,
)
from lakeport.ducklake.metadata.statements import (
    FirstSnapshotRow,
    InlinedColumnRow,
    InlinedDeleteTableRow,
)
from lakeport.ducklake.model import (
    ColumnLife,
    ColumnStats,
    InlinedTable,
    NameMapping,
    PartitionField,
    PartitionSpec,
    SortField,
    TableState,
    TableStats,
)
from lakeport.ducklake.storage.paths import as_directory, resolve
from lakeport.errors import CorruptLakeError
from lakeport.types import Column, fold_name, normalize

__all__ = ["column_tree", "table_state", "visible"]


def table_state(
    rows: QueryResult,
    *,
    snapshot: int,
    version: str,
    data_path: str,
    schema: SchemaRow,
    table: TableRow,
) -> TableState:
    """Return the state of a table from the rows of one lookup."""
    schema_path = _directory(data_path, schema)
    history = rows[ColumnRow]
    comments = {
        tag.column_id: tag.value
        for tag in rows[ColumnTagRow]
        if tag.key == "comment" and visible(tag, snapshot)
    }
    try:
        columns = column_tree(history, snapshot, comments)
    except CorruptLakeError as error:
        name = f"{schema.schema_name}.{table.table_name}"
        raise CorruptLakeError(f"the table {name} cannot be read: {error}") from None
    specs = _partition_specs(rows, columns, version)
    spec_ids = [info.partition_id for info in rows[PartitionInfoRow] if visible(info, snapshot)]
    spec = specs.get(max(spec_ids)) if spec_ids else None
    delete_table = f"ducklake_inlined_delete_{table.table_id}"
    existing = {row.table_name for row in rows[InlinedDeleteTableRow]}
    tags = {tag.key: tag.value for tag in rows[TagRow] if visible(tag, snapshot)}
    return TableState(
        id=table.table_id,
        uuid=table.table_uuid or "",
        schema=schema.schema_name,
        name=table.table_name,
        path=_directory(schema_path, table),
        columns=columns,
        comment=tags.get("comment"),
        tags=tags,
        partition_specs=specs,
        partition_spec=spec if spec and spec.fields else None,
        sort_order=_sort_order(rows, snapshot),
        stats=_table_stats(rows),
        inlined_tables=_inlined_tables(rows),
        inlined_delete_table=delete_table if delete_table in existing else None,
        mappings=_mappings(rows[NameMappingRow]),
        columns_with_older_types=_columns_with_older_types(history),
        lives=_lives(history),
    )


def visible(row: VersionedRow, snapshot: int) -> bool:
    """Return whether a row is valid at a snapshot."""
    end = row.end_snapshot
    return row.begin_snapshot <= snapshot and (end is None or end > snapshot)


def column_tree(
    history: Iterable[ColumnRow], snapshot: int, comments: Mapping[int, str | None] | None = None
) -> tuple[Column, ...]:
    """Return the columns of a table at a snapshot, from all versions of all its columns."""
    newest: dict[int, ColumnRow] = {}
    for row in history:
        if _is_null(row.column_id):
            raise CorruptLakeError(f"the id of column {str(row.column_name)[:80]!r} is NULL")
        other = newest.get(row.column_id)
        if visible(row, snapshot) and (other is None or other.begin_snapshot < row.begin_snapshot):
            newest[row.column_id] = row
    children: dict[int | None, list[ColumnRow]] = defaultdict(list)
    for row in newest.values():
        _check_column(row, newest)
        children[row.parent_column].append(row)
    for siblings in children.values():
        _check_names(siblings)

    def build(parent: int | None, depth: int) -> tuple[Column, ...]:
        if depth > 200:
            raise CorruptLakeError("the columns of a table contain themselves")
        siblings = children.get(parent, [])
        return tuple(
            Column(
                id=row.column_id,
                name=row.column_name,
                type=normalize(row.column_type),
                children=build(row.column_id, depth + 1) if row.column_id in children else (),
                nullable=parent is not None or row.nulls_allowed is not False,
                initial_default=row.initial_default,
                default=_default(row),
                default_is_expression=row.default_value_type == "expression",
                comment=(comments or {}).get(row.column_id),
            )
            for row in sorted(siblings, key=lambda row: (row.column_order or 0, row.column_id))
        )

    tree = build(None, 0)
    nested = len(children) > 1 or None not in children
    nodes = sum(1 for column in tree for _ in column.walk()) if nested else len(tree)
    if nodes < len(newest):
        raise CorruptLakeError("columns of the table contain each other")
    return tree


def _check_column(row: ColumnRow, ids: Container[int]) -> None:
    """Raise CorruptLakeError for a column without a name or type, or with a missing parent."""
    id, parent = row.column_id, row.parent_column
    if problem := _text_problem(row.column_name):
        raise CorruptLakeError(f"the name of the column with id {id} is {problem}")
    shown = f"column {row.column_name[:80]!r} (id {id})"
    if problem := _text_problem(row.column_type):
        raise CorruptLakeError(f"the type of {shown} is {problem}")
    if id < 0:
        raise CorruptLakeError(f"{shown} has a negative id")
    if parent is not None and parent not in ids:
        raise CorruptLakeError(f"{shown} is a part of column {parent}, which does not exist")


def _check_names(siblings: Iterable[ColumnRow]) -> None:
    seen: set[str] = set()
    for row in siblings:
        name = fold_name(row.column_name)
        if name in seen:
            raise CorruptLakeError(f"two columns are called {row.column_name[:80]!r}")
        seen.add(name)


def _is_null(value: object) -> bool:
    return value is None


def _text_problem(value: object) -> str | None:
    if isinstance(value, str):
        return None
    return "NULL" if value is None else f"not text but {type(value).__name__}"


def _default(row: ColumnRow) -> str | None:
    """Return the default of a column. A literal with the text NULL stands for no default."""
    if row.default_value_type != "expression" and row.default_value == "NULL":
        return None
    return row.default_value


def _directory(root: str, row: SchemaRow | TableRow) -> str:
    relative = row.path_is_relative is not False
    return as_directory(resolve(root, row.path or "", relative=relative))


def _partition_specs(
    rows: QueryResult, columns: tuple[Column, ...], version: str
) -> dict[int, PartitionSpec]:
    """Return all specs of the table, past ones too: each file was written with its own."""
    keys: dict[int, list[PartitionColumnRow]] = defaultdict(list)
    for row in sorted(rows[PartitionColumnRow], key=lambda row: row.partition_key_index):
        keys[row.partition_id].append(row)

    def column_id(row: PartitionColumnRow) -> int:
        if partition_columns_are_ordinals(version):
            return columns[row.column_id].id
        return int(row.column_id)

    return {
        info.partition_id: PartitionSpec(
            info.partition_id,
            tuple(PartitionField(column_id(row), row.transform) for row in keys[info.partition_id]),
        )
        for info in rows[PartitionInfoRow]
    }


def _sort_order(rows: QueryResult, snapshot: int) -> tuple[SortField, ...]:
    current = [info.sort_id for info in rows[SortInfoRow] if visible(info, snapshot)]
    if not current:
        return ()
    keys = [row for row in rows[SortExpressionRow] if row.sort_id == max(current)]
    return tuple(
        SortField(
            expression=row.expression,
            dialect=row.dialect,
            descending=row.sort_direction == "DESC",
            nulls_first=row.null_order == "NULLS_FIRST",
        )
        for row in sorted(keys, key=lambda row: row.sort_key_index)
    )


def _table_stats(rows: QueryResult) -> TableStats | None:
    if not rows[TableStatsRow]:
        return None
    totals = rows[TableStatsRow][0]
    return TableStats(
        record_count=totals.record_count or 0,
        next_row_id=totals.next_row_id or 0,
        file_size_bytes=totals.file_size_bytes or 0,
        columns={
            row.column_id: ColumnStats(
                min_value=row.min_value,
                max_value=row.max_value,
                contains_null=row.contains_null,
                contains_nan=row.contains_nan,
                extra=row.extra_stats,
            )
            for row in rows[TableColumnStatsRow]
        },
    )


def _inlined_tables(rows: QueryResult) -> tuple[InlinedTable, ...]:
    versions = {row.schema_version: row.begin_snapshot for row in rows[SchemaVersionRow]}
    first = {row.schema_version: row.snapshot_id for row in rows[FirstSnapshotRow]}
    physical: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for column in sorted(rows[InlinedColumnRow], key=lambda row: row.position):
        physical[column.table_name].append((column.column_name, column.data_type.lower()))
    tables = []
    for row in sorted(rows[InlinedDataTableRow], key=lambda row: row.schema_version):
        version, names = row.schema_version, tuple(physical[row.table_name])
        # An inlined table that is created later has no row of its own in the schema versions.
        older = max((begin for other, begin in versions.items() if other < version), default=0)
        begins = (versions.get(version), first.get(version), older)
        layouts = [column_tree(rows[ColumnRow], begin) for begin in begins if begin is not None]
        columns = _matching_layout(layouts, [name for name, _ in names[3:]])
        if columns is None:
            raise CorruptLakeError(f"the columns of the inlined table {row.table_name} are unknown")
        tables.append(
            InlinedTable(
                name=row.table_name, schema_version=version, columns=columns, physical=names
            )
        )
    return tuple(tables)


def _matching_layout(
    layouts: Iterable[tuple[Column, ...]], names: Sequence[str]
) -> tuple[Column, ...] | None:
    """Return the layout with these names, or else the first one with as many columns."""
    fitting = [layout for layout in layouts if len(layout) == len(names)]
    folded = [fold_name(name) for name in names]
    same = [layout for layout in fitting if [fold_name(c.name) for c in layout] == folded]
    return next(iter([*same, *fitting]), None)


def _mappings(rows: list[NameMappingRow]) -> dict[int, dict[int, NameMapping]]:
    """Return the tree of each mapping by the table's column ids."""
    children: dict[tuple[int, int | None], list[NameMappingRow]] = defaultdict(list)
    for row in rows:
        children[(row.mapping_id, row.parent_column)].append(row)

    def build(mapping: int, parent: int | None) -> dict[int, NameMapping]:
        return {
            row.target_field_id: NameMapping(
                row.source_name, bool(row.is_partition), build(mapping, row.column_id)
            )
            for row in children.get((mapping, parent), [])
        }

    return {mapping: build(mapping, None) for mapping in {row.mapping_id for row in rows}}


def _lives(history: Iterable[ColumnRow]) -> tuple[ColumnLife, ...]:
    top_level = [row for row in history if row.parent_column is None]
    return tuple(
        ColumnLife(row.column_id, row.begin_snapshot, row.end_snapshot)
        for row in sorted(top_level, key=lambda row: (row.column_order, row.column_id))
    )


def _columns_with_older_types(history: Iterable[ColumnRow]) -> frozenset[int]:
    types: dict[int, set[str]] = defaultdict(set)
    for row in history:
        types[row.column_id].add(normalize(row.column_type or ""))
    return frozenset(column for column, seen in types.items() if len(seen) > 1)
