"""The Arrow layouts of one DuckDB type, and how to get from one to another.

What a client sends depends on its settings: a UUID is text or 16 bytes, a text is `utf8`,
`large_utf8` or `string_view`, a boolean is a bit or a byte. Tables get their own types, and
clients get back what they sent. Arrow converts what it can without changing the meaning; the rest
is converted by DuckDB itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lakeport.errors import InvalidInputError

__all__ = ["LayoutCast"]

Converter: TypeAlias = Callable[[pa.Array], pa.Array]

# Extension types whose storage is the plain layout of the same values.
_PLAIN_STORAGE = {"arrow.json", "arrow.bool8", "bit", "bignum"}


class LayoutCast:
    """Fits batches to a schema by name; columns that are missing become nulls."""

    def __init__(self, source: pa.Schema, target: pa.Schema, what: str) -> None:
        self._target = target
        self._what = what
        self._columns: list[tuple[int, Converter | None]] = []
        for field in target:
            position = source.get_field_index(field.name)
            convert = None if position < 0 else _converter(source.field(position).type, field.type)
            self._columns.append((position, convert))
        self._is_identity = source.equals(target)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the target schema."""
        if self._is_identity:
            return batch
        arrays = [
            self._array(batch, position, convert, field)
            for (position, convert), field in zip(self._columns, self._target, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._target)

    def _array(
        self, batch: pa.RecordBatch, position: int, convert: Converter | None, field: pa.Field
    ) -> pa.Array:
        if position < 0:
            return pa.nulls(batch.num_rows, field.type)
        array = batch.column(position)
        if convert is None:
            return array
        try:
            return convert(array)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInputError(
                f"{self._what}: column {field.name!r} cannot take these values: {reason}"
            ) from None


def _converter(source: pa.DataType, target: pa.DataType) -> Converter | None:
    """How to convert an array; None when nothing is to be done."""
    if source == target:
        return None
    if pt.is_dictionary(target):
        return lambda array: _encode(_decode(array), target)
    if pt.is_dictionary(source):
        decoded = _converter(source.value_type, target)
        return lambda array: _decode(array) if decoded is None else decoded(_decode(array))
    if not _has_extension(source) and not _has_extension(target) and _arrow_casts(source, target):
        return lambda array: array.cast(target)
    plain_source, plain_target = _plain(source), _plain(target)
    if plain_source is not None and plain_target is not None:
        return lambda array: _wrap(_storage(array).cast(plain_target), target)
    return lambda array: _duckdb_cast(array, target)


@cache
def _arrow_casts(source: pa.DataType, target: pa.DataType) -> bool:
    try:
        pa.array([], source).cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _has_extension(type: pa.DataType) -> bool:
    if isinstance(type, pa.BaseExtensionType):
        return True
    return any(_has_extension(type.field(index).type) for index in range(type.num_fields))


def _plain(type: pa.DataType) -> pa.DataType | None:
    """The type whose values have the same meaning without an extension; None if there is none."""
    if isinstance(type, pa.BaseExtensionType):
        name = getattr(type, "type_name", "") or type.extension_name
        return type.storage_type if name in _PLAIN_STORAGE else None
    return None if _has_extension(type) else type


def _storage(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _wrap(array: pa.Array, type: pa.DataType) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type, array)
    return array


def _decode(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if isinstance(array, pa.DictionaryArray) else array


def _encode(array: pa.Array, type: pa.DictionaryType) -> pa.Array:
    encoded = array.cast(type.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        encoded.indices.cast(type.index_type), encoded.dictionary, ordered=type.ordered
    )


def _duckdb_cast(array: pa.Array, type: pa.DataType) -> pa.Array:
    import duckdb

    lossless = "true" if _has_extension(type) else "false"
    with duckdb.connect(config={"arrow_lossless_conversion": lossless}) as connection:
        sql_type = connection.from_arrow(pa.table({"c": pa.array([], type)})).types[0]
        rows = connection.from_arrow(pa.table({"c": array}))
        try:
            converted = rows.project(f"c::{sql_type} AS c").to_arrow_table()
        except duckdb.Error as error:
            raise pa.ArrowInvalid(str(error)) from None
    column = converted.column(0).combine_chunks()
    return column if column.type == type else column.cast(type)
