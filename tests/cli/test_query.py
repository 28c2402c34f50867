"""`lakeport query`, against a server in this process."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from lakeport.airport import Server
from lakeport.catalog import CatalogBuilder
from lakeport.memory import MemoryCatalog
from tests.cli.processes import COMMAND
from tests.wait import TIMEOUT_SECONDS

Command = Callable[..., Any]

TRIPS = pa.table(
    {
        "id": range(100),
        "station": ["Harbour", "Mill"] * 50,
        "day": [date(2025, 1, 1 + number % 28) for number in range(100)],
        "tags": [["a", str(number)] for number in range(100)],
    }
)


@pytest.fixture
def location() -> Iterator[str]:
    rental = CatalogBuilder("rental").schema("main_office")
    rental.table("trips", TRIPS, comment="Every trip")
    with Server(rental.build()) as server:
        yield server.location


def test_without_a_table_everything_is_listed(location: str, lakeport_command: Command) -> None:
    result = lakeport_command("query", location)

    assert result.exit_code == 0, result.stderr
    assert "main_office" in result.stdout
    assert "trips" in result.stdout
    assert "Every trip" in result.stdout


def test_a_table_is_described(location: str, lakeport_command: Command) -> None:
    result = lakeport_command("query", location, "trips", "--describe")

    assert "Every trip" in result.stdout
    assert "date32" in result.stdout


def test_the_first_rows_are_printed_with_a_note(location: str, lakeport_command: Command) -> None:
    result = lakeport_command("query", location, "main_office.trips", "--columns", "id,station")

    assert "the first 20 rows" in result.stdout
    assert "│ 19 " in result.stdout
    assert "│ 20 " not in result.stdout
    assert "tags" not in result.stdout


def test_what_a_server_says_steers_neither_markup_nor_terminal(lakeport_command: Command) -> None:
    schema = pa.schema([pa.field("[/x]", pa.string(), metadata={"comment": "see [/docs]"})])
    rows = pa.table([pa.array(["a\\[/b]", "\x1b[31mred"])], schema=schema)
    catalog = CatalogBuilder("c").schema("s")
    catalog.table("odd", rows, comment="see [/docs] \x1b[2J")
    with Server(catalog.build()) as server:
        results = [
            lakeport_command("query", server.location, *arguments)
            for arguments in ([], ["odd", "--describe"], ["odd"])
        ]

    assert [result.exit_code for result in results] == [0, 0, 0], results
    listed, described, shown = (result.stdout for result in results)
    assert "see [/docs]" in listed
    assert "see [/docs]" in described
    assert "[/x]" in described
    assert "│ a\\[/b]" in shown
    assert "\x1b" not in listed + described + shown


def test_times_that_python_has_not_are_shown(lakeport_command: Command) -> None:
    ends = pa.array([2**63 - 1, -(2**63) + 1, None], pa.int64())
    days = pa.array([2**31 - 1, 0, 10**8], pa.int32())
    rows = pa.table(
        {
            "at": ends.view(pa.timestamp("us")),
            "instant": ends.view(pa.timestamp("us", "UTC")),
            "day": days.view(pa.date32()),
            "several": pa.array([[2**63 - 1]] * 3).cast(pa.list_(pa.timestamp("us"))),
        }
    )
    with Server(CatalogBuilder("c").schema("s").table("ends", rows).build()) as server:
        result = lakeport_command("query", server.location, "ends")

    assert result.exit_code == 0, result.stderr
    lines = [line.split() for line in result.stdout.splitlines() if line.startswith("│")]
    assert [line[1::2] for line in lines] == [
        ["infinity", "infinity", "infinity", "[infinity]"],
        ["-infinity", "-infinity", "1970-01-01", "[infinity]"],
        ["NULL", "NULL", "275760-09-13", "[infinity]"],
    ]


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("id < 3", [0, 1, 2]),
        ("day = '2025-01-02' AND station = 'Mill'", [1, 29, 57, 85]),
        ("station LIKE 'M%' AND id BETWEEN 10 AND 14", [11, 13]),
        ("upper(station) = 'MILL' AND id IN (3, 4, 5)", [3, 5]),
    ],
)
def test_rows_are_chosen_by_sql(
    location: str, lakeport_command: Command, tmp_path: Path, where: str, ids: list[int]
) -> None:
    file = tmp_path / "rows.parquet"

    result = lakeport_command(
        "query", location, "trips", "--columns", "id", "--where", where, "--output", str(file)
    )

    assert result.exit_code == 0, result.stderr
    assert pq.read_table(file).to_pydict() == {"id": ids}


def test_all_rows_are_saved_in_every_format(
    location: str, lakeport_command: Command, tmp_path: Path
) -> None:
    for name in ("rows.arrow", "rows.parquet"):
        result = lakeport_command("query", location, "trips", "--output", str(tmp_path / name))
        assert f"100 rows in {tmp_path / name}" in result.stdout
    columns = ["--columns", "id,station,day", "--limit", "7"]
    lakeport_command("query", location, "trips", *columns, "--output", str(tmp_path / "rows.csv"))

    assert pa.ipc.open_file(tmp_path / "rows.arrow").read_all().equals(TRIPS)
    assert pq.read_table(tmp_path / "rows.parquet").to_pydict() == TRIPS.to_pydict()
    saved = pyarrow.csv.read_csv(tmp_path / "rows.csv")
    assert saved.to_pydict() == TRIPS.select(["id", "station", "day"]).slice(0, 7).to_pydict()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.arrow", "rows.csv", "rows.parquet"]


def test_an_older_version_is_read(lakeport_command: Command, tmp_path: Path) -> None:
    from lakeport.airport.client import connect

    with Server(MemoryCatalog()) as server:
        with connect(server.location) as client:
            client.create_schema("s")
            table = client.create_table_as("s", "t", pa.table({"x": [1, 2]}))
            # Version 1 is empty, 2 has the rows it was made of.
            table.insert(pa.table({"x": [3]}))
        file = tmp_path / "rows.arrow"
        lakeport_command("query", server.location, "s.t", "--output", str(file))
        now = pa.ipc.open_file(file).read_all().num_rows
        result = lakeport_command(
            "query", server.location, "s.t", "--at", "2", "--output", str(file)
        )

    assert result.exit_code == 0, result.stderr
    assert (now, pa.ipc.open_file(file).read_all().num_rows) == (3, 2)


def test_a_token_comes_from_a_file_or_from_the_environment(
    lakeport_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("# mine\ngood\n")
    with Server(MemoryCatalog(), auth={"good": "me"}) as server:
        refused = lakeport_command("query", server.location)
        by_file = lakeport_command("query", server.location, "--token-file", str(file))
        by_variable = lakeport_command("query", server.location, env={"LAKEPORT_TOKEN": "good"})

    assert (refused.exit_code, by_file.exit_code, by_variable.exit_code) == (1, 0, 0)
    assert "bearer token" in refused.stderr


def test_a_server_with_several_catalogs_lists_them(lakeport_command: Command) -> None:
    with Server({"one": MemoryCatalog(), "two": MemoryCatalog()}) as server:
        everything = lakeport_command("query", server.location)
        one = lakeport_command("query", server.location, "--catalog", "two")

    assert "one" in everything.stdout
    assert "two" in everything.stdout
    assert one.exit_code == 0, one.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "there is no table 'nothing'"),
        (["trips", "--columns", "nope"], "there is no column 'nope'"),
        (["trips", "--where", "id >"], "the filter is not SQL"),
        (["trips", "--where", "id IN (SELECT 1)"], "the filter cannot contain this"),
        (["trips", "--where", "id = 'five'"], "is not a value of column 'id'"),
        (["trips", "--where", "day = 'someday'"], "is not a value of column 'day'"),
        (["trips", "--output", "rows.xlsx"], "must end with .parquet, .csv or .arrow"),
        (["trips", "--output", "/nowhere/rows.csv"], "there is no folder"),
        (["trips", "--token-file", "/nowhere"], "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    location: str, lakeport_command: Command, arguments: list[str], sentence: str
) -> None:
    result = lakeport_command("query", location, *arguments)

    assert result.exit_code == 1
    assert sentence in result.stderr


def test_rows_that_a_format_cannot_hold_leave_no_file(
    lakeport_command: Command, tmp_path: Path
) -> None:
    rows = pa.table({"span": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with Server(CatalogBuilder("c").schema("s").table("t", rows).build()) as server:
        file = tmp_path / "rows.parquet"
        result = lakeport_command("query", server.location, "t", "--output", str(file))

    assert result.exit_code == 1
    assert "rows.parquet cannot hold these rows" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_values_are_shown_and_saved_as_duckdb_writes_them(
    lakeport_command: Command, tmp_path: Path
) -> None:
    rows = pa.table(
        {
            "flag": [True, None],
            "list": pa.array([[1, None], []], pa.list_(pa.int32())),
            "fields": [{"a": None, "b": "x"}, None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32())),
            "bytes": [b"\xaaa", None],
            "span": pa.array([(1, 2, 0), None], pa.month_day_nano_interval()),
        }
    )
    with Server(CatalogBuilder("c").schema("s").table("t", rows).build()) as server:
        shown = lakeport_command("query", server.location, "t").stdout
        file = tmp_path / "rows.csv"
        lakeport_command("query", server.location, "t", "--output", str(file))

    lines = [line.split("│")[1:-1] for line in shown.splitlines() if line.startswith("│")]
    assert [[value.strip() for value in line] for line in lines] == [
        ["true", "[1, NULL]", "{'a': NULL, 'b': x}", "{k=1}", "\\xAAa", "1 month 2 days"],
        ["NULL", "[]", "NULL", "NULL", "NULL", "NULL"],
    ]  # fmt: skip
    assert file.read_text().splitlines() == [
        '"flag","list","fields","map","bytes","span"',
        'true,"[1, NULL]","{\'a\': NULL, \'b\': x}","{k=1}","\\xAAa","1 month 2 days"',
        ',"[]",,,,',
    ]


def test_nobody_listening_is_one_sentence(lakeport_command: Command) -> None:
    result = lakeport_command("query", "grpc://127.0.0.1:1")

    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr


@pytest.mark.process
def test_an_interrupt_is_exit_code_130_and_leaves_no_file(tmp_path: Path) -> None:
    started = threading.Event()

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            yield pa.record_batch({"x": pa.array(range(1000), pa.int64())})
            started.set()

    catalog = CatalogBuilder("c").schema("s")
    catalog.table("endless", endless, schema=pa.schema([("x", pa.int64())]))
    with Server(catalog.build()) as server:
        command = ["query", server.location, "endless", "--output", str(tmp_path / "x.arrow")]
        with subprocess.Popen([*COMMAND, *command], stderr=subprocess.PIPE, text=True) as process:
            assert started.wait(TIMEOUT_SECONDS)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=TIMEOUT_SECONDS)

    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert list(tmp_path.iterdir()) == []


def test_a_quoted_constant_fits_its_column_and_one_row_is_singular(
    location: str, lakeport_command: Command, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"

    result = lakeport_command(
        "query", location, "trips", "--where", "id = '5'", "--output", str(file)
    )

    assert result.exit_code == 0, result.stderr
    assert "1 row in " in result.stdout
    assert pq.read_table(file)["id"].to_pylist() == [5]
