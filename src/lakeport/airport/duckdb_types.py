"""DuckDB's names of types, and the Arrow types behind them. DuckDB itself is asked."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import pyarrow as pa

from lakeport.errors import InvalidArgumentError

__all__ = ["MAX_TYPE_LENGTH", "arrow_type_of", "is_duckdb_type"]

MAX_TYPE_LENGTH: Final = 4096
"""How long the name of a type may be; types are remembered by it."""


@lru_cache(maxsize=4096)
def is_duckdb_type(type: pa.DataType, name: str) -> bool:
    """Whether DuckDB calls an Arrow type by this name; no name fits every type."""
    import duckdb

    if not name:
        return True
    with duckdb.connect() as connection:
        return str(connection.from_arrow(pa.table({"c": pa.nulls(0, type)})).types[0]) == name


@lru_cache(maxsize=1024)
def arrow_type_of(name: str) -> pa.DataType:
    """The Arrow type that DuckDB reads as the type of this name: a plain one, if there is one."""
    import duckdb

    try:
        type = duckdb.dtype(name)
        plain = _exported(type, lossless=False)
        if is_duckdb_type(plain, str(type)):
            return plain
        return _exported(type, lossless=True)
    except duckdb.Error:
        raise InvalidArgumentError(f"unknown type {name[:80]!r}") from None


def _exported(type: object, *, lossless: bool) -> pa.DataType:
    import duckdb

    # The type is a value here, never a piece of SQL.
    null = duckdb.ConstantExpression(None).cast(type)
    with duckdb.connect() as connection:
        connection.execute(f"SET arrow_lossless_conversion = {lossless}; SET TimeZone = 'UTC'")
        return connection.sql("SELECT 1").select(null).to_arrow_table().schema.types[0]
