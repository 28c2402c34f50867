"""Constants, names and types as Spark SQL.

Spark replaces ``${...}`` in the whole text of a query, string literals and quoted names included,
and reads backslashes in literals according to a setting. So text with such characters is written
as bytes, and a name that holds ``${`` cannot be written at all.
"""

from __future__ import annotations

import math
from typing import Any, Final

from lakeport.filters.temporal import TIMESTAMP_UNITS, date_text, timestamp_text
from lakeport.filters.types import LogicalType
from lakeport.filters.values import is_infinite

__all__ = ["has_spark_type", "spark_identifier", "spark_literal", "spark_string", "spark_type"]

_SPARK_TYPES: Final = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT",
    "INTEGER": "INT",
    "BIGINT": "BIGINT",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
    "FLOAT": "FLOAT",
    "DOUBLE": "DOUBLE",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "DATE": "DATE",
    "TIMESTAMP_S": "TIMESTAMP_NTZ",
    "TIMESTAMP_MS": "TIMESTAMP_NTZ",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_LTZ",
}

_SUFFIXES: Final = {
    "TINYINT": "Y",
    "SMALLINT": "S",
    "INTEGER": "",
    "BIGINT": "L",
    "UTINYINT": "S",
    "USMALLINT": "",
    "UINTEGER": "L",
}


def has_spark_type(type: LogicalType) -> bool:
    """Whether Spark holds every value of the type, and compares two of them as DuckDB does."""
    if type.id == "DECIMAL":
        return True
    return type.id in _SPARK_TYPES and not (type.id == "BLOB" and type.alias)


def spark_type(type: LogicalType) -> str:
    """The type as Spark SQL."""
    return f"DECIMAL({type.width},{type.scale})" if type.id == "DECIMAL" else _SPARK_TYPES[type.id]


def spark_identifier(name: str) -> str | None:
    """A quoted name, ``None`` if Spark would replace a part of it."""
    return None if "${" in name else "`" + name.replace("`", "``") + "`"


def spark_string(text: str) -> str:
    """A string of exactly this text, under every setting of Spark's parser."""
    if text.isprintable() and not _UNSAFE & set(text):
        return f"'{text}'"
    return f"CAST({_binary(text.encode())} AS STRING)"


def spark_literal(value: Any, type: LogicalType) -> str | None:
    """Return a value as SQL of its exact type, None if Spark cannot hold it."""
    if not has_spark_type(type):
        return None
    if value is None:
        return f"CAST(NULL AS {spark_type(type)})"
    match type.id:
        case "BOOLEAN":
            return "TRUE" if value else "FALSE"
        case "VARCHAR":
            return spark_string(value) if isinstance(value, str) else None
        case "BLOB":
            return _binary(value)
        case "FLOAT" | "DOUBLE":
            return f"CAST('{_float_text(value)}' AS {type.id})"
        case "DECIMAL":
            return f"CAST('{value:f}' AS {spark_type(type)})"
        case "UBIGINT":
            return f"CAST('{value}' AS {spark_type(type)})"
        case id if id in _SUFFIXES:
            return f"{value}{_SUFFIXES[id]}" if value >= 0 else f"({value}{_SUFFIXES[id]})"
        case _:
            return _moment(value, type)


_UNSAFE: Final = frozenset("'\"\\$")


def _binary(value: bytes) -> str:
    return f"X'{value.hex().upper()}'"


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def _moment(value: Any, type: LogicalType) -> str | None:
    if is_infinite(value, type) or type.id == "TIMESTAMPTZ_NS":
        return None
    if type.id == "DATE":
        text = date_text(value)
        return None if text is None else f"DATE '{text}'"
    text = timestamp_text(value, per_second=TIMESTAMP_UNITS[type.id])
    if text is None:
        return None
    return f"timestamp_micros({value}L)" if "ZONE" in type.id else f"TIMESTAMP_NTZ '{text}'"
