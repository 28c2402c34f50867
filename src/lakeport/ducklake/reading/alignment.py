"""Convert the columns of a file to the columns of a table: by field id, level by level.

A file keeps the schema it was written with. `column_converter` returns, once per file, a function
that makes a column of the table from the file: renamed, promoted, with fields added and dropped
inside structs, lists and maps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import rebuild_list, rebuild_map, rebuild_struct, relabel
from lakeport.ducklake.model import NameMapping
from lakeport.errors import CorruptLakeError
from lakeport.types import (
    _MOST_DIGITS,
    TIME_TZ,
    Column,
    Target,
    _widens,
    arrow_type,
    duckdb_cast,
    field_id,
    parse_value,
)

__all__ = [
    "ColumnConverter",
    "column_converter",
    "constant_column",
    "duckdb_target",
    "find_child",
    "stored_value",
]

ColumnConverter = Callable[[pa.Array], pa.Array]
Names = Mapping[int, NameMapping] | None
_MatchingChild = tuple[int, pa.Field, Column, Names]

_UTC_OFFSET = 57599  # 15:59:59 minus the offset, as in the low 24 bits of DuckDB's TIMETZ
_UNITS = ("s", "ms", "us", "ns")
_FAR_DAYS = 100_000_000  # within the range of a timestamp, on both sides of 1970


def find_child(fields: Sequence[pa.Field], column: Column, names: Names) -> int | None:
    """Return the position of a column among the fields of a file, by field id or mapped name."""
    if names is None:
        return next((i for i, field in enumerate(fields) if field_id(field) == column.id), None)
    entry = names.get(column.id)
    if entry is None or entry.is_partition:
        return None
    exact = next((i for i, field in enumerate(fields) if field.name == entry.source_name), None)
    if exact is not None:
        return exact
    name = entry.source_name.lower()
    return next((i for i, field in enumerate(fields) if field.name.lower() == name), None)


def column_converter(field: pa.Field, column: Column, names: Names) -> ColumnConverter:
    """Return a function that makes a table's column from the file's field."""
    source, target = field.type, arrow_type(column)
    plain = _plain(source)
    if plain != source:
        align = column_converter(field.with_type(plain), column, names)
        return lambda array: align(array.cast(plain))
    if column.type in ("struct", "list", "map"):
        return _nested(source, column, target, names)
    return _scalar(source, column, target)


def duckdb_target(field: pa.Field, column: Column, names: Names) -> Target | None:
    """Return the target of a field that DuckDB must convert; None if pyarrow can read the field.

    pyarrow reads a variant as a struct, and a geometry or an interval as bytes. The difference
    matters where such values become JSON.
    """
    if column.type == "variant" or (column.type == "json" and not _is_text(field.type)):
        return column
    inside = {
        position: target
        for position, *held in _matching_children(field.type, column, names)
        if (target := duckdb_target(*held)) is not None
    }
    return inside or None


def _is_text(type: pa.DataType) -> bool:
    plain = type.storage_type if isinstance(type, pa.BaseExtensionType) else type
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain))


def constant_column(column: Column, text: str | None) -> Callable[[int], pa.Array]:
    """Return a function that repeats one value, for a column that a file does not contain."""
    one = stored_value(column, text)
    if text is None:
        return lambda length: pa.nulls(length, one.type)
    return lambda length: one.take(pa.array(np.zeros(length, np.int64)))


def stored_value(column: Column, text: str | None) -> pa.Array:
    """Parse a value that the catalog or a folder holds as text; return an array of length one.

    JSON is not parsed, like text in files: the column may have been text before.
    """
    if text is not None and column.type == "json":
        return relabel(pa.array([text], pa.string()), arrow_type(column))
    return parse_value(text, column)


def _plain(type: pa.DataType) -> pa.DataType:
    """Return the Parquet type of a field that Arrow's schema in the file metadata changed."""
    if pa.types.is_fixed_size_list(type):
        return pa.list_(type.value_field)
    if pa.types.is_decimal256(type) and type.precision <= _MOST_DIGITS:
        return pa.decimal128(type.precision, type.scale)
    return pa.int64() if pa.types.is_duration(type) else type


def _nested(
    source: pa.DataType,
    column: Column,
    target: pa.DataType,
    names: Names,
) -> ColumnConverter:
    if column.type == "struct" and pa.types.is_struct(source):
        return _struct(source, column, target, _child_names(column, names))
    inside = [column_converter(*held) for _, *held in _matching_children(source, column, names)]
    if column.type == "list" and inside:
        element = inside[0]
        if pa.types.is_large_list(source):
            narrow = pa.list_(source.value_field)
            return lambda array: rebuild_list(
                (small := array.cast(narrow)), target, element(small.values)
            )
        return lambda array: rebuild_list(array, target, element(array.values))
    if column.type == "map" and inside:
        key, value = inside
        return lambda array: rebuild_map(array, target, key(array.keys), value(array.items))
    raise CorruptLakeError(
        f"column {column.name!r} is a {column.type}, but its file contains {source}"
    )


def _matching_children(
    source: pa.DataType, column: Column, names: Names
) -> Iterator[_MatchingChild]:
    """Yield the fields inside a field of a file that contain the children of a column."""
    inner = _child_names(column, names)
    match column.type:
        case "struct" if pa.types.is_struct(source):
            fields = [source.field(i) for i in range(source.num_fields)]
            for child in column.children:
                position = find_child(fields, child, inner)
                if position is not None:
                    yield position, fields[position], child, inner
        case "list" if _is_list(source):
            yield 0, source.value_field, column.children[0], _positional(inner, column, 0)
        case "map" if pa.types.is_map(source):
            yield 0, source.key_field, column.children[0], _positional(inner, column, 0)
            yield 1, source.item_field, column.children[1], _positional(inner, column, 1)


