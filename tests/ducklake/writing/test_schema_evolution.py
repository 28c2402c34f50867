"""`merge_schema` inside nested columns, against the same ALTER TABLE of the reference."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from tests.fixtures_lakes import LakeMaker, RealLake

BIG = 2**40
TABLE = """CREATE TABLE t (
    id INTEGER, l INTEGER[], s STRUCT(a INTEGER)[], q MAP(VARCHAR, STRUCT(a INTEGER)),
    m MAP(INTEGER, INTEGER), d STRUCT(x STRUCT(y INTEGER)[][])
)"""
ROW = "INSERT INTO t VALUES (1, [1], [{'a': 1}], MAP {'k': {'a': 1}}, MAP {1: 2}, {'x': [[{'y': 1}]]})"

# The column, the type and the value of new rows, and what the reference does first.
EVOLUTIONS: dict[str, tuple[str, pa.DataType, Any, str]] = {
    "the element of a list": (
        "l",
        pa.list_(pa.int64()),
        [BIG],
        "ALTER TABLE t ALTER l TYPE BIGINT[]",
    ),
    "a struct in a list": (
        "s",
        pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])),
        [{"a": BIG, "b": "new"}],
        "ALTER TABLE t ALTER s TYPE STRUCT(a BIGINT, b VARCHAR)[]",
    ),
    "a struct in a map": (
        "q",
        pa.map_(pa.string(), pa.struct([("b", pa.string())])),
        [("z", {"b": "new"})],
        "ALTER TABLE t ADD COLUMN q.value.b VARCHAR",
    ),
    "the key and value of a map": (
        "m",
        pa.map_(pa.int64(), pa.float64()),
        [(BIG, 1.5)],
        "ALTER TABLE t ALTER m TYPE MAP(BIGINT, DOUBLE)",
    ),
    "a struct below two lists": (
        "d",
        pa.struct([("x", pa.large_list(pa.list_(pa.struct([("y", pa.int64()), ("z", pa.int32())]))))]),
        {"x": [[{"y": BIG, "z": 1}]]},
        "ALTER TABLE t ALTER d TYPE STRUCT(x STRUCT(y BIGINT, z INTEGER)[][])",
    ),
}  # fmt: skip


def contents(real: RealLake) -> tuple[list[Any], list[Any]]:
    found = real.query("DESCRIBE t"), sorted(real.query("SELECT * FROM t"), key=repr)
    real.detach()
    return found


@pytest.mark.parametrize("kind", EVOLUTIONS)
def test_nested_types_are_widened_as_by_the_reference(make_lake: LakeMaker, kind: str) -> None:
    column, type, value, alteration = EVOLUTIONS[kind]
    ours, theirs = (make_lake("sqlite", options="DATA_INLINING_ROW_LIMIT 0") for _ in range(2))
    for real in (ours, theirs):
        real.execute(TABLE, ROW)
        real.detach()
    schema = pa.schema([("id", pa.int32()), (column, type)])
    rows = pa.Table.from_pylist([{"id": 2, column: value}], schema)

    with Lake.open(ours.uri) as lake:
        lake.table("t").append(rows, merge_schema=True)
    theirs.execute(alteration)
    theirs.detach()
    with Lake.open(theirs.uri) as lake:
        lake.table("t").append(rows)

    assert contents(ours) == contents(theirs)
