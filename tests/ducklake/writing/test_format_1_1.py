"""Lakes of format 1.1 stay lakes of format 1.1 when they are written."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from lakeport import Lake
from lakeport.errors import InvalidArgumentError
from tests.ducklake.writing.catalog_comparison import read_catalog

PACKED = Path(__file__).parents[1] / "lakes_1_1"
CATALOG = "meta-2.0.ducklake" if not duckdb.__version__.startswith("1.") else "meta.ducklake"


@pytest.fixture(params=["inlined_names", "deletes_parquet", "deletes_mixed", "sorted"])
def lake(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lake]:
    with tarfile.open(PACKED / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / request.param)  # the data path of the lakes is `data/`
    with Lake.open(f"ducklake:{CATALOG}") as opened:
        yield opened


def test_rows_and_definitions_are_written(lake: Lake) -> None:
    assert lake.version.startswith("1.1")
    schema, name = lake.tables()[0]
    before = lake.table(name, schema).scan().to_arrow().num_rows
    newest = lake.snapshot().id
    table = lake.create_table("ours", {"row_id": "INTEGER", "s": "VARCHAR"})
    table.append([{"row_id": 1, "s": "inlined"}])
    table.append([{"row_id": n, "s": None} for n in range(2, 30)])
    lake.table("ours").add_column("n", "BIGINT", default=7)
    lake.table("ours").delete("row_id = 5")
    lake.table(name, schema).rename("renamed")

    rows = lake.table("ours").scan().to_arrow().to_pylist()
    assert sorted(row["row_id"] for row in rows) == [n for n in range(1, 30) if n != 5]
    assert {row["n"] for row in rows} == {7}
    assert lake.table("renamed", schema).scan().to_arrow().num_rows == before
    assert lake.snapshot().id == newest + 6
    lake.close()
    catalog = read_catalog(f"ducklake:{CATALOG}")
    table_id = next(row["table_id"] for row in catalog["table"] if row["table_name"] == "ours")
    own = [
        row["table_name"].removeprefix("ducklake_")
        for row in catalog["inlined_data_tables"]
        if row["table_id"] == table_id
    ]
    assert {tuple(r["name"] for r in catalog[f"columns of {n}"][:3]) for n in own} == {
        ("_ducklake_row_id", "_ducklake_begin_snapshot", "_ducklake_end_snapshot")
    }


def test_the_tags_of_a_dropped_column_end_with_it(lake: Lake) -> None:
    lake.create_table("ours", {"i": "INTEGER", "j": "INTEGER"})
    lake.table("ours").set_comment("c", column="j")
    dropped = lake.table("ours").drop_column("j").snapshot
    lake.close()

    tags = read_catalog(f"ducklake:{CATALOG}")["column_tag"]
    assert [row["end_snapshot"] for row in tags if row["value"] == "c"] == [dropped]


def test_names_with_the_prefix_of_the_format_are_refused(lake: Lake) -> None:
    with pytest.raises(InvalidArgumentError, match="reserves"):
        lake.create_table("ours", {"_ducklake_x": "INTEGER"})
