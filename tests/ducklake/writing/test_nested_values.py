"""Values of JSON, UUID and variant inside of structs, lists and maps, from rows of any kind."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport import Lake
from lakeport.errors import UnsupportedError
from tests.fixtures_lakes import LakeMaker, RealLake

VARIANTS = {
    "STRUCT(a INTEGER, v VARIANT)": ("{'a': 1, 'v': 42::VARIANT}", {"a": 1, "v": "42"}),
    "VARIANT[]": ("[42::VARIANT, NULL]", ["42", None]),
    "MAP(VARCHAR, VARIANT)": ("MAP {'k': 42::VARIANT}", [("k", "42")]),
}


@pytest.mark.parametrize("type", VARIANTS)
def test_a_nested_variant_in_a_file_is_refused_before_anything_is_written(
    make_lake: LakeMaker, type: str
) -> None:
    sql, value = VARIANTS[type]
    real = make_lake("sqlite")
    real.execute(f"CREATE TABLE t (i INTEGER, c {type})")
    # DuckDB refuses it, too, and leaves an empty file behind.
    with pytest.raises(duckdb.NotImplementedException, match="VARIANT"):
        real.execute(f"INSERT INTO t SELECT i, {sql} FROM range(20) r(i)")
    files = sorted(Path(real.data_path).rglob("*.parquet"))
    with real.open() as lake:
        before = lake.snapshot().id
        with pytest.raises(UnsupportedError, match=r"column 'c': a variant inside a"):
            lake.table("t").append([{"i": number, "c": value} for number in range(20)])

        assert lake.snapshot().id == before
    assert sorted(Path(real.data_path).rglob("*.parquet")) == files


@pytest.mark.parametrize("type", VARIANTS)
def test_a_nested_variant_is_inlined_in_a_duckdb_file(make_lake: LakeMaker, type: str) -> None:
    sql, value = VARIANTS[type]
    real = make_lake("duckdb")
    real.execute(f"CREATE TABLE t (i INTEGER, c {type})")
    real.detach()
    with real.open() as lake:
        lake.table("t").append([{"i": 1, "c": value}, {"i": 2, "c": None}])
        found = lake.table("t").scan().to_arrow().to_pylist()

    assert sorted(found, key=repr) == [{"i": 1, "c": value}, {"i": 2, "c": None}]
    assert real.query("SELECT c::VARCHAR FROM t ORDER BY i") == [
        *real.query(f"SELECT ({sql})::VARCHAR"),
        (None,),
    ]


@pytest.mark.parametrize("type", ["VARIANT", *VARIANTS])
def test_a_lake_that_is_created_in_a_duckdb_file_holds_variants(
    reference: duckdb.DuckDBPyConnection, tmp_path: Path, type: str
) -> None:
    sql, value = VARIANTS.get(type, ("42::VARIANT", "42"))
    real = RealLake(reference, f"ducklake:{tmp_path}/m.ducklake", f"{tmp_path}/data/")
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {"c": type}).append([{"c": value}])

    assert real.query("SELECT c::VARCHAR FROM t") == real.query(f"SELECT ({sql})::VARCHAR")
    real.detach()


@pytest.mark.parametrize("count", [1, 20])
def test_dicts_may_have_extension_types_inside(make_lake: LakeMaker, count: int) -> None:
    real = make_lake("sqlite")
    real.execute("CREATE TABLE t (s STRUCT(j JSON, u UUID), l JSON[], m MAP(VARCHAR, UUID))")
    id = uuid.UUID(int=7)
    row: dict[str, Any] = {"s": {"j": '{"a":1}', "u": id.bytes}, "l": ["1", None]}
    with real.open() as lake:
        lake.table("t").append([{**row, "m": [("k", id.bytes)]}] * count)
        # The text of a UUID is another layout of the type.
        lake.table("t").append([{"s": {"j": None, "u": str(id)}}])

    assert real.query("SELECT DISTINCT s.j, s.u, l::VARCHAR, m['k'] FROM t ORDER BY ALL") == [
        ('{"a":1}', id, "[1, NULL]", id),
        (None, id, None, None),
    ]
