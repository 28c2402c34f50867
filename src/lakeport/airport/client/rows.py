"""Rows that a user hands in, as a reader, and cut as DuckDB cuts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.catalog.schemas import no_rows
from lakeport.errors import InvalidArgumentError, InvalidInputError

__all__ = ["CHUNK_ROWS", "RowSource", "as_sent", "chunks", "reader_of"]

RowSource: TypeAlias = Any
"""An Arrow table, batch or reader, a pandas or polars frame, a list of dicts, a dict of columns."""

CHUNK_ROWS = 2048
"""The most rows that DuckDB puts into one message."""


def reader_of(rows: RowSource, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Rows of any accepted kind; the schema gives plain Python values their types."""
    match rows:
        case pa.RecordBatchReader():
            return rows
        case pa.Table():
            return rows.to_reader()
        case pa.RecordBatch():
            return pa.RecordBatchReader.from_batches(rows.schema, [rows])
    if type(rows).__module__.partition(".")[0] == "pandas":
        return pa.Table.from_pandas(rows, preserve_index=False).to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    if isinstance(rows, Mapping):
        return _table(rows, schema).to_reader()
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes):
        return _reader_of_items(list(rows), schema)
    raise InvalidArgumentError(
        f"{type(rows).__name__} is not rows; give an Arrow table, a data frame or a list of dicts"
    )


def chunks(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a reader, cut as DuckDB cuts them; empty ones are left out."""
    for batch in reader:
        for start in range(0, batch.num_rows, CHUNK_ROWS):
            yield batch.slice(start, CHUNK_ROWS)


def as_sent(fields: Iterable[pa.Field]) -> pa.Schema:
    """Columns as DuckDB sends them: nullable, and without metadata but that of extension types."""
    return pa.schema([pa.field(f.name, f.type, metadata=_extension(f)) for f in fields])


def _extension(field: pa.Field) -> dict[bytes, bytes] | None:
    kept = {k: v for k, v in (field.metadata or {}).items() if k.startswith(b"ARROW:extension:")}
    return kept or None


def _reader_of_items(items: list[Any], schema: pa.Schema | None) -> pa.RecordBatchReader:
    if items and all(isinstance(item, pa.RecordBatch) for item in items):
        return _joined(items).to_reader()
    if not all(isinstance(item, Mapping) for item in items):
        raise InvalidArgumentError("a list of rows must hold dicts or record batches")
    names = dict.fromkeys(name for item in items for name in item)
    if not items and schema is not None:
        return pa.Table.from_batches([no_rows(schema)]).to_reader()
    columns = {name: [item.get(name) for item in items] for name in names}
    return _table(columns, schema).to_reader()


def _joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """One table: columns belong together by name, and one that a batch lacks is null there."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInputError(f"the batches do not fit each other: {reason}") from None


def _table(columns: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    types = {} if schema is None else {each.name.casefold(): each.type for each in schema}
    try:
        return pa.table(
            {name: _array(values, types.get(name.casefold())) for name, values in columns.items()}
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, OverflowError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInputError(f"the rows do not fit their columns: {reason}") from None


def _array(values: Any, type: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, type=type)
    except pa.ArrowException:
        # The text of a UUID, for one, is another layout of it, which is converted later.
        if not isinstance(type, pa.BaseExtensionType):
            raise
        return pa.array(values)
