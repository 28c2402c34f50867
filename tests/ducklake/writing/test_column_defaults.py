"""Defaults of columns: which are accepted, and what their expressions reach."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakeport import Lake, Server, connect
from lakeport.errors import InvalidArgumentError, LakeportError
from lakeport.lakehouse import LakeCatalog

NOT_COMPUTABLE = (
    ("id + 1", "cannot contain column names"),
    ("(SELECT 1)", "cannot contain subqueries"),
    ("(SELECT content FROM read_text('/etc/passwd'))", "cannot contain subqueries"),
    ("EXISTS (FROM read_csv('/etc/passwd'))", "cannot contain subqueries"),
    ("read_text('/etc/passwd')", "is a table function"),
    ("count(*)", "cannot contain aggregates"),
    ("row_number() OVER ()", "cannot contain window functions"),
    ("unnest([1, 2])", "UNNEST not supported"),
    ("nextval('s')", "Sequence with name s does not exist"),
    ("no_such_function(1)", "no_such_function does not exist"),
    ("1, 2", "is not one expression"),
    ("1 FROM range(2)", "is not one expression"),
    ("current_setting('secret_directory')", "reads the settings of a process"),
    ("upper(Current_Setting('secret_directory'))", "reads the settings of a process"),
    ("getvariable('x')", "reads the settings of a process"),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "lake.ducklake"


@pytest.fixture
def lake(place: Path) -> Iterator[Lake]:
    with Lake.create(f"ducklake:{place}", data_path=f"{place}_data/") as lake:
        lake.create_table("t", {"id": "INTEGER", "v": "VARCHAR"})
        yield lake


@pytest.mark.parametrize(("sql", "reason"), NOT_COMPUTABLE)
def test_a_default_that_no_insert_computes_is_refused(lake: Lake, sql: str, reason: str) -> None:
    newest = lake.snapshot().id
    with pytest.raises(InvalidArgumentError, match=re.escape(reason)):
        lake.table("t").set_default("v", expression=sql)
    with pytest.raises(InvalidArgumentError, match=re.escape(reason)):
        lake.create_table("u", {"id": "INTEGER", "v": "VARCHAR"}, default_expressions={"v": sql})

    assert lake.snapshot().id == newest


@pytest.mark.parametrize(
    "sql", ["now()", "gen_random_uuid()", "1 + 1", "current_date", "'a' || 'b'", "error('late')"]
)
def test_a_default_that_the_reference_accepts_is_accepted(lake: Lake, sql: str) -> None:
    lake.table("t").set_default("v", expression=sql)

    assert lake.table("t").columns[1].default is not None


def test_clients_of_a_server_set_no_default_that_no_insert_computes(lake: Lake) -> None:
    with (
        LakeCatalog(lake, writable=True) as catalog,
        Server(catalog) as server,
        connect(server.location) as client,
    ):
        table = client.table("public.t")
        for sql, _ in NOT_COMPUTABLE:
            with pytest.raises(LakeportError, match=r"cannot be computed|is not one expression"):
                table.set_default("v", sql)
        table.set_default("v", "1 + 1")
        table.insert([{"id": 1}])

        assert client.table("public.t").scan(["v"]).to_arrow().to_pylist() == [{"v": "2"}]


@pytest.mark.parametrize(
    "sql", ["(SELECT content FROM read_text('{}'))", "current_setting('secret_directory')"]
)
def test_a_default_of_another_writer_reaches_no_files_and_no_settings(
    place: Path, tmp_path: Path, sql: str
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    sql = sql.format(secret)
    with Lake.create(f"ducklake:{place}", data_path=f"{place}_data/") as lake:
        lake.create_table("t", {"id": "INTEGER", "v": "VARCHAR"})
    with duckdb.connect(place) as database:
        database.execute(
            "UPDATE ducklake_column SET default_value = ?, default_value_type = 'expression' "
            "WHERE column_name = 'v'",
            [sql],
        )
    with Lake.open(f"ducklake:{place}") as lake:
        rows = pa.table({"id": pa.array([1], pa.int32())})
        table = lake.table("t")
        with pytest.raises(InvalidArgumentError, match="of column 'v' cannot be computed"):
            table.append(rows)
        merge = table.merge(rows, "target.id = source.id")
        with pytest.raises(InvalidArgumentError, match="of column 'v' cannot be computed"):
            merge.when_not_matched(insert={"id": "source.id"}).execute()

        assert lake.table("t").scan().to_arrow().num_rows == 0


def test_a_sort_order_of_another_writer_reaches_no_files(place: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    with Lake.create(f"ducklake:{place}", data_path=f"{place}_data/") as lake:
        lake.set_option("data_inlining_row_limit", "0")
        lake.create_table("t", {"id": "INTEGER"}, sort_by=["id"])
    with duckdb.connect(place) as database:
        database.execute(
            "UPDATE ducklake_sort_expression SET expression = ?",
            [f"(SELECT length(content) FROM read_text('{secret}')) + id"],
        )
    with Lake.open(f"ducklake:{place}") as lake, pytest.raises(LakeportError, match="disabled"):
        lake.table("t").append(pa.table({"id": pa.array([2, 1], pa.int32())}))
