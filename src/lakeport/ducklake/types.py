"""DuckLake's types in three other languages: Arrow, DuckDB SQL and Spark SQL.

Arrow keeps every value: what Arrow lacks travels in the extension types that DuckDB itself uses
(`arrow.uuid`, `arrow.json`, `geoarrow.wkb`, `arrow.opaque` for huge integers and zoned times).
A variant is its JSON text, the one form that Arrow, DuckDB and Spark share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakeport.ducklake.model import Column
from lakeport.errors import UnsupportedError
from lakeport.filters.types import quote_identifier

__all__ = [
    "HUGEINT",
    "TIME_TZ",
    "UHUGEINT",
    "arrow_field",
    "arrow_schema",
    "arrow_type",
    "duckdb_type",
    "normalize",
    "spark_type",
]

HUGEINT: Final = pa.opaque(pa.binary(16), "hugeint", "DuckDB")
UHUGEINT: Final = pa.opaque(pa.binary(16), "uhugeint", "DuckDB")
TIME_TZ: Final = pa.opaque(pa.binary(8), "time_tz", "DuckDB")
_WKB: Final = {b"ARROW:extension:name": b"geoarrow.wkb", b"ARROW:extension:metadata": b"{}"}


@dataclass(frozen=True, slots=True)
class _Scalar:
    arrow: pa.DataType
    duckdb: str
    spark: str


_SCALARS: Final[dict[str, _Scalar]] = {
    "boolean": _Scalar(pa.bool_(), "BOOLEAN", "BOOLEAN"),
    "int8": _Scalar(pa.int8(), "TINYINT", "TINYINT"),
    "int16": _Scalar(pa.int16(), "SMALLINT", "SMALLINT"),
    "int32": _Scalar(pa.int32(), "INTEGER", "INT"),
    "int64": _Scalar(pa.int64(), "BIGINT", "BIGINT"),
    "uint8": _Scalar(pa.uint8(), "UTINYINT", "SMALLINT"),
    "uint16": _Scalar(pa.uint16(), "USMALLINT", "INT"),
    "uint32": _Scalar(pa.uint32(), "UINTEGER", "BIGINT"),
    "uint64": _Scalar(pa.uint64(), "UBIGINT", "DECIMAL(20,0)"),
    "int128": _Scalar(HUGEINT, "HUGEINT", "DECIMAL(38,0)"),
    "uint128": _Scalar(UHUGEINT, "UHUGEINT", "STRING"),
    "float32": _Scalar(pa.float32(), "FLOAT", "FLOAT"),
    "float64": _Scalar(pa.float64(), "DOUBLE", "DOUBLE"),
    "date": _Scalar(pa.date32(), "DATE", "DATE"),
    "time": _Scalar(pa.time64("us"), "TIME", "STRING"),
    "time_ns": _Scalar(pa.time64("ns"), "TIME_NS", "BIGINT"),
    "timetz": _Scalar(TIME_TZ, "TIMETZ", "STRING"),
    "timestamp": _Scalar(pa.timestamp("us"), "TIMESTAMP", "TIMESTAMP_NTZ"),
    "timestamp_s": _Scalar(pa.timestamp("s"), "TIMESTAMP_S", "TIMESTAMP_NTZ"),
    "timestamp_ms": _Scalar(pa.timestamp("ms"), "TIMESTAMP_MS", "TIMESTAMP_NTZ"),
    "timestamp_ns": _Scalar(pa.timestamp("ns"), "TIMESTAMP_NS", "BIGINT"),
    "timestamptz": _Scalar(pa.timestamp("us", "UTC"), "TIMESTAMPTZ", "TIMESTAMP"),
    "timestamptz_ns": _Scalar(pa.timestamp("ns", "UTC"), "TIMESTAMPTZ_NS", "BIGINT"),
    "interval": _Scalar(
        pa.month_day_nano_interval(), "INTERVAL", "STRUCT<months: INT, days: INT, micros: BIGINT>"
    ),
    "varchar": _Scalar(pa.string(), "VARCHAR", "STRING"),
    "json": _Scalar(pa.json_(), "JSON", "STRING"),
    "blob": _Scalar(pa.binary(), "BLOB", "BINARY"),
    "uuid": _Scalar(pa.uuid(), "UUID", "STRING"),
    "geometry": _Scalar(pa.binary(), "BLOB", "BINARY"),
    "variant": _Scalar(pa.json_(), "JSON", "STRING"),
}

# Other writers use SQL's names.
_ALIASES: Final = {
    "bool": "boolean",
    "tinyint": "int8",
    "smallint": "int16",
    "int": "int32",
    "integer": "int32",
    "bigint": "int64",
    "hugeint": "int128",
    "utinyint": "uint8",
    "usmallint": "uint16",
    "uinteger": "uint32",
    "ubigint": "uint64",
    "uhugeint": "uint128",
    "float": "float32",
    "real": "float32",
    "double": "float64",
    "text": "varchar",
    "string": "varchar",
    "binary": "blob",
    "bytea": "blob",
    "varbinary": "blob",
    "timestamp_us": "timestamp",
    "datetime": "timestamp",
    "timestamp with time zone": "timestamptz",
    "timestamp_tz": "timestamptz",
    "time with time zone": "timetz",
    "decimal": "decimal(18,3)",
    "numeric": "decimal(18,3)",
}
_NESTED = frozenset({"struct", "list", "map"})


def normalize(type_text: str) -> str:
    """DuckLake's own spelling of a type: lower case, no spaces in decimals, no SQL aliases."""
    text = type_text.strip().lower()
    decimal = re.fullmatch(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text)
    if decimal:
        return f"decimal({int(decimal.group(1))},{int(decimal.group(2) or 0)})"
    if text.startswith("geometry"):
        return "geometry"
    return _ALIASES.get(text, text)


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type that holds every value of the column."""
    if column.type == "struct":
        return pa.struct([arrow_field(child, nested=True) for child in column.children])
    if column.type == "list":
        return pa.list_(arrow_field(_only(column, 1)[0], nested=True, name="element"))
    if column.type == "map":
        key, value = _only(column, 2)
        return pa.map_(
            arrow_field(key, nested=True, name="key").with_nullable(nullable=False),
            arrow_field(value, nested=True, name="value"),
        )
    decimal = _decimal(column.type)
    return pa.decimal128(*decimal) if decimal else _scalar(column).arrow


def arrow_field(column: Column, *, nested: bool = False, name: str | None = None) -> pa.Field:
    """The Arrow field of a column. Only the nullability of whole columns is a promise."""
    metadata = _WKB if column.type == "geometry" else None
    return pa.field(name or column.name, arrow_type(column), nested or column.nullable, metadata)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema of columns."""
    return pa.schema([arrow_field(column) for column in columns])


