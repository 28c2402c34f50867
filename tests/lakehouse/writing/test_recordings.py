"""Recorded writes of the real client on a served lake, beside the same SQL of the reference."""

from __future__ import annotations

import re
from contextlib import ExitStack, closing, suppress
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
    "errors": {
        **dict.fromkeys(range(40, 58), "refused before the client sent rows"),
        59: "the same as 58",
        66: "refused before the client sent all rows",
    },
    "errors_actions": {60: "the client does not send the name"},
}
"""Statements that neither side runs."""
REFERENCE_SQL: dict[str, dict[int, str]] = {
    "ddl_schema": {
        17: "CREATE TABLE d.n3.x (a INTEGER)",
        18: "INSERT INTO d.n3.x VALUES (1)",
    },
    "ddl_columns": {
        7: "ALTER TABLE d.w.a ADD COLUMN f VARCHAR",
        8: "ALTER TABLE d.w.a ADD COLUMN r DOUBLE",
    },
    "auth_secret": {
        10: "CREATE TABLE d.w.x (a INTEGER)",
        16: "INSERT INTO d.s.t VALUES (2, 'y', 1)",
    },
    "multi_catalog": {
        12: "UPDATE d.s.t SET name = 'via alias' WHERE id = 1",
        14: "CREATE TABLE d.w.y (a INTEGER)",
    },
    "time_travel": {20: "INSERT INTO d.w.v VALUES ('one', 1)"},
}
"""What the reference runs instead: USE is not sent, and it has no such defaults and versions."""
RANDOM = {"ctas": ['w."c6"'], "ddl_columns": ['w."a"']}
"""Tables with random values."""
ORDER: dict[str, tuple[int, ...] | tuple[str, ...]] = {
    "errors": (70, 71, 72, 73, 58, 60, 61, 62, 63, 64, 65, 67, 68, 69, 75, 77, 79, 81, 83),
    "errors_actions": (18, 24, 36, 39, 45, 48, 51, 42, 54, 57, 33, 30, 27, 21),
    "hazards": (
        "empty reply: create_schema",
        "empty reply: create_table",
        "empty reply: add_column",
        "rowid field not last: scan of rowid and columns",
        "empty reply: drop_table",
    ),
}
"""Statements, or cases, that leave something for the next ones in this order only."""
FAILED_IN_SERVER = {"errors", "errors_actions", "hazards"}
"""Themes in which the recording server fails on purpose: no other server does."""
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
    "auth_secret",
    "endpoints_parallel",
    "errors",
    "errors_actions",
    "hazards",
    "multi_catalog",
    "statistics",
    "time_travel",
)


def test_every_recording_with_a_write_is_played() -> None:
    written = {
        name
        for name in recording.names()
        if any(is_write(s) for case in recording.load(name) for s in case.statements)
    }

    assert written == set(THEMES)


@pytest.mark.parametrize("theme", THEMES)
def test_recorded_writes_leave_what_the_reference_leaves(make_lake: LakeMaker, theme: str) -> None:
    statements = _statements(theme)
    # The database of the recordings, and the alias under which the reference attaches its twin.
    aliases = {"db1": "d", "cat2": "c2"} if theme == "multi_catalog" else {"db1": "d"}
    ours = {name: make_lake("sqlite") for name in aliases}
    for lake in ours.values():
        make_recorded_tables(lake, statements)
    theirs = {name: lake.copy_to(make_lake("sqlite")) for name, lake in ours.items()}

    with ExitStack() as stack:
        enter = stack.enter_context
        catalogs = {
            name: enter(LakeCatalog(lake.uri, name=name, writable=True, engine="local"))
            for name, lake in ours.items()
        }
        token = "good-token" if theme == "auth_secret" else None
        server = enter(Server(catalogs, auth={token: "tester"} if token else None))
        client = enter(
            connect(server.location, token=token, catalog="db1", timeout=TIMEOUT_SECONDS)
        )
        wire = enter(closing(ReplayClient(server.location)))
        for name, lake in theirs.items():
            reference = enter(attached_as(lake, aliases[name]))
        both = _Both(
            LakePlayer(wire),
            reference,
            catalogs["db1"].lake,
            client,
            shows_failures=theme not in FAILED_IN_SERVER,
        )
        for statement in statements:
            sql = REFERENCE_SQL.get(theme, {}).get(statement.number, statement.sql)
            both.run(statement, sql)

    for database in aliases:
        mine, other = contents(ours[database]), contents(theirs[database])
        for name in RANDOM.get(theme, ()):
            assert len(mine.pop(name)[1]) == len(other.pop(name)[1])
        assert mine.keys() == other.keys()
        for name, value in other.items():
            assert mine[name] == value, name


def test_types_that_the_reference_refuses_are_stored_as_others(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    (recorded,) = recording.load("types_roundtrip")
    make_recorded_tables(lake, recorded.statements)

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


def test_zoned_times_that_duckdb_sends_in_an_unusable_form_are_refused(
    make_lake: LakeMaker,
) -> None:
    lake = make_lake("sqlite")
    (case,) = [c for c in recording.load("hazards") if "TIMETZ" in c.note]
    make_recorded_tables(lake, case.statements)

    with (
        LakeCatalog(lake.uri, name="db1", writable=True, engine="local") as catalog,
        Server(catalog) as server,
        closing(ReplayClient(server.location)) as wire,
    ):
        refused = [LakePlayer(wire).play(s) for s in case.statements if is_write(s)]

    assert "SET arrow_lossless_conversion = true" in str(refused)
    assert contents(lake)['w."h"'][1] == []


def _statements(theme: str) -> list[Statement]:
    """The writes of a theme that both sides run, in their order."""
    cases, order = recording.load(theme), ORDER.get(theme, ())
    if len(cases) > 1:
        by_note = {case.note: case for case in cases}
        cases = tuple(by_note[note] for note in order if isinstance(note, str))
    found = [
        statement
        for case in cases
        for statement in case.statements
        if is_write(statement) and statement.number not in NOT_PLAYED.get(theme, {})
    ]
    by_number = {statement.number: statement for statement in found}
    return [by_number[n] for n in order if isinstance(n, int)] or found


@dataclass(frozen=True)
class _Both:
    """A served lake and one of the reference, to which the same statements go."""

    player: LakePlayer
    reference: duckdb.DuckDBPyConnection
    lake: Lake
    client: Client
    shows_failures: bool

    def run(self, statement: Statement, sql: str) -> None:
        before = self.lake.snapshot().id
        error = self.player.play(statement)
        if statement.outcome.error and self.shows_failures:
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
