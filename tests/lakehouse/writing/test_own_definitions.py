"""Transactions of DuckDB and the definitions of their own process.

DDL names no transaction, and all connections of a DuckDB process share their list of tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import Lake, Server
from lakeport.catalog import DMLOptions, RequestContext, request_scope
from lakeport.errors import ConflictError
from lakeport.lakehouse import LakeCatalog
from tests.airport.flight_client import RawFlightClient, path

CREATE_LISTS = (
    *("not_null_constraints", "unique_constraints", "check_constraints"),
    *("primary_key_columns", "unique_columns", "multi_key_primary_keys"),
    "extra_constraints",
)
T = path("public", "t")
U = path("public", "u")


@dataclass(frozen=True)
class DuckDBProcess:
    """A DuckDB process with several connections."""

    wire: RawFlightClient

    def begin(self) -> RawFlightClient:
        """The first statement of a transaction: the calls that name it."""
        reply = msgpack.unpackb(self.wire.call("create_transaction", catalog_name="lake"))
        self.wire.call("catalog_version", catalog_name="lake")
        return self.wire.with_headers(airport_transaction_id=reply["identifier"])

    def create_schema(self, name: str) -> None:
        self.wire.call("create_schema", catalog_name="lake", schema=name)

    def create_table(self, name: str, schema: str = "public") -> None:
        self.wire.call(
            "create_table",
            catalog_name="lake",
            schema_name=schema,
            table_name=name,
            arrow_schema=rows().schema.serialize().to_pybytes(),
            on_conflict="error",
            **{name: list[str]() for name in CREATE_LISTS},
        )

    def drop_table(self, name: str) -> None:
        self.wire.action(
            "drop_table",
            msgpack.packb(
                {
                    "type": "table",
                    "catalog_name": "lake",
                    "schema_name": "public",
                    "name": name,
                    "ignore_not_found": False,
                }
            ),
        )

    def alter(self, action: str, table: str, **fields: Any) -> None:
        self.wire.call(
            action, catalog="lake", schema="public", name=table, ignore_not_found=False, **fields
        )


@dataclass(frozen=True)
class Served:
    """A served lake, and what changes it from outside."""

    uri: str
    lake: Lake
    catalog: LakeCatalog
    server: Server
    client: flight.FlightClient

    def process(self, session: str) -> DuckDBProcess:
        headers = {"airport-client-session-id": session, "airport-catalog": "lake"}
        return DuckDBProcess(RawFlightClient(self.server, self.client, headers))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    uri = f"ducklake:sqlite:{tmp_path / 'm.sqlite'}"
    with Lake.create(uri, data_path=f"{tmp_path}/d/") as own:
        own.create_table("t", rows().schema)
        own.table("t").append(rows(1, 2, 3))
        with (
            LakeCatalog(own, name="lake", writable=True, engine="local") as catalog,
            Server(catalog) as server,
            flight.FlightClient(server.location) as client,
        ):
            yield Served(uri, own, catalog, server, client)


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def ids(transaction: RawFlightClient, table: flight.FlightDescriptor) -> list[int]:
    return sorted(transaction.scan(table)["id"].to_pylist())


def test_a_transaction_writes_and_reads_the_table_that_it_creates(served: Served) -> None:
    process = served.process("own")
    transaction = process.begin()
    assert ids(transaction, T) == [1, 2, 3]
    # Another connection of the process runs a statement of its own.
    assert ids(process.begin(), T) == [1, 2, 3]

    process.create_table("u")

    assert transaction.change("insert", U, rows(7)).total_changed == 1
    assert transaction.change("insert", U, rows(8), returning=True).rows == [{"id": 8}]
    assert ids(transaction, U) == [7, 8]


def test_a_transaction_reads_the_columns_that_its_process_has_altered(served: Served) -> None:
    process = served.process("own")
    transaction = process.begin()
    process.begin()

    added = pa.schema([pa.field("z", pa.int64())]).serialize().to_pybytes()
    process.alter("add_column", "t", column_schema=added, if_column_not_exists=False)
    assert transaction.scan(T).column_names == ["id", "z", "rowid"]

    process.begin()
    process.alter("rename_column", "t", old_name="id", new_name="key")
    assert transaction.scan(T).column_names == ["key", "z", "rowid"]

    process.begin()
    process.alter("rename_table", "t", new_table_name="w")
    assert transaction.scan(path("public", "w")).num_rows == 3


def test_a_transaction_reads_the_table_that_replaces_a_dropped_one(served: Served) -> None:
    process = served.process("own")
    transaction = process.begin()
    assert ids(transaction, T) == [1, 2, 3]

    process.begin()
    process.drop_table("t")
    process.begin()
    process.create_table("t")

    assert transaction.change("insert", T, rows(9)).total_changed == 1
    assert ids(transaction, T) == [9]


def test_a_transaction_reads_tables_of_a_schema_that_its_process_creates(served: Served) -> None:
    process = served.process("own")
    transaction, there = process.begin(), path("s", "x")

    process.begin()
    process.create_schema("s")
    process.begin()
    process.create_table("x", "s")

    assert transaction.change("insert", there, rows(5)).total_changed == 1
    assert ids(transaction, there) == [5]


def test_definitions_of_a_process_move_no_other_transaction(served: Served) -> None:
    own, other = served.process("own"), served.process("other")
    begun, foreign = own.begin(), other.begin()
    own.begin()

    with Lake.open(served.uri) as writer:
        writer.table("t").append(rows(4))
    own.create_table("u")

    # The connection that has not touched the new table still reads its first snapshot.
    assert ids(begun, T) == [1, 2, 3]
    assert ids(foreign, T) == [1, 2, 3]
    with pytest.raises(pa.ArrowKeyError, match=r"there is no table public\.u at snapshot"):
        foreign.scan(U)


def test_a_delete_conflicts_with_a_change_beside_a_definition_of_its_process(
    served: Served,
) -> None:
    """The definition lets the transaction read on; the rows to delete were found before it."""
    with request_scope(RequestContext(session_id="own")):
        begun = RequestContext(session_id="own", transaction_id=served.catalog.begin_transaction())
    row_ids = pa.schema([pa.field("rowid", pa.int64(), metadata={b"is_rowid": b"1"})])

    def received() -> Iterator[pa.RecordBatch]:
        with Lake.open(served.uri) as writer:
            writer.table("t").update({"id": "20"}, "id = 2")
        served.process("own").create_table("u")
        yield pa.record_batch([pa.array([1], pa.int64())], schema=row_ids)

    with request_scope(begun):
        schema = served.catalog.schema("public")
        table = None if schema is None else schema.table("t")
        assert table is not None
        reader = pa.RecordBatchReader.from_batches(row_ids, received())
        with pytest.raises(ConflictError):
            table.delete_rows(reader, DMLOptions())  # type: ignore[attr-defined]
            served.catalog.commit_transaction(begun.transaction_id or "")

    assert sorted(served.lake.table("t").scan().to_arrow()["id"].to_pylist()) == [1, 3, 20]
