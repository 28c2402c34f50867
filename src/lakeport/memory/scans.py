"""Reading: one version of a table as a stream of batches."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

import pyarrow as pa

from lakeport.arrow import concat
from lakeport.catalog import Partition, ScanOptions, TableSize
from lakeport.errors import InvalidArgumentError, NotFoundError
from lakeport.filters.encoders import to_arrow
from lakeport.memory.rows import Chunk, Rows
from lakeport.memory.state import TableVersion

__all__ = ["Part", "parse_partition", "partitions", "scan", "size"]

_BATCH_ROWS = 1 << 14
_PART_ROWS = 1 << 17
_MAX_PARTS = 8
_SAMPLED_CHUNKS = 16
_ROWID_BYTES = 8

Part = tuple[int, int]
"""A range of chunks."""


def scan(
    version: TableVersion, options: ScanOptions, part: Part | None = None
) -> pa.RecordBatchReader:
    """Return the rows of a version, or of a part of it."""
    schema = version.definition.published()
    if options.columns is not None:
        schema = _projected(schema, options.columns, options.filter.columns)
    batches = _batches(version, schema, _within(version.rows, part), options)
    return pa.RecordBatchReader.from_batches(schema, batches)


def size(version: TableVersion, part: Part | None = None) -> TableSize:
    """Return the size of a version, or of a part of it."""
    rows = _within(version.rows, part)
    return TableSize(rows=rows.count, bytes=_estimated_bytes(rows))


def partitions(version: TableVersion) -> Sequence[Partition]:
    """Return the parts of a scan, as tokens that are valid as long as the version is kept."""
    rows = version.rows
    parts = min(_MAX_PARTS, rows.count // _PART_ROWS)
    if version.version is None or parts < 2:
        return [Partition(b"")]
    bounds = [len(rows.chunks) * part // parts for part in range(parts + 1)]
    return [
        Partition(f"{version.version}:{start}-{stop}".encode()) for start, stop in pairwise(bounds)
    ]


def parse_partition(token: bytes, table: str) -> tuple[int, Part]:
    """Return the number of a token's version, and its part of that version."""
    try:
        number, _, bounds = token.decode().partition(":")
        start, stop = (int(bound) for bound in bounds.split("-"))
        if 0 <= start <= stop:
            return int(number), (start, stop)
    except ValueError:
        pass
    raise InvalidArgumentError(f"not a partition of table {table}")


def _estimated_bytes(rows: Rows) -> int:
    """Return an estimate of the bytes of the rows, from a sample of the chunks."""
    sample = rows.chunks[:: max(1, len(rows.chunks) // _SAMPLED_CHUNKS)]
    bytes_ = sum(array.nbytes for chunk in sample for array in chunk.columns)
    bytes_ += sum(_ROWID_BYTES * len(chunk) for chunk in sample)
    return int(bytes_ * rows.count // max(1, sum(len(chunk) for chunk in sample)))


def _within(rows: Rows, part: Part | None) -> Rows:
    return rows if part is None else Rows.of(rows.chunks[part[0] : part[1]])


def _projected(
    schema: pa.Schema, columns: Sequence[str], filter_columns: Collection[str]
) -> pa.Schema:
    missing = set(columns).difference(schema.names)
    if missing:
        raise NotFoundError(f"there is no column {min(missing)!r}")
    names = {*columns, *filter_columns}
    # A scan of no columns still returns the right number of rows.
    fields = [field for field in schema if field.name in names] or [schema.field(len(schema) - 1)]
    return pa.schema(fields, metadata=schema.metadata)


def _batches(
    version: TableVersion, schema: pa.Schema, rows: Rows, options: ScanOptions
) -> Iterator[pa.RecordBatch]:
    predicate = to_arrow(options.filter, schema, in_memory=True)
    names = version.definition.columns.names
    indexes = [names.index(field.name) if field.name in names else None for field in schema]
    # The client may drop more rows than the filter does, so a limit cannot be applied here.
    limit = None if options.filter else options.limit
    max_rows = options.batch_size or _BATCH_ROWS
    for group in rows.groups(min(max_rows, _BATCH_ROWS)):
        batch = pa.RecordBatch.from_arrays(
            [_column(group, index) for index in indexes], schema=schema
        )
        if predicate is not None:
            batch = _filtered(batch, predicate)
        if limit is not None:
            batch = batch.slice(0, limit)
            limit -= batch.num_rows
        for start in range(0, batch.num_rows, max_rows):
            yield batch.slice(start, max_rows)
        if limit == 0:
            return


def _column(group: Sequence[Chunk], index: int | None) -> pa.Array:
    if index is None:
        return concat([chunk.live_row_ids() for chunk in group])
    return concat([chunk.live_values(index) for chunk in group])


def _filtered(batch: pa.RecordBatch, predicate: object) -> pa.RecordBatch:
    try:
        return batch.filter(predicate)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        # The client applies the filter again, so it drops the rows that do not match.
        return batch
