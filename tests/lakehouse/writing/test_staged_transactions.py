"""Explicit transactions over Flight, by the calls that a DuckDB process makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import msgpack
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import flight

from lakeport import Lake, Server
from lakeport.airport.server import server as server_module
from lakeport.airport.server.transactions import Transactions
from lakeport.lakehouse import LakeCatalog
from tests.airport.flight_client import Exchanged, RawFlightClient, extra_info, one_row, path
from tests.fixtures_lakes import LakeMaker, RealLake

TABLE = "CREATE TABLE t (id INTEGER, name VARCHAR)"
ROWS = "INSERT INTO t SELECT i, 'n' || i FROM range(20) r(i)"
FILE_ROWS = "INSERT INTO t SELECT i, 'n' || i FROM range({}, {}) r(i)"


@dataclass(frozen=True)
class Process:
    """One DuckDB process, which begins a transaction with every statement."""

    wire: RawFlightClient

    def statement(self) -> RawFlightClient:
        """The calls of a statement without BEGIN, or of all statements after BEGIN."""
        reply = msgpack.unpackb(self.wire.call("create_transaction", catalog_name="lake"))
        self.wire.call("catalog_version", catalog_name="lake")
        return self.wire.with_headers(airport_transaction_id=reply["identifier"])

    def change(
        self, operation: str, table: str, rows: pa.Table, *, returning: bool = False
    ) -> Exchanged:
        there = path("public", table)
        return self.statement().change(operation, there, rows, returning=returning)

    def insert(self, table: str, *ids: int, returning: bool = False) -> Exchanged:
        return self.change("insert", table, new_rows(*ids), returning=returning)

    def ids(self, table: str = "t") -> list[int]:
        return sorted(self.rows(table).column("id").to_pylist())

    def rows(self, table: str = "t") -> pa.Table:
        return self.statement().scan(path("public", table))

    def row_ids(self, *ids: int, table: str = "t") -> pa.Table:
        """The row ids of rows, in the order of their column `id`."""
        rows = self.rows(table).sort_by("id")
        found = dict(zip(rows["id"].to_pylist(), rows["rowid"].to_pylist(), strict=True))
        return pa.table({"rowid": pa.array([found[id] for id in ids], pa.int64())})

    def call(self, function: str, **arguments: Any) -> list[dict[str, Any]]:
        """A CALL of a function of the schema `lakeport`, which names no transaction."""
        there = path("lakeport", function)
        packed = one_row(**arguments)
        self.wire.call(
            "table_function_flight_info",
            descriptor=there.serialize(),
            parameters=packed,
            table_input_schema="",
            at_unit="",
            at_value="",
        )
        rows: list[dict[str, Any]] = self.wire.scan(there, arguments=packed).to_pylist()
        return rows

    def create_table(self, table: str) -> None:
        lists = (
            *("not_null_constraints", "unique_constraints", "check_constraints"),
            *("primary_key_columns", "unique_columns", "multi_key_primary_keys"),
            "extra_constraints",
        )
        self.statement()
        self.wire.call(
            "create_table",
            catalog_name="lake",
            schema_name="public",
            table_name=table,
            arrow_schema=new_rows(1).schema.serialize().to_pybytes(),
            on_conflict="error",
            **{name: list[str]() for name in lists},
        )


@dataclass(frozen=True)
class Staging:
    """A lake that is served with explicit transactions."""

    real: RealLake
    catalog: LakeCatalog
    server: Server
    client: flight.FlightClient

    def process(self, session: str) -> Process:
        headers = {"airport-client-session-id": session, "airport-catalog": "lake"}
        return Process(RawFlightClient(self.server, self.client, headers))

    @property
    def newest(self) -> int:
        return self.catalog.lake.snapshot().id

    @property
    def files(self) -> list[str]:
        return [path.name for path in Path(self.real.data_path).rglob("*.parquet")]

    def stored(self, sql: str) -> list[tuple[Any, ...]]:
        """What the reference reads."""
        self.real.attach()
        rows: list[tuple[Any, ...]] = self.real.query(sql)
        self.real.detach()
        return rows


Stage: TypeAlias = Callable[..., Staging]


@pytest.fixture
def stage(make_lake: LakeMaker) -> Iterator[Stage]:
    with ExitStack() as stack:

        def staging(*statements: str, **options: Any) -> Staging:
            lake = make_lake("sqlite")
            lake.execute(*statements)
            lake.detach()
            options = {"engine": "local", "explicit_transactions": True, **options}
            catalog = stack.enter_context(
                LakeCatalog(lake.uri, name="lake", writable=True, **options)
            )
            server = stack.enter_context(Server(catalog))
            client = stack.enter_context(flight.FlightClient(server.location))
            return Staging(lake, catalog, server, client)

        yield staging


def new_rows(*ids: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int32()), "name": pa.array([f"n{id}" for id in ids], pa.string())}
    )


def test_several_tables_and_definitions_are_one_snapshot(stage: Stage) -> None:
    here = stage(TABLE, ROWS, "CREATE TABLE other AS FROM t LIMIT 0")
    before = here.newest
    own, foreign = here.process("own"), here.process("foreign")

    own.insert("t", 100, 101)
    own.create_table("fresh")
    own.insert("fresh", *range(3000))
    own.wire.call(
        "rename_table",
        catalog="lake",
        schema="public",
        name="other",
        new_table_name="renamed",
        ignore_not_found=False,
    )
    own.insert("renamed", 7)
    own.change("delete", "t", own.row_ids(0, 100))
    own.call("comment_on", table_name="t", comment="staged", column_name=None)

    assert own.ids() == [*range(1, 20), 101]
    assert len(own.ids("fresh")) == 3000
    assert own.ids("renamed") == [7]
    assert foreign.ids() == list(range(20))
    with pytest.raises(pa.ArrowKeyError, match="fresh"):
        foreign.ids("fresh")
    assert here.newest == before

    (committed,) = own.call("commit", message="all of it")

    assert committed["snapshot_id"] == here.newest == before + 1
    assert here.stored("SELECT count(*) FROM fresh") == [(3000,)]
    assert here.stored("SELECT id FROM renamed") == [(7,)]
    assert here.stored("SELECT id FROM t ORDER BY id") == [(id,) for id in [*range(1, 20), 101]]
    assert here.catalog.lake.snapshot().commit_message == "all of it"
    assert foreign.ids("renamed") == [7]


def test_staged_rows_are_in_the_listing_of_their_own_process_only(stage: Stage) -> None:
    here = stage(TABLE)
    own, foreign = here.process("own"), here.process("foreign")

    own.create_table("fresh")

    assert "fresh" in own.wire.items("public", "lake")
    assert "fresh" not in foreign.wire.items("public", "lake")


def test_returning_shows_staged_rows(stage: Stage) -> None:
    here = stage(TABLE, ROWS)
    before = here.newest
    own = here.process("own")

    inserted = own.insert("t", 100, 101, returning=True)
    ids = own.row_ids(5, 100)
    set_names = pa.table({"name": ["five", "hundred"], "id": pa.array([5, 100], pa.int32())})
    updated = own.change(
        "update", "t", set_names.append_column("rowid", ids["rowid"]), returning=True
    )
    deleted = own.change("delete", "t", own.row_ids(5, 101), returning=True)

    assert [row["id"] for row in inserted.rows] == [100, 101]
    assert updated.schema.names == ["name", "id", "rowid"]
    assert [row["name"] for row in updated.rows] == ["five", "hundred"]
    assert sorted((row["id"], row["name"]) for row in deleted.rows) == [(5, "five"), (101, "n101")]
    assert [part.total_changed for part in (inserted, updated, deleted)] == [2, 2, 2]
    assert own.ids() == [id for id in [*range(20), 100] if id != 5]
    assert here.newest == before

    own.call("commit", message=None)

    assert here.stored("SELECT name FROM t WHERE id >= 100") == [("hundred",)]


def test_a_process_does_not_rely_on_bounds_that_its_staged_rows_exceed(stage: Stage) -> None:
    here = stage(TABLE, ROWS, statistics_rows=0)
    own, foreign = here.process("own"), here.process("foreign")
    assert maximum(own) == maximum(foreign) == 19

    own.insert("t", 100)

    assert maximum(own) is None
    assert maximum(foreign) == 19

    own.call("commit", message=None)

    assert maximum(own) == maximum(foreign) == 100


def maximum(process: Process) -> int | None:
    """The largest `id` by the statistics that DuckDB requests for a query."""
    reply = process.statement().call(
        "column_statistics",
        flight_descriptor=path("public", "t").serialize(),
        column_name="id",
        type="INTEGER",
    )
    with pa.ipc.open_stream(reply) as stream:
        found: int | None = stream.read_all().to_pylist()[0].get("max")
    return found


@pytest.mark.parametrize("end", ["rollback", "rollback_transaction"])
def test_a_rollback_leaves_no_rows_tables_and_files(stage: Stage, end: str) -> None:
    here = stage(TABLE, ROWS)
    before = here.newest, here.files
    own = here.process("own")
    own.create_table("fresh")
    own.insert("fresh", *range(3000))
    own.change("delete", "t", own.row_ids(1, 2))
    assert len(here.files) > len(before[1])

    if end == "rollback":
        assert own.call("rollback") == [{"result": "rolled back"}]
    else:
        own.wire.action("rollback_transaction", b"lake")

    assert own.ids() == list(range(20))
    assert "fresh" not in own.wire.items("public", "lake")
    assert (here.newest, here.files) == before
    own.insert("t", 50)
    own.call("commit", message=None)
    assert here.stored("SELECT count(*) FROM t") == [(21,)]


def test_an_idle_transaction_expires_with_its_files(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    known = partial(Transactions, clock=lambda: now)
    monkeypatch.setattr(server_module, "Transactions", known)
    here = stage(TABLE, ROWS)
    before = here.newest, here.files
    own = here.process("own")
    own.insert("t", *range(100, 3100))
    now = 599.0
    assert len(own.ids()) == 3020
    now += 600.0

    with pytest.raises(flight.FlightServerError, match="rolled back after 600 seconds") as raised:
        own.insert("t", 1)
    assert extra_info(raised.value)["exception_type"] == "InvalidInputException"
    with pytest.raises(flight.FlightServerError, match=r"end it with lakeport\.rollback\(\)"):
        own.call("commit", message="late")

    assert own.ids() == list(range(20))
    assert (here.newest, here.files) == before
    own.call("rollback")
    own.insert("t", 100)
    own.call("commit", message=None)
    assert own.ids() == [*range(20), 100]


def test_a_conflict_at_the_commit_keeps_nothing_and_names_what_to_do(stage: Stage) -> None:
    here = stage(TABLE, FILE_ROWS.format(0, 5000))
    own, foreign = here.process("own"), here.process("foreign")
    own.create_table("fresh")
    own.insert("fresh", 1)
    own.change("delete", "t", own.row_ids(1))
    foreign.change("delete", "t", foreign.row_ids(2))
    foreign.call("commit", message="first")
    before = here.newest

    with pytest.raises(flight.FlightUnavailableError, match="again"):
        own.call("commit", message="second")

    assert here.newest == before
    assert here.stored("SELECT count(*) FROM t") == [(4999,)]
    # The process goes on by itself: what it had staged is gone.
    assert "fresh" not in own.wire.items("public", "lake")
    assert 2 not in own.ids()
    own.change("delete", "t", own.row_ids(1))
    own.call("commit", message="again")
    assert here.stored("SELECT count(*) FROM t") == [(4998,)]


def test_appends_of_two_processes_do_not_conflict(stage: Stage) -> None:
    here = stage(TABLE, ROWS)
    own, foreign = here.process("own"), here.process("foreign")
    own.insert("t", 100)
    foreign.insert("t", 200)

    for process in (foreign, own):
        process.call("commit", message=None)

    assert own.ids() == foreign.ids() == [*range(20), 100, 200]


def test_rows_can_be_inserted_from_the_table_itself(stage: Stage) -> None:
    """DuckDB opens the exchange first and scans the table while it is open."""
    here = stage(TABLE, ROWS)
    own = here.process("own")
    own.insert("t", *range(100, 3100))
    statement, there = own.statement(), path("public", "t")

    with statement.open_exchange(there, "insert", return_chunks="0") as (writer, reader):
        writer.begin(new_rows(1).schema)
        assert reader.schema is not None
        for endpoint in statement.endpoints(there):
            for chunk in statement.get(endpoint.ticket):
                writer.write_batch(chunk.data.select(["id", "name"]))
        writer.done_writing()
        total = msgpack.unpackb(reader.read_chunk().app_metadata.to_pybytes())["total_changed"]

    assert total == 3020
    assert len(own.ids()) == 2 * 3020


def test_a_transaction_of_duckdb_reads_one_snapshot_and_its_own_writes(stage: Stage) -> None:
    """After BEGIN, without explicit transactions: every statement is a snapshot."""
    here = stage(TABLE, ROWS, explicit_transactions=False)
    there = path("public", "t")
    begun = here.process("own").statement()
    assert begun.scan(there).num_rows == 20

    with Lake.open(here.real.uri) as other:
        other.table("t").append(new_rows(500))
    assert begun.scan(there).num_rows == 20
    begun.change("insert", there, new_rows(100))

    # The snapshot of its own write has the earlier one of the other writer, too.
    assert begun.scan(there).num_rows == 22
    rows = begun.scan(there)
    ids = rows.filter(pc.equal(rows["id"], 100)).select(["rowid"])
    assert begun.change("delete", there, ids).total_changed == 1
    with Lake.open(here.real.uri) as other:
        other.table("t").append(new_rows(501))
    assert sorted(begun.scan(there)["id"].to_pylist()) == [*range(20), 500]