def duckdb_type(column: Column) -> str:
    """The DuckDB type whose Arrow form is `arrow_type(column)`."""
    if column.type == "struct":
        return (
            "STRUCT("
            + ", ".join(f"{quote_identifier(c.name)} {duckdb_type(c)}" for c in column.children)
            + ")"
        )
    if column.type == "list":
        return duckdb_type(_only(column, 1)[0]) + "[]"
    if column.type == "map":
        key, value = _only(column, 2)
        return f"MAP({duckdb_type(key)}, {duckdb_type(value)})"
    decimal = _decimal(column.type)
    return f"DECIMAL({decimal[0]},{decimal[1]})" if decimal else _scalar(column).duckdb


def spark_type(column: Column) -> str:
    """The Spark SQL type of a column, as DDL text."""
    if column.type == "struct":
        return (
            "STRUCT<"
            + ", ".join(f"`{c.name.replace('`', '``')}`: {spark_type(c)}" for c in column.children)
            + ">"
        )
    if column.type == "list":
        return f"ARRAY<{spark_type(_only(column, 1)[0])}>"
    if column.type == "map":
        key, value = _only(column, 2)
        return f"MAP<{spark_type(key)}, {spark_type(value)}>"
    decimal = _decimal(column.type)
    return f"DECIMAL({decimal[0]},{decimal[1]})" if decimal else _scalar(column).spark


def _scalar(column: Column) -> _Scalar:
    found = _SCALARS.get(column.type)
    if found is None:
        raise UnsupportedError(
            f"column {column.name!r} has type {column.type!r}, which Lakeport does not know"
        )
    return found


def _decimal(type_text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d{1,9}),(\d{1,9})\)", type_text)
    if match is None:
        return None
    width, scale = int(match.group(1)), int(match.group(2))
    if not (1 <= width <= 38 and scale <= width):
        raise UnsupportedError(
            f"{type_text} is no type of DuckDB: a decimal has 1 to 38 digits, of which at most all "
            "are after the point"
        )
    return width, scale


def _only(column: Column, count: int) -> tuple[Column, ...]:
    if len(column.children) != count:
        raise UnsupportedError(
            f"the {column.type} {column.name!r} has {len(column.children)} children"
        )
    return column.children
