"""Values as text: DuckDB's own, on pages and in CSV files.

Python cannot represent every value of DuckDB, such as the year 290000, and writes others
differently. The functions of this module block; pages call them in threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.types as pt
from pyarrow import parquet as pq

from lakeport.arrow import combine, thread_connection
from lakeport.types import BY_ID, from_arrow_type

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
        return cls(rows=rows, texts=[_short_texts(column) for column in _columns(rows)])

    @cached_property
    def ranks(self) -> Sequence[Sequence[int]]:
        """The place of each value in the order of its column, for each column; NULL is first."""
        return [_ranks(column) for column in _columns(self.rows)]


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
    return _short_texts(pa.table({"v": array}))[0] or ""


def is_number(type: pa.DataType) -> bool:
    """Return whether DuckDB computes with the values of an Arrow type."""
    known = BY_ID.get(from_arrow_type(type).id)
    return known is not None and known.family == "number"


def chart_values(rows: pa.Table, column: int) -> list[float | None]:
    """Return the numbers of a column; None for NULL, NaN and infinity."""
    sql = "SELECT CASE WHEN isfinite(d) THEN d END FROM (SELECT v::DOUBLE AS d FROM cells)"
    values: list[float | None] = _run(_columns(rows)[column], sql).to_pylist()
    return values


def with_file_types(rows: pa.Table, kind: str) -> pa.Table:
    """Return rows for a file of a kind: columns that it cannot hold are DuckDB's text."""
    arrays, fields = [], []
    for field, column in zip(rows.schema, _columns(rows), strict=True):
        values = column["v"]
        if isinstance(field.type, pa.BaseExtensionType) and is_number(field.type):
            values = _integers(column)
        elif not _FITS[kind](column):
            values = _texts(column)
        is_same = values.type == field.type
        arrays.append(values)
        fields.append(field if is_same else pa.field(field.name, values.type))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _fits_csv(column: pa.Table) -> bool:
    type = column.schema.field("v").type
    return bool(
        pt.is_integer(type)
        or pt.is_floating(type)
        or pt.is_decimal(type)
        or pt.is_boolean(type)
        or pt.is_string(type)
        or pt.is_large_string(type)
    )


def _fits_parquet(column: pa.Table) -> bool:
    # Parquet files would have the bytes of DuckDB's own types, which their readers cannot use.
    if "arrow.opaque" in str(column.schema.field("v").type):
        return False
    try:
        pq.write_table(column.slice(0, 0), pa.BufferOutputStream())
    except pa.ArrowException:
        return False
    return True


_FITS: Final[dict[str, Callable[[pa.Table], bool]]] = {
    "csv": _fits_csv,
    "parquet": _fits_parquet,
    "arrow": lambda _: True,
}


def _integers(column: pa.Table) -> pa.Array:
    """Return integers of 128 bits, such as sums, as decimals, which every reader knows."""
    try:
        return _run(column, "SELECT v::DECIMAL(38, 0) FROM cells")
    except duckdb.Error:
        return _texts(column)


def _columns(rows: pa.Table) -> list[pa.Table]:
    """Return each column as a table of its own, because two may have one name."""
    return [
        pa.Table.from_arrays([column], schema=pa.schema([field.with_name("v")]))
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]


def _short_texts(column: pa.Table) -> list[str | None]:
    short = f"CASE WHEN length(text) > {_MAX_CELL} THEN text[:{_MAX_CELL}] || '…' ELSE text END"
    try:
        texts = _run(column, f"SELECT {short} FROM (SELECT v::VARCHAR AS text FROM cells)")  # noqa: S608
    except (duckdb.Error, pa.ArrowException):
        return [None if text is None else shown(text) for text in _python_texts(column)]
    found: list[str | None] = texts.to_pylist()
    return found


def _texts(column: pa.Table) -> pa.Array:
    try:
        return _run(column, "SELECT v::VARCHAR FROM cells")
    except (duckdb.Error, pa.ArrowException):
        return pa.array(_python_texts(column), pa.string())


def _python_texts(column: pa.Table) -> list[str | None]:
    """Return the text of values that DuckDB cannot read, such as decimals of 76 digits."""
    return [None if value is None else str(value) for value in column["v"].to_pylist()]


def _ranks(column: pa.Table) -> list[int]:
    sql = (
        "SELECT rank() OVER (ORDER BY v NULLS FIRST) "
        "FROM (SELECT v, row_number() OVER () AS n FROM cells) ORDER BY n"
    )
    try:
        found: list[int] = _run(column, sql).to_pylist()
    except (duckdb.Error, pa.ArrowException):
        return [0] * column.num_rows
    return found


def _run(column: pa.Table, sql: str) -> pa.Array:
    """Return the one column of a query over a table `cells`."""
    connection = thread_connection()
    connection.register("cells", column)
    try:
        return combine(connection.execute(sql).to_arrow_table().column(0))
    finally:
        connection.unregister("cells")
