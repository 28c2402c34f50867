"""Random lives of a lake with two writers, ours and the reference: one table, one history.

Every change is made by one of the two, and by DuckDB on a plain table. After each change all three
have the same rows, and both readers read the same at other snapshots.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from lakeport.ducklake import LakeTable
from tests.fixtures_lakes import RealLake

VALUES = {
    "INTEGER": "i",
    "BIGINT": "i * 1000000007",
    "VARCHAR": "CASE WHEN i % 7 = 0 THEN NULL ELSE 'v' || i END",
    "DOUBLE": "CASE i % 5 WHEN 0 THEN 'nan'::DOUBLE WHEN 1 THEN -'inf'::DOUBLE ELSE i / 3 END",
    "DATE": "DATE '2024-01-01' + i::INTEGER",
    "TIMESTAMP": "TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND",
    "DECIMAL(9,2)": "i / 4",
    "DECIMAL(18,4)": "i / 4",
    "BOOLEAN": "i % 3 = 0",
    "BLOB": "chr(65 + (i % 26)::INTEGER)::BLOB",
    "UUID": "md5(i::VARCHAR)::UUID",
    "INTEGER[]": "[i, NULL]",
    "STRUCT(x INTEGER, y VARCHAR)": "{'x': i, 'y': 'y' || i}",
}
PROMOTIONS = {"INTEGER": "BIGINT", "DATE": "TIMESTAMP", "DECIMAL(9,2)": "DECIMAL(18,4)"}
WRITERS = st.sampled_from(["ours", "theirs"])


class SharedLife(RuleBasedStateMachine):
    """Changes of one table by two writers."""

    connection: duckdb.DuckDBPyConnection
    kind = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        suffix = "sqlite" if self.kind == "sqlite" else "ducklake"
        prefix = "sqlite:" if self.kind == "sqlite" else ""
        uri = f"ducklake:{prefix}{self.folder}/meta.{suffix}"
        self.lake = RealLake(self.connection, uri, f"{self.folder}/data/")
        self.columns: dict[str, str] = {}
        self.counter = 0
        self.changed = False

    def teardown(self) -> None:
        self.lake.detach()
        self.connection.execute("DROP TABLE IF EXISTS memory.main.model")
        shutil.rmtree(self.folder)

    def change(self, writer: str, sql: str, ours: Callable[[LakeTable], Any]) -> None:
        """Make a change by one writer, and on the model."""
        if writer == "theirs":
            self.lake.execute(sql.replace("{t}", "t"))
        else:
            with self.lake.open() as lake:
                ours(lake.table("t"))
        self.connection.execute(sql.replace("{t}", "memory.main.model"))
        self.changed = True

    def fresh(self) -> int:
        self.counter += 1
        return self.counter

    @initialize(types=st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4))
    def create(self, types: list[str]) -> None:
        self.columns = {"k": "INTEGER", **{f"c{i}": type for i, type in enumerate(types)}}
        listed = ", ".join(f"{name} {type}" for name, type in self.columns.items())
        self.lake.execute(f"CREATE TABLE t({listed})")
        self.connection.execute(f"CREATE OR REPLACE TABLE memory.main.model({listed})")

    @rule(writer=WRITERS, count=st.sampled_from([1, 3, 15]))
    def insert(self, writer: str, count: int) -> None:
        query = self._rows(self.fresh() * 100, count)
        rows = self.connection.execute(query).to_arrow_table()
        self.change(writer, f"INSERT INTO {{t}} {query}", lambda table: table.append(rows))

    @rule(writer=WRITERS, modulus=st.integers(2, 9))
    def delete(self, writer: str, modulus: int) -> None:
        where = f"k % {modulus} = 1"
        sql = f"DELETE FROM {{t}} WHERE {where}"
        self.change(writer, sql, lambda table: table.delete(where))

    @rule(writer=WRITERS, modulus=st.integers(2, 9))
    def update(self, writer: str, modulus: int) -> None:
        where = f"k % {modulus} = 0"
        sql = f"UPDATE {{t}} SET k = k + 1000 WHERE {where}"
        self.change(writer, sql, lambda table: table.update({"k": "k + 1000"}, where))

    @rule(modulus=st.integers(2, 9))
    def overwrite(self, modulus: int) -> None:
        where, query = f"k % {modulus} = 1", self._rows(self.fresh() * 100, 4)
        rows = self.connection.execute(query).to_arrow_table()
        sql = f"DELETE FROM {{t}} WHERE {where}; INSERT INTO {{t}} {query}"
        self.change("ours", sql, lambda table: table.overwrite(rows, where))

    @rule(modulus=st.integers(2, 9))
    def merge(self, modulus: int) -> None:
        changed = f"SELECT * REPLACE (k + 1 AS k) FROM memory.main.model WHERE k % {modulus} = 0"
        query = f"SELECT DISTINCT ON (k) * FROM ({changed})"
        rows = self.connection.execute(query).to_arrow_table()
        self.connection.register("source", rows)
        names = [name for name in self.columns if name != "k"]
        sets = ", ".join(f"{name} = source.{name}" for name in names)
        sql = (
            f"MERGE INTO {{t}} AS target USING source ON target.k = source.k "
            f"WHEN MATCHED THEN UPDATE SET {sets} WHEN NOT MATCHED THEN INSERT"
        )
        self.change(
            "ours",
            sql,
            lambda table: (
                table.merge(rows, "target.k = source.k")
                .when_matched(update="*")
                .when_not_matched(insert="*")
                .execute()
            ),
        )
        self.connection.unregister("source")

    @rule(writer=WRITERS, type=st.sampled_from(["INTEGER", "VARCHAR", "DOUBLE"]))
    def add_column(self, writer: str, type: str) -> None:
        name = f"n{self.fresh()}"
        self.change(
            writer,
            f"ALTER TABLE {{t}} ADD COLUMN {name} {type} DEFAULT 7",
            lambda table: table.add_column(name, type, default=7),
        )
        self.columns[name] = type

    @precondition(lambda self: len(self.columns) > 2)
    @rule(writer=WRITERS, data=st.data())
    def drop_column(self, writer: str, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([c for c in self.columns if c != "k"]))
        sql = f"ALTER TABLE {{t}} DROP COLUMN {name}"
        self.change(writer, sql, lambda table: table.drop_column(name))
        del self.columns[name]

    @precondition(lambda self: len(self.columns) > 1)
    @rule(writer=WRITERS, data=st.data())
    def rename_column(self, writer: str, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([c for c in self.columns if c != "k"]))
        new = f"m{self.fresh()}"
        sql = f"ALTER TABLE {{t}} RENAME COLUMN {name} TO {new}"
        self.change(writer, sql, lambda table: table.rename_column(name, new))
        self.columns = {new if c == name else c: t for c, t in self.columns.items()}

    @rule(writer=WRITERS, data=st.data())
    def promote(self, writer: str, data: st.DataObject) -> None:
        able = [c for c, type in self.columns.items() if type in PROMOTIONS and c != "k"]
        if able:
            name = data.draw(st.sampled_from(able))
            type = PROMOTIONS[self.columns[name]]
            sql = f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {type}"
            self.change(writer, sql, lambda table: table.alter_column(name, type))
            self.columns[name] = type

    @rule(writer=WRITERS, is_partitioned=st.booleans())
    def partition(self, writer: str, is_partitioned: bool) -> None:
        keys = ["bucket(3, k)"] if is_partitioned else []
        if writer == "ours":
            self.change("ours", "SELECT 1", lambda table: table.set_partitioning(keys))
        else:
            spec = f"SET PARTITIONED BY ({keys[0]})" if keys else "RESET PARTITIONED BY"
            self.lake.execute(f"ALTER TABLE t {spec}")
            self.changed = True

    @rule(
        call=st.sampled_from(
            [
                "ducklake_flush_inlined_data('lake')",
                "ducklake_merge_adjacent_files('lake')",
                "ducklake_rewrite_data_files('lake', delete_threshold => 0.2)",
            ]
        )
    )
    def maintain(self, call: str) -> None:
        self.lake.execute(f"CALL {call}")
        self.changed = True

    @invariant()
    def all_have_the_same_rows(self) -> None:
        if not self.changed:
            return
        self.changed = False
        model = self._texts("memory.main.model")
        assert self._texts("lake.main.t") == model
        facts = "count(*), min(k), max(k), count(k)"
        # The reference answers these from statistics.
        (found,) = self.lake.query(f"SELECT {facts} FROM t")
        (expected,) = self.lake.query(f"SELECT {facts} FROM memory.main.model")
        assert found == expected
        known = self.lake.snapshots()
        self.lake.check(snapshots=sorted({known[-1], known[len(known) // 2]}))

    def _texts(self, source: str) -> list[tuple[str, ...]]:
        columns = ", ".join(f"{name}::VARCHAR" for name in self.columns)
        return sorted(self.lake.query(f"SELECT {columns} FROM {source}"), key=repr)

    def _rows(self, start: int, count: int) -> str:
        values = ", ".join(f"({VALUES[t]})::{t} AS {n}" for n, t in self.columns.items())
        return f"SELECT {values} FROM range({start}, {start + count}) r(i)"


@pytest.mark.parametrize(("kind", "lives", "changes"), [("sqlite", 6, 8), ("duckdb", 3, 6)])
def test_two_writers_share_the_life_of_a_lake(
    reference: duckdb.DuckDBPyConnection, kind: str, lives: int, changes: int
) -> None:
    life = type("Life", (SharedLife,), {"connection": reference, "kind": kind})

    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=lives,
            stateful_step_count=changes,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
