"""`Scan`: rows of a table, a function or a flight, described first and read when asked for."""

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
from lakeport.airport.protocol.constants import LIMIT_HEADER
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
_LONGEST_LINE: Final = 200


@dataclass(frozen=True, slots=True)
class Bound:
    """What a scan turned out to read, once the server was asked."""

    descriptor: flight.FlightDescriptor
    schema: pa.Schema
    """All fields that the server will send, the rowid included."""
    headers: Headers
    """Of every call of the scan."""
    arguments: bytes = b""
    """Of a table function, as one row of Arrow."""
    at_unit: str = ""
    at_value: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """Rows that are read when one of the methods below asks for them, each time anew.

    A scan does not change; `select`, `filter` and `limit` give another one.
    """

    _connection: Connection
    _bind: Callable[[], Bound]
    columns: tuple[str, ...] | None = None
    """The columns to read, in this order; None means all but the row identifier."""
    conditions: tuple[Filter | str, ...] = ()
    """What rows must satisfy, all of it; texts are SQL."""
    row_limit: int | None = None
    """The most rows to read."""
    _known_schema: pa.Schema | None = None
    """The schema that binding will find, where that is known without asking."""
    _what: str = "a flight"
    """What is read, for people."""

    def __repr__(self) -> str:
        chosen = "all columns" if self.columns is None else ", ".join(self.columns)
        parts = [f"scan of {self._what}", f"columns: {_shortened(chosen)}"]
        parts += [f"filter: {_shortened(_sql(condition))}" for condition in self.conditions]
        if self.row_limit is not None:
            parts.append(f"limit: {self.row_limit}")
        return "\n  ".join(parts)

    def select(self, *columns: str) -> Scan:
        """Only these columns, in this order; `rowid` is the row identifier."""
        if not columns:
            raise InvalidArgumentError("name at least one column")
        return replace(self, columns=columns)

    def filter(self, filter: FilterLike) -> Scan:
        """Only rows that satisfy this predicate, too: `col("id") > 5`, or SQL text."""
        return replace(self, conditions=(*self.conditions, as_condition(filter)))

    def limit(self, rows: int) -> Scan:
        """At most so many rows."""
        if rows < 0:
            raise InvalidArgumentError("the limit must not be negative")
        return replace(self, row_limit=rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        bound = self._bind().schema if self._known_schema is None else self._known_schema
        return _Projection(bound, self.columns, self.conditions).schema

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as they arrive, from all endpoints; dropping the reader cancels the rest."""
        bound = self._bind()
        projection = _Projection(bound.schema, self.columns, self.conditions)
        return pa.RecordBatchReader.from_batches(
            projection.schema, map(projection.output, self._read(bound, projection))
        )

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return self.to_reader().read_all()

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas frame."""
        _require("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> Any:
        """All rows as a polars frame."""
        return _require("polars").from_arrow(self.to_arrow())

    def count(self) -> int:
        """How many rows there are, without reading more columns than the filter needs."""
        bound = self._bind()
        projection = _Projection(bound.schema, (), self.conditions)
        return sum(rows.count for rows in self._read(bound, projection))

    def _read(self, bound: Bound, projection: _Projection) -> Iterator[_Rows]:
        """The rows that pass the filter, with all columns; the endpoints are asked at once."""
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
        if self.row_limit is not None:
            headers = [*headers, (LIMIT_HEADER, str(self.row_limit))]
        reply = self._connection.request("endpoints", request, headers)
        source = ScanSource(self._connection, bound.headers, bound.schema, projection.positions)
        batches = read_endpoints(source, decode_endpoints(reply))
        return _passing(batches, projection.predicate, self.row_limit)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a batch: all of them, or those of the given numbers."""

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
    """Which columns of a bound schema are read, and which of them are given out."""

    def __init__(
        self,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        conditions: Sequence[Filter | str],
    ) -> None:
        self._schema = schema
        self.predicate = Predicate(bound_filter(conditions, schema), schema)
        self._outputs = _visible(schema) if columns is None else _chosen(schema, columns)
        self.schema = pa.schema([_output_field(schema.field(i)) for i in self._outputs])

    @property
    def positions(self) -> tuple[int, ...]:
        """What is read: the columns of the filter first, as DuckDB orders them."""
        read = dict.fromkeys((*self.predicate.positions, *self._outputs))
        if not read and len(self._schema):
            # Rows can only be counted by some column; the row identifier is the cheapest.
            read = dict.fromkeys([column_positions(self._schema).get(ROWID, 0)])
        return tuple(read)

    def column_ids(self) -> list[int]:
        """The positions as DuckDB counts them: as if the row identifier were not there."""
        numbers = {index: number for number, index in enumerate(_visible(self._schema))}
        return [numbers.get(index, _ROWID_COLUMN) for index in self.positions]

    def json_filters(self) -> str:
        """The filter as the client's JSON."""
        return to_json(self.predicate.filter)

    def output(self, rows: _Rows) -> pa.RecordBatch:
        """The columns to give out."""
        arrays = [rows.column(index) for index in self._outputs]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _sql(condition: Filter | str) -> str:
    if isinstance(condition, str):
        return condition
    return to_duckdb_sql(condition) or "a condition that SQL cannot express"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}…"


def _passing(
    batches: Iterator[pa.RecordBatch], predicate: Predicate, limit: int | None
) -> Iterator[_Rows]:
    left = limit
    try:
        while left is None or left > 0:
            batch = next(batches, None)
            if batch is None:
                return
            rows = _Rows(batch, predicate.passing(batch))
            if left is not None:
                rows = rows.first(left)
                left -= rows.count
            if rows.count:
                yield rows
    finally:
        batches.close()  # type: ignore[attr-defined]


def _visible(schema: pa.Schema) -> list[int]:
    return [index for index, each in enumerate(schema) if not field_is_rowid(each)]


def _chosen(schema: pa.Schema, columns: Sequence[str]) -> list[int]:
    known = column_positions(schema)
    missing = [name for name in columns if fold_name(name) not in known]
    if missing:
        raise NotFoundError(f"there is no column {missing[0]!r}")
    return [known[fold_name(name)] for name in columns]


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
