"""Checks of received batches, before any of their values is read.

Arrow trusts the offsets, sizes, indices and counts inside a batch. Wrong ones make it read memory
outside of the batch, or crash the process.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from lakeport.arrow import with_children
from lakeport.errors import InvalidArgumentError, first_line

__all__ = ["ContentCheck", "check_layout", "is_compressed"]


def check_layout(batch: pa.RecordBatch) -> None:
    """Raise `InvalidArgumentError` if buffers are too short for the rows. Reads no values."""
    try:
        batch.validate()
    except pa.ArrowException as error:
        raise InvalidArgumentError(f"a batch is damaged: {_reason(error)}") from None


class ContentCheck:
    """Rejects batches with an offset outside of its buffer, or a value invalid for its type."""

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = [
            (field.name, None if (view := _bare(field.type)) == field.type else view)
            for field in schema
        ]
        self._has_views = any(view is not None for _, view in self._columns)

    def check_all(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Check every value of several batches, with one call of Arrow where that is possible."""
        if not self._has_views:
            try:
                pa.Table.from_batches(batches).validate(full=True)
            except pa.ArrowException:
                # The loop names the column.
                pass
            else:
                return
        for batch in batches:
            self(batch)

    def __call__(self, batch: pa.RecordBatch) -> None:
        """Check every value of a batch that has passed `check_layout`."""
        for (name, view), column in zip(self._columns, batch.columns, strict=True):
            try:
                (column if view is None else column.view(view)).validate(full=True)
            except pa.ArrowException as error:
                raise InvalidArgumentError(
                    f"column {name!r} of a batch is damaged: {_reason(error)}"
                ) from None


def is_compressed(stream: pa.Buffer) -> bool:
    """Return whether a message of an IPC stream is compressed."""
    return any(
        _has_compression(message.metadata.to_pybytes(), is_dictionary=message.type == "dictionary")
        for message in pa.ipc.MessageReader.open_stream(stream)
        if message.type in {"record batch", "dictionary"}
    )


def _has_compression(metadata: bytes, *, is_dictionary: bool) -> bool:
    # pyarrow 26 verifies the flatbuffer but does not expose this field: Message.header[.data]
    # .compression, by the field numbers in Arrow's format/Message.fbs.
    table = _table(metadata, 0)
    for field in (2, 1) if is_dictionary else (2,):
        offset = _offset(metadata, table, field)
        if not offset:
            return False
        table = _table(metadata, table + offset)
    return _offset(metadata, table, 3) > 0


def _table(metadata: bytes, position: int) -> int:
    (offset,) = struct.unpack_from("<I", metadata, position)
    return position + int(offset)


def _offset(metadata: bytes, table: int, field: int) -> int:
    """Return the offset of a field from the beginning of its table; 0 if it is absent."""
    (back,) = struct.unpack_from("<i", metadata, table)
    size, slot = struct.unpack_from("<H", metadata, table - back)[0], 4 + 2 * field
    return int(struct.unpack_from("<H", metadata, table - back + slot)[0]) if slot < size else 0


def _bare(type: pa.DataType) -> pa.DataType:
    """Return a type with the same layout whose values Arrow checks no stricter than DuckDB does.

    DuckDB has a time 24:00, and sends a HUGEINT as a decimal of 38 digits that may have 39.
    """
    if pt.is_time(type) or pt.is_date64(type):
        return pa.int32() if type.bit_width == 32 else pa.int64()
    if pt.is_decimal(type):
        return pa.binary(type.byte_width)
    if pt.is_dictionary(type):
        return pa.dictionary(type.index_type, _bare(type.value_type), type.ordered)
    return with_children(type, _bare)


def _reason(error: Exception) -> str:
    return first_line(error)
