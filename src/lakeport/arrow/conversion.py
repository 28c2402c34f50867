"""The Arrow layouts of one DuckDB type, and how to get from one to another.

The layout of a client's values depends on its settings: a UUID is text or 16 bytes, a text is
`utf8`, `large_utf8` or `string_view`, a boolean is a bit or a byte, a list may be a list view.
Tables store one layout, and clients receive the layout that they sent. Arrow converts values where
its cast keeps their meaning. Nested values are rebuilt here; DuckDB converts the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakeport.arrow.batches import array_size
from lakeport.errors import InternalError, InvalidInputError, first_line

__all__ = ["Alignment", "SchemaAdapter", "convert"]

Converter: TypeAlias = Callable[[pa.Array], pa.Array]

# Extension types whose storage is the plain layout of the same values.
_PLAIN_STORAGE = {"arrow.json", "arrow.bool8", "bit", "bignum"}
_FAULTS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowIndexError)


class SchemaAdapter:
    """Fits batches to a schema by name; columns that are missing become nulls."""

    def __init__(self, source: pa.Schema, target: pa.Schema, label: str) -> None:
        self._target = target
        self._label = label
        self._sources = [source.get_field_index(field.name) for field in target]
        self._is_identity = source.equals(target, check_metadata=True)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in the target schema."""
        if self._is_identity:
            return batch
        arrays = [
            pa.nulls(batch.num_rows, field.type)
            if position < 0
            else convert(
                batch.column(position), field.type, f"{self._label}: column {field.name!r}"
            )
            for field, position in zip(self._target, self._sources, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)


def convert(values: pa.Array, type: pa.DataType, label: str) -> pa.Array:
    """Return the same values in another layout; `label` names their column in errors."""
    if values.type == type:
        return values
    try:
        return _converter(values.type, type)(values)
    except _FAULTS as error:
        raise InvalidInputError(f"{label} cannot take these values: {first_line(error)}") from None


@lru_cache(maxsize=1024)
def _converter(source: pa.DataType, target: pa.DataType) -> Converter:
    if source == target:
        return lambda values: values
    if pt.is_null(source):
        return lambda values: pa.nulls(len(values), target)
    if isinstance(target, pa.BaseExtensionType) and target.storage_type == source:
        return lambda values: _wrap(values, target)
    if isinstance(source, pa.BaseExtensionType) and source.storage_type == target:
        return _storage
    if pt.is_dictionary(source):
        decoded = _converter(source.value_type, target)
        return lambda values: decoded(values.dictionary_decode())
    if pt.is_run_end_encoded(source):
        return _from_runs(source, target)
    if pt.is_dictionary(target):
        return _to_dictionary(source, target)
    nested = _nested_converter(source, target)
    if nested is not None:
        return nested
    plain_source, plain_target = _plain(source), _plain(target)
    if _arrow_casts(plain_source, plain_target):
        return lambda values: _wrap(_storage(values).cast(plain_target), target)
    return lambda values: _by_duckdb(values, target)


def _nested_converter(source: pa.DataType, target: pa.DataType) -> Converter | None:
    """Return a converter of two types with children of the same kind, or None."""
    if _is_list(source) and _is_list(target):
        return _to_list(source, target)
    if pt.is_struct(source) and pt.is_struct(target) and _same_names(source, target):
        return _to_struct(source, target)
    if pt.is_map(source) and pt.is_map(target):
        return _to_map(source, target)
    if pt.is_fixed_size_list(source) and pt.is_fixed_size_list(target):
        return _to_array(source, target)
    if _same_members(source, target):
        return _to_union(source, target)
    return None


def _to_dictionary(source: pa.DataType, target: pa.DictionaryType) -> Converter:
    to_values = _converter(source, target.value_type)

    def convert(values: pa.Array) -> pa.Array:
        encoded = to_values(values).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            encoded.indices.cast(target.index_type), encoded.dictionary, ordered=target.ordered
        )

    return convert


def _from_runs(source: pa.RunEndEncodedType, target: pa.DataType) -> Converter:
    to_values = _converter(source.value_type, target)

    def convert(values: pa.Array) -> pa.Array:
        rows = np.arange(values.offset, values.offset + len(values))
        runs = np.searchsorted(values.run_ends.to_numpy(), rows, side="right")
        return to_values(values.values).take(pa.array(runs))

    return convert


