"""Lakes of format 1.1-dev1: every table at every snapshot, with the DuckDB that is installed."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeport.arrow import duckdb_connection
from lakeport.ducklake import Lake, LakeTable
from lakeport.errors import InvalidArgumentError, UnsupportedError

PACKED = Path(__file__).with_name("lakes_1_1")
LAKES = sorted(path.name.removesuffix(".tar.xz") for path in PACKED.glob("*.tar.xz"))
HAS_ZONED_NANOSECONDS = not duckdb.__version__.startswith("1.")
NANOSECONDS_INSIDE = re.compile(r".\bTIMESTAMPTZ_NS")
NEEDS_2_0 = {"evolution_inlined", "migrated", "partitions_epoch", "types_flushed", "types_inlined"}
READABLE = [name for name in LAKES if HAS_ZONED_NANOSECONDS or name not in NEEDS_2_0]
CATALOG = "meta-2.0.ducklake" if HAS_ZONED_NANOSECONDS else "meta.ducklake"

Unpack = Callable[[str], Path]


@pytest.fixture(scope="module")
def unpack(tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    root = tmp_path_factory.mktemp("lakes")

    def folder(name: str) -> Path:
        if not (root / name).exists():
            with tarfile.open(PACKED / f"{name}.tar.xz") as archive:
                archive.extractall(root, filter="data")
        return root / name

    return folder


def test_all_lakes_are_here() -> None:
    assert len(LAKES) == 24


@pytest.mark.parametrize("name", READABLE)
def test_every_table_has_its_rows_at_every_snapshot(
    unpack: Unpack, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = unpack(name)
    monkeypatch.chdir(folder)  # the data path of the lakes is `data/`
    expected = json.loads((folder / "expected.json").read_text("utf-8"))
    compared = 0
    with Lake.open(f"ducklake:{CATALOG}") as lake:
        for snapshot, schemas in expected["tables"].items():
            for schema, tables in schemas.items():
                for table, key in tables.items():
                    found = lake.table(table, schema, version=int(snapshot))
                    wanted = expected["results"][key]
                    rows = comparable(wanted["rows"], wanted["columns"])
                    assert rows_of(found, wanted["columns"]) == rows, (snapshot, table)
                    compared += 1
    assert compared


@pytest.mark.skipif(not HAS_ZONED_NANOSECONDS, reason="the catalog needs DuckDB 2.0")
def test_rows_are_divided_as_in_tables_that_count_from_1970(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(PACKED / "partitions_epoch.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / "partitions_epoch")
    with Lake.open(f"ducklake:{CATALOG}") as lake:
        lake.set_option("data_inlining_row_limit", 0)
        for schema, name in lake.tables():
            table = lake.table(name, schema)
            assert table.partition_spec is not None
            (field,) = table.partition_spec.fields
            (key,) = (column.name for column in table.columns if column.id == field.column_id)
            columns = {column.name: column.type for column in table.columns}
            keys = [f"{field.transform}({key})"]
            copy = lake.create_table(f"our_{name}", columns, partition_by=keys)
            # Later snapshots have more folders, and inlined rows, which are in none.
            first = min(file.begin_snapshot for file in table.files())
            copy.append(lake.table(name, schema, version=first).scan().to_arrow())

            ours, theirs = (
                {path.name for path in Path("data/main", folder).iterdir()}
                for folder in (f"our_{name}", name)
            )
            assert len(ours) > 1
            assert ours <= theirs, name


@pytest.mark.skipif(HAS_ZONED_NANOSECONDS, reason="DuckDB 2.0 opens all catalogs")
@pytest.mark.parametrize(
    ("name", "catalog"),
    [*((name, "meta.ducklake") for name in sorted(NEEDS_2_0)), ("added", "meta-2.0.ducklake")],
)
def test_a_catalog_that_needs_a_newer_duckdb_is_refused_with_its_version(
    unpack: Unpack, name: str, catalog: str
) -> None:
    with pytest.raises(UnsupportedError, match=r"needs a newer DuckDB than 1\..*duckdb>=2"):
        open_lake(unpack(name), catalog)


ONE_NANOSECOND = "2001-02-03 04:05:06.123456789+00"
FILTERS = [
    (f"tstz_ns = '{ONE_NANOSECOND}'", [981173106123456789] * 2),
    (f"tstz_ns > '{ONE_NANOSECOND}'", [1787167923004005006] * 2),
    ("tstz_ns > TIMESTAMPTZ '2001-02-03 04:05:06.123456+00'", [981173106123456789, 1787167923004005006] * 2),
    ("tstz_ns = TIMESTAMPTZ '2001-02-03 04:05:06.123456+00'", []),
    ("tstz_ns <= '2001-02-03 05:05:06.123456788+01'", [-1, -1]),
    ("tstz_ns < TIMESTAMPTZ '1970-01-01 00:00:00+00'", [-1, -1]),
    ("tstz_ns < '1970-01-01'", [-1, -1]),
    ("tstz_ns BETWEEN '2001-01-01' AND '2002-01-01'", [981173106123456789] * 2),
    (f"tstz_ns IN ('{ONE_NANOSECOND}', '1969-12-31 23:59:59.999999999Z')", [-1, 981173106123456789] * 2),
    ("tstz_ns < TIMESTAMPTZ 'infinity'", [-1, 981173106123456789, 1787167923004005006] * 2),
    ("tstz_ns < TIMESTAMPTZ '2900-01-01 00:00:00+00'", [-1, 981173106123456789, 1787167923004005006] * 2),
]  # fmt: skip


@pytest.mark.parametrize(("text", "wanted"), FILTERS)
def test_instants_are_compared_in_nanoseconds(unpack: Unpack, text: str, wanted: list[int]) -> None:
    with open_lake(unpack("types_files"), "meta.ducklake") as lake:
        found = lake.table("types").scan(["tstz_ns"], filter=text).to_arrow()

    assert sorted(found["tstz_ns"].cast(pa.int64()).to_pylist()) == sorted(wanted)


def test_an_instant_of_the_table_finds_its_own_row(unpack: Unpack) -> None:
    from lakeport import col

    with open_lake(unpack("types_files"), "meta.ducklake") as lake:
        table = lake.table("types")
        values = table.scan(["tstz_ns"]).to_arrow()["tstz_ns"]
        for value in pc.unique(values).drop_null():
            found = table.scan(["tstz_ns"], filter=col("tstz_ns") == value).to_arrow()
            assert found["tstz_ns"].to_pylist() == [value.as_py()] * 2


@pytest.mark.skipif(not HAS_ZONED_NANOSECONDS, reason="DuckDB 1.5 cannot compare the bounds")
def test_files_are_left_out_by_bounds_in_nanoseconds(unpack: Unpack) -> None:
    with open_lake(unpack("types_files"), CATALOG) as lake:
        scan = lake.table("types").scan
        assert scan(filter="tstz_ns > '2100-01-01'").plan.pruning.by_statistics == 4
        newest = "2026-08-19 18:12:03.004005006+00"
        assert scan(filter=f"tstz_ns >= '{newest}'").plan.pruning.by_statistics < 4


def test_what_duckdb_cannot_compute_in_nanoseconds_is_refused(unpack: Unpack) -> None:
    with open_lake(unpack("types_files"), "meta.ducklake") as lake:
        scan = lake.table("types").scan
        if HAS_ZONED_NANOSECONDS:
            kept = scan(["tstz_ns"], filter="coalesce(tstz_ns, tstz_ns) < '1980-01-01'").to_arrow()
            assert kept.num_rows == 2
            return
        with pytest.raises(UnsupportedError, match=r"tstz_ns.*needs DuckDB 2\.0"):
            scan(["tstz_ns"], filter="coalesce(tstz_ns, tstz_ns) < '1980-01-01'").to_arrow()


def test_a_text_that_is_no_instant_is_refused(unpack: Unpack) -> None:
    with open_lake(unpack("types_files"), "meta.ducklake") as lake:
        with pytest.raises(InvalidArgumentError, match="'soon' is not a value of column 'tstz_ns'"):
            lake.table("types").scan(filter="tstz_ns > 'soon'")


def test_columns_of_views_have_comments(unpack: Unpack) -> None:
    with open_lake(unpack("views_macros"), "meta.ducklake") as lake:
        comments = {
            snapshot: {
                view.name: dict(view.column_comments) for view in lake.views(version=snapshot)
            }
            for snapshot in (5, 6, 9, 14, 15)
        }

    assert comments == {
        5: {"v": {}},
        6: {"v": {"col_a": "view column note"}},
        9: {"v": {"col_a": "view column note"}, "va": {"x": "aliased"}},
        14: {"v2": {"col_a": "view column note"}, "va": {"x": "aliased"}},
        15: {"v2": {}, "va": {"x": "aliased"}},
    }


def test_listed_views_show_the_comments_of_their_columns(unpack: Unpack) -> None:
    pytest.importorskip("pyspark")
    from lakeport.lakehouse.views import view_schemas

    with open_lake(unpack("views_macros"), "meta.ducklake") as lake:
        contents = lake.contents(version=9)
    schemas, _ = view_schemas(contents)
    shown = {
        view.name: {
            field.name: (field.metadata or {}).get(b"comment") for field in schemas[view.id]
        }
        for view in contents.views
    }

    assert shown == {"v": {"col_a": b"view column note", "a": None}, "va": {"a1": b"aliased"}}


def open_lake(folder: Path, catalog: str) -> Lake:
    return Lake.open(f"ducklake:{folder / catalog}", data_path=f"{folder / 'data'}/")


def rows_of(table: LakeTable, columns: list[list[str]]) -> list[list[Any]]:
    """The rows as `expected.json` has them: texts, as DuckDB writes them."""
    names = [name for name, _ in columns]
    virtual = ["rowid"] if "snapshot_id" in names else ["rowid", "snapshot_id"]
    found = table.scan([*virtual, *names]).to_arrow()
    texts = [_texts(found.select([name]), type) for name, type in columns]
    rowids = found["rowid"].to_pylist()
    snapshots = found["snapshot_id"].to_pylist() if len(virtual) == 2 else [None] * len(rowids)
    return comparable((list(row) for row in zip(rowids, snapshots, *texts, strict=True)), columns)


def comparable(rows: Iterable[list[Any]], columns: list[list[str]]) -> list[list[Any]]:
    """Rows in order, JSON in one spelling, without texts that DuckDB 1.5 cannot write."""

    def value(text: str | None, type: str) -> str | None:
        if text is None or (NANOSECONDS_INSIDE.search(type) and not HAS_ZONED_NANOSECONDS):
            return None
        return json.dumps(json.loads(text), sort_keys=True) if type in ("JSON", "VARIANT") else text

    types = [type for _, type in columns]
    return sorted(([*row[:2], *map(value, row[2:], types)] for row in rows), key=repr)


def _texts(column: pa.Table, type: str) -> list[str | None]:
    values = column.column(0)
    if type == "TIMESTAMPTZ_NS":
        return [None if v is None else str(v) for v in values.cast(pa.int64()).to_pylist()]
    if type in ("JSON", "VARIANT"):
        return list(values.to_pylist())
    relation = duckdb_connection.thread_connection().from_arrow(column.rename_columns(["v"]))
    return [row[0] for row in relation.project("CAST(v AS VARCHAR) AS v").fetchall()]
