"""Plays the writes of recorded statements against a served lake, and the same SQL on the reference.

Only what changes something is sent: DDL actions and exchanges, in the recorded order. The row ids
of the recording server count from 0 in each table, as those of a lake do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import duckdb
from pyarrow import flight

from lakeport.catalog import check_constraints, without_rowid
from tests.fixtures_lakes import RealLake
from tests.transcripts import exchanges, reply_checks
from tests.transcripts.catalog import initial_rows, recorded_listing
from tests.transcripts.recording import Rpc, Statement
from tests.transcripts.replay_client import CallFailedError, ReplayClient

__all__ = ["LakePlayer", "attached_as", "contents", "is_write", "make_recorded_tables"]

# The tables of the recording server that a lake can have.
TABLES = {
    "s": {"t", "empty", "constrained", "nested", "no_rowid", "rowid_first", "rowid_othername"},
    "static_data": {"big_chunk", "employees"},
    "ep": {"zero", "zero_rowid", "four_rowid"},
    "errs": {
        *(f"exch_batch__{kind}" for kind in ("servererror", "key", "x_constraint", "x_json")),
        *(f"exch_final__{kind}" for kind in ("servererror", "key", "x_constraint")),
    },
    "w": set[str](),
}
_SENT = {
    *("create_schema", "drop_schema", "create_table", "drop_table", "rename_table"),
    *("add_column", "remove_column", "rename_column", "change_column_type", "set_default"),
    *("set_not_null", "drop_not_null", "add_field", "remove_field", "rename_field"),
}
_CHANGES = {"insert", "update", "delete"}


def make_recorded_tables(lake: RealLake, statements: Sequence[Statement]) -> None:
    """Create the recorded tables that statements name with their rows, by the reference."""
    sql = "\n".join(statement.sql for statement in statements)
    lake.attach()
    for listed in recorded_listing("db1").schemas:
        if listed.name not in TABLES:
            continue
        lake.execute(f"CREATE SCHEMA {listed.name}")
        for entry in listed.entries:
            named = re.search(rf"\b{listed.name}\.{entry.name}\b", sql)
            if entry.name not in TABLES[listed.name] or not named:
                continue
            rows = initial_rows(entry)
            if entry.name == "big_chunk":
                rows = rows.slice(0, 6000)
            lake.connection.register("recorded", rows.select(without_rowid(rows.schema).names))
            table = f"{listed.name}.{entry.name}"
            lake.execute(f"CREATE TABLE {table} AS FROM recorded")
            lake.connection.unregister("recorded")
            assert len(check_constraints(rows.schema)) < 2
            for column in without_rowid(rows.schema):
                if not column.nullable:
                    lake.execute(f"ALTER TABLE {table} ALTER {column.name} SET NOT NULL")
                default = (column.metadata or {}).get(b"default")
                if default:
                    lake.execute(
                        f"ALTER TABLE {table} ALTER {column.name} SET DEFAULT {default.decode()}"
                    )
    lake.detach()


def is_write(statement: Statement) -> bool:
    """Whether the client sent something that changes a catalog."""
    return any(_is_change(rpc) for rpc in statement.rpcs)


def _is_change(rpc: Rpc) -> bool:
    is_exchange = rpc.method == "DoExchange" and rpc.header("airport-operation") in _CHANGES
    return rpc.action in _SENT or is_exchange


@dataclass
class LakePlayer:
    """A client that sends the writes of statements to a served lake."""

    wire: ReplayClient
    _transactions: dict[str, str | None] = field(default_factory=dict)

    def play(self, statement: Statement) -> CallFailedError | None:
        """Send the writes of a statement; return the error of the first that was refused."""
        for rpc in statement.rpcs:
            try:
                self._send(rpc)
            except CallFailedError as error:
                return error
        return None

    def _send(self, rpc: Rpc) -> None:
        if rpc.action == "create_transaction":
            recorded = reply_checks.check_transaction(rpc.results[0])
            results = self.wire.action("create_transaction", rpc.body, rpc.headers)
            self._transactions[recorded or ""] = reply_checks.check_transaction(results[0])
        elif rpc.action in _SENT:
            self.wire.action(rpc.action, rpc.body, self._headers(rpc))
        elif rpc.method == "DoExchange" and rpc.header("airport-operation") in _CHANGES:
            descriptor = flight.FlightDescriptor.deserialize(rpc.descriptor)
            opened = self.wire.exchange(rpc, descriptor, self._headers(rpc))
            returning = rpc.header("return-chunks") == "1"
            exchanges.same_changes(
                opened.finish(), rpc, rpc.header("airport-operation") or "", returning=returning
            )

    def _headers(self, rpc: Rpc) -> Mapping[str, Sequence[str]]:
        headers = dict(rpc.headers)
        recorded = rpc.header("airport-transaction-id")
        if recorded:
            ours = self._transactions.get(recorded)
            headers["airport-transaction-id"] = [ours] if ours else []
        return headers


@contextmanager
def attached_as(lake: RealLake, alias: str) -> Iterator[duckdb.DuckDBPyConnection]:
    """Attach a lake under the name that the recordings use."""
    lake.detach()
    lake.connection.execute(f"ATTACH '{lake.uri}' AS {alias} (DATA_PATH '{lake.data_path}')")
    try:
        yield lake.connection
    finally:
        lake.connection.execute("USE memory")
        lake.connection.execute(f"DETACH {alias}")


def contents(lake: RealLake) -> dict[str, tuple[list[object], list[object]]]:
    """The columns and rows of all tables of a lake, by name, as the reference reads them."""
    found = {}
    with attached_as(lake, "d") as connection:
        tables = connection.execute(_TABLES).fetchall()
        for schema, table in tables:
            name = f'{schema}."{table}"'
            columns = connection.execute(f"DESCRIBE d.{name}").fetchall()
            rows = connection.execute(f"SELECT * FROM d.{name}").fetchall()
            found[name] = (columns, sorted(rows, key=repr))
    assert found
    return found


# Listings of DuckDB can be empty after CREATE TABLE AS in the same process.
_TABLES = (
    "SELECT schema_name, table_name FROM __ducklake_metadata_d.ducklake_table t "
    "JOIN __ducklake_metadata_d.ducklake_schema s USING (schema_id) "
    "WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL"
)
