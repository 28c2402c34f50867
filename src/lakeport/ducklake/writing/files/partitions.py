"""Divide rows by the values of partition keys, as DuckLake's transforms compute them.

Values are computed for a whole batch. Texts are made once for each distinct value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.arrow import combine, thread_connection
from lakeport.ducklake.model import PartitionField, PartitionSpec
from lakeport.ducklake.writing.files.fitting import column_converter
from lakeport.errors import InvalidInputError, UnsupportedError
from lakeport.types import NESTED, Column, arrow_type, find_type, sql_type

__all__ = ["Partitioner", "bucket_numbers", "murmur3_of"]

# The transforms of days and instants `v`, in UTC. Those of an epoch count from 1970 (format 1.1).
_PARTS: Final = {
    "year": "year(v)",
    "month": "month(v)",
    "day": "day(v)",
    "hour": "hour(v)",
    "epoch_year": "year(v) - 1970",
    "epoch_month": "(year(v) - 1970) * 12 + month(v) - 1",
    "epoch_day": "date_diff('day', DATE '1970-01-01', CAST(v AS DATE))",
    "epoch_hour": "date_diff('hour', TIMESTAMP '1970-01-01', v)",
}
_TEMPORAL: Final = frozenset({"date", "timestamp", "timestamptz"})
_U32 = npt.NDArray[np.uint32]
Values = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _Key:
    position: int
    column: Column
    transform: str


class Partitioner:
    """Divides batches of a table by its partition spec."""

    def __init__(self, spec: PartitionSpec, columns: Sequence[Column]) -> None:
        self._keys = [_key(field, columns) for field in spec.fields]

    def __call__(self, batch: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """Yield the rows of each partition, in their order, with the partition's values."""
        encoded = [_encoded(batch.column(key.position), key) for key in self._keys]
        codes = np.zeros(batch.num_rows, np.int64)
        for indices, texts in encoded:
            codes = codes * len(texts) + indices
            # Codes stay below the number of rows, whatever the product of the distinct values is.
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        for start, stop in zip(starts, [*starts[1:], batch.num_rows], strict=True):
            rows = order[start:stop]
            values = tuple(texts[indices[rows[0]]] for indices, texts in encoded)
            is_whole = len(rows) == batch.num_rows
            yield values, batch if is_whole else batch.take(pa.array(rows))


def _key(field: PartitionField, columns: Sequence[Column]) -> _Key:
    position = next((i for i, c in enumerate(columns) if c.id == field.column_id), None)
    if position is None:
        raise UnsupportedError(f"the partition key {field.column_id} is not a column of the table")
    column = columns[position]
    if column.type in NESTED or column.type in ("variant", "geometry"):
        raise UnsupportedError(f"column {column.name!r} is a {column.type}: it cannot be a key")
    row = find_type(column.type)
    if field.transform in _PARTS:
        if row is None or row.family not in _TEMPORAL:
            raise UnsupportedError(f"column {column.name!r} has no {field.transform}")
    elif field.transform != "identity" and _buckets(field.transform) is None:
        raise UnsupportedError(f"the partition transform {field.transform!r} is not known")
    return _Key(position, column, field.transform)


def _buckets(transform: str) -> int | None:
    match = re.fullmatch(r"bucket\((\d{1,9})\)", transform)
    return int(match.group(1)) or None if match else None


def _encoded(array: pa.Array, key: _Key) -> tuple[npt.NDArray[np.int64], list[str | None]]:
    """Return, for each row, the index of its partition value; and the texts of the values."""
    if key.transform in _PARTS:
        values = _parts(array, key)
        found = pc.dictionary_encode(values, null_encoding="encode")
        texts = [None if value is None else str(value) for value in found.dictionary.to_pylist()]
        return np.asarray(found.indices).astype(np.int64), texts
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    found = pc.dictionary_encode(_hashable(storage), null_encoding="encode")
    distinct = _typed(found.dictionary, array.type)
    indices = np.asarray(found.indices).astype(np.int64)
    buckets = _buckets(key.transform)
    if buckets is None:
        return indices, _identity_texts(distinct, key.column)
    # Bucket numbers are the texts; the last text is that of NULL.
    numbers, inverse = np.unique(_codes(distinct, key.column, buckets), return_inverse=True)
    texts = [None if number == buckets else str(number) for number in numbers.tolist()]
    return inverse.astype(np.int64)[indices], texts


def bucket_numbers(values: pa.Array, column: Column, buckets: int) -> pa.Array:
    """Return the number of each value's bucket, and that of buckets for NULL."""
    convert = column_converter(values.type, column, column.name, stand_ins=True)
    return pa.array(_codes(convert(values) if convert else values, column, buckets), pa.int32())


def _codes(values: pa.Array, column: Column, buckets: int) -> npt.NDArray[np.int64]:
    chosen = (murmur3_of(values, column) & np.uint32(0x7FFFFFFF)) % np.uint32(buckets)
    return np.where(np.asarray(values.is_null()), buckets, chosen.astype(np.int64))


