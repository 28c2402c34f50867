"""Catalogs with bad rows: the object concerned is left out with a reason, everything else works."""

from __future__ import annotations

import json
import logging
import sqlite3
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.maintenance.inspection import inspect_lake
from lakeport.errors import CorruptLakeError, LakeportError, NotFoundError

PACKED = Path(__file__).with_name("lakes_1_1") / "deletes_parquet.tar.xz"
COLUMN = "INSERT INTO ducklake_column (column_id, begin_snapshot, table_id, column_order, column_name, column_type, nulls_allowed, parent_column) VALUES"
TABLE = "INSERT INTO ducklake_table (table_id, table_uuid, begin_snapshot, schema_id, table_name, path, path_is_relative) VALUES"
VIEW = "INSERT INTO ducklake_view (view_id, view_uuid, begin_snapshot, schema_id, view_name, dialect, sql, column_aliases) VALUES"
SCHEMA = "INSERT INTO ducklake_schema (schema_id, schema_uuid, begin_snapshot, schema_name, path, path_is_relative) VALUES"
UUID = "01a1e78b-1b0e-7d22-9047-b775c19e7bd1"
OF_V = "UPDATE ducklake_column SET {} WHERE table_id = 1 AND column_name = 'v'"

# What is wrong with table t, and what the reason for leaving it out says.
BAD_TABLES = {
    "null type": (OF_V.format("column_type = NULL"), r"the type of column 'v' \(id 3\) is NULL"),
    "null column name": (OF_V.format("column_name = NULL"), "name of the column with id 3 is NULL"),
    "unknown parent": (OF_V.format("parent_column = 99"), "part of column 99, which does not"),
    "own parent": (OF_V.format("parent_column = 3"), "contain each other"),
    "cyclic parents": (
        "UPDATE ducklake_column SET parent_column = 5 - column_id WHERE table_id = 1 AND column_id IN (2, 3)",
        "contain each other",
    ),
    "two columns of one name": (OF_V.format("column_name = 'ID'"), "two columns are called 'ID'"),
    "negative column id": (OF_V.format("column_id = -3"), "negative id"),
    "null column id": (OF_V.format("column_id = NULL"), "id of column 'v' is NULL"),
    "deep nesting": (
        f"{COLUMN} " + ", ".join(f"({i}, 1, 1, {i}, 'c{i}', 'struct', true, {i - 1 if i > 10 else 'NULL'})" for i in range(10, 300)),
        "contain themselves",
    ),
    "two tables of one name": (
        f"{TABLE} (7, '{UUID}', 1, 0, 'T', 't/', true); {COLUMN} (1, 1, 7, 1, 'id', 'int64', true, NULL)",
        "have the same name",
    ),
    "a view of the same name": (f"{VIEW} (8, '{UUID}', 1, 0, 'T', 'duckdb', 'SELECT 1', '')", "have the same name"),
    "negative table id": (
        "UPDATE ducklake_table SET table_id = -1 WHERE table_id = 1; UPDATE ducklake_column SET table_id = -1 WHERE table_id = 1",
        "its id is -1",
    ),
}  # fmt: skip
# Types that no reader knows: the table is listed, and cannot be read.
BAD_TYPES = {
    "decimal(99,1)": r"decimal\(99,1\) is no type of DuckDB",
    "decimal(0,0)": "is no type of DuckDB",
    "decimal(5,9)": "is no type of DuckDB",
    "decimal(99999999999999999999,1)": "does not support",
    "enum('a')": "does not support",
    "": "does not support",
    "list": "has 0 children",
}
# What hides nothing that has a name.
HARMLESS = {
    "null table name": f"{TABLE} (7, '{UUID}', 1, 0, NULL, 't/', true); {COLUMN} (1, 1, 7, 1, 'id', 'int64', true, NULL)",
    "empty table name": f"{TABLE} (7, '{UUID}', 1, 0, '', 't/', true); {COLUMN} (1, 1, 7, 1, 'id', 'int64', true, NULL)",
    "null schema name": f"{SCHEMA} (5, '{UUID}', 1, NULL, 's/', true); {TABLE} (7, '{UUID}', 1, 5, 'inside', 't/', true); {COLUMN} (1, 1, 7, 1, 'id', 'int64', true, NULL)",
    "two schemas of one name": f"{SCHEMA} (5, '{UUID}', 1, 'MAIN', 's/', true); {TABLE} (7, '{UUID}', 1, 5, 'T', 't/', true); {COLUMN} (1, 1, 7, 1, 'id', 'int64', true, NULL)",
    "negative schema id": f"{SCHEMA} (-5, '{UUID}', 1, 's', 's/', true)",
    "null view name": f"{VIEW} (8, '{UUID}', 1, 0, NULL, 'duckdb', 'SELECT 1', '')",
    "null view text": f"{VIEW} (8, '{UUID}', 1, 0, 'w', 'duckdb', NULL, '')",
    "open quote in view columns": f"""{VIEW} (8, '{UUID}', 1, 0, 'w', 'duckdb', 'SELECT 1', '"a')""",
    "negative view id": f"{VIEW} (-8, '{UUID}', 1, 0, 'w', 'duckdb', 'SELECT 1', '')",
}  # fmt: skip

