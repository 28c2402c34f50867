"""Values as text: DuckDB's own.

Python cannot represent every value of DuckDB, such as the year 290000, and writes others
differently.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as pt

from lakeport.arrow import combine, thread_connection

__all__ = ["duckdb_texts", "fits_csv", "run_over_values"]


def duckdb_texts(values: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array:
    """Return the text of each value of a column; Python's if DuckDB cannot read the values."""
    import duckdb

    try:
        return run_over_values(values, field, "SELECT v::VARCHAR FROM column_values")
    except (duckdb.Error, pa.ArrowException):
        # Such as decimals of 76 digits.
        python = (None if value is None else str(value) for value in values.to_pylist())
        return pa.array(python, pa.string())


def run_over_values(values: pa.Array | pa.ChunkedArray, field: pa.Field, sql: str) -> pa.Array:
    """Return the one column of a query over the column `v` of a table `column_values`."""
    connection = thread_connection()
    schema = pa.schema([field.with_name("v")])
    connection.register("column_values", pa.Table.from_arrays([values], schema=schema))
    try:
        return combine(connection.execute(sql).to_arrow_table().column(0))
    finally:
        connection.unregister("column_values")


def fits_csv(type: pa.DataType) -> bool:
    """Return whether a CSV file has the values of an Arrow type as DuckDB writes them."""
    return bool(
        pt.is_integer(type)
        or pt.is_floating(type)
        or pt.is_decimal(type)
        or pt.is_boolean(type)
        or pt.is_string(type)
        or pt.is_large_string(type)
    )
