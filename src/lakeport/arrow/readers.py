"""Rows of any accepted kind as Arrow readers: readers, tables, data frames, batches, dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa

from lakeport.arrow.batches import no_rows
from lakeport.arrow.conversion import convert
from lakeport.arrow.nested import relabel, storage_type
from lakeport.errors import InternalError, InvalidArgumentError, InvalidInputError, first_line

__all__ = ["RowSource", "RowsLike", "arrow_table", "as_reader", "reader_of"]

RowsLike: TypeAlias = Any
"""Rows that a callable may return: a reader, a table, a frame, a batch, an iterable of batches,
or anything with `__arrow_c_stream__`."""

_EXPECTED = "a reader, a table, a data frame or record batches"


def as_reader(rows: RowsLike, schema: pa.Schema, label: str) -> pa.RecordBatchReader:
    """Return rows of any accepted kind as a reader; `label` names their origin in errors."""
    if isinstance(rows, pa.RecordBatchReader):
        return rows
    table = arrow_table(rows)
    if table is not None:
        return table.to_reader()
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(rows)
    if isinstance(rows, Iterable):
        return _reader_of_batches(rows, schema, label)
    raise InternalError(f"{label} returned a {type(rows).__name__}, expected {_EXPECTED}")


def arrow_table(data: Any) -> pa.Table | None:
    """Return Arrow data or a data frame as a table; None for anything else."""
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
    rows: Iterable[pa.RecordBatch], schema: pa.Schema, label: str
) -> pa.RecordBatchReader:
    batches = _checked(rows, label)
    first = next(batches, None)
    if first is None:
        return pa.RecordBatchReader.from_batches(schema, [])
    # The columns are those of the first batch, their types those of the declaration.
    declared = {field.name: field for field in schema}
    target = pa.schema([declared.get(field.name, field) for field in first.schema])
    fitted = (_fit(batch, target, label) for batch in chain([first], batches))
    return pa.RecordBatchReader.from_batches(target, fitted)


def _checked(rows: Iterable[pa.RecordBatch], label: str) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        if not isinstance(batch, pa.RecordBatch):
            kind = f"{type(rows).__name__} of {type(batch).__name__}"
            raise InternalError(f"{label} returned a {kind}, expected {_EXPECTED}")
        yield batch


def _fit(batch: pa.RecordBatch, target: pa.Schema, label: str) -> pa.RecordBatch:
    """Return the batch with the columns of the first batch; readers use columns by position."""
    if batch.schema.equals(target):
        return batch
    missing = set(target.names) - set(batch.schema.names)
    if missing:
        raise InternalError(f"{label} yielded a batch without the column {min(missing)!r}")
    if not target.names:
        return batch.select([])
    arrays = [_cast(batch.column(field.name), field, label) for field in target]
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def _cast(array: pa.Array, field: pa.Field, label: str) -> pa.Array:
    try:
        return convert(array, field.type, f"column {field.name!r}")
    except InvalidInputError as error:
        raise InternalError(
            f"{label} gives {array.type} for column {field.name!r}, which is declared "
            f"{field.type}: {error}"
        ) from None


def _plain_strings(table: pa.Table) -> pa.Table:
    # Polars writes large_string; DuckDB reads both, and other tools expect string.
    fields = [
        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields, metadata=table.schema.metadata))


RowSource: TypeAlias = Any
"""An Arrow table, batch or reader, a pandas or polars frame, a list of dicts, a dict of columns."""


def reader_of(rows: RowSource, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
    """Return rows of any accepted kind as a reader; the schema has the types of Python values."""
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
    """Return one table of several batches, by column name; a missing column becomes NULL."""
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    try:
        return pa.concat_tables(tables, promote_options="default")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        reason = first_line(error)
        raise InvalidInputError(f"the batches do not fit each other: {reason}") from None


def _table(columns: Mapping[str, Any], schema: pa.Schema | None) -> pa.Table:
    fields = () if schema is None else tuple(schema)
    types = {each.name.casefold(): each.type for each in fields}
    # The exact name comes first: two columns may differ in letters that only casefold joins.
    types.update((each.name, each.type) for each in fields)
    try:
        return pa.table(
            {
                name: _array(values, types.get(name, types.get(name.casefold())))
                for name, values in columns.items()
            }
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError, OverflowError) as error:
        reason = first_line(error)
        raise InvalidInputError(f"the rows do not fit their columns: {reason}") from None


def _array(values: Any, type: pa.DataType | None) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, type=type)
    except pa.ArrowException:
        plain = None if type is None else storage_type(type)
        if type is None or plain == type:
            raise
        with suppress(pa.ArrowException):
            # Arrow makes no extension types inside of structs, lists and maps.
            return relabel(pa.array(values, plain), type)
        # Text of a UUID, for example, is another layout of the type, which is converted later.
        return pa.array(values)
