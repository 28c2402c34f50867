"""From rows of the catalog to a table's state: column trees, specs, mappings, inlined tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import numpy as np

from lakeport.ducklake.metadata.queries import Row, partition_columns_are_ordinals
from lakeport.ducklake.model import (
    ColumnLife,
    ColumnStats,
    DataFile,
    DeleteFile,
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

__all__ = ["column_tree", "data_files", "inlined_deletes", "table_state", "visible"]


def table_state(
    rows: Mapping[str, list[Row]],
    *,
    snapshot: int,
    version: str,
    data_path: str,
    schema: Row,
    table: Row,
) -> TableState:
    """The state of a table from the rows of one lookup."""
    schema_dir = _directory(data_path, schema)
    history = rows["column"]
    comments = {
        r["column_id"]: r["value"]
        for r in rows["column_tag"]
        if r["key"] == "comment" and visible(r, snapshot)
    }
    try:
        columns = column_tree(history, snapshot, comments)
    except CorruptLakeError as error:
        name = f"{schema['schema_name']}.{table['table_name']}"
        raise CorruptLakeError(f"the table {name} cannot be read: {error}") from None
    specs = _partition_specs(rows, columns, version)
    visible_specs = [r["partition_id"] for r in rows["partition_info"] if visible(r, snapshot)]
    spec = specs.get(max(visible_specs)) if visible_specs else None
    delete_table = f"ducklake_inlined_delete_{table['table_id']}"
    existing = {r["table_name"] for r in rows["inlined_delete"]}
    tags = {r["key"]: r["value"] for r in rows["tag"] if visible(r, snapshot)}
    return TableState(
        id=table["table_id"],
        uuid="" if table["table_uuid"] is None else str(table["table_uuid"]),
        schema=schema["schema_name"],
        name=table["table_name"],
        path=_directory(schema_dir, table),
        columns=columns,
        comment=tags.get("comment"),
        tags=tags,
        partition_specs=specs,
        partition_spec=spec if spec and spec.fields else None,
        sort_order=_sort_order(rows, snapshot),
        stats=_table_stats(rows),
        inlined_tables=_inlined_tables(rows, columns_at=history),
        inlined_delete_table=delete_table if delete_table in existing else None,
        mappings=_mappings(rows["name_mapping"]),
        columns_with_older_types=_columns_with_older_types(history),
        lives=_lives(history),
    )


def visible(row: Row, snapshot: int) -> bool:
    """The validity rule, for a row that is here already."""
    end = row["end_snapshot"]
    return row["begin_snapshot"] <= snapshot and (end is None or end > snapshot)


def column_tree(
    history: Iterable[Row], snapshot: int, comments: Mapping[int, str | None] | None = None
) -> tuple[Column, ...]:
    """The columns of a table at a snapshot, from all versions of all its nodes."""
    newest: dict[int, Row] = {}
    for row in history:
        known = newest.get(row["column_id"])
        if row["column_id"] is None:
            raise CorruptLakeError(f"the id of column {str(row['column_name'])[:80]!r} is NULL")
        if visible(row, snapshot) and (
            known is None or known["begin_snapshot"] < row["begin_snapshot"]
        ):
            newest[row["column_id"]] = row
    children: dict[int | None, list[Row]] = defaultdict(list)
    for row in newest.values():
        _check_column(row, newest)
        children[row["parent_column"]].append(row)
    for siblings in children.values():
        _check_names(siblings)

    def build(parent: int | None, depth: int) -> tuple[Column, ...]:
        if depth > 200:
            raise CorruptLakeError("the columns of a table contain themselves")
        ordered = sorted(
            children.get(parent, []), key=lambda r: (r["column_order"] or 0, r["column_id"])
        )
        return tuple(
            Column(
                id=row["column_id"],
                name=row["column_name"],
                type=normalize(row["column_type"]),
                children=build(row["column_id"], depth + 1),
                nullable=parent is not None
                or row["nulls_allowed"] is None
                or bool(row["nulls_allowed"]),
                initial_default=row["initial_default"],
                default=_default(row),
                default_is_expression=row["default_value_type"] == "expression",
                comment=(comments or {}).get(row["column_id"]),
            )
            for row in ordered
        )

    tree = build(None, 0)
    if sum(1 for column in tree for _ in column.walk()) < len(newest):
        raise CorruptLakeError("columns of the table contain each other")
    return tree


def _check_column(row: Row, known: Mapping[int, Row]) -> None:
    """Refuse a column that has no name, no type, or a parent that is not there."""
    id, name, parent = row["column_id"], row["column_name"], row["parent_column"]
    shown = f"column {str(name)[:80]!r} (id {id})"
    if not isinstance(name, str):
        raise CorruptLakeError(f"the name of the column with id {id} is {_described(name)}")
    if not isinstance(row["column_type"], str):
        raise CorruptLakeError(f"the type of {shown} is {_described(row['column_type'])}")
    if id < 0:
        raise CorruptLakeError(f"{shown} has a negative id")
    if parent is not None and parent not in known:
        raise CorruptLakeError(f"{shown} is a part of column {parent}, which does not exist")


def _check_names(siblings: Iterable[Row]) -> None:
    seen: set[str] = set()
    for row in siblings:
        name = fold_name(row["column_name"])
        if name in seen:
            raise CorruptLakeError(f"two columns are called {row['column_name'][:80]!r}")
        seen.add(name)


def _described(value: object) -> str:
    return "NULL" if value is None else f"not text but {type(value).__name__}"


def _default(row: Row) -> str | None:
    """The text NULL of a literal means that there is no default."""
    text: str | None = row["default_value"]
    if row["default_value_type"] != "expression" and text == "NULL":
        return None
    return text


def _directory(root: str, row: Row) -> str:
    path = row["path"] or ""
    relative = row["path_is_relative"] is None or bool(row["path_is_relative"])
    return as_directory(resolve(root, path, relative=relative))


def _partition_specs(
    rows: Mapping[str, list[Row]], columns: tuple[Column, ...], version: str
) -> dict[int, PartitionSpec]:
    """All specs of the table, past ones too: each file was written with its own."""
    fields: dict[int, list[Row]] = defaultdict(list)
    for row in rows["partition_column"]:
        fields[row["partition_id"]].append(row)

    def column_id(row: Row) -> int:
        if partition_columns_are_ordinals(version):
            return columns[row["column_id"]].id
        return int(row["column_id"])

    return {
        info["partition_id"]: PartitionSpec(
            info["partition_id"],
            tuple(
                PartitionField(column_id(row), row["transform"])
                for row in sorted(
                    fields[info["partition_id"]], key=lambda r: r["partition_key_index"]
                )
            ),
        )
        for info in rows["partition_info"]
    }


def _sort_order(rows: Mapping[str, list[Row]], snapshot: int) -> tuple[SortField, ...]:
    current = [r["sort_id"] for r in rows["sort_info"] if visible(r, snapshot)]
    if not current:
        return ()
    keys = [r for r in rows["sort_expression"] if r["sort_id"] == max(current)]
    return tuple(
        SortField(
            expression=row["expression"],
            dialect=row["dialect"],
            descending=row["sort_direction"] == "DESC",
            nulls_first=row["null_order"] == "NULLS_FIRST",
        )
        for row in sorted(keys, key=lambda r: r["sort_key_index"])
    )


def _table_stats(rows: Mapping[str, list[Row]]) -> TableStats | None:
    if not rows["table_stats"]:
        return None
    totals = rows["table_stats"][0]
    return TableStats(
        record_count=totals["record_count"] or 0,
        next_row_id=totals["next_row_id"] or 0,
        file_size_bytes=totals["file_size_bytes"] or 0,
        columns={
            row["column_id"]: ColumnStats(
                min_value=row["min_value"],
                max_value=row["max_value"],
                contains_null=_flag(row["contains_null"]),
                contains_nan=_flag(row["contains_nan"]),
                extra=row["extra_stats"],
            )
            for row in rows["table_column_stats"]
        },
    )


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _inlined_tables(
    rows: Mapping[str, list[Row]], *, columns_at: list[Row]
) -> tuple[InlinedTable, ...]:
    versions = {r["schema_version"]: r["begin_snapshot"] for r in rows["schema_versions"]}
    first = {r["schema_version"]: r["snapshot_id"] for r in rows["first_snapshot"]}
    physical: dict[str, list[Row]] = defaultdict(list)
    for row in rows["inlined_column"]:
        physical[row["table_name"]].append(row)
    found = []
    for row in sorted(rows["inlined_data_tables"], key=lambda r: r["schema_version"]):
        version, name = row["schema_version"], row["table_name"]
        names = tuple(
            (r["column_name"], r["data_type"].lower())
            for r in sorted(physical[name], key=lambda r: r["position"])
        )
        # A table made later than its lake's table has no row of its own in the schema versions.
        older = max((b for v, b in versions.items() if v < version), default=0)
        begins = (versions.get(version), first.get(version), older)
        layouts = [column_tree(columns_at, begin) for begin in begins if begin is not None]
        fitting = [layout for layout in layouts if len(layout) + 3 == len(names)]
        held = [fold_name(physical_name) for physical_name, _ in names[3:]]
        named = [x for x in fitting if [fold_name(column.name) for column in x] == held]
        columns = next(iter([*named, *fitting]), None)
        if columns is None:
            raise CorruptLakeError(f"the columns of the inlined table {name} are unknown")
        found.append(
            InlinedTable(name=name, schema_version=version, columns=columns, physical=names)
        )
    return tuple(found)


def _mappings(rows: list[Row]) -> dict[int, dict[int, NameMapping]]:
    """For each mapping, its tree by the table's column ids."""
    children: dict[tuple[int, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        children[(row["mapping_id"], row["parent_column"])].append(row)

    def build(mapping: int, parent: int | None) -> dict[int, NameMapping]:
        return {
            row["target_field_id"]: NameMapping(
                row["source_name"], bool(row["is_partition"]), build(mapping, row["column_id"])
            )
            for row in children.get((mapping, parent), [])
        }

    return {mapping: build(mapping, None) for mapping in {row["mapping_id"] for row in rows}}


def _lives(history: Iterable[Row]) -> tuple[ColumnLife, ...]:
    whole = [row for row in history if row["parent_column"] is None]
    return tuple(
        ColumnLife(row["column_id"], row["begin_snapshot"], row["end_snapshot"])
        for row in sorted(whole, key=lambda r: (r["column_order"], r["column_id"]))
    )


def _columns_with_older_types(history: Iterable[Row]) -> frozenset[int]:
    types: dict[int, set[str]] = defaultdict(set)
    for row in history:
        types[row["column_id"]].add(normalize(row["column_type"] or ""))
    return frozenset(column for column, seen in types.items() if len(seen) > 1)


def data_files(state: TableState, rows: Mapping[str, list[Row]]) -> list[DataFile]:
    """The data files among the rows of one lookup, by id."""
    deletes: dict[int, list[DeleteFile]] = defaultdict(list)
    kept = {row["data_file_id"] for row in rows["data_file"]}
    for row in sorted(rows["delete_file"], key=lambda r: r["delete_file_id"]):
        if row["data_file_id"] in kept:
            deletes[row["data_file_id"]].append(_delete_file(state, row))
    ordered = sorted(rows["data_file"], key=lambda r: r["data_file_id"])
    return [_data_file(state, row, tuple(deletes.get(row["data_file_id"], ()))) for row in ordered]


def inlined_deletes(rows: Mapping[str, list[Row]]) -> dict[int, bytes]:
    """Positions deleted by the catalog database, by data file; ascending 64-bit integers."""
    positions: dict[int, list[int]] = defaultdict(list)
    for row in rows.get("inlined_delete", ()):
        positions[row["file_id"]].append(row["row_id"])
    return {
        file: np.unique(np.array(found, np.int64)).tobytes() for file, found in positions.items()
    }


def _data_file(state: TableState, row: Row, deletes: tuple[DeleteFile, ...]) -> DataFile:
    if (row["file_format"] or "parquet") != "parquet":
        raise CorruptLakeError(f"the file {row['path']!r} has the format {row['file_format']!r}")
    spec = state.partition_specs.get(-1 if row["partition_id"] is None else row["partition_id"])
    partial_max, partial_rows = _partial(row)
    return DataFile(
        id=row["data_file_id"],
        path=resolve(state.path, row["path"], relative=bool(row["path_is_relative"])),
        record_count=row["record_count"],
        file_size_bytes=row["file_size_bytes"],
        footer_size=row["footer_size"],
        begin_snapshot=row["begin_snapshot"],
        end_snapshot=row["end_snapshot"],
        row_id_start=row["row_id_start"],
        partition_id=row["partition_id"],
        partition_values=tuple(row[f"p{i}"] for i in range(len(spec.fields))) if spec else (),
        mapping_id=row["mapping_id"],
        encryption_key=row["encryption_key"] or None,
        partial_max=partial_max,
        partial_rows=partial_rows,
        deletes=deletes,
    )


def _delete_file(state: TableState, row: Row) -> DeleteFile:
    return DeleteFile(
        id=row["delete_file_id"],
        path=resolve(state.path, row["path"], relative=bool(row["path_is_relative"])),
        format=row["format"] or "parquet",
        delete_count=row["delete_count"],
        file_size_bytes=row["file_size_bytes"],
        footer_size=row["footer_size"],
        begin_snapshot=row["begin_snapshot"],
        end_snapshot=row["end_snapshot"],
        encryption_key=row["encryption_key"] or None,
        partial_max=row["partial_max"],
    )


def _partial(row: Row) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """When a file mixes snapshots: the newest of them, or, in format 0.3, which rows are whose."""
    info = row["partial_file_info"]
    if row["partial_max"] is not None or not info:
        return row["partial_max"], ()
    if info.startswith("partial_max:"):
        return int(info.removeprefix("partial_max:")), ()
    pairs = [pair.split(":") for pair in info.split("|")]
    return None, tuple((int(snapshot), int(rows)) for snapshot, rows in pairs)