Spoil = Callable[..., str]


@pytest.fixture(params=["duckdb", "sqlite"])
def spoil(request: pytest.FixtureRequest, tmp_path: Path) -> Spoil:
    """Change the catalog of a sound lake by SQL, and give the lake's address."""
    with tarfile.open(PACKED) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "deletes_parquet"
    data = folder / "data"

    def spoiled(*statements: str) -> str:
        path = folder / "meta.ducklake"
        with duckdb.connect(str(path)) as catalog:
            catalog.execute(
                "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'", [f"{data}/"]
            )
            if request.param == "duckdb":
                for statement in statements:
                    catalog.execute(statement)
                return f"ducklake:{path}"
            copy_to_sqlite(catalog, folder / "meta.sqlite")
        with sqlite3.connect(folder / "meta.sqlite") as copy:
            for statement in statements:
                copy.executescript(statement)
        copy.close()
        return f"ducklake:sqlite:{folder / 'meta.sqlite'}"

    return spoiled  # fmt: skip


def copy_to_sqlite(catalog: duckdb.DuckDBPyConnection, path: Path) -> None:
    numbers = {"BIGINT", "BOOLEAN"}
    with sqlite3.connect(path) as copy:
        for (name,) in catalog.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            described = catalog.execute(f"DESCRIBE {name}").fetchall()
            fields = ", ".join(
                f"{c[0]} {'BIGINT' if c[1] in numbers else 'TEXT'}" for c in described
            )
            copy.execute(f"CREATE TABLE {name} ({fields})")
            rows = [
                [v if v is None or isinstance(v, int) else str(v) for v in row]
                for row in catalog.execute(f"FROM {name}").fetchall()
            ]
            marks = ", ".join("?" for _ in described)
            copy.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    copy.close()  # fmt: skip


def test_a_sound_catalog_leaves_nothing_out(spoil: Spoil) -> None:
    with Lake.open(spoil()) as lake:
        assert lake.contents().omitted == ()
        assert lake.tables() == [("main", "t"), ("main", "whole")]
        assert lake.table("t").scan().to_arrow().num_rows > 0


