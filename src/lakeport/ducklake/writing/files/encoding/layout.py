"""The form of a table's columns in Parquet files: types, field ids, and the order of the leaves.

Arrow holds every value of a lake; DuckLake's files do not. Seconds are stored as microseconds, and
integers of 128 bits as floats. Values that would change are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import combine, rebuild_list, rebuild_map, thread_connection
from lakeport.ducklake.reading.data_files import (
    INTERNAL_ROW_ID,
    INTERNAL_ROW_ID_FIELD,
    INTERNAL_SNAPSHOT_FIELD,
)
from lakeport.ducklake.reading.delete_files import INTERNAL_SNAPSHOT
from lakeport.errors import InvalidInputError, first_line
from lakeport.types import NESTED, Column, arrow_type

__all__ = [
    "INTERNAL_FIELDS",
    "FileLayout",
    "Leaf",
    "leaf_values",
    "needs_duckdb",
    "parquet_field",
]

Converter = Callable[[pa.Array], pa.Array]

_FIELD_ID: Final = b"PARQUET:field_id"
# pyarrow 26 writes neither intervals nor variants, and one kind of time for all columns of a file.
_ONLY_DUCKDB: Final = frozenset({"interval", "variant", "timetz"})


def _internal(name: str, id: int) -> pa.Field:
    return pa.field(name, pa.int64(), metadata={_FIELD_ID: str(id).encode()})


INTERNAL_FIELDS: Final = {
    INTERNAL_ROW_ID: _internal(INTERNAL_ROW_ID, INTERNAL_ROW_ID_FIELD),
    INTERNAL_SNAPSHOT: _internal(INTERNAL_SNAPSHOT, INTERNAL_SNAPSHOT_FIELD),
}
"""Columns that DuckLake adds behind those of the table: ids of moved rows, and their snapshots."""


class _Geometry(pa.ExtensionType):  # type: ignore[misc]
    """Arrow's name of the type that Parquet writes as GEOMETRY; not registered."""

    def __init__(self) -> None:
        super().__init__(pa.binary(), "geoarrow.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"{}"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> _Geometry:
        return cls()


_GEOMETRY: Final = _Geometry()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column without children, in the order in which a Parquet file has them."""

    column: Column
    path: tuple[int, ...]
    """The position of the top-level column, then of each child."""


class FileLayout:
    """The fields of the files of a table, and how its Arrow columns become these fields."""

    def __init__(
        self, columns: Sequence[Column], internal: Sequence[str] = (), *, exact: bool = False
    ) -> None:
        self.columns = tuple(columns)
        self.internal = tuple(internal)
        self.schema = pa.schema(
            [
                *(parquet_field(column) for column in columns),
                *(INTERNAL_FIELDS[name] for name in internal),
            ]
        )
        self.leaves = tuple(
            leaf for index, column in enumerate(columns) for leaf in _leaves(column, (index,))
        )
        self._converters = [_converter(column, column.name, exact=exact) for column in columns]

    def paths_without(self, omitted: frozenset[int]) -> list[str]:
        """Return the paths of the leaves in a file, except those of the omitted leaves."""
        kept = [leaf for index, leaf in enumerate(self.leaves) if index not in omitted]
        return [*(self._path(leaf) for leaf in kept), *self.internal]

    @property
    def own_paths(self) -> list[str]:
        """The paths of the leaves of the table's own columns."""
        return [self._path(leaf) for leaf in self.leaves]

    def _path(self, leaf: Leaf) -> str:
        column = self.columns[leaf.path[0]]
        names = [column.name]
        for position in leaf.path[1:]:
            kind, column = column.type, column.children[position]
            if kind == "list":
                names += ["list", "element"]
            elif kind == "map":
                names += ["key_value", ("key", "value")[position]]
            else:
                names.append(column.name)
        return ".".join(names)

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return rows in the types of the files."""
        arrays = [
            column if converter is None else _each_chunk(column, converter, field.type)
            for column, converter, field in zip(
                table.columns,
                [*self._converters, *(None for _ in self.internal)],
                self.schema,
                strict=True,
            )
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


def needs_duckdb(columns: Sequence[Column]) -> bool:
    """Return whether DuckDB's Parquet writer must write the files, because pyarrow cannot."""
    return any(node.type in _ONLY_DUCKDB for column in columns for node in column.walk())


def parquet_field(column: Column, name: str | None = None) -> pa.Field:
    """Return the field of a column in a file, with the column ids of all nodes."""
    match column.type:
        case "struct":
            type = pa.struct([parquet_field(child) for child in column.children])
        case "list":
            type = pa.list_(parquet_field(column.children[0], "element"))
        case "map":
            key, value = column.children
            type = pa.map_(
                parquet_field(key, "key").with_nullable(nullable=False),
                parquet_field(value, "value"),
            )
        case _:
            type = _stored_type(column)
    return pa.field(name or column.name, type, metadata={_FIELD_ID: str(column.id).encode()})


def leaf_values(table: pa.Table, leaf: Leaf) -> Iterator[pa.Array]:
    """Yield the values of a leaf; below lists and maps, those of all elements."""
    for chunk in table.column(leaf.path[0]).chunks:
        array = chunk
        for position in leaf.path[1:]:
            if pa.types.is_struct(array.type):
                array = array.flatten()[position]
            elif pa.types.is_map(array.type):
                start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
                array = (array.items if position else array.keys).slice(start, stop - start)
            else:
                array = array.flatten()
        yield array.storage if isinstance(array, pa.ExtensionArray) else array


def _leaves(column: Column, path: tuple[int, ...]) -> Iterator[Leaf]:
    if column.type not in NESTED:
        yield Leaf(column, path)
    for index, child in enumerate(column.children):
        yield from _leaves(child, (*path, index))


def _stored_type(column: Column) -> pa.DataType:
    match column.type:
        case "int128" | "uint128":
            return pa.float64()
        case "timestamp_s":
            return pa.timestamp("us")
        case "geometry":
            return _GEOMETRY
        case _:
            return arrow_type(column)


def _each_chunk(column: pa.ChunkedArray, convert: Converter, type: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([convert(chunk) for chunk in column.chunks], type)


def _converter(column: Column, path: str, *, exact: bool) -> Converter | None:
    """Return how a column becomes the type of its field; None if only names and ids differ."""
    target = parquet_field(column).type
    match column.type:
        case "struct" | "list" | "map":
            return _nested(column, target, path, exact=exact)
        case "int128" | "uint128":
            return lambda array: _as_float(array, column, path, exact=exact)
        case "timestamp_s":
            return lambda array: _as_micros(array, path)
        case "time_ns":
            return lambda array: _whole_micros(array, path)
        case "timetz" if exact:
            return lambda array: _in_utc(array, path)
        case "geometry":
            return lambda array: pa.ExtensionArray.from_storage(_GEOMETRY, array)
        case _:
            return None


def _nested(column: Column, target: pa.DataType, path: str, *, exact: bool) -> Converter | None:
    inside = [_converter(child, f"{path}.{child.name}", exact=exact) for child in column.children]
    if not any(inside):
        return None
    made = [convert or (lambda array: array) for convert in inside]
    if column.type == "list":
        return lambda array: rebuild_list(array, target, made[0](array.values))
    if column.type == "map":
        return lambda array: rebuild_map(array, target, made[0](array.keys), made[1](array.items))

    def convert(array: pa.Array) -> pa.Array:
        children = [make(child) for make, child in zip(made, array.flatten(), strict=True)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)

    return convert


def _as_micros(array: pa.Array, path: str) -> pa.Array:
    try:
        return array.cast(pa.timestamp("us"))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"column {path!r}: files hold timestamps of microseconds: {first_line(error)}"
        ) from None


def _whole_micros(array: pa.Array, path: str) -> pa.Array:
    """Return times in nanoseconds; DuckDB reads them as microseconds."""
    ticks = array.view(pa.int64())
    rests = pc.subtract(ticks, pc.multiply(pc.divide(ticks, 1000), 1000))
    if pc.any(pc.not_equal(rests, 0)).as_py():
        raise InvalidInputError(
            f"column {path!r}: a time with nanoseconds cannot be stored in a file, where DuckLake "
            "reads microseconds"
        )
    return array


def _in_utc(array: pa.Array, path: str) -> pa.Array:
    """Return times with time zone unchanged; files hold none of their offsets."""
    rows = thread_connection().from_arrow(pa.table({"x": array}))
    ((has_offset,),) = rows.aggregate("bool_or(date_part('timezone', x) <> 0)").fetchall()
    if has_offset:
        raise InvalidInputError(
            f"column {path!r}: DuckLake stores times with time zone as times of UTC in files"
        )
    return array


def _as_float(array: pa.Array, column: Column, path: str, *, exact: bool) -> pa.Array:
    """Return integers of 128 bits as the nearest floats, as DuckLake stores them in files.

    DuckLake 1.5.5 also writes a float that is out of their range, and then cannot read the file.
    """
    number = f"CAST(x AS {_sql(column)})"
    back = f"TRY_CAST({number}::DOUBLE AS {_sql(column)})"
    is_lost = f"{back} IS DISTINCT FROM {number}" if exact else f"{back} IS NULL AND x IS NOT NULL"
    table = (
        thread_connection()
        .from_arrow(pa.table({"x": array}))
        .project(f"{number}::DOUBLE AS v, {is_lost} AS is_lost")
        .to_arrow_table()
    )
    lost = np.asarray(combine(table.column(1)))
    if lost.any():
        value = array.take(pa.array([int(np.argmax(lost))]))
        text = thread_connection().from_arrow(pa.table({"x": value})).fetchall()[0][0]
        raise InvalidInputError(
            f"column {path!r}: DuckLake stores {column.type} as a float in files, which cannot "
            f"hold {text}; a decimal(38,0) can"
        )
    return combine(table.column(0))


def _sql(column: Column) -> str:
    return "HUGEINT" if column.type == "int128" else "UHUGEINT"