def _to_list(source: pa.DataType, target: pa.DataType) -> Converter:
    """Convert lists and list views. Arrow's own cast of a view returns an invalid array."""
    to_items = _converter(source.value_type, target.value_type)
    is_large = pt.is_large_list(target) or pt.is_large_list_view(target)
    offset_type = pa.int64() if is_large else pa.int32()
    is_view = pt.is_list_view(target) or pt.is_large_list_view(target)

    def convert(values: pa.Array) -> pa.Array:
        lengths = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64())
        ends = pc.cumulative_sum(lengths)
        offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends]).cast(offset_type)
        items = to_items(values.flatten())
        mask = values.is_null()
        if is_view:
            kind = pa.LargeListViewArray if is_large else pa.ListViewArray
            starts, sizes = offsets[:-1], lengths.cast(offset_type)
            return kind.from_arrays(starts, sizes, items, type=target, mask=mask)
        kind = pa.LargeListArray if is_large else pa.ListArray
        return kind.from_arrays(offsets, items, type=target, mask=mask)

    return convert


def _to_struct(source: pa.DataType, target: pa.DataType) -> Converter:
    converters = [
        _converter(source.field(index).type, target.field(index).type)
        for index in range(target.num_fields)
    ]

    def convert(values: pa.Array) -> pa.Array:
        mask = values.is_null()
        children = [
            to_child(_masked(values.field(index), mask))
            for index, to_child in enumerate(converters)
        ]
        fields = [target.field(index) for index in range(target.num_fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)

    return convert


def _to_map(source: pa.DataType, target: pa.DataType) -> Converter:
    to_keys = _converter(source.key_type, target.key_type)
    to_items = _converter(source.item_type, target.item_type)

    def convert(values: pa.Array) -> pa.Array:
        start, stop = values.offsets[0].as_py(), values.offsets[-1].as_py()
        return pa.MapArray.from_arrays(
            pc.subtract(values.offsets, start),
            to_keys(values.keys.slice(start, stop - start)),
            to_items(values.items.slice(start, stop - start)),
            type=target,
            mask=values.is_null(),
        )

    return convert


def _to_array(source: pa.DataType, target: pa.DataType) -> Converter:
    to_items = _converter(source.value_type, target.value_type)
    size = source.list_size

    def convert(values: pa.Array) -> pa.Array:
        if size != target.list_size:
            raise pa.ArrowInvalid(f"lists of {size} values where {target.list_size} are expected")
        mask = values.is_null()
        items = values.values.slice(values.offset * size, len(values) * size)
        hidden = pa.array(np.repeat(mask.to_numpy(zero_copy_only=False), size))
        items = to_items(_masked(items, hidden))
        return pa.FixedSizeListArray.from_arrays(items, type=target, mask=mask)

    return convert


def _to_union(source: pa.SparseUnionType, target: pa.SparseUnionType) -> Converter:
    members = [
        (code, _converter(source.field(index).type, target.field(index).type))
        for index, code in enumerate(source.type_codes)
    ]
    names = [field.name for field in target]

    def convert(values: pa.Array) -> pa.Array:
        # pyarrow 26: `type_codes` of a slice are those of the first rows of the whole array.
        codes = np.frombuffer(values.buffers()[1], np.int8)[values.offset :][: len(values)]
        # A value below another member's row may not be convertible.
        children = [
            to_member(_masked(values.field(index), pa.array(codes != code)))
            for index, (code, to_member) in enumerate(members)
        ]
        return pa.UnionArray.from_sparse(pa.array(codes), children, names, target.type_codes)

    return convert


def _masked(values: pa.Array, mask: pa.BooleanArray) -> pa.Array:
    """Return nulls where the mask is true. A value below a null may not be convertible."""
    if mask.true_count == 0 or _has_no_nulls(values.type):
        return values
    return pa.StructArray.from_arrays([values], names=[""], mask=mask).flatten()[0]


def _by_duckdb(values: pa.Array, type: pa.DataType) -> pa.Array:
    import duckdb

    lossless = "true" if _has_extension(type) else "false"
    with duckdb.connect(config={"arrow_lossless_conversion": lossless}) as connection:
        sql_type = connection.from_arrow(pa.table({"c": pa.nulls(0, type)})).types[0]
        rows = connection.from_arrow(pa.table({"c": values}))
        try:
            converted = rows.project(f"c::{sql_type} AS c").to_arrow_table()
        except duckdb.Error as error:
            raise pa.ArrowInvalid(str(error)) from None
    column = converted.column(0).combine_chunks()
    if column.type == type:
        return column
    if column.type == values.type:
        raise pa.ArrowNotImplementedError(f"{values.type} cannot be converted to {type}")
    # The remaining difference is the width, or the names of children.
    if _has_extension(type):
        return pa.array(column.to_pylist(), type)
    return _converter(column.type, type)(column)


def _has_no_nulls(type: pa.DataType) -> bool:
    """Return whether only children can be null. Arrow aborts if nulls are added to such a type."""
    if isinstance(type, pa.BaseExtensionType):
        return _has_no_nulls(type.storage_type)
    return bool(pt.is_union(type) or pt.is_run_end_encoded(type) or pt.is_null(type))


def _is_list(type: pa.DataType) -> bool:
    return bool(
        pt.is_list(type)
        or pt.is_large_list(type)
        or pt.is_list_view(type)
        or pt.is_large_list_view(type)
    )


def _same_names(source: pa.DataType, target: pa.DataType) -> bool:
    return [f.name for f in source] == [f.name for f in target]


def _same_members(source: pa.DataType, target: pa.DataType) -> bool:
    return bool(
        pt.is_union(source)
        and pt.is_union(target)
        and source.mode == target.mode == "sparse"
        and source.type_codes == target.type_codes
        and _same_names(source, target)
    )


def _arrow_casts(source: pa.DataType | None, target: pa.DataType | None) -> bool:
    if source is None or target is None:
        return False
    try:
        pa.nulls(0, source).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _has_extension(type: pa.DataType) -> bool:
    if isinstance(type, pa.BaseExtensionType):
        return True
    return any(_has_extension(type.field(index).type) for index in range(type.num_fields))


def _plain(type: pa.DataType) -> pa.DataType | None:
    """Return the type with the same values and no extension; None if there is none."""
    if isinstance(type, pa.BaseExtensionType):
        name = getattr(type, "type_name", "") or type.extension_name
        return type.storage_type if name in _PLAIN_STORAGE else None
    return None if _has_extension(type) else type


def _storage(values: pa.Array) -> pa.Array:
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def _wrap(values: pa.Array, type: pa.DataType) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type, values)
    return values


