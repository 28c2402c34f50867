"""A lake from its creation to its clean-up, by Lakeport alone: these tests also run with DuckDB 2.0.

The reference has no extension for DuckDB 2.0, so rows are compared with what Python computes.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport import Lake
from lakeport.lakehouse import LakeCatalog

DAY = dt.date(2026, 1, 1)
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "day": DAY + dt.timedelta(days=number % 90),
        "station": f"station {number % 7}",
        "minutes": number / 4,
    }
    for number in range(2000)
]

VALUES: dict[str, list[Any]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 127],
    "UBIGINT": [0, 2**64 - 1],
    "DOUBLE": [float("inf"), -0.5],
    "DECIMAL(30,4)": [decimal.Decimal("-12345678901234567890.1234"), decimal.Decimal("0.0001")],
    "VARCHAR": ["", "ünïcode 'quoted'"],
    "BLOB": [b"", b"\x00\xff"],
    "DATE": [dt.date(1, 1, 1), dt.date(2026, 2, 28)],
    "TIME": [dt.time(0, 0), dt.time(23, 59, 59, 999999)],
    "TIMESTAMP": [dt.datetime(1969, 7, 20, 20, 17), dt.datetime(2026, 1, 1, 0, 0, 0, 1)],
    "TIMESTAMPTZ": [
        dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
    ],
    "UUID": [uuid.UUID(int=1), uuid.UUID(int=2**127)],
    "INTEGER[]": [[1, None, 3], []],
    "STRUCT(a INTEGER, b VARCHAR[])": [{"a": 1, "b": ["x"]}, {"a": None, "b": None}],
    "MAP(VARCHAR, INTEGER)": [[("k", 1)], []],
}


@pytest.fixture(params=["duckdb", "sqlite"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    prefix = "ducklake:" if request.param == "duckdb" else "ducklake:sqlite:"
    return f"{prefix}{tmp_path}/meta.{request.param}"


@pytest.fixture
def lake(uri: str, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(uri, data_path=f"{tmp_path}/data/") as lake:
        lake.create_table(
            "trips",
            {"id": "BIGINT", "day": "DATE", "station": "VARCHAR", "minutes": "DOUBLE"},
            partition_by=["month(day)", "bucket(3, station)"],
            sort_by=["day"],
        ).append(ROWS)
        yield lake


def test_changes_of_rows_are_read_back_at_every_snapshot(lake: Lake) -> None:
    expected = [list(ROWS)]
    versions = [lake.snapshot().id]

    def done(change: Callable[[], object], rows: list[dict[str, Any]]) -> None:
        change()
        versions.append(lake.snapshot().id)
        expected.append(rows)

    def trips() -> Any:
        return lake.table("trips")

    kept = [row for row in ROWS if row["station"] != "station 3"]
    done(lambda: trips().delete("station = 'station 3'"), kept)
    doubled = [{**row, "minutes": row["minutes"] * 2} if row["id"] >= 1900 else row for row in kept]
    done(lambda: trips().update({"minutes": "minutes * 2"}, where="id >= 1900"), doubled)
    new = {"id": 5000, "day": DAY, "station": "new", "minutes": 1.0}
    source = pa.Table.from_pylist([{**doubled[0], "minutes": -1.0}, new], trips().schema)
    merged = [{**doubled[0], "minutes": -1.0}, *doubled[1:], new]
    done(
        lambda: (
            trips()
            .merge(source, "target.id = source.id")
            .when_matched(update="*")
            .when_not_matched(insert="*")
            .execute()
        ),
        merged,
    )
    left = [row for row in merged if row["day"] < dt.date(2026, 2, 1)]
    done(
        lambda: trips().overwrite(trips().schema.empty_table(), where="day >= DATE '2026-02-01'"),
        left,
    )
    done(lambda: lake.restore("trips", version=versions[0]), expected[0])

    for version, rows in zip(versions, expected, strict=True):
        assert read(lake, version=version) == in_order(rows), version
    for version in versions[1:]:
        assert lake.table("trips").changes(version, version).to_arrow().num_rows > 0


def test_filters_leave_out_files_and_no_rows(lake: Lake) -> None:
    table = lake.table("trips")
    day = dt.date(2026, 2, 10)

    scan = table.scan(filter=f"day = DATE '{day}' AND station = 'station 5'")

    assert in_order(scan.to_arrow().to_pylist()) == [
        row for row in ROWS if row["day"] == day and row["station"] == "station 5"
    ]
    assert len(scan.plan.tasks) < len(table.files())


def test_values_of_every_type_survive_files_and_the_catalog_database(lake: Lake) -> None:
    columns = {f"c{number}": type for number, type in enumerate(VALUES)}
    rows = [{"n": n, **{name: VALUES[type][n] for name, type in columns.items()}} for n in range(2)]
    rows.append({"n": 2, **dict.fromkeys(columns)})
    for name, limit in (("inlined", "100"), ("filed", "0")):
        table = lake.create_table(name, {"n": "INTEGER", **columns})
        lake.set_option("data_inlining_row_limit", limit, table=name)
        lake.table(name).append(pa.Table.from_pylist(rows, table.schema))

    inlined, filed = (lake.table(name).scan().to_arrow() for name in ("inlined", "filed"))

    assert inlined.sort_by("n").equals(filed.sort_by("n"))
    assert filed.num_rows == 3
    assert len(lake.table("filed").files()) == 1
    assert lake.table("inlined").files() == []


def test_definitions_change_with_their_rows(lake: Lake) -> None:
    table = lake.table("trips")
    table.add_column("unit", "VARCHAR", default="min")
    lake.table("trips").rename_column("minutes", "duration")
    lake.table("trips").set_partitioning(["month(day)"])
    lake.table("trips").drop_column("station")
    lake.create_view("long", "SELECT id, duration FROM trips WHERE duration > 400")
    with lake.transaction(message="two at once") as transaction:
        transaction.create_table("notes", {"note": "VARCHAR"}).append([{"note": "checked"}])
        transaction.table("trips").delete("id < 10")

    rows = lake.table("trips").scan(filter="id = 1999").to_arrow().to_pylist()

    assert rows == [
        {"id": 1999, "day": ROWS[1999]["day"], "duration": ROWS[1999]["minutes"], "unit": "min"}
    ]
    assert [view.name for view in lake.views()] == ["long"]
    assert lake.snapshot().commit_message == "two at once"


def test_maintenance_changes_no_row_and_the_doctor_finds_nothing(lake: Lake) -> None:
    lake.set_option("data_inlining_row_limit", "50", table="trips")
    lake.table("trips").append([{**ROWS[0], "id": 9000}])
    lake.table("trips").delete("minutes > 450")
    before = read(lake)

    lake.table("trips").flush()
    lake.table("trips").merge_files()
    lake.table("trips").rewrite_files(threshold=0.01)
    lake.maintain()
    lake.expire(retain_last=1)
    lake.clean_up(everything=True)

    assert read(lake) == before
    report = lake.check(deep=True)
    assert [str(finding) for finding in report.findings] == []
    assert lake.advise() is not None


def test_a_served_lake_answers_and_is_written(lake: Lake, uri: str) -> None:
    lake.create_view("long", "SELECT id, minutes FROM trips WHERE minutes > 499")
    with (
        LakeCatalog(uri, engine="local", writable=True) as catalog,
        lakeport.Server(catalog) as server,
        lakeport.connect(server.location) as client,
    ):
        trips = client.table("public.trips")
        trips.insert([{**ROWS[0], "id": 7000}])
        found = trips.scan(["rowid", "id"], "id >= 1990 AND id < 7000").to_arrow()
        trips.delete(found["rowid"])

        assert client.table("public.trips").scan(["id"]).to_arrow().num_rows == 2000 + 1 - 10
        view = client.table("public.long").scan().to_arrow()
        assert view.num_rows == len([r for r in ROWS if r["minutes"] > 499 and r["id"] < 1990])


def read(lake: Lake, version: int | None = None) -> list[dict[str, Any]]:
    return in_order(lake.table("trips", version=version).scan().to_arrow().to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])