def _hashable(array: pa.Array) -> pa.Array:
    """Return values that Arrow can encode; an interval has no hash."""
    if pa.types.is_interval(array.type):
        return array.view(pa.binary(16))
    return array


def _typed(array: pa.Array, type: pa.DataType) -> pa.Array:
    if isinstance(type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type, array)
    return array if array.type == type else array.view(type)


def _parts(array: pa.Array, key: _Key) -> pa.Array:
    """Return the year, month, day or hour, or how many of them have passed since 1970, in UTC."""
    source = "TIMESTAMP" if key.column.type.startswith("timestamptz") else sql_type(key.column)
    plain = array.cast(pa.timestamp(array.type.unit)) if _is_zoned(array.type) else array
    table = thread_connection().from_arrow(pa.table({"v": plain}))
    typed = table.project(f"CAST(v AS {source}) AS v")
    parts = typed.project(f"CAST({_PARTS[key.transform]} AS BIGINT)")
    return combine(parts.to_arrow_table().column(0))


def _is_zoned(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type) and type.tz)


def _identity_texts(distinct: pa.Array, column: Column) -> list[str | None]:
    if column.type == "blob":
        return [_decoded(value, column) for value in distinct.to_pylist()]
    if column.type in ("varchar", "json"):
        return _text_list(distinct)
    table = thread_connection().from_arrow(pa.table({"v": distinct}))
    return [row[0] for row in table.project("CAST(v AS VARCHAR)").fetchall()]


def _text_list(array: pa.Array) -> list[str | None]:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    texts: list[str | None] = storage.to_pylist()
    return texts


def _decoded(value: bytes | None, column: Column) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"column {column.name!r} is a partition key: a value that is not UTF-8 cannot be the "
            "name of a folder"
        ) from None


def murmur3_of(values: pa.Array, column: Column) -> _U32:
    """Return MurmurHash3 (32 bits, seed 0) of what DuckLake hashes of each value; 0 for NULL."""
    row = find_type(column.type)
    kind = "utf8" if column.type in ("blob", "json") else row.bucket_input if row else None
    match kind:
        case "int64":
            return _of_words(_integers(values))
        case "float64":
            doubles = np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
            return _of_words(doubles.view(np.int64))
        case "decimal" if arrow_type(column).precision <= 18:
            return _of_words(_unscaled(values))
        case "utf8":
            storage = values.storage if isinstance(values, pa.ExtensionArray) else values
            return _of_bytes(storage.cast(pa.binary()))
        case "text" | "decimal":
            texts = pa.array(_identity_texts(values, column), pa.string())
            return _of_bytes(texts.cast(pa.binary()))
    raise UnsupportedError(f"column {column.name!r} of type {column.type} has no buckets")


def _integers(values: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return np.asarray(pc.fill_null(values.cast(pa.int64()), 0))


def _unscaled(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return decimals of at most 18 digits without their point."""
    words = np.frombuffer(values.buffers()[1], np.int64)
    return words[2 * values.offset : 2 * (values.offset + len(values)) : 2].copy()


def _of_words(values: npt.NDArray[np.int64]) -> _U32:
    """Return the hashes of integers of 8 bytes, little endian."""
    words = np.ascontiguousarray(values).view(np.uint32).reshape(-1, 2)
    state = np.zeros(len(values), np.uint32)
    for index in range(2):
        state = _mixed(state, words[:, index])
    return _final(state, np.full(len(values), 8, np.uint32))


def _of_bytes(values: pa.Array) -> _U32:
    """Return the hashes of byte strings: word after word, for those that are long enough."""
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0)).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])[:-1]
    joined = b"".join(value for value in values.to_pylist() if value is not None)
    # Four more bytes, so that the last word of the last value can be read.
    data = np.frombuffer(joined + b"\0\0\0\0", np.uint8)
    state = np.zeros(len(values), np.uint32)
    words = lengths // 4
    for index in range(int(words.max(initial=0))):
        rows = np.flatnonzero(words > index)
        state[rows] = _mixed(state[rows], _word(data, offsets[rows] + 4 * index))
    rests = lengths % 4
    rows = np.flatnonzero(rests)
    masks = (np.uint32(1) << (rests[rows] * 8).astype(np.uint32)) - np.uint32(1)
    tails = _word(data, offsets[rows] + 4 * words[rows]) & masks
    state[rows] ^= _scrambled(tails)
    return _final(state, lengths.astype(np.uint32))


def _word(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> _U32:
    words = data[starts].astype(np.uint32)
    for index in range(1, 4):
        words |= data[starts + index].astype(np.uint32) << np.uint32(8 * index)
    return words


def _scrambled(words: _U32) -> _U32:
    words = words * np.uint32(0xCC9E2D51)
    words = (words << np.uint32(15)) | (words >> np.uint32(17))
    return words * np.uint32(0x1B873593)


def _mixed(state: _U32, words: _U32) -> _U32:
    state = state ^ _scrambled(words)
    state = (state << np.uint32(13)) | (state >> np.uint32(19))
    return state * np.uint32(5) + np.uint32(0xE6546B64)


def _final(state: _U32, lengths: _U32) -> _U32:
    state = state ^ lengths
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))
