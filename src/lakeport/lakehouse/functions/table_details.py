"""Functions about the shape of tables: growth by snapshots, layout, NULLs, partitions.

They are sums over all files, so they exist for tables of which a caller sees everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from lakeport.catalog import CallableTableFunction, Parameter, ParameterKind, TableFunction
from lakeport.ducklake import LakeTable, Snapshot
from lakeport.ducklake.metadata import GROWTH_SCHEMA, null_counts, snapshot_growth
from lakeport.ducklake.writing import Options
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.resources import LakeResources

__all__ = ["FindTable", "detail_functions"]

FindTable = Callable[[str | None, str], LakeTable]
"""Returns a table of which the caller sees everything, for an action that an error names."""

_LAYOUT: Final = pa.schema([(name, pa.string()) for name in ("property", "name", "value")])

_COLUMN_INFO: Final = pa.schema(
    [
        ("column_name", pa.string()),
        ("row_count", pa.int64()),
        ("null_count", pa.int64()),
        ("min_value", pa.string()),
        ("max_value", pa.string()),
    ]
)

_PARTITIONS: Final = pa.schema(
    [
        ("partition", pa.string()),
        ("file_count", pa.int64()),
        ("record_count", pa.int64()),
        ("file_size_bytes", pa.int64()),
        ("delete_file_count", pa.int64()),
    ]
)

_TABLE: Final = Parameter("table_name", pa.string())
# Facts of the lake among its options.
_NOT_OPTIONS: Final = frozenset({"version", "created_by", "data_path", "encrypted"})


def detail_functions(
    access: LakeResources,
    snapshot: Snapshot,
    permissions: Callable[[], Permissions],
    find: FindTable,
) -> Iterator[TableFunction]:
    """Yield the functions."""

    def growth(table_name: str | None) -> pa.Table:
        if table_name is not None:
            table = find(table_name, "read the growth of")
            return snapshot_growth(access.lake.catalog, {table.id})
        caller = permissions()
        if caller.are_all_given:
            return snapshot_growth(access.lake.catalog)
        seen = (
            table.id
            for table in access.contents(snapshot).tables
            if caller.reads(table) and caller.restriction(table) is None
        )
        return snapshot_growth(access.lake.catalog, set(seen))

    yield CallableTableFunction(
        "growth",
        growth,
        (Parameter("table_name", pa.string(), ParameterKind.NAMED, None),),
        GROWTH_SCHEMA,
        comment="Files, rows and bytes that each snapshot added and removed, of a table or of all",
    )
    yield CallableTableFunction(
        "table_layout",
        lambda table_name: _layout(access, find(table_name, "read the layout of")),
        (_TABLE,),
        _LAYOUT,
        comment="How a table is partitioned and sorted, and the options that hold for it",
    )
    yield CallableTableFunction(
        "column_info",
        lambda table_name: _column_info(access, find(table_name, "count the values of")),
        (_TABLE,),
        _COLUMN_INFO,
        comment="Rows in the files of a table; how often each column is NULL, and its bounds",
    )
    yield CallableTableFunction(
        "partitions",
        lambda table_name: _partitions(find(table_name, "list the partitions of")),
        (_TABLE,),
        _PARTITIONS,
        comment="Number and size of the files of each partition of a table",
    )


def _layout(access: LakeResources, table: LakeTable) -> pa.Table:
    names = {column.id: column.name for column in table.columns}
    fields = () if table.partition_spec is None else table.partition_spec.fields
    rows = [
        ("partitioned by", names.get(field.column_id, "?"), field.transform) for field in fields
    ]
    for order in table.sort_order:
        direction = "descending" if order.descending else "ascending"
        nulls = "NULL first" if order.nulls_first else "NULL last"
        rows.append(("sorted by", order.expression, f"{direction}, {nulls}"))
    contents = access.contents(table.snapshot)
    schema = next((each.id for each in contents.schemas if each.name == table.schema_name), -1)
    options = Options(access.lake.option_rows()).resolved(schema_id=schema, table_id=table.id)
    rows += [("option", key, options[key]) for key in sorted(options.keys() - _NOT_OPTIONS)]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.Table.from_arrays(arrays, schema=_LAYOUT)


def _column_info(access: LakeResources, table: LakeTable) -> pa.Table:
    counts = null_counts(access.lake.catalog, table.id, table.snapshot.id)
    bounds = {} if table.stats is None else table.stats.columns
    rows = []
    for column in table.columns:
        row_count, null_count = counts.get(column.id, (None, None))
        known = bounds.get(column.id)
        low, high = (None, None) if known is None else (known.min_value, known.max_value)
        rows.append((column.name, row_count, null_count, low, high))
    columns = list(zip(*rows, strict=True))
    arrays = [
        pa.array(values, field.type) for values, field in zip(columns, _COLUMN_INFO, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=_COLUMN_INFO)


def _partitions(table: LakeTable) -> pa.Table:
    """Return the partitions in the order of their first files."""
    names = {column.id: column.name for column in table.columns}
    keys = {
        id: [names.get(field.column_id, "?") for field in spec.fields]
        for id, spec in table.planner.state.partition_specs.items()
    }
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for file in table.files():
        values = (file.partition_id, *file.partition_values)
        totals = found.get(values)
        if totals is None:
            of_spec = keys.get(file.partition_id, []) if file.partition_id is not None else []
            pairs = zip(of_spec, file.partition_values, strict=False)
            label = ", ".join(f"{key} = {value}" for key, value in pairs)
            totals = found[values] = dict.fromkeys(_PARTITIONS.names, 0) | {"partition": label}
        totals["file_count"] += 1
        totals["record_count"] += file.record_count or 0
        totals["file_size_bytes"] += file.file_size_bytes or 0
        totals["delete_file_count"] += len(file.deletes)
    return pa.Table.from_pylist(list(found.values()), schema=_PARTITIONS)
