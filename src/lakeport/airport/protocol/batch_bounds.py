"""Bounds on the memory of received batches.

A batch can be small on the wire and large in a table: nulls have no bytes, and the entries of a
dictionary or the texts of a view are sent once and used often. The size of a batch is computed
before any value is copied.

Arrow decompresses batches while it decodes them, before this code runs, and pyarrow 26 has no
option to prevent it. So a compressed batch is rejected as soon as it is received, and no other
batch of the call is read.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakeport.airport.protocol.limits import Limits
from lakeport.errors import InvalidArgumentError, MessageTooLargeError

__all__ = ["BatchBounds", "row_width"]

# The memory of a column besides its buffers; it bounds the number of tiny batches.
_COLUMN_OVERHEAD = 256
# A batch may need more memory in the types of its table: 4 bytes can become 16.
_GROWTH = 4


class BatchBounds:
    """Measures received batches, and rejects those that need more memory than a server allows."""

    def __init__(self, schema: pa.Schema, *, limits: Limits, max_bytes: int) -> None:
        self._limits = limits
        self._max_bytes = max_bytes
        self._folded = [i for i, field in enumerate(schema) if _is_folded(field.type)]
        for field in schema:
            if _contains(field.type, pt.is_run_end_encoded):
                raise InvalidArgumentError(
                    f"column {field.name!r} is run-end encoded, which is not accepted"
                )

    def size(self, batch: pa.RecordBatch) -> int:
        """Return the decoded size of a batch in bytes; raise if it is too large."""
        self._limits.check(batch.num_rows, self._limits.batch_rows, "the number of rows of a batch")
        size = int(batch.get_total_buffer_size())
        self._check(size)
        message = _largest_message(batch)
        self._check(message)
        unfolded = sum(_unfolded_size(batch.column(i)) for i in self._folded)
        self._check(unfolded)
        return int(max(size, message) + unfolded + _COLUMN_OVERHEAD * batch.num_columns)

    def check_rows(self, rows: int, width: int) -> None:
        """Raise `MessageTooLargeError` for rows that need too much memory in a table's types."""
        limit, size = _GROWTH * self._max_bytes, rows * width // 8
        if size > limit:
            raise MessageTooLargeError(
                f"a batch of {rows} rows takes {size} bytes in the types of its table; "
                f"this server accepts at most {limit}"
            )

    def _check(self, size: int) -> None:
        if size > self._max_bytes:
            raise MessageTooLargeError(
                f"a batch has {size} bytes; this server accepts at most {self._max_bytes}"
            )


def row_width(schema: pa.Schema) -> int:
    """Return the minimum number of bits of a row in arrays of the columns' types."""
    return sum(_width(field.type) for field in schema)


def _width(type: pa.DataType) -> int:
    """Return the number of bits of a null value, including its validity bit."""
    if isinstance(type, pa.BaseExtensionType):
        return _width(type.storage_type)
    if pt.is_dictionary(type):
        return _width(type.index_type)
    if pt.is_fixed_size_list(type):
        return 1 + int(type.list_size) * _width(type.value_type)
    if pt.is_struct(type) or pt.is_union(type):
        return 40 + sum(_width(type.field(i).type) for i in range(type.num_fields))
    if pt.is_string_view(type) or pt.is_binary_view(type):
        return 129
    if pt.is_large_string(type) or pt.is_large_binary(type) or pt.is_large_list(type):
        return 65
    return 1 + (int(type.bit_width) if _has_width(type) else 32)


def _has_width(type: pa.DataType) -> bool:
    return bool(pt.is_primitive(type) or pt.is_decimal(type) or pt.is_fixed_size_binary(type))


def _largest_message(batch: pa.RecordBatch) -> int:
    """Return the bytes of the largest message that a batch keeps; raise if one was compressed.

    Buffers are slices of their message, whose memory is released after all of them.
    """
    start = end = largest = 0
    for column in batch.columns:
        for buffer in column.buffers():
            if buffer is None or not buffer.size:
                continue
            _check_received(buffer)
            # Nearly always, all buffers are inside the message of the first.
            if not (start <= buffer.address and buffer.address + buffer.size <= end):
                message = _message(buffer)
                start, end = message.address, message.address + message.size
                largest = max(largest, message.size)
    return largest


