"""Rows as people's callables give them: readers, tables, frames, batches one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa

from lakeport.catalog.layouts import conform
from lakeport.errors import InternalError, InvalidInputError

__all__ = ["Rows", "as_reader"]

Rows: TypeAlias = pa.RecordBatchReader | pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]
"""What a callable may give for rows."""


def as_reader(rows: Rows, schema: pa.Schema, what: str) -> pa.RecordBatchReader:
    """Rows of any accepted kind as a reader; `what` names their origin in errors."""
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    if isinstance(rows, pa.Table):
        return rows.to_reader()
    if isinstance(rows, pa.RecordBatch):
        return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    if isinstance(rows, Iterable):
        return _reader_of_batches(iter(rows), schema, what)
    raise InternalError(
        f"{what} returned {type(rows).__name__}, expected a reader, a table or record batches"
    )


def _reader_of_batches(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, what: str
) -> pa.RecordBatchReader:
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    if not isinstance(first, pa.RecordBatch):
        raise InternalError(f"{what} yielded {type(first).__name__}, expected record batches")
    # The first batch says which columns there are, the declaration of which type.
    declared = {field.name: field for field in schema}
    target = pa.schema([declared.get(field.name, field) for field in first.schema])

    def fitted() -> Iterator[pa.RecordBatch]:
        yield _fit(first, target, what)
        for batch in batches:
            yield _fit(batch, target, what)

    return pa.RecordBatchReader.from_batches(target, fitted())


def _fit(batch: pa.RecordBatch, target: pa.Schema, what: str) -> pa.RecordBatch:
    """The batch with the columns of the others: a reader's batches are read by position."""
    if batch.schema.equals(target):
        return batch
    missing = set(target.names) - set(batch.schema.names)
    if missing:
        raise InternalError(f"{what} yielded a batch without the column {min(missing)!r}")
    if not target.names:
        return batch.select([])
    arrays = [_cast(batch.column(field.name), field, what) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _cast(array: pa.Array, field: pa.Field, what: str) -> pa.Array:
    try:
        return conform(array, field.type, f"column {field.name!r}")
    except InvalidInputError as error:
        raise InternalError(
            f"{what} gives {array.type} for column {field.name!r}, which is declared "
            f"{field.type}: {error}"
        ) from None