def _is_list(type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(type) or pa.types.is_large_list(type) or pa.types.is_fixed_size_list(type)
    )


def _child_names(column: Column, names: Names) -> Names:
    """Return the name mapping of the children of a column."""
    if names is None:
        return None
    return names[column.id].children if column.id in names else {}


def _positional(inner: Names, column: Column, index: int) -> Names:
    """Return the names below a child of a list or map, which is itself found by position."""
    if inner is None:
        return None
    child = column.children[index]
    if child.id in inner:
        return inner
    # Some writers record one more level between a list and its element.
    for entry in inner.values():
        if child.id in entry.children:
            return entry.children
    return inner


def _struct(
    source: pa.DataType,
    column: Column,
    target: pa.DataType,
    names: Names,
) -> ColumnConverter:
    fields = [source.field(i) for i in range(source.num_fields)]
    steps: list[tuple[int | None, Callable[..., pa.Array]]] = []
    for child in column.children:
        position = find_child(fields, child, names)
        if position is None:
            steps.append((None, constant_column(child, child.initial_default)))
        else:
            steps.append((position, column_converter(fields[position], child, names)))

    def build(array: pa.Array) -> pa.Array:
        children = [
            make(len(array)) if position is None else make(array.field(position))
            for position, make in steps
        ]
        return rebuild_struct(array, target, children)

    return build


def _scalar(source: pa.DataType, column: Column, target: pa.DataType) -> ColumnConverter:
    if source == target:
        return lambda array: array
    storage = source.storage_type if isinstance(source, pa.BaseExtensionType) else source
    target_storage = target.storage_type if isinstance(target, pa.BaseExtensionType) else target
    if column.type in ("uuid", "json", "varchar", "blob", "geometry") and storage == target_storage:
        return lambda array: relabel(array, target)
    if column.type == "interval" and storage == pa.binary(12):
        return _interval
    if column.type == "timetz" and pa.types.is_time64(storage):
        return lambda array: _time_tz(array.cast(pa.time64("us")))
    if _widens(storage, target):
        # Only integers that become floats are rounded, and both round to the nearest.
        return lambda array: array.cast(target, safe=False)
    if _refines(storage, target):
        return lambda array: _refined(array, column, target)
    if (
        pa.types.is_timestamp(storage)
        and pa.types.is_timestamp(target)
        and storage.unit == target.unit
    ):
        return lambda array: array.view(target)
    if (
        isinstance(source, pa.BaseExtensionType)
        # DuckDB reads these by themselves; their storage is only bytes.
        and not isinstance(source, pa.OpaqueType)
        and column.type not in ("json", "variant")
    ):
        return lambda array: duckdb_cast(array.storage, column)
    if column.type == "timestamp_s" and pa.types.is_timestamp(storage):
        # DuckDB casts to seconds from microseconds only.
        return lambda array: duckdb_cast(array.cast(pa.timestamp("us", storage.tz)), column)
    return lambda array: duckdb_cast(array, column)


def _refines(source: pa.DataType, target: pa.DataType) -> bool:
    """Return whether a timestamp type has a finer unit than another, so that casts lose nothing."""
    if not pa.types.is_timestamp(target):
        return False
    if pa.types.is_timestamp(source):
        return _UNITS.index(source.unit) < _UNITS.index(target.unit)
    return bool(pa.types.is_date32(source) and target.unit == "us")


def _refined(array: pa.Array, column: Column, target: pa.DataType) -> pa.Array:
    """Return timestamps in a finer unit. DuckDB casts infinity and values out of range."""
    if pa.types.is_date32(array.type):
        bounds = pc.min_max(array.view(pa.int32())).as_py()
        if max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) > _FAR_DAYS:
            return duckdb_cast(array, column)
        return array.cast(pa.timestamp("us")).view(target)
    try:
        plain = array.view(pa.timestamp(array.type.unit))
        return plain.cast(pa.timestamp(target.unit)).view(target)
    except pa.ArrowInvalid:
        return duckdb_cast(array, column)


def _interval(array: pa.Array) -> pa.Array:
    """Convert Parquet's twelve bytes (months, days, milliseconds) to months, days, nanoseconds."""
    length = len(array)
    raw = np.frombuffer(array.buffers()[1], np.uint8)[
        array.offset * 12 : (array.offset + length) * 12
    ]
    parts = raw.view(np.dtype("<u4")).reshape(length, 3)
    wide = np.zeros(length, np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")]))
    wide["months"], wide["days"] = parts[:, 0], parts[:, 1]
    wide["nanos"] = parts[:, 2].astype(np.int64) * 1_000_000
    validity = _validity(array)
    return pa.Array.from_buffers(
        pa.month_day_nano_interval(),
        length,
        [validity, pa.py_buffer(wide.tobytes())],
        array.null_count,
    )


def _time_tz(array: pa.Array) -> pa.Array:
    """Convert times in UTC to DuckDB's packed TIMETZ; the file does not keep the offset."""
    micros = pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    packed = ((micros << 24) | _UTC_OFFSET).astype("<i8")
    storage = pa.Array.from_buffers(
        pa.binary(8),
        len(array),
        [_validity(array), pa.py_buffer(packed.tobytes())],
        array.null_count,
    )
    return pa.ExtensionArray.from_storage(TIME_TZ, storage)


def _validity(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of an array, starting at its first value."""
    if not array.null_count:
        return None
    valid = np.asarray(array.is_valid().to_numpy(zero_copy_only=False))
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