@dataclass(frozen=True, slots=True)
class _Padding:
    """Columns of nulls for batches with a number of rows; None where a column has values."""

    rows: int
    arrays: list[pa.Array | None]
    size: int


class Alignment:
    """Fits the batches of a reader to the schema that the client has bound."""

    def __init__(
        self, target: pa.Schema, source: pa.Schema, columns: tuple[str, ...] | None, label: str
    ) -> None:
        self._target = target
        self._label = label
        self._nulls: dict[pa.DataType, pa.Array] = {}
        self._padding = _Padding(-1, [], 0)
        requested = set(target.names if columns is None else columns)
        self._sources: list[int | None] = []
        for field in target:
            position = source.get_field_index(field.name)
            if position < 0 and field.name in requested:
                raise InternalError(f"the scan of {label} has no column {field.name!r}")
            self._sources.append(position if field.name in requested else None)
        self._is_identity = source.equals(target) and None not in self._sources
        self._present = [
            (i, position, target.field(i))
            for i, position in enumerate(self._sources)
            if position is not None
        ]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in the target schema."""
        if self._is_identity or not self._sources:
            return batch
        arrays = self._padding_of(batch.num_rows).arrays.copy()
        for i, position, field in self._present:
            arrays[i] = self._cast(batch.column(position), field)
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def size(self, aligned: pa.RecordBatch) -> int:
        """Return the bytes of a batch in the target schema."""
        if self._is_identity or not self._sources:
            return sum(map(array_size, aligned.columns))
        present = sum(array_size(aligned.column(i)) for i, _, _ in self._present)
        return present + self._padding_of(aligned.num_rows).size

    def _padding_of(self, rows: int) -> _Padding:
        """Return the columns of nulls; most batches of a scan have the same number of rows."""
        if self._padding.rows != rows:
            arrays = [
                self._null_array(field.type, rows) if position is None else None
                for field, position in zip(self._target, self._sources, strict=True)
            ]
            size = sum(array.nbytes for array in arrays if array is not None)
            self._padding = _Padding(rows, arrays, size)
        return self._padding

    def _null_array(self, type: pa.DataType, rows: int) -> pa.Array:
        nulls = self._nulls.get(type)
        if nulls is None or len(nulls) < rows:
            nulls = self._nulls[type] = pa.nulls(rows, type)
        return nulls.slice(0, rows)

    def _cast(self, array: pa.Array, field: pa.Field) -> pa.Array:
        try:
            return convert(array, field.type, f"column {field.name!r}")
        except InvalidInputError as error:
            raise InternalError(
                f"the scan of {self._label} gives {array.type} for column {field.name!r}, "
                f"which is declared {field.type}: {error}"
            ) from None
