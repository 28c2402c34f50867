"""Default values of columns that an INSERT leaves out: SQL of the server, computed by the client.

DuckDB evaluates them where the statement is written, so this client does, too, in a DuckDB that
can reach neither files nor the network.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from lakeport.airport.client.predicates import SAFE_DUCKDB
from lakeport.catalog.layouts import conform
from lakeport.errors import InvalidInputError, UnsupportedError
from lakeport.filters import from_arrow_type
from lakeport.filters.types import UNKNOWN

__all__ = ["default_values"]

Values: TypeAlias = Callable[[pa.Field, int], pa.Array]
"""Gives so many values for a column."""


def default_values(omitted: Sequence[pa.Field]) -> Values:
    """The values of columns that are left out; nulls where there is no default."""
    with_default = [field.name for field in omitted if _expression(field)]
    if not with_default:
        return _nulls
    if importlib.util.find_spec("duckdb") is None:
        raise UnsupportedError(
            f"column {with_default[0]!r} has a default that DuckDB computes; "
            "give a value, or install the duckdb package"
        )
    return _computed()


def _computed() -> Values:
    import duckdb

    connection = duckdb.connect(config=SAFE_DUCKDB)

    def values(field: pa.Field, rows: int) -> pa.Array:
        expression = _expression(field)
        if not expression:
            return _nulls(field, rows)
        try:
            # As a relation: the text of one expression cannot become a second statement.
            computed = connection.sql(f"SELECT 1 FROM range({rows})").project(  # noqa: S608
                f"({expression}){_cast(field.type)} AS value"
            )
            array = computed.to_arrow_table().column(0).combine_chunks()
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInputError(
                f"the default of column {field.name!r} cannot be computed: {reason}"
            ) from None
        return conform(array, field.type, f"the default of column {field.name!r}")

    return values


def _cast(type: pa.DataType) -> str:
    logical = from_arrow_type(type)
    is_plain = not isinstance(type, pa.BaseExtensionType) and logical != UNKNOWN
    return f"::{logical.sql()}" if is_plain else ""


def _nulls(field: pa.Field, rows: int) -> pa.Array:
    return pa.nulls(rows, field.type)


def _expression(field: pa.Field) -> str:
    text: bytes = (field.metadata or {}).get(b"default", b"")
    return text.decode(errors="replace").strip()