def _check_received(buffer: pa.Buffer) -> None:
    # A buffer that was decompressed, or merged from several dictionaries, has no parent.
    if buffer.parent is None:
        raise InvalidArgumentError(
            "a compressed batch is not accepted: send batches without compression"
        )


def _message(buffer: pa.Buffer) -> pa.Buffer:
    while (parent := buffer.parent) is not None:
        buffer = parent
    return buffer


def _is_folded(type: pa.DataType) -> bool:
    """Return whether several rows of a type can share the same bytes."""
    return _contains(
        type,
        lambda part: (
            pt.is_dictionary(part)
            or pt.is_string_view(part)
            or pt.is_binary_view(part)
            or pt.is_list_view(part)
            or pt.is_large_list_view(part)
            or (pt.is_union(part) and part.mode == "dense")
        ),
    )


def _contains(type: pa.DataType, is_kind: Callable[[pa.DataType], bool]) -> bool:
    if isinstance(type, pa.BaseExtensionType):
        return _contains(type.storage_type, is_kind)
    if is_kind(type):
        return True
    if pt.is_dictionary(type):
        return _contains(type.value_type, is_kind)
    return any(_contains(type.field(i).type, is_kind) for i in range(type.num_fields))


def _unfolded_size(values: pa.Array) -> int:
    """Return the bytes of an array without dictionaries and views."""
    type = values.type
    if isinstance(type, pa.BaseExtensionType):
        return _unfolded_size(values.storage)
    if pt.is_dictionary(type):
        return _decoded_size(values)
    if pt.is_string_view(type) or pt.is_binary_view(type):
        return _viewed_bytes(values) + 16 * len(values)
    if pt.is_list_view(type) or pt.is_large_list_view(type):
        _check_distinct(pc.sum(values.sizes).as_py() or 0, len(values.values))
        return _unfolded_size(values.values) + 8 * len(values)
    if pt.is_list(type) or pt.is_large_list(type) or pt.is_map(type):
        return _unfolded_size(values.values) + 8 * len(values)
    if pt.is_fixed_size_list(type):
        return _unfolded_size(values.values)
    if pt.is_struct(type) or pt.is_union(type):
        if pt.is_union(type) and type.mode == "dense":
            _check_dense_union(values)
        return sum(_unfolded_size(values.field(i)) for i in range(type.num_fields))
    return int(values.get_total_buffer_size())


def _decoded_size(values: pa.DictionaryArray) -> int:
    entries = values.dictionary
    for buffer in entries.buffers():
        if buffer is not None and buffer.size:
            _check_received(buffer)
    if pt.is_string(entries.type) or pt.is_binary(entries.type) or _is_large_text(entries.type):
        lengths = pc.fill_null(pc.binary_length(entries), 0).cast(pa.int64())
        used = pc.sum(_taken(lengths, values.indices)).as_py() or 0
        return int(used) + 8 * len(values)
    if entries.type.num_fields or _is_folded(entries.type):
        raise InvalidArgumentError(f"a dictionary of {entries.type} is not accepted")
    return _width(entries.type) * len(values) // 8


def _is_large_text(type: pa.DataType) -> bool:
    return bool(pt.is_large_string(type) or pt.is_large_binary(type))


def _taken(lengths: pa.Array, indices: pa.Array) -> pa.Array:
    try:
        return lengths.take(indices)
    except pa.ArrowException:
        raise InvalidArgumentError(
            "a batch is damaged: an index is outside of its dictionary"
        ) from None


def _viewed_bytes(values: pa.Array) -> int:
    """Return the total length of all texts of a view array.

    Each view has the length of its text in the first four bytes.
    """
    if not len(values):
        return 0
    views = np.frombuffer(values.buffers()[1], np.int32).reshape(-1, 4)
    return int(views[values.offset : values.offset + len(values), 0].sum(dtype=np.int64))


def _check_dense_union(values: pa.UnionArray) -> None:
    kinds, offsets = values.type_codes.to_numpy(), values.offsets.to_numpy()
    for kind in values.type.type_codes:
        used = offsets[kinds == kind]
        _check_distinct(len(used), len(np.unique(used)))


def _check_distinct(used: int, present: int) -> None:
    if used > present:
        raise InvalidArgumentError("a batch whose lists or unions share values is not accepted")
