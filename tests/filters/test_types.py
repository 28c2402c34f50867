"""Types: every spelling in, the client's spelling out, and the same type in DuckDB and Arrow."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport.errors import InvalidArgumentError
from lakeport.filters import LogicalType, from_arrow_type, to_arrow_type

INTEGER, VARCHAR = LogicalType("INTEGER"), LogicalType("VARCHAR")
SIMPLE = """
    BOOLEAN TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT
    FLOAT DOUBLE VARCHAR BLOB BIT BIGNUM UUID DATE TIME TIME_NS TIMESTAMP TIMESTAMP_S TIMESTAMP_MS
    TIMESTAMP_NS INTERVAL
"""
ALL = [
    *map(LogicalType, SIMPLE.split()),
    LogicalType("TIMESTAMP WITH TIME ZONE"),
    LogicalType("TIME WITH TIME ZONE"),
    LogicalType.decimal(9, 2),
    LogicalType.decimal(38, 0),
    LogicalType.list(INTEGER),
    LogicalType.array(LogicalType.list(VARCHAR), 3),
    LogicalType.struct({'a "quoted" name': INTEGER, "b": LogicalType.list(VARCHAR)}),
    LogicalType.map(VARCHAR, INTEGER),
    LogicalType.union({"num": INTEGER, "str": VARCHAR}),
    LogicalType.enum("red", "it's blue"),
]


@pytest.mark.parametrize("type", ALL, ids=repr)
def test_a_type_survives_json(type: LogicalType) -> None:
    assert LogicalType.parse(type.to_json()) == type


@pytest.mark.parametrize("type", ALL, ids=repr)
def test_duckdb_reads_the_sql_of_a_type(type: LogicalType) -> None:
    with duckdb.connect() as connection:
        (found,) = connection.execute(f"SELECT typeof(NULL::{type.sql()})").fetchone() or ("",)
        (again,) = connection.execute(f"SELECT typeof(NULL::{found})").fetchone() or ("",)

    assert found == again
    assert found.startswith(type.id) or type.id in ("LIST", "ARRAY")


@pytest.mark.parametrize("type", [t for t in ALL if t.id != "ENUM"], ids=repr)
def test_duckdb_reads_the_arrow_type_as_the_same_type(type: LogicalType) -> None:
    column = pa.RecordBatchReader.from_batches(pa.schema([("x", to_arrow_type(type))]), [])

    with duckdb.connect() as connection:
        connection.register("arrow_column", column)
        (found,) = connection.execute(
            f"SELECT any_value(typeof(x)) = typeof(NULL::{type.sql()}) "
            "FROM (SELECT x FROM arrow_column UNION ALL BY NAME SELECT NULL AS x)"
        ).fetchone() or (False,)

    assert found
    assert from_arrow_type(to_arrow_type(type)) == type


@pytest.mark.parametrize(
    ("spelling", "id"),
    [
        ("TIMESTAMP_TZ", "TIMESTAMP WITH TIME ZONE"),
        ("timestamp with  time zone", "TIMESTAMP WITH TIME ZONE"),
        ("TIME_TZ", "TIME WITH TIME ZONE"),
        ("VARINT", "BIGNUM"),
        ("integer", "INTEGER"),
        ("SQLNULL", "NULL"),
        ("SOMETHING_NEW", "SOMETHING_NEW"),
    ],
)
def test_older_spellings_mean_the_same_type(spelling: str, id: str) -> None:
    assert LogicalType.parse({"id": spelling}).id == id


def test_an_alias_is_kept() -> None:
    json = LogicalType("VARCHAR", alias="JSON")

    assert LogicalType.parse(json.to_json()) == json
    assert to_arrow_type(json) == pa.json_()
    assert from_arrow_type(pa.json_()) == json


@pytest.mark.parametrize(
    "document",
    [
        None,
        {},
        {"id": 5},
        {"id": "INTEGER", "type_info": 5},
        {"id": "LIST"},
        {"id": "ARRAY", "type_info": {"child_type": {"id": "INTEGER"}, "size": 0}},
        {"id": "STRUCT", "type_info": {"child_types": [{"first": 1}]}},
        {"id": "ENUM", "type_info": {"values": [1]}},
        {"id": "DECIMAL", "type_info": {"width": 39, "scale": 0}},
        {"id": "DECIMAL", "type_info": {"width": 3, "scale": 4}},
    ],
)
def test_a_malformed_type_is_refused(document: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        LogicalType.parse(document)


@pytest.mark.parametrize(
    ("arrow", "id"),
    [
        (pa.large_string(), "VARCHAR"),
        (pa.string_view(), "VARCHAR"),
        (pa.binary(4), "BLOB"),
        (pa.dictionary(pa.int8(), pa.string()), "VARCHAR"),
        (pa.date64(), "DATE"),
        (pa.time32("s"), "TIME"),
        (pa.timestamp("ns", tz="Europe/Paris"), "TIMESTAMP WITH TIME ZONE"),
        (pa.duration("us"), "INTERVAL"),
        (pa.bool8(), "BOOLEAN"),
        (pa.large_list(pa.int8()), "LIST"),
        (pa.float16(), "UNKNOWN"),
        (pa.decimal256(50, 2), "UNKNOWN"),
        (pa.opaque(pa.binary(), "other", "vendor"), "BLOB"),
    ],
    ids=str,
)
def test_other_arrow_types_have_a_duckdb_type(arrow: pa.DataType, id: str) -> None:
    assert from_arrow_type(arrow).id == id
