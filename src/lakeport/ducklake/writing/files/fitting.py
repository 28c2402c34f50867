"""Fit the rows of a caller to the columns of a table: by name, without a loss.

A type may be widened as `ALTER COLUMN ... TYPE` widens it. Timestamps may become coarser if no
value changes. Everything else is an error that names the column, before a file is written.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakeport.arrow import (
    LOSSLESS_SETTINGS,
    combine,
    null_count,
    rebuild_list,
    rebuild_map,
    relabel,
    sandbox,
)
from lakeport.ducklake.writing.ddl.defaults import check_default
from lakeport.ducklake.writing.files.stand_ins import stand_in_converter
from lakeport.errors import (
    ConstraintError,
    CorruptLakeError,
    InvalidInputError,
    first_line,
)
from lakeport.types import (
    INTEGER_RANGES,
    TIMESTAMP_UNITS,
    Column,
    LogicalType,
    _widens,
    arrow_field,
    arrow_type,
    duckdb_cast,
    fold_name,
    from_arrow_type,
    parse_value,
    sql_type,
)

__all__ = ["RowFitter"]

Converter = Callable[[pa.Array], pa.Array]
_ColumnMaker = Callable[[pa.RecordBatch], pa.Array]

_FAULTS: Final = (pa.ArrowException, CorruptLakeError)
_NAIVE: Final = frozenset(
    id for id in TIMESTAMP_UNITS if id.startswith("TIMESTAMP") and "Z" not in id
)
_ZONED: Final = frozenset({"TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"})
# What a column takes besides integers, decimals and nested values, by DuckLake's type.
_ACCEPTED: Final = {
    "boolean": frozenset({"BOOLEAN"}),
    "date": frozenset({"DATE"}),
    "time": frozenset({"TIME", "TIME_NS"}),
    "time_ns": frozenset({"TIME", "TIME_NS"}),
    "timetz": frozenset({"TIME WITH TIME ZONE", "TIME"}),
    **dict.fromkeys(
        ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"), _NAIVE | {"DATE"}
    ),
    **dict.fromkeys(("timestamptz", "timestamptz_ns"), _NAIVE | _ZONED | {"DATE"}),
    "interval": frozenset({"INTERVAL"}),
    "varchar": frozenset({"VARCHAR", "ENUM"}),
    "blob": frozenset({"BLOB"}),
    "geometry": frozenset({"BLOB"}),
    "uuid": frozenset({"UUID", "VARCHAR"}),
}


class RowFitter:
    """Fits the batches of one source to the columns of a table."""

    def __init__(
        self,
        source: pa.Schema,
        columns: Sequence[Column],
        *,
        internal: Sequence[pa.Field] = (),
        accepts_stand_ins: bool = False,
    ) -> None:
        """Find each column in the source; raise InvalidInputError if the rows cannot fit.

        Args:
            source: The schema of the rows.
            columns: The columns of the table.
            internal: Columns of integers that follow the columns of the table, such as row ids.
            accepts_stand_ins: Accept the types in which Spark holds types that it does not have.
        """
        self.schema = pa.schema([*(arrow_field(column) for column in columns), *internal])
        positions = _positions(source, [*(c.name for c in columns), *(f.name for f in internal)])
        self._columns = columns
        self._makers: list[_ColumnMaker] = []
        is_identity = len(source) == len(self.schema)
        for index, column in enumerate(columns):
            position = positions.get(fold_name(column.name))
            if position is None:
                self._makers.append(_absent(column))
                is_identity = False
                continue
            converter = column_converter(
                source.field(position).type, column, column.name, stand_ins=accepts_stand_ins
            )
            is_identity = is_identity and converter is None and position == index
            self._makers.append(_present(position, converter, column))
        for field in internal:
            position = positions.get(fold_name(field.name))
            if position is None or not pt.is_int64(source.field(position).type):
                raise InvalidInputError(f"the rows have no column {field.name!r} of type int64")
            self._makers.append(_present(position, None, None))
            is_identity = is_identity and position == len(self._makers) - 1
        self._is_identity = is_identity

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in the columns and types of the table."""
        arrays = batch.columns if self._is_identity else [make(batch) for make in self._makers]
        for column, array in zip(self._columns, arrays, strict=False):
            if not column.nullable and null_count(array):
                raise ConstraintError(f"column {column.name!r} does not allow NULL")
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _positions(source: pa.Schema, names: Sequence[str]) -> dict[str, int]:
    """Return where each column is in the source; names match in any case."""
    known = {fold_name(name): name for name in names}
    positions: dict[str, int] = {}
    for position, field in enumerate(source):
        name = fold_name(field.name)
        if name not in known:
            near = difflib.get_close_matches(field.name, list(known.values()), 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise InvalidInputError(f"the table has no column {field.name!r}{hint}")
        if name in positions:
            raise InvalidInputError(f"the rows have two columns {known[name]!r}")
        positions[name] = position
    return positions


def _present(position: int, converter: Converter | None, column: Column | None) -> _ColumnMaker:
    if converter is None or column is None:
        return lambda batch: batch.column(position)

    def make(batch: pa.RecordBatch) -> pa.Array:
        try:
            return converter(batch.column(position))
        except _FAULTS as error:
            raise InvalidInputError(
                f"column {column.name!r} cannot take these values: {first_line(error)}"
            ) from None

    return make


def _absent(column: Column) -> _ColumnMaker:
    """Return what an insert that omits the column writes: its default, or NULL."""
    if column.default is None:
        if not column.nullable:
            raise ConstraintError(
                f"the rows have no column {column.name!r}, which has no default and does not "
                "allow NULL"
            )
        target = arrow_type(column)
        return lambda batch: pa.nulls(batch.num_rows, target)
    if column.default_is_expression:
        return _expression(column, column.default)
    one = parse_value(column.default, column)
    return lambda batch: one.take(pa.array(np.zeros(batch.num_rows, np.int64)))


def _expression(column: Column, sql: str) -> _ColumnMaker:
    import duckdb

    # Another writer may have recorded the default.
    check_default(column, sql)
    connection = sandbox(lambda fresh: fresh.execute(LOSSLESS_SETTINGS))
    # In one transaction, now() is the same for all rows of a statement.
    connection.begin()

    def make(batch: pa.RecordBatch) -> pa.Array:
        rows = connection.sql(f"FROM range({batch.num_rows})")
        try:
            table = rows.project(f"CAST({sql} AS {sql_type(column)}) AS v").to_arrow_table()
        except duckdb.Error as error:
            raise InvalidInputError(
                f"the default {sql!r} of column {column.name!r} fails: {first_line(error)}"
            ) from None
        return relabel(combine(table.column(0)), arrow_type(column))

    return make


def column_converter(
    source: pa.DataType, column: Column, path: str, *, stand_ins: bool = False
) -> Converter | None:
    """Return a function that makes the column's type; None if the type is the same already."""
    target = arrow_type(column)
    if source == target:
        return None
    if pt.is_null(source):
        return lambda array: pa.nulls(len(array), target)
    if pt.is_dictionary(source):
        decoded = column_converter(source.value_type, column, path, stand_ins=stand_ins)
        return lambda array: _apply(decoded, array.dictionary_decode())
    if pt.is_run_end_encoded(source):
        inside = column_converter(source.value_type, column, path, stand_ins=stand_ins)
        return lambda array: _apply(inside, pc.run_end_decode(array))
    if column.type in ("json", "variant"):
        return _document(source, column)
    if column.type == "struct" and pt.is_struct(source):
        return _struct(source, column, path, stand_ins=stand_ins)
    if column.type == "list" and _is_list(source):
        return _list(source, column, path, stand_ins=stand_ins)
    if column.type == "map" and pt.is_map(source):
        return _map(source, column, path, stand_ins=stand_ins)
    stand_in = stand_in_converter(source, column) if stand_ins else None
    if stand_in is not None and not _accepts(column, from_arrow_type(source), source):
        return stand_in
    return _scalar(source, column, path)


def _apply(converter: Converter | None, array: pa.Array) -> pa.Array:
    return array if converter is None else converter(array)


def _document(source: pa.DataType, column: Column) -> Converter:
    """JSON takes every type; text is parsed. A variant takes every type, and text as text."""
    target = arrow_type(column)
    logical = from_arrow_type(source)
    if logical.id == "VARCHAR" and logical.alias == "JSON":
        return lambda array: relabel(array.storage.cast(pa.string()), target)
    if logical.id == "VARCHAR" and not pt.is_string(source):
        return lambda array: duckdb_cast(array.cast(pa.string()), column)
    return lambda array: duckdb_cast(array, column)


def _struct(source: pa.DataType, column: Column, path: str, *, stand_ins: bool) -> Converter:
    target = arrow_type(column)
    positions: dict[str, int] = {}
    known = {fold_name(child.name) for child in column.children}
    for index in range(source.num_fields):
        name = source.field(index).name
        if fold_name(name) not in known or fold_name(name) in positions:
            raise InvalidInputError(f"column {path!r} has no field {name!r}")
        positions[fold_name(name)] = index
    parts: list[tuple[int | None, Converter | None, pa.DataType]] = []
    for child in column.children:
        index_of = positions.get(fold_name(child.name))
        converter = (
            None
            if index_of is None
            else column_converter(
                source.field(index_of).type, child, f"{path}.{child.name}", stand_ins=stand_ins
            )
        )
        parts.append((index_of, converter, arrow_type(child)))

    def convert(array: pa.Array) -> pa.Array:
        children = array.flatten()
        arrays = [
            pa.nulls(len(array), type) if index is None else _apply(converter, children[index])
            for index, converter, type in parts
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(target), mask=mask)

    return convert


def _list(source: pa.DataType, column: Column, path: str, *, stand_ins: bool) -> Converter:
    target = arrow_type(column)
    element = column_converter(
        source.value_type, column.children[0], f"{path}.element", stand_ins=stand_ins
    )

    def convert(array: pa.Array) -> pa.Array:
        if element is None and pt.is_list(source):
            return rebuild_list(array, target, array.values)
        lengths = pc.fill_null(pc.list_value_length(array), 0).cast(pa.int64())
        ends = pc.cumulative_sum(lengths)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(pa.int32())
        return pa.ListArray.from_arrays(
            offsets, _apply(element, array.flatten()), type=target, mask=array.is_null()
        )

    return convert


def _map(source: pa.DataType, column: Column, path: str, *, stand_ins: bool) -> Converter:
    target = arrow_type(column)
    key, value = column.children
    to_key = column_converter(source.key_type, key, f"{path}.key", stand_ins=stand_ins)
    to_value = column_converter(source.item_type, value, f"{path}.value", stand_ins=stand_ins)

    def convert(array: pa.Array) -> pa.Array:
        if to_key is None and to_value is None:
            return rebuild_map(array, target, array.keys, array.items)
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return pa.MapArray.from_arrays(
            pc.subtract(array.offsets, start),
            _apply(to_key, array.keys.slice(start, stop - start)),
            _apply(to_value, array.items.slice(start, stop - start)),
            type=target,
            mask=array.is_null(),
        )

    return convert


def _is_list(type: pa.DataType) -> bool:
    return bool(
        pt.is_list(type)
        or pt.is_large_list(type)
        or pt.is_list_view(type)
        or pt.is_large_list_view(type)
        or pt.is_fixed_size_list(type)
    )


def _scalar(source: pa.DataType, column: Column, path: str) -> Converter:
    logical, target = from_arrow_type(source), arrow_type(column)
    if pt.is_float16(source):
        logical = LogicalType("FLOAT")
    if not _accepts(column, logical, source):
        raise InvalidInputError(
            f"column {path!r} is {column.type}, but the rows have {source}: cast the rows first"
        )
    if pt.is_temporal(source) and pt.is_temporal(target):
        return _moment(source, target, column)
    if pt.is_floating(target) and not pt.is_decimal(source) and not pt.is_boolean(source):
        # As in DuckDB, an integer that has no exact float becomes the nearest one.
        return lambda array: array.cast(target, safe=False)
    if column.type in ("varchar", "blob", "geometry") or _widens(source, target):
        return lambda array: _storage(array).cast(target)
    if column.type == "uuid" and logical.id == "BLOB":
        return lambda array: pa.ExtensionArray.from_storage(target, _storage(array))
    if logical.id == "VARCHAR" and not pt.is_string(source):
        return lambda array: duckdb_cast(array.cast(pa.string()), column)
    return lambda array: duckdb_cast(array, column)


def _moment(source: pa.DataType, target: pa.DataType, column: Column) -> Converter:
    if pt.is_timestamp(source) and source.tz and source.unit == "us" and target.tz:
        return lambda array: array.cast(target)
    units = ("s", "ms", "us", "ns")
    if hasattr(source, "unit") and hasattr(target, "unit") and not pt.is_duration(source):
        if units.index(source.unit) >= units.index(target.unit):
            # A safe cast: Arrow raises an error if a value has a finer fraction.
            return lambda array: array.cast(target)
        if pt.is_time(source):
            return lambda array: array.cast(target)
    if pt.is_date64(source):
        return lambda array: duckdb_cast(array.cast(pa.date32()), column)
    return lambda array: duckdb_cast(array, column)


def _accepts(column: Column, logical: LogicalType, source: pa.DataType) -> bool:
    """Return whether a column takes the values of a type: the same type, or a promotion."""
    if column.type == "uuid" and pt.is_fixed_size_binary(source):
        return bool(source.byte_width == 16)
    accepted = _ACCEPTED.get(column.type)
    if accepted is not None:
        return logical.id in accepted and not (column.type == "blob" and logical.alias)
    if column.type in ("float32", "float64"):
        floats = {"FLOAT"} if column.type == "float32" else {"FLOAT", "DOUBLE"}
        return logical.id in floats or logical.id == "DECIMAL" or logical.id in INTEGER_RANGES
    if column.type.startswith("decimal("):
        return _decimal_holds(column, logical)
    if logical.id == "DECIMAL":
        return column.type == "int128" and not logical.scale
    own = from_arrow_type(arrow_type(column)).id
    if own not in INTEGER_RANGES:
        return False
    if logical.id == "BOOLEAN":
        return True
    low, high = INTEGER_RANGES.get(logical.id, (None, None))
    lowest, highest = INTEGER_RANGES[own]
    return low is not None and high is not None and lowest <= low and high <= highest


def _decimal_holds(column: Column, logical: LogicalType) -> bool:
    target = arrow_type(column)
    room = target.precision - target.scale
    if logical.id == "DECIMAL":
        scale = logical.scale or 0
        return bool(scale <= target.scale and (logical.width or 38) - scale <= room)
    if logical.id in INTEGER_RANGES:
        return bool(len(str(INTEGER_RANGES[logical.id][1])) <= room)
    return False


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array
