"""DuckLake's types in three other languages: Arrow, DuckDB SQL and Spark SQL.

Arrow keeps every value: what Arrow lacks travels in the extension types that DuckDB itself uses
(`arrow.uuid`, `arrow.json`, `geoarrow.wkb`, `arrow.opaque` for huge integers and zoned times).
A variant is its JSON text, the one form that Arrow, DuckDB and Spark share.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

__all__ = ["HUGEINT", "TIME_TZ", "UHUGEINT", "normalize"]

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
    """Return DuckLake's spelling of a type: lower case, no spaces in decimals, no SQL aliases."""
    text = type_text.strip().lower()
    decimal = re.fullmatch(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", text)
    if decimal:
        return f"decimal({int(decimal.group(1))},{int(decimal.group(2) or 0)})"
    if text.startswith("geometry"):
        return "geometry"
    return _ALIASES.get(text, text)
