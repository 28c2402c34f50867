"""Rows as people's callables give them: readers, tables, frames, batches one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.catalog.layouts import conform
from lakeport.errors import InternalError, InvalidInputError

__all__ = ["Rows", "arrow_table", "as_reader"]

Rows: TypeAlias = Any
"""What a callable may give for rows: a reader, a table, a frame, a batch, an iterable of batches,
or anything with `__arrow_c_stream__`."""

_EXPECTED = "a reader, a table, a data frame or record batches"


def as_reader(rows: Rows, schema: pa.Schema, what: str) -> pa.RecordBatchReader:
    """Rows of any accepted kind as a reader; `what` names their origin in errors."""
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    table = arrow_table(rows)
    if table is not None:
        return table.to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    if isinstance(rows, Iterable):
        return _reader_of_batches(rows, schema, what)
    raise InternalError(f"{what} returned a {type(rows).__name__}, expected {_EXPECTED}")


def arrow_table(data: Any) -> pa.Table | None:
    """Arrow data or a data frame as a table; None for anything else."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    library = type(data).__module__.partition(".")[0]
    if library == "pandas":
        return pa.Table.from_pandas(data, preserve_index=False).replace_schema_metadata()
    if library == "polars":
        frame = data.collect() if hasattr(data, "collect") else data
        return _plain_strings(frame.to_arrow())
    return None


def _reader_of_batches(
    rows: Iterable[pa.RecordBatch], schema: pa.Schema, what: str
) -> pa.RecordBatchReader:
    batches = _checked(rows, what)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    # The first batch says which columns there are, the declaration of which type.
    declared = {field.name: field for field in schema}
    target = pa.schema([declared.get(field.name, field) for field in first.schema])
    fitted = (_fit(batch, target, what) for batch in chain([first], batches))
    return pa.RecordBatchReader.from_batches(target, fitted)


def _checked(rows: Iterable[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        if not isinstance(batch, pa.RecordBatch):
            kind = f"{type(rows).__name__} of {type(batch).__name__}"
            raise InternalError(f"{what} returned a {kind}, expected {_EXPECTED}")
        yield batch


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


def _plain_strings(table: pa.Table) -> pa.Table:
    # Polars speaks large_string; DuckDB reads both, and tools expect the plain one.
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))