@pytest.mark.parametrize("problem", BAD_TABLES)
def test_a_bad_table_is_left_out_and_the_rest_works(
    spoil: Spoil, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    statement, reason = BAD_TABLES[problem]
    uri = spoil(statement)
    with Lake.open(uri) as lake, caplog.at_level(logging.WARNING, "lakeport"):
        contents = lake.contents()
        lake.contents()

        assert [table.name for table in contents.tables] == ["whole"]
        assert ("main", "whole") in lake.tables()
        assert lake.table("whole").scan().to_arrow().column_names == ["id"]
        omission = next(found for found in contents.omitted if found.name == "t")
        assert_mentions(reason, omission.reason)
        lines = [record.getMessage() for record in caplog.records]
        assert len([line for line in lines if "table main.t is left out" in line]) == 1
        if problem not in ("a view of the same name", "negative table id"):
            with pytest.raises(CorruptLakeError, match=r"main\.t cannot be read: "):
                lake.table("t")


@pytest.mark.parametrize("type", BAD_TYPES)
def test_a_table_with_a_bad_type_is_refused_when_it_is_read(spoil: Spoil, type: str) -> None:
    uri = spoil(OF_V.format(f"column_type = '{type.replace(chr(39), chr(39) * 2)}'"))
    with Lake.open(uri) as lake:
        assert [table.name for table in lake.contents().tables] == ["t", "whole"]
        assert lake.table("whole").scan().to_arrow().column_names == ["id"]
        with pytest.raises(LakeportError, match=BAD_TYPES[type]):
            lake.table("t").scan()
        found = inspect_lake(lake, uri)

    assert [table.name for table in found.schemas[0].tables] == ["whole"]
    assert [problem.name for problem in found.problems] == ["main.t"]


@pytest.mark.parametrize("problem", HARMLESS)
def test_what_has_no_name_hides_nothing(
    spoil: Spoil, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    uri = spoil(HARMLESS[problem])
    with Lake.open(uri) as lake, caplog.at_level(logging.WARNING, "lakeport"):
        contents = lake.contents()

        assert [schema.name for schema in contents.schemas] == ["main"]
        assert [table.name for table in contents.tables] == ["t", "whole"]
        assert lake.tables() == [("main", "t"), ("main", "whole")]
        assert lake.views() == list(contents.views) == []
        assert [schema.name for schema in lake.schemas()] == ["main"]
        assert lake.table("t").scan().to_arrow().num_rows > 0
        assert len(contents.omitted) == 1
        assert str(contents.omitted[0]) in caplog.text
        with pytest.raises(NotFoundError):
            lake.table("inside")


def test_findings_name_what_is_left_out(spoil: Spoil) -> None:
    uri = spoil(OF_V.format("column_type = NULL"), HARMLESS["null schema name"])
    with Lake.open(uri) as lake:
        found = inspect_lake(lake, uri)

    assert [table.name for table in found.schemas[0].tables] == ["whole"]
    problems = {(problem.kind, problem.name): problem.reason for problem in found.problems}
    assert sorted(problems) == [("schema", "with id 5"), ("table", "main.t")]
    assert "the type of column 'v' (id 3) is NULL" in problems["table", "main.t"]


def test_the_command_prints_what_is_left_out(spoil: Spoil) -> None:
    from typer.testing import CliRunner

    from lakeport.cli.app import app

    uri = spoil(OF_V.format("column_type = NULL"))
    shown = CliRunner().invoke(app, ["inspect", uri])
    as_json = CliRunner().invoke(app, ["inspect", uri, "--json"])

    assert shown.exit_code == 0, shown.output
    assert "left out: table main.t: the type of column 'v' (id 3) is NULL" in shown.output
    assert "whole" in shown.output
    document = as_json.output[as_json.output.index("{") :]
    assert json.loads(document)["problems"][0]["name"] == "main.t"


def test_long_names_and_bad_uuids_are_only_text(spoil: Spoil) -> None:
    long = "n" * 100_000
    with Lake.open(spoil(f"UPDATE ducklake_table SET table_name = '{long}', table_uuid = NULL WHERE table_id = 1")) as lake:  # fmt: skip
        contents = lake.contents()
        assert [(table.name, bool(table.uuid)) for table in contents.tables] == [
            (long, False),
            ("whole", True),
        ]
        assert lake.table(long).scan().to_arrow().num_rows > 0


def test_a_uuid_may_be_any_text(spoil: Spoil) -> None:
    uri = spoil()
    if "sqlite" not in uri:
        pytest.skip("DuckDB keeps no text that is not a UUID in such a column")
    with sqlite3.connect(uri.removeprefix("ducklake:sqlite:")) as catalog:
        catalog.execute("UPDATE ducklake_table SET table_uuid = 'not a uuid' WHERE table_id = 1")
    catalog.close()
    with Lake.open(uri) as lake:
        assert next(table.uuid for table in lake.contents().tables) == "not a uuid"
        assert lake.table("t").uuid == "not a uuid"


@pytest.mark.parametrize(
    "sql", ["SELEKT 1", "", "SELECT * FROM nowhere", "SELECT ((((", "SELECT 1; DROP TABLE t", "'", "SELECT " + "(" * 5000]
)  # fmt: skip
def test_a_view_with_bad_sql_hides_nothing(spoil: Spoil, sql: str) -> None:
    pytest.importorskip("pyspark")
    from lakeport.lakehouse import LakeCatalog

    uri = spoil(
        f"{VIEW} (8, '{UUID}', 1, 0, 'w', 'duckdb', '{sql.replace(chr(39), chr(39) * 2)}', '')"
    )
    with LakeCatalog(uri) as catalog:
        schema = catalog.schema("public")
        assert schema is not None
        assert [table.name for table in schema.tables()] == ["t", "whole"]  # fmt: skip


@pytest.mark.parametrize("problem", ["null type", "cyclic parents", "two tables of one name"])
def test_a_served_lake_lists_the_rest(spoil: Spoil, problem: str) -> None:
    pytest.importorskip("pyspark")
    from lakeport.catalog import ScanOptions
    from lakeport.lakehouse import LakeCatalog

    with LakeCatalog(spoil(BAD_TABLES[problem][0])) as catalog:
        public, about = catalog.schema("public"), catalog.schema("lakeport")
        assert public is not None
        assert about is not None
        assert [table.name for table in public.tables()] == ["whole"]
        with pytest.raises(CorruptLakeError, match=r"public\.t cannot be read"):
            public.table("t")
        for name in ("schemas", "tables", "columns", "table_info", "files", "snapshots"):
            shown: Any = about.table(name)
            if shown is not None:
                rows = shown.scan(ScanOptions()).read_all()
                assert rows.num_rows
                if "table_name" in rows.column_names:
                    assert set(rows["table_name"].to_pylist()) == {"whole"}


def assert_mentions(pattern: str, text: str) -> None:
    import re

    assert re.search(pattern, text), text
