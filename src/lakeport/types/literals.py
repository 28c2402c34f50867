"""Constants as DuckDB SQL and Spark SQL: typed, quoted, and read back as the same value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from lakeport.types.logical import LogicalType
from lakeport.types.names import duckdb_identifier, duckdb_string, fold_name
from lakeport.types.table import BY_ID
from lakeport.types.values import (
    INTEGER_RANGES,
    TIMESTAMP_UNITS,
    Interval,
    date_text,
    is_infinite,
    time_text,
    timestamp_text,
)

__all__ = [
    "duckdb_literal",
    "has_spark_type",
    "has_sql_type",
    "spark_cast_type",
    "spark_literal",
    "spark_string",
]


def has_sql_type(type: LogicalType) -> bool:
    """Return whether ``type.sql()`` is a type of DuckDB without extensions or definitions."""
    match type.id:
        case "VARCHAR" | "BLOB":
            return not type.alias
        case "LIST" | "ARRAY":
            return type.child is not None and has_sql_type(type.child)
        case "MAP":
            return (
                type.child is not None and len(type.child.fields) == 2 and has_sql_type(type.child)
            )
        case "STRUCT" | "UNION":
            names = {fold_name(field.name) for field in type.fields}
            distinct = len(names) == len(type.fields) and "" not in names
            return (
                distinct and bool(names) and all(has_sql_type(field.type) for field in type.fields)
            )
        case "ENUM":
            return bool(type.values) and len(set(type.values)) == len(type.values)
        case _:
            return type.id == "DECIMAL" or not type.sql().startswith('"')


def duckdb_literal(value: Any, type: LogicalType) -> str | None:
    """Return a value of a type as SQL, None if DuckDB has no way to write it."""
    if type.alias and type.id == "BLOB":
        return None
    if value is None:
        return _null(type)
    match type.id:
        case "BOOLEAN":
            return "TRUE" if value else "FALSE"
        case "VARCHAR":
            return _text(value)
        case "BLOB":
            return _cast("".join(f"\\x{byte:02X}" for byte in value), type)
        case "LIST" | "ARRAY" | "MAP" | "STRUCT" | "UNION":
            return _nested(value, type)
        case "INTERVAL":
            return _interval(value)
        case "DATE" | "TIME" | "TIME_NS" | "TIME WITH TIME ZONE":
            return _date_or_time(value, type)
        case id if id in TIMESTAMP_UNITS:
            return _timestamp(value, type)
        case id if id in INTEGER_RANGES:
            return _integer(value, type)
        case "DECIMAL":
            return _cast(f"{value:f}", type)
        case _:
            return _cast(str(value), type) if has_sql_type(type) else None


def _cast(text: str, type: LogicalType) -> str:
    return f"CAST({duckdb_string(text)} AS {type.sql()})"


def _null(type: LogicalType) -> str:
    plain = LogicalType("VARCHAR") if type.id == "VARCHAR" else type
    return f"CAST(NULL AS {plain.sql()})" if has_sql_type(plain) else "NULL"


def _text(value: str | bytes) -> str | None:
    if isinstance(value, bytes):
        return None
    if "\0" not in value:
        return duckdb_string(value)
    escaped = "".join(f"\\x{byte:02X}" for byte in value.encode())
    return f"decode('{escaped}'::BLOB)"


def _integer(value: int, type: LogicalType) -> str:
    if type.id == "INTEGER" and value > INTEGER_RANGES["INTEGER"][0]:
        return str(value)
    return f"CAST({value} AS {type.sql()})" if abs(value) < 2**31 else _cast(str(value), type)


def _date_or_time(value: int, type: LogicalType) -> str | None:
    match type.id:
        case "DATE" if is_infinite(value, type):
            return _cast("infinity" if value > 0 else "-infinity", type)
        case "DATE":
            text = date_text(value)
            return f"make_date({value})" if text is None else _cast(text, type)
        case "TIME WITH TIME ZONE":
            return _time_with_zone(value, type)
        case _:
            return _cast(time_text(value, per_second=10**6 if type.id == "TIME" else 10**9), type)


def _time_with_zone(packed: int, type: LogicalType) -> str | None:
    micros, offset = packed >> 24, 57_599 - (packed & 0xFFFFFF)
    if micros > 86_400_000_000 or abs(offset) > 57_599:
        return None
    seconds = abs(offset)
    zone = f"{'-' if offset < 0 else '+'}{time_text(seconds, per_second=1)}"
    return _cast(time_text(micros, per_second=10**6) + zone, type)


def _timestamp(value: int, type: LogicalType) -> str | None:
    if is_infinite(value, type):
        infinity = duckdb_string("infinity" if value > 0 else "-infinity")
        return f"CAST({infinity} AS {type.id})"
    text = timestamp_text(value, per_second=TIMESTAMP_UNITS[type.id])
    match type.id:
        case "TIMESTAMP WITH TIME ZONE" | "TIMESTAMPTZ_NS":
            return None if text is None else f"CAST({duckdb_string(f'{text}+00')} AS {type.id})"
        case "TIMESTAMP" if text is None:
            return f"make_timestamp({value})"
        case _:
            return None if text is None else _cast(text, type)


def _interval(value: Interval) -> str:
    text = f"{value.months} months {value.days} days {value.micros} microseconds"
    return _cast(text, LogicalType("INTERVAL"))


def _nested(value: Any, type: LogicalType) -> str | None:
    if not has_sql_type(type):
        return None
    match type.id:
        case "MAP":
            body = _map(value, type)
        case "STRUCT":
            members = [f.type for f in type.fields]
            body = _joined(value, members, lambda parts: f"ROW({', '.join(parts)})")
        case "UNION":
            field = type.fields[value[0]]
            name = duckdb_identifier(field.name)
            body = _joined(
                [value[1]], [field.type], lambda parts: f"union_value({name} := {parts[0]})"
            )
        case _:
            items = [type.child] * len(value)
            body = _joined(value, items, lambda parts: f"[{', '.join(parts)}]")
    return None if body is None else f"CAST({body} AS {type.sql()})"


def _map(entries: Sequence[tuple[Any, Any]], type: LogicalType) -> str | None:
    keys = [duckdb_literal(key, type.key_type) for key, _ in entries]
    values = [duckdb_literal(value, type.value_type) for _, value in entries]
    known_keys, known_values = (
        [k for k in keys if k is not None],
        [v for v in values if v is not None],
    )
    if len(known_keys) + len(known_values) < 2 * len(entries):
        return None
    return f"MAP([{', '.join(known_keys)}], [{', '.join(known_values)}])"


def _joined(values: Any, types: Sequence[Any], wrap: Any) -> str | None:
    parts = [duckdb_literal(value, type) for value, type in zip(values, types, strict=True)]
    written = [part for part in parts if part is not None]
    return wrap(written) if len(written) == len(parts) else None


# TIMESTAMP alone depends on the setting spark.sql.timestampType.
_SPARK_TYPES: Final = {
    id: "TIMESTAMP_LTZ" if row.spark == "TIMESTAMP" else row.spark
    for id, row in BY_ID.items()
    if row.exact_in_spark and id != "DECIMAL"
}
_SUFFIXES: Final = {
    id: row.spark_suffix for id, row in BY_ID.items() if row.spark_suffix is not None
}


def has_spark_type(type: LogicalType) -> bool:
    """Return whether Spark has every value of the type and compares them as DuckDB does."""
    if type.id == "DECIMAL":
        return True
    return type.id in _SPARK_TYPES and not (type.id == "BLOB" and type.alias)


def spark_cast_type(type: LogicalType) -> str:
    """Return the type as Spark SQL."""
    return f"DECIMAL({type.width},{type.scale})" if type.id == "DECIMAL" else _SPARK_TYPES[type.id]


def spark_string(text: str) -> str:
    """Return a string literal of exactly this text, under every setting of Spark's parser."""
    if text.isprintable() and not _UNSAFE & set(text):
        return f"'{text}'"
    return f"CAST({_binary(text.encode())} AS STRING)"


def spark_literal(value: Any, type: LogicalType) -> str | None:
    """Return a value as SQL of its exact type, None if Spark cannot hold it."""
    if not has_spark_type(type):
        return None
    if value is None:
        return f"CAST(NULL AS {spark_cast_type(type)})"
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
            return f"CAST('{value:f}' AS {spark_cast_type(type)})"
        case "UBIGINT":
            return f"CAST('{value}' AS {spark_cast_type(type)})"
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
