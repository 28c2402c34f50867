"""Split, combine and serialize record batches and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

__all__ = [
    "array_size",
    "arrays_of",
    "combine",
    "concat",
    "filter_rows",
    "no_columns",
    "no_rows",
    "null_count",
    "split",
    "write_batch",
]


def filter_rows(batch: pa.RecordBatch, condition: pc.Expression) -> pa.Table:
    """Return the rows that pass. `Table.filter` uses threads, which costs small batches the most.

    Large scans have a thread for each core already. A table, because pyarrow 26 cannot make a batch
    without rows that has a UUID in a list.
    """
    from pyarrow import acero

    rows = pa.Table.from_batches([batch])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    passing = acero.Declaration("filter", acero.FilterNodeOptions(condition), [source])
    return passing.to_table(use_threads=False)


def split(batch: pa.RecordBatch, *, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield slices of at most `rows` rows and `size` bytes; a larger row becomes a slice."""
    # The size of whole buffers is an upper bound, and much faster to compute than that of a slice.
    if 0 < batch.num_rows <= rows and batch.get_total_buffer_size() <= size:
        yield batch
        return
    for start in range(0, batch.num_rows, rows):
        yield from _halve(batch.slice(start, rows), size)


def _halve(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    total = batch.nbytes
    if total <= size or batch.num_rows == 1:
        yield batch
        return
    middle = batch.num_rows // 2
    halves = batch.slice(0, middle), batch.slice(middle)
    # Halves that share a large dictionary are not smaller than the whole.
    if sum(half.nbytes for half in halves) > 1.5 * total:
        yield batch
        return
    for half in halves:
        yield from _halve(half, size)


def write_batch(batch: pa.RecordBatch) -> bytes:
    """Return one batch as an IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch without rows. Arrow's own functions fail for nested extension types."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def no_columns(rows: int) -> pa.RecordBatch:
    """Return a batch that has only a number of rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["row"]).select([])


def combine(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    if column.num_chunks == 0:
        return pa.nulls(0, column.type)
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def concat(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return several arrays of one type as one array."""
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def arrays_of(column: pa.ChunkedArray) -> pa.Array:
    """Return a chunked array as one array."""
    return concat(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def array_size(values: pa.Array) -> int:
    """Return the bytes of an array. Arrow's own function takes ten microseconds."""
    if not pt.is_primitive(values.type):
        return int(values.nbytes)
    bits = len(values) * int(values.type.bit_width)
    return (bits + 7) // 8 + (0 if values.buffers()[0] is None else (len(values) + 7) // 8)


def null_count(values: pa.Array | pa.ChunkedArray) -> int:
    """Return the number of nulls, also where they are in the children or the dictionary."""
    if pt.is_union(values.type) or pt.is_dictionary(values.type):
        return int(pc.sum(pc.is_null(values)).as_py() or 0)
    return int(values.null_count)
