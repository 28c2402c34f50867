"""Values: every encoding of the client to Python, back, into DuckDB SQL and into Arrow."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport.errors import InvalidArgumentError, UnsupportedError
from lakeport.filters import Constant, DuckDBEncoder, Interval, LogicalType, to_arrow_scalar
from lakeport.filters.json.decode import decode_value
from lakeport.filters.json.write import encode_value

INTEGER, VARCHAR = LogicalType("INTEGER"), LogicalType("VARCHAR")
PAIR = LogicalType.struct({"x": INTEGER, "y": VARCHAR})
UNION = LogicalType.union({"num": INTEGER, "str": VARCHAR})
ZONED_TIME = LogicalType("TIME WITH TIME ZONE")
ZONED = LogicalType("TIMESTAMP WITH TIME ZONE")


def value(type: LogicalType, raw: Any) -> dict[str, Any]:
    return {"type": type.to_json(), "is_null": False, "value": raw}


def integer(raw: int) -> dict[str, Any]:
    return value(INTEGER, raw)


NULL_INTEGER = {"type": INTEGER.to_json(), "is_null": True}
NULL_TEXT = {"type": VARCHAR.to_json(), "is_null": True}

# type, what the client writes, what it means in Python, and in DuckDB's SQL
CASES: list[tuple[LogicalType | str, Any, Any, str]] = [
    ("BOOLEAN", True, True, "true"),
    ("TINYINT", -128, -128, "(-128)::TINYINT"),
    ("BIGINT", -(2**63), -(2**63), "'-9223372036854775808'::BIGINT"),
    ("UBIGINT", 2**64 - 1, 2**64 - 1, "18446744073709551615::UBIGINT"),
    ("HUGEINT", {"upper": -(2**63), "lower": 1}, -(2**127) + 1, f"'{-(2**127) + 1}'::HUGEINT"),
    ("UHUGEINT", {"upper": 2**64 - 1, "lower": 2**64 - 1}, 2**128 - 1, f"'{2**128 - 1}'::UHUGEINT"),
    ("FLOAT", 0.10000000149011612, 0.10000000149011612, "0.1::FLOAT"),
    ("DOUBLE", math.inf, math.inf, "'inf'::DOUBLE"),
    (LogicalType.decimal(9, 2), 125, Decimal("1.25"), "1.25::DECIMAL(9,2)"),
    (
        LogicalType.decimal(38, 5),
        {"upper": 669260594276, "lower": 6432227781800562329},
        Decimal("123456789012345678901234567.12345"),
        "123456789012345678901234567.12345::DECIMAL(38,5)",
    ),
    ("VARCHAR", "it's €", "it's €", "'it''s €'"),
    ("VARCHAR", "a\0b", "a\0b", "'a' || chr(0) || 'b'"),
    ("BLOB", "a\\x00\\x27\\xFF", b"a\x00'\xff", "'a\\x00\\x27\\xFF'::BLOB"),
    ("BIT", {"base64": "A/U="}, "10101", "'10101'::BIT"),
    ("BIGNUM", {"base64": "gAAIESIQ9H3pgRU="}, 1234567890123456789, "1234567890123456789::BIGNUM"),
    ("DATE", 19724, 19724, "DATE '2024-01-02'"),
    ("DATE", 2**31 - 1, 2**31 - 1, "'infinity'::DATE"),
    ("DATE", -719529, -719529, "'0002-12-31 (BC)'::DATE"),
    ("TIME", 45296000789, 45296000789, "TIME '12:34:56.000789'"),
    ("TIME_NS", 45296000000001, 45296000000001, "'12:34:56.000000001'::TIME_NS"),
    (
        ZONED_TIME,
        (45296000000 << 24) | 48599,
        (45296000000 << 24) | 48599,
        "'12:34:56+02:30'::TIMETZ",
    ),
    ("TIMESTAMP_S", 1704164645, 1704164645, "'2024-01-02 03:04:05'::TIMESTAMP_S"),
    ("TIMESTAMP_MS", 1704164645006, 1704164645006, "'2024-01-02 03:04:05.006'::TIMESTAMP_MS"),
    ("TIMESTAMP", 1704164645000006, 1704164645000006, "TIMESTAMP '2024-01-02 03:04:05.000006'"),
    ("TIMESTAMP", -(2**63) + 1, -(2**63) + 1, "'-infinity'::TIMESTAMP"),
    (
        "TIMESTAMP_NS",
        1704164645000006007,
        1704164645000006007,
        "'2024-01-02 03:04:05.000006007'::TIMESTAMP_NS",
    ),
    (ZONED, 1704164645000006, 1704164645000006, "'2024-01-02 03:04:05.000006+00'::TIMESTAMPTZ"),
    (
        "INTERVAL",
        {"months": 1, "days": -2, "micros": 3},
        Interval(1, -2, 3),
        "INTERVAL '1 month -2 days 3 us'",
    ),
    (
        "UUID",
        {"upper": -7908807583029587245, "lower": 11841725276408463360},
        uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
        "'123e4567-e89b-12d3-a456-426614174000'::UUID",
    ),
    (LogicalType.list(INTEGER), {"children": [integer(1), NULL_INTEGER]}, (1, None), "[1, NULL]"),
    (
        LogicalType.array(INTEGER, 2),
        {"children": [integer(1), integer(2)]},
        (1, 2),
        "[1, 2]::INTEGER[2]",
    ),
    (PAIR, {"children": [integer(1), value(VARCHAR, "q")]}, (1, "q"), "{'x': 1, 'y': 'q'}"),
    (
        LogicalType.map(INTEGER, VARCHAR),
        {
            "children": [
                value(
                    LogicalType.struct({"key": INTEGER, "value": VARCHAR}),
                    {"children": [integer(1), value(VARCHAR, "q")]},
                )
            ]
        },
        ((1, "q"),),
        "MAP {1: 'q'}",
    ),
    (
        UNION,
        {"children": [value(LogicalType("UTINYINT"), 0), integer(7), NULL_TEXT]},
        (0, 7),
        "7::UNION(num INTEGER, str VARCHAR)",
    ),
    (LogicalType.enum("red", "blue"), 1, "blue", "'blue'::ENUM('red', 'blue')"),
]
IDS = [f"{case[0]}-{n}" for n, case in enumerate(CASES)]


@pytest.mark.parametrize(("type", "raw", "expected", "sql"), CASES, ids=IDS)
def test_a_value_is_decoded_encoded_and_written_as_sql(
    type: LogicalType | str, raw: Any, expected: Any, sql: str
) -> None:
    logical = LogicalType(type) if isinstance(type, str) else type
    document = value(logical, raw)

    decoded, found = decode_value(document)

    assert (decoded, found) == (expected, logical)
    assert encode_value(decoded, found) == document
    literal = DuckDBEncoder().encode_expression(Constant(decoded, found))
    with duckdb.connect() as connection:
        query = f"SELECT {literal} IS NOT DISTINCT FROM {sql}, typeof({literal}) = typeof({sql})"
        assert connection.execute(query).fetchone() == (True, True)


@pytest.mark.parametrize(("type", "raw", "expected", "sql"), CASES, ids=IDS)
def test_a_value_becomes_an_arrow_scalar(
    type: LogicalType | str, raw: Any, expected: Any, sql: str
) -> None:
    logical = LogicalType(type) if isinstance(type, str) else type
    scalar = to_arrow_scalar(expected, logical)
    if logical.id in ("BIT", "BIGNUM", "UNION"):
        assert scalar is None
        return

    assert scalar is not None
    with duckdb.connect() as connection:
        connection.register("one", pa.table({"x": pa.array([scalar], scalar.type)}))
        query = f"SELECT x::{logical.sql()} IS NOT DISTINCT FROM {sql} FROM one"
        assert connection.execute(query).fetchone() == (True,)


def test_null_has_a_type() -> None:
    assert decode_value({"type": INTEGER.to_json(), "is_null": True}) == (None, INTEGER)
    assert to_arrow_scalar(None, INTEGER) == pa.scalar(None, pa.int32())
    assert to_arrow_scalar(None, LogicalType("VARIANT")) is None


def test_text_that_is_not_utf8_stays_bytes() -> None:
    document = value(VARCHAR, {"base64": "/w=="})

    assert decode_value(document) == (b"\xff", VARCHAR)
    assert encode_value(b"\xff", VARCHAR) == document
    assert DuckDBEncoder().encode_expression(Constant(b"\xff", VARCHAR)) is None
    assert to_arrow_scalar(b"\xff", VARCHAR) is None


def test_values_of_other_servers_are_read() -> None:
    text = "123e4567-e89b-12d3-a456-426614174000"

    assert decode_value(value(LogicalType("UUID"), text))[0] == uuid.UUID(text)
    assert decode_value(value(LogicalType.decimal(9, 2), "1.25"))[0] == Decimal("1.25")


def test_negative_bignums_and_whole_bytes_of_bits_survive() -> None:
    for number in (0, -1, 255, 256, -(10**60)):
        encoded = encode_value(number, LogicalType("BIGNUM"))
        assert decode_value(encoded)[0] == number
    assert decode_value(encode_value("11110000", LogicalType("BIT")))[0] == "11110000"


@pytest.mark.parametrize(
    ("type", "raw"),
    [
        ("BOOLEAN", 1),
        ("TINYINT", 128),
        ("INTEGER", 1.0),
        ("INTEGER", True),
        ("UBIGINT", -1),
        ("HUGEINT", {"upper": 0}),
        ("HUGEINT", {"upper": 0, "lower": -1}),
        ("FLOAT", "1"),
        ("FLOAT", 1e300),
        ("DOUBLE", 10**400),
        (LogicalType.decimal(3, 1), 1000),
        (LogicalType.decimal(3, 1), "1.25"),
        (LogicalType.decimal(3, 1), "NaN"),
        ("VARCHAR", 5),
        ("VARCHAR", {"base64": "?"}),
        ("BLOB", "\\x0"),
        ("BLOB", "é"),
        ("BIT", "\t"),
        ("BIGNUM", {"base64": "gAAI"}),
        ("TIME", -1),
        ("INTERVAL", {"months": 1}),
        ("UUID", "nonsense"),
        ("UUID", 5),
        (LogicalType.list(INTEGER), [1]),
        (LogicalType.array(INTEGER, 2), {"children": []}),
        (PAIR, {"children": []}),
        (UNION, {"children": []}),
        (UNION, {"children": [value(LogicalType("UTINYINT"), 9), NULL_INTEGER, NULL_TEXT]}),
        (LogicalType.enum("a"), 1),
    ],
)
def test_a_malformed_value_is_refused(type: LogicalType | str, raw: Any) -> None:
    logical = LogicalType(type) if isinstance(type, str) else type

    with pytest.raises(InvalidArgumentError):
        decode_value(value(logical, raw))


@pytest.mark.parametrize(
    ("type", "bad"),
    [
        ("INTEGER", 2**31),
        ("BOOLEAN", "x"),
        ("UUID", 5),
        ("VARCHAR", 5),
        ("VARIANT", 1),
        ("BIT", "2"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_not_written(type: str, bad: Any) -> None:
    with pytest.raises(UnsupportedError):
        encode_value(bad, LogicalType(type))
