"""Recorded writes of the real client on a served lake, beside the same SQL of the reference."""

from __future__ import annotations

import re
from contextlib import closing, suppress
from dataclasses import dataclass

import duckdb
import pytest

from lakeport import Client, Lake, Server, connect
from lakeport.lakehouse import LakeCatalog
from tests.fixtures_lakes import LakeMaker
from tests.lakehouse.writing.recorded_writes import (
    LakePlayer,
    attached_as,
    contents,
    is_write,
    make_recorded_tables,
)
from tests.transcripts import recording
from tests.transcripts.recording import Statement
from tests.transcripts.replay_client import ReplayClient
from tests.wait import TIMEOUT_SECONDS

NOT_PLAYED: dict[str, dict[int, str]] = {
    "insert": {27: "copies a file of the recording machine"},
    "ddl_table": {7: "a generated column, whose expression the client does not send"},
    "ddl_struct_fields": dict.fromkeys((2, 11, 12), "the client does not send the name"),
    "types_roundtrip": {
        **dict.fromkeys(range(134), "not lossless: the client sends other types"),
        **dict.fromkeys((234, 235, 240, 241), "ENUM and ARRAY, which the reference refuses"),
        **dict.fromkeys((261, 262), "the reference cannot read such a struct that it inlined"),
    },
}
"""Statements that neither side runs."""
REFERENCE_SQL: dict[str, dict[int, str]] = {
    "ddl_schema": {
        7: "DROP SCHEMA d.n1 CASCADE",
        17: "CREATE TABLE d.n3.x (a INTEGER)",
        18: "INSERT INTO d.n3.x VALUES (1)",
    },
    "ddl_columns": {
        7: "ALTER TABLE d.w.a ADD COLUMN f VARCHAR",
        8: "ALTER TABLE d.w.a ADD COLUMN r DOUBLE",
    },
}
"""What the reference runs instead: CASCADE and USE are not sent, and it has no such defaults."""
RANDOM = {"ctas": ['w."c6"'], "ddl_columns": ['w."a"']}
"""Tables with random values."""
THEMES = (
    "insert",
    "insert_returning",
    "update",
    "update_returning",
    "delete",
    "delete_returning",
    "ctas",
    "ddl_schema",
    "ddl_table",
    "ddl_columns",
    "ddl_struct_fields",
    "transactions",
    "types_roundtrip",
    "arrow_settings",
)


@pytest.mark.parametrize("theme", THEMES)
def test_recorded_writes_leave_what_the_reference_leaves(make_lake: LakeMaker, theme: str) -> None:
    ours, theirs = make_lake("sqlite"), make_lake("sqlite")
    for lake in (ours, theirs):
        make_recorded_tables(lake)
    (recorded,) = recording.load(theme)
    ignored = NOT_PLAYED.get(theme, {})

    with (
        LakeCatalog(ours.uri, name="db1", writable=True, engine="local") as catalog,
        Server(catalog) as server,
        connect(server.location, catalog="db1", timeout=TIMEOUT_SECONDS) as client,
        closing(ReplayClient(server.location)) as wire,
        attached_as(theirs, "d") as reference,
    ):
        both = _Both(LakePlayer(wire), reference, catalog.lake, client)
        for statement in recorded.statements:
            if statement.number not in ignored and is_write(statement):
                sql = REFERENCE_SQL.get(theme, {}).get(statement.number, statement.sql)
                both.run(statement, sql)

    mine, other = contents(ours), contents(theirs)
    for name in RANDOM.get(theme, ()):
        assert len(mine.pop(name)[1]) == len(other.pop(name)[1])
    assert mine.keys() == other.keys()
    for name, value in other.items():
        assert mine[name] == value, name


def test_types_that_the_reference_refuses_are_stored_as_others(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    make_recorded_tables(lake)
    (recorded,) = recording.load("types_roundtrip")

    with (
        LakeCatalog(lake.uri, name="db1", writable=True, engine="local") as catalog,
        Server(catalog) as server,
        closing(ReplayClient(server.location)) as wire,
    ):
        player = LakePlayer(wire)
        for statement in recorded.statements:
            if statement.number in (234, 235, 240, 241, 261, 262):
                assert player.play(statement) is None

    found = contents(lake)
    assert found['w."ty_true_33"'][1] == [("blue",), (None,)]
    assert found['w."ty_true_35"'][1] == [(None,), ([1, 2, 3],)]
    assert len(found['w."ty_true_42"'][1]) == 2


@dataclass(frozen=True)
class _Both:
    """A served lake and one of the reference, to which the same statements go."""

    player: LakePlayer
    reference: duckdb.DuckDBPyConnection
    lake: Lake
    client: Client

    def run(self, statement: Statement, sql: str) -> None:
        before = self.lake.snapshot().id
        error = self.player.play(statement)
        if statement.outcome.error:
            # It failed in DuckDB, which a server cannot see: what it has written is undone.
            if self.lake.snapshot().id != before:
                self.client.call_table("lakeport.rollback_to", before).to_arrow()
            return
        refused = None
        try:
            # DuckLake has no RETURNING; what ours returned was compared with the recording.
            self.reference.execute(re.sub(r" RETURNING .*$", "", sql))
        except duckdb.Error as raised:
            refused = raised
            with suppress(duckdb.Error):
                self.reference.execute("ROLLBACK")
        assert (error is None) == (refused is None), (
            f"{statement.number}: {statement.sql}: ours {error}, reference {refused}"
        )
