"""Random lives of a lake: after each commit ours reads what the real implementation reads."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

TYPES = {
    "INTEGER": "i",
    "BIGINT": "i * 1000000007",
    "VARCHAR": "'v' || i",
    "DOUBLE": "i / 3",
    "DATE": "DATE '2024-01-01' + i::INTEGER",
    "DECIMAL(9,2)": "i / 4",
    "INTEGER[]": "[i, NULL]",
    "STRUCT(x INTEGER, y VARCHAR)": "{'x': i, 'y': 'y' || i}",
}
PROMOTIONS = {"INTEGER": "BIGINT", "DATE": "TIMESTAMP", "DECIMAL(9,2)": "DECIMAL(18,4)"}


class LifeOfALake(RuleBasedStateMachine):
    """DDL and DML on one table of a lake made by the real implementation."""

    connection: duckdb.DuckDBPyConnection
    lake_class: Any
    kind = "sqlite"

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        suffix = "sqlite" if self.kind == "sqlite" else "ducklake"
        prefix = "sqlite:" if self.kind == "sqlite" else ""
        uri = f"ducklake:{prefix}{self.folder}/meta.{suffix}"
        self.lake = self.lake_class(self.connection, uri, f"{self.folder}/data/")
        self.columns: dict[str, str] = {}
        self.counter = 0
        self.changed = False

    def teardown(self) -> None:
        self.lake.detach()
        shutil.rmtree(self.folder)

    def run(self, statement: str) -> None:
        self.lake.execute(statement)
        self.changed = True

    def fresh(self) -> int:
        self.counter += 1
        return self.counter

    @initialize(types=st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3))
    def create(self, types: list[str]) -> None:
        self.columns = {"k": "INTEGER", **{f"c{i}": type for i, type in enumerate(types)}}
        listed = ", ".join(f"{name} {type}" for name, type in self.columns.items())
        self.run(f"CREATE TABLE t({listed})")

    @rule(count=st.sampled_from([1, 3, 15]))
    def insert(self, count: int) -> None:
        start = self.fresh() * 100
        values = ", ".join(self._value(type) for type in self.columns.values())
        self.run(f"INSERT INTO t SELECT {values} FROM range({start}, {start + count}) r(i)")

    @rule(modulus=st.integers(2, 9))
    def delete(self, modulus: int) -> None:
        self.run(f"DELETE FROM t WHERE k % {modulus} = 1")

    @rule(modulus=st.integers(2, 9))
    def update(self, modulus: int) -> None:
        self.run(f"UPDATE t SET k = k + 1000 WHERE k % {modulus} = 0")

    @rule(
        type=st.sampled_from(["INTEGER", "VARCHAR", "DOUBLE"]),
        default=st.sampled_from(["", " DEFAULT 7"]),
    )
    def add_column(self, type: str, default: str) -> None:
        name = f"n{self.fresh()}"
        self.run(f"ALTER TABLE t ADD COLUMN {name} {type}{default}")
        self.columns[name] = type

    @precondition(lambda self: len(self.columns) > 2)
    @rule(data=st.data())
    def drop_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([c for c in self.columns if c != "k"]))
        self.run(f"ALTER TABLE t DROP COLUMN {name}")
        del self.columns[name]

    @precondition(lambda self: len(self.columns) > 1)
    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([c for c in self.columns if c != "k"]))
        new = f"m{self.fresh()}"
        self.run(f"ALTER TABLE t RENAME COLUMN {name} TO {new}")
        self.columns = {new if c == name else c: t for c, t in self.columns.items()}

    @precondition(lambda self: bool(set(self.columns.values()) & set(PROMOTIONS)))
    @rule(data=st.data())
    def promote(self, data: st.DataObject) -> None:
        able = [c for c, type in self.columns.items() if type in PROMOTIONS and c != "k"]
        if able:
            name = data.draw(st.sampled_from(able))
            self.columns[name] = PROMOTIONS[self.columns[name]]
            self.run(f"ALTER TABLE t ALTER COLUMN {name} TYPE {self.columns[name]}")

    @rule(spec=st.sampled_from(["SET PARTITIONED BY (bucket(3, k))", "RESET PARTITIONED BY"]))
    def partition(self, spec: str) -> None:
        self.run(f"ALTER TABLE t {spec}")

    @rule()
    def flush(self) -> None:
        self.run("CALL ducklake_flush_inlined_data('lake')")

    @rule()
    def merge(self) -> None:
        self.run("CALL ducklake_merge_adjacent_files('lake')")

    @rule()
    def rewrite(self) -> None:
        self.run("CALL ducklake_rewrite_data_files('lake', delete_threshold => 0.2)")

    @invariant()
    def ours_reads_the_same(self) -> None:
        if not self.changed:
            return
        self.changed = False
        known = self.lake.snapshots()
        self.lake.check(snapshots=sorted({known[-1], known[len(known) // 2]}))

    def _value(self, type: str) -> str:
        return TYPES.get(
            type, "i" if type != "TIMESTAMP" else "TIMESTAMP '2024-01-01' + INTERVAL (i) SECOND"
        )


@pytest.mark.parametrize(("kind", "lives", "commits"), [("sqlite", 5, 7), ("duckdb", 2, 5)])
def test_a_random_life(
    kind: str, lives: int, commits: int, reference: duckdb.DuckDBPyConnection, lake_class: Any
) -> None:
    machine = type(
        "Life", (LifeOfALake,), {"connection": reference, "lake_class": lake_class, "kind": kind}
    )
    settings_of = settings(
        max_examples=lives,
        stateful_step_count=commits,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=settings_of)
