"""Values as text: DuckDB's own, on pages and in CSV files.

Python cannot represent every value of DuckDB, such as the year 290000, and writes others
differently. The functions of this module block; pages call them in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import duckdb
import pyarrow as pa
from pyarrow import parquet as pq

from lakeport.types import BY_ID, duckdb_texts, fits_csv, from_arrow_type, run_over_values

__all__ = [
    "Cells",
    "chart_values",
    "is_number",
    "shown",
    "shown_value",
    "with_file_types",
]

_MAX_CELL: Final = 200


@dataclass(frozen=True, kw_only=True)
class Cells:
    """The rows of an Arrow table as text, shortened to what a cell shows; NULL is None."""

    rows: pa.Table
    texts: Sequence[Sequence[str | None]]
    """The text of each row, for each column."""

    @classmethod
    def of(cls, rows: pa.Table) -> Cells:
        """Return the rows with the text of each value."""
        return cls(rows=rows, texts=[_short_texts(*column) for column in _columns(rows)])

    @cached_property
    def ranks(self) -> Sequence[Sequence[int]]:
        """The place of each value in the order of its column, for each column; NULL is first."""
        return [_ranks(*column) for column in _columns(self.rows)]


def shown(text: str) -> str:
    """Return a text, shortened to what a cell shows."""
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}…"


def shown_value(value: Any, type: pa.DataType) -> str:
    """Return a Python value or a scalar of an Arrow type as the text of a cell; None is empty."""
    if value is None or isinstance(value, str):
        return shown(value or "")
    try:
        array = pa.array([value], type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return shown(str(value))
    return _short_texts(array, pa.field("v", type))[0] or ""


def is_number(type: pa.DataType) -> bool:
    """Return whether DuckDB computes with the values of an Arrow type."""
    known = BY_ID.get(from_arrow_type(type).id)
    return known is not None and known.family == "number"


def chart_values(rows: pa.Table, column: int) -> list[float | None]:
    """Return the numbers of a column; None for NULL, NaN and infinity."""
    sql = "SELECT CASE WHEN isfinite(d) THEN d END FROM (SELECT v::DOUBLE AS d FROM column_values)"
    numbers = run_over_values(rows.column(column), rows.schema.field(column), sql)
    values: list[float | None] = numbers.to_pylist()
    return values


def with_file_types(rows: pa.Table, kind: str) -> pa.Table:
    """Return rows for a file of a kind: columns that it cannot hold are DuckDB's text."""
    arrays, fields = [], []
    for values, field in _columns(rows):
        if isinstance(field.type, pa.BaseExtensionType) and is_number(field.type):
            held = _integers(values, field)
        else:
            held = values if _FITS[kind](field.type) else duckdb_texts(values, field)
        is_same = held.type == field.type
        arrays.append(held)
        fields.append(field if is_same else pa.field(field.name, held.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _fits_parquet(type: pa.DataType) -> bool:
    # Parquet files would have the bytes of DuckDB's own types, which their readers cannot use.
    if "arrow.opaque" in str(type):
        return False
    try:
        pq.write_table(pa.schema([("v", type)]).empty_table(), pa.BufferOutputStream())
    except pa.ArrowException:
        return False
    return True


_FITS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "csv": fits_csv,
    "parquet": _fits_parquet,
    "arrow": lambda _: True,
}


def _integers(values: pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Return integers of 128 bits, such as sums, as decimals, which every reader knows."""
    try:
        return run_over_values(values, field, "SELECT v::DECIMAL(38, 0) FROM column_values")
    except duckdb.Error:
        return duckdb_texts(values, field)


def _columns(rows: pa.Table) -> Iterator[tuple[pa.ChunkedArray, pa.Field]]:
    """Yield each column with its field, because two may have one name."""
    return zip(rows.columns, rows.schema, strict=True)


def _short_texts(values: pa.Array | pa.ChunkedArray, field: pa.Field) -> list[str | None]:
    short = f"CASE WHEN length(text) > {_MAX_CELL} THEN text[:{_MAX_CELL}] || '…' ELSE text END"
    sql = f"SELECT {short} FROM (SELECT v::VARCHAR AS text FROM column_values)"  # noqa: S608
    try:
        found: list[str | None] = run_over_values(values, field, sql).to_pylist()
    except (duckdb.Error, pa.ArrowException):
        return [text and shown(text) for text in duckdb_texts(values, field).to_pylist()]
    return found


def _ranks(values: pa.ChunkedArray, field: pa.Field) -> list[int]:
    sql = (
        "SELECT rank() OVER (ORDER BY v NULLS FIRST) "
        "FROM (SELECT v, row_number() OVER () AS n FROM column_values) ORDER BY n"
    )
    try:
        found: list[int] = run_over_values(values, field, sql).to_pylist()
    except (duckdb.Error, pa.ArrowException):
        return [0] * len(values)
    return found
