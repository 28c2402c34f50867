"""`Scan`: the rows of a table, a function or a flight. Reading starts with a method of the scan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.client.connection import Connection, Headers
from lakeport.airport.client.predicates import (
    ROWID,
    FilterLike,
    Predicate,
    as_condition,
    bound_filter,
    column_positions,
    take_rows,
)
from lakeport.airport.client.replies import read_endpoints as decode_endpoints
from lakeport.airport.client.streams import ScanSource, read_endpoints
from lakeport.airport.protocol.constants import LIMIT_HEADER, ROWS_ONLY_HEADER
from lakeport.catalog import field_is_rowid
from lakeport.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from lakeport.filters import Filter
from lakeport.filters.encoders import to_duckdb_sql
from lakeport.filters.json import to_json
from lakeport.types import fold_name

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Bound", "Scan"]

_ROWID_COLUMN: Final = 2**64 - 1
_MAX_LINE_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class Bound:
    """The descriptor and schema of a scan, as the server returned them."""

    descriptor: flight.FlightDescriptor
    schema: pa.Schema
    """All fields that the server will send, the rowid included."""
    headers: Headers
    """The headers of every call of the scan."""
    arguments: bytes = b""
    """The arguments of a table function, as one row of Arrow."""
    at_unit: str = ""
    at_value: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """Rows that are read by `to_reader`, `to_arrow` and the like. Each call reads them again.

    A scan is immutable; `select`, `filter` and `limit` return another one.
    """

    _connection: Connection
    _bind: Callable[[], Bound]
    columns: tuple[str, ...] | None = None
    """The columns to read, in this order; None means all but the row identifier."""
    conditions: tuple[Filter | str, ...] = ()
    """The conditions that every row satisfies; texts are SQL."""
    row_limit: int | None = None
    """The largest number of rows to read."""
    _known_schema: pa.Schema | None = None
    """The bound schema, if it is known without a call to the server."""
    _subject: str = "a flight"
    """The table, function or flight, for messages."""
    _trace_id: str | None = None

    def __repr__(self) -> str:
        columns = "all columns" if self.columns is None else ", ".join(self.columns)
        parts = [f"scan of {self._subject}", f"columns: {_shortened(columns)}"]
        parts += [f"filter: {_shortened(_sql(condition))}" for condition in self.conditions]
        if self.row_limit is not None:
            parts.append(f"limit: {self.row_limit}")
        return "\n  ".join(parts)

    def select(self, *columns: str) -> Scan:
        """Return a scan of only these columns, in this order; `rowid` is the row identifier."""
        if not columns:
            raise InvalidArgumentError("name at least one column")
        return replace(self, columns=columns)

    def filter(self, filter: FilterLike) -> Scan:
        """Return a scan with one more condition: `col("id") > 5`, or SQL text."""
        return replace(self, conditions=(*self.conditions, as_condition(filter)))

    def traced(self, trace_id: str) -> Scan:
        """Return a scan whose calls have this trace id, by which `lakeport.queries` lists them."""
        return replace(self, _trace_id=trace_id)

    def limit(self, rows: int) -> Scan:
        """Return a scan of at most this number of rows."""
        if rows < 0:
            raise InvalidArgumentError("the limit must not be negative")
        return replace(self, row_limit=rows)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        bound = self._bind().schema if self._known_schema is None else self._known_schema
        return _Projection(bound, self.columns, self.conditions).schema

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows as they arrive. Deleting the reader cancels the scan."""
        bound = self._bind()
        projection = _Projection(bound.schema, self.columns, self.conditions)
        return pa.RecordBatchReader.from_batches(
            projection.schema, map(projection.output, self._read(bound, projection))
        )

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        return self.to_reader().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame."""
        _require("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> Any:
        """Return all rows as a polars DataFrame."""
        return _require("polars").from_arrow(self.to_arrow())

    def count(self) -> int:
        """Return the number of rows. Reads only the columns of the filter."""
        bound = self._bind()
        projection = _Projection(bound.schema, (), self.conditions)
        return sum(rows.count for rows in self._read(bound, projection))

    def _read(self, bound: Bound, projection: _Projection) -> Iterator[_Rows]:
        """Return the matching rows, with all columns. The endpoints are requested immediately."""
        parameters = {
            "json_filters": projection.json_filters(),
            "column_ids": projection.column_ids(),
            "table_function_parameters": bound.arguments,
            "table_function_input_schema": "",
            "at_unit": bound.at_unit,
            "at_value": bound.at_value,
        }
        request = {"descriptor": bound.descriptor.serialize(), "parameters": parameters}
        headers = bound.headers
        if self._trace_id is not None:
            others = [(name, value) for name, value in headers if name != "airport-trace-id"]
            headers = [*others, ("airport-trace-id", self._trace_id)]
        stream_headers = headers
        if self.row_limit is not None:
            headers = [*headers, (LIMIT_HEADER, str(self.row_limit))]
        if projection.reads_rows_only:
            headers = [*headers, (ROWS_ONLY_HEADER, "1")]
        reply = self._connection.request("endpoints", request, headers)
        source = ScanSource(self._connection, stream_headers, bound.schema, projection.positions)
        batches = read_endpoints(source, decode_endpoints(reply))
        return _matching_rows(batches, projection.predicate, self.row_limit)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a batch: all of them, or those with these numbers."""

    batch: pa.RecordBatch
    numbers: pa.Array | None

    @property
    def count(self) -> int:
        return self.batch.num_rows if self.numbers is None else len(self.numbers)

    def first(self, count: int) -> _Rows:
        if self.numbers is None:
            return _Rows(self.batch.slice(0, count), None)
        return _Rows(self.batch, self.numbers.slice(0, count))

    def column(self, index: int) -> pa.Array:
        array = self.batch.column(index)
        return array if self.numbers is None else take_rows(array, self.numbers)


