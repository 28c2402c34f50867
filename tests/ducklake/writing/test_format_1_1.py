"""Lakes of format 1.1 stay lakes of format 1.1 when they are written."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
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


def test_files_have_no_number_of_row_groups_and_instants_have_nanoseconds(lake: Lake) -> None:
    lake.create_table("ours", {"at": "TIMESTAMPTZ_NS"})
    lake.table("ours").append([{"at": datetime(2024, 1, 1, tzinfo=UTC)}] * 20)
    lake.close()

    catalog = read_catalog(f"ducklake:{CATALOG}")
    id = next(row["table_id"] for row in catalog["table"] if row["table_name"] == "ours")
    files = [row for row in catalog["data_file"] if row["table_id"] == id]
    assert [row["row_group_count"] for row in files] == [None]


@pytest.mark.parametrize(
    ("transform", "numbers"),
    [
        ("epoch_year", [-1, -1, 0, 55]),
        ("epoch_month", [-12, -1, 0, 661]),
        ("epoch_day", [-365, -1, 0, 20147]),
        ("epoch_hour", [-8760, -1, 0, 483_551]),
    ],
)
@pytest.mark.parametrize("lake", ["sorted"], indirect=True)
@pytest.mark.parametrize("type", ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NS", "DATE"])
def test_rows_are_divided_by_the_time_since_1970(
    lake: Lake, transform: str, numbers: list[int], type: str
) -> None:
    if type == "DATE" and transform == "epoch_hour":
        with pytest.raises(InvalidArgumentError, match="does not apply to the type date"):
            lake.create_table("ours", {"moment": type}, partition_by=["epoch_hour(moment)"])
        return
    zone = UTC if type == "TIMESTAMPTZ" else None
    instants = [
        datetime(1969, 1, 1, tzinfo=zone),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=zone),
        datetime(1970, 1, 1, 0, 59, tzinfo=zone),
        datetime(2025, 2, 28, 23, tzinfo=zone),
        None,
    ]
    rows = [{"moment": at.date() if at and type == "DATE" else at} for at in instants]
    table = lake.create_table("ours", {"moment": type}, partition_by=[f"{transform}(moment)"])
    table.append(rows * 10)

    folders = {path.parent.name for path in Path("data").glob("main/ours/*/*.parquet")}
    values = [*map(str, numbers), "__HIVE_DEFAULT_PARTITION__"]
    assert folders == {f"{transform}={value}" for value in values}
    literal = f"{type.removesuffix('_NS')} '1970-01-01'"
    assert lake.table("ours").scan(filter=f"moment < {literal}").to_arrow().num_rows == 20


@pytest.mark.parametrize("lake", ["views_macros"], indirect=True)
def test_a_view_that_is_dropped_ends_the_comments_of_its_columns(lake: Lake) -> None:
    dropped = lake.drop_view("v2").snapshot
    lake.close()

    catalog = read_catalog(f"ducklake:{CATALOG}")
    ends = {row["end_snapshot"] for row in catalog["view_column_tag"]}
    # As the reference did with the view that it dropped in snapshot 18.
    assert {18, dropped} <= ends
    assert None not in ends


def test_a_format_1_0_has_no_epoch_transforms_and_no_nanoseconds_with_a_zone(
    tmp_path: Path,
) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    with Lake.create(uri, data_path=f"{tmp_path}/data/") as lake:
        with pytest.raises(InvalidArgumentError, match="epoch_day needs a lake"):
            lake.create_table("t", {"at": "TIMESTAMP"}, partition_by=["epoch_day(at)"])
        with pytest.raises(InvalidArgumentError, match="'at': TIMESTAMPTZ_NS needs a lake"):
            lake.create_table("t", {"s": "STRUCT(i INTEGER)", "at": "TIMESTAMPTZ_NS"})
        lake.create_table("t", {"i": "INTEGER"})
        with pytest.raises(InvalidArgumentError, match="'at': TIMESTAMPTZ_NS needs a lake"):
            lake.table("t").add_column("at", "TIMESTAMPTZ_NS")
