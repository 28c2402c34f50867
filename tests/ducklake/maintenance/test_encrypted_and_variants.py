"""Encrypted lakes and variants: maintenance moves them like all other rows, for both readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance import MaintenanceResult
from lakeport.ducklake.maintenance.compaction.candidates import read_files
from tests.ducklake.maintenance.lake_states import read_state
from tests.fixtures_lakes import LakeMaker, RealLake

NO_INLINING = "DATA_INLINING_ROW_LIMIT 0"
# What JSON would lose: widths, decimals, dates, bytes, nanoseconds, a variant of NULL in an object.
VALUES = (
    "1::TINYINT::VARIANT, 'x'::VARIANT, {'a': DATE '2024-01-01', 'b': [1, NULL]}::VARIANT, NULL,"
    " 3.25::DECIMAL(9, 2)::VARIANT, '\\xAA\\x00'::BLOB::VARIANT, 'nan'::DOUBLE::VARIANT,"
    " TIMESTAMP_NS '2024-01-01 00:00:00.123456789'::VARIANT, {'n': NULL, 'u': 7::UTINYINT}::VARIANT,"
    " UUID '12345678-1234-5678-1234-567812345678'::VARIANT, TIME '01:02:03'::VARIANT"
)  # fmt: skip
ROWS = (
    "INSERT INTO t SELECT i, [{values}][1 + i % 11], {{'k': i, 's': 'n' || i}}::VARIANT"
    " FROM range({0}, {1}) r(i)"
)
VARIANTS = (
    "CREATE TABLE t (id INTEGER, v VARIANT, o VARIANT)",
    *(ROWS.format(n, n + 22, values=VALUES) for n in (0, 22, 44)),
)
LIVES: dict[str, tuple[str, ...]] = {
    "variants": VARIANTS,
    "variants of a sorted table": (
        VARIANTS[0],
        "ALTER TABLE t SET SORTED BY (id DESC)",
        *VARIANTS[1:],
    ),
    "variants that were added later": (
        "CREATE TABLE t (id INTEGER)",
        "INSERT INTO t SELECT i FROM range(20) r(i)",
        "INSERT INTO t SELECT i FROM range(20, 40) r(i)",
        "ALTER TABLE t ADD COLUMN v VARIANT",
        "INSERT INTO t VALUES (40, 5::VARIANT), (41, NULL)",
        "INSERT INTO t VALUES (42, [1, 2]::VARIANT)",
    ),
    "more rows than a vector": (
        "CREATE TABLE t (id INTEGER, v VARIANT)",
        *(
            f"INSERT INTO t SELECT i, CASE WHEN i % 3 = 0 THEN i::VARIANT ELSE {{'k': i}}::VARIANT END"
            f" FROM range({n}, {n + 5000}) r(i)"
            for n in (0, 5000)
        ),
    ),
}  # fmt: skip
PLAIN = (
    "CREATE TABLE t (id INTEGER, name VARCHAR, gap INTERVAL)",
    *(
        f"INSERT INTO t SELECT i, 'n' || i, INTERVAL (i) DAY FROM range({n}, {n + 20}) r(i)"
        for n in (0, 20, 40)
    ),
)
DELETE = "DELETE FROM t WHERE id % 5 <> 0"


def maintain(lake: RealLake, work: Callable[[Lake], Any]) -> Any:
    with lake.open(engine="local") as ours:
        return work(ours)


def merge(ours: Lake) -> MaintenanceResult:
    return ours.table("t").merge_files()


def rewrite(ours: Lake) -> MaintenanceResult:
    return ours.table("t").rewrite_files(threshold=0.5)


def flush(ours: Lake) -> MaintenanceResult:
    return ours.table("t").flush()


def kinds(lake: RealLake, columns: str = "v") -> list[Any]:
    """The types of the variants of a table, which their Python values do not show."""
    selected = ", ".join(f"variant_typeof({name}), {name}::VARCHAR" for name in columns.split(", "))
    rows = lake.query(f"SELECT rowid, {selected} FROM t ORDER BY rowid")
    lake.detach()
    return rows


@pytest.mark.parametrize("life", LIVES)
def test_a_merge_of_variants_keeps_their_types_in_every_snapshot(
    make_lake: LakeMaker, life: str
) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute(*LIVES[life])
    before, types = read_state(lake), kinds(lake)
    result = maintain(lake, merge)
    assert result.files_replaced > result.files_written > 0
    assert not result.skipped
    assert kinds(lake) == types
    assert repr(read_state(lake, range(1, len(LIVES[life]) + 1))) == repr(before)


@pytest.mark.parametrize("life", ["variants of a sorted table", "variants that were added later"])
def test_a_rewrite_of_variants_keeps_their_types_in_every_snapshot(
    make_lake: LakeMaker, life: str
) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute(*LIVES[life], DELETE)
    before, types = read_state(lake), kinds(lake)
    assert maintain(lake, rewrite).deletes > 0
    assert kinds(lake) == types
    assert repr(read_state(lake, range(1, len(LIVES[life]) + 2))) == repr(before)


def test_merged_variants_are_stored_in_columns_that_the_reference_filters(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute(*LIVES["variants"])
    maintain(lake, merge)
    assert lake.query(
        "SELECT variant_path, shredded_type, min_value, max_value"
        " FROM meta.ducklake_file_variant_stats WHERE column_id = 3 ORDER BY 1"
    ) == [('"k"', "int64", "0", "65"), ('"s"', "varchar", "n0", "n9")]
    assert lake.query("SELECT id FROM t WHERE o.k::INTEGER = 30") == [(30,)]
    assert lake.query("SELECT count(*) FROM t WHERE o.s::VARCHAR >= 'n6'") == [(10,)]


def test_a_flush_of_variants_keeps_their_types_in_every_snapshot(make_lake: LakeMaker) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 100")
    statements = (
        *VARIANTS,
        "DELETE FROM t WHERE id IN (3, 30)",
        "UPDATE t SET id = 99 WHERE id = 5",
    )
    lake.execute(*statements)
    before = read_state(lake)
    # Files keep as many digits of a decimal as it has, whoever writes them.
    types = [tuple(_narrow(value) for value in row) for row in kinds(lake, "v, o")]
    assert maintain(lake, flush).rows > 0
    assert kinds(lake, "v, o") == types
    assert repr(read_state(lake, range(1, len(statements) + 1))) == repr(before)


def _narrow(value: Any) -> Any:
    return "DECIMAL(3, 2)" if value == "DECIMAL(9, 2)" else value


def test_variants_inside_of_other_values_are_left_alone(make_lake: LakeMaker) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute("CREATE TABLE t (id INTEGER, s STRUCT(v VARIANT))")
    lake.detach()
    with lake.open() as ours:
        obstacle = read_files(ours, "t").obstacle
    assert obstacle is not None
    assert "variants inside of other values" in obstacle


@pytest.mark.parametrize("statements", [PLAIN, VARIANTS], ids=["plain values", "variants"])
def test_merged_files_of_an_encrypted_lake_have_keys_of_their_own(
    make_lake: LakeMaker, statements: tuple[str, ...]
) -> None:
    lake = make_lake(options=f"{NO_INLINING}, ENCRYPTED")
    lake.execute(*statements)
    before, keys = read_state(lake), _keys(lake)
    assert maintain(lake, merge).files_replaced == 3
    assert repr(read_state(lake, range(1, len(statements) + 1))) == repr(before)
    assert not _keys(lake) & keys
    assert {_magic(path) for path in Path(lake.data_path).rglob("*.parquet")} == {b"PARE"}
    assert lake.query("SELECT count(*) FROM t WHERE id > 30 AND id % 2 = 0") == [
        (sum(1 for row in before["rows at 4"] if row[2] > 30 and row[2] % 2 == 0),)
    ]


def test_a_rewrite_of_an_encrypted_lake_keeps_every_snapshot(make_lake: LakeMaker) -> None:
    lake = make_lake(options=f"{NO_INLINING}, ENCRYPTED")
    lake.execute(*VARIANTS, DELETE)
    before, types = read_state(lake), kinds(lake)
    assert maintain(lake, rewrite).deletes > 0
    assert kinds(lake) == types
    assert repr(read_state(lake, range(1, len(VARIANTS) + 2))) == repr(before)
    assert lake.query("SELECT id FROM t WHERE id > 50 ORDER BY id") == [(55,), (60,), (65,)]
    assert {_magic(path) for path in Path(lake.data_path).rglob("*.parquet")} == {b"PARE"}


def test_inlined_rows_and_deletes_of_an_encrypted_lake_are_flushed_encrypted(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake(options="ENCRYPTED, DATA_INLINING_ROW_LIMIT 100")
    statements = (*PLAIN, "DELETE FROM t WHERE id IN (3, 30)", "UPDATE t SET id = 99 WHERE id = 5")
    lake.execute(*statements)
    before = read_state(lake)
    assert maintain(lake, flush).rows > 0
    assert read_state(lake, range(1, len(statements) + 1)) == before
    assert {_magic(path) for path in Path(lake.data_path).rglob("*.parquet")} == {b"PARE"}
    assert lake.query("SELECT count(*) FROM t WHERE id < 20") == [(18,)]


def _keys(lake: RealLake) -> set[str]:
    rows = lake.query("SELECT encryption_key FROM meta.ducklake_data_file")
    lake.detach()
    return {row[0] for row in rows}


def _magic(path: Path) -> bytes:
    return path.read_bytes()[-4:]