class _Projection:
    """The columns of a bound schema that are read, and those of them that are returned."""

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        conditions: Sequence[Filter | str],
    ) -> None:
        self._schema = schema
        self.predicate = Predicate(bound_filter(conditions, schema), schema)
        self._outputs = _visible(schema) if columns is None else _positions_of(schema, columns)
        self.schema = pa.schema([_output_field(schema.field(i)) for i in self._outputs])

    @property
    def positions(self) -> tuple[int, ...]:
        """Return the positions to read: the columns of the filter first, in DuckDB's order."""
        positions = dict.fromkeys((*self.predicate.positions, *self._outputs))
        if not positions and len(self._schema):
            # Counting rows needs one column; the row identifier is the cheapest.
            positions = dict.fromkeys([column_positions(self._schema).get(ROWID, 0)])
        return tuple(positions)

    @property
    def reads_rows_only(self) -> bool:
        """Return whether no value is read: nothing is returned, and there is no filter."""
        return not self._outputs and not self.predicate.filter

    def column_ids(self) -> list[int]:
        """Return the positions as DuckDB counts them: without the row identifier."""
        numbers = {index: number for number, index in enumerate(_visible(self._schema))}
        return [numbers.get(index, _ROWID_COLUMN) for index in self.positions]

    def json_filters(self) -> str:
        """Return the filter as the JSON of DuckDB's client."""
        return to_json(self.predicate.filter)

    def output(self, rows: _Rows) -> pa.RecordBatch:
        """Return the columns of the result."""
        arrays = [rows.column(index) for index in self._outputs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _sql(condition: Filter | str) -> str:
    if isinstance(condition, str):
        return condition
    return to_duckdb_sql(condition) or "a condition that SQL cannot express"


def _shortened(text: str) -> str:
    return text if len(text) <= _MAX_LINE_LENGTH else f"{text[:_MAX_LINE_LENGTH]}…"


def _matching_rows(
    batches: Iterator[pa.RecordBatch], predicate: Predicate, limit: int | None
) -> Iterator[_Rows]:
    remaining = limit
    try:
        while remaining is None or remaining > 0:
            batch = next(batches, None)
            if batch is None:
                return
            rows = _Rows(batch, predicate.matching_rows(batch))
            if remaining is not None:
                rows = rows.first(remaining)
                remaining -= rows.count
            if rows.count:
                yield rows
    finally:
        batches.close()  # type: ignore[attr-defined]


def _visible(schema: pa.Schema) -> list[int]:
    return [index for index, each in enumerate(schema) if not field_is_rowid(each)]


def _positions_of(schema: pa.Schema, columns: Sequence[str]) -> list[int]:
    positions = column_positions(schema)
    missing = [name for name in columns if fold_name(name) not in positions]
    if missing:
        raise NotFoundError(f"there is no column {missing[0]!r}")
    return [positions[fold_name(name)] for name in columns]


def _output_field(each: pa.Field) -> pa.Field:
    return each.with_name(ROWID) if field_is_rowid(each) else each


def _require(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError:
        raise UnsupportedError(
            f'{module} is not installed: pip install "lakeport[{module}]"'
        ) from None
