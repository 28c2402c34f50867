"""A memory table and a DuckDB table, changed by the same random statements, stay the same."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from lakeport.catalog import (
    AddColumnOptions,
    ChangeColumnTypeOptions,
    DMLOptions,
    RemoveColumnOptions,
    RenameColumnOptions,
    ScanOptions,
)
from tests.memory.fixtures_catalog import Workbench, at_version, delete, insert, read

TYPES: dict[str, pa.DataType] = {
    "BIGINT": pa.int64(),
    "VARCHAR": pa.string(),
    "DOUBLE": pa.float64(),
    "BIGINT[]": pa.list_(pa.int64()),
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT": st.integers(-(10**6), 10**6),
    "VARCHAR": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5),
    "DOUBLE": st.floats(allow_nan=False, width=32),
    "BIGINT[]": st.lists(st.integers(0, 9), max_size=3),
}
Row = dict[str, Any]


class SameAsDuckDB(RuleBasedStateMachine):
    """Rows have a key that never changes, by which the two tables are compared."""

    @initialize()
    def begin(self) -> None:
        self.bench = Workbench()
        self.table = self.bench.create(pa.schema([("key", pa.int64()), ("c0", pa.int64())]))
        self.duck = duckdb.connect()
        self.duck.execute("CREATE TABLE t (key BIGINT, c0 BIGINT)")
        self.columns: dict[str, str] = {"c0": "BIGINT"}
        self.keys = 0
        self.names = 1
        self.history: dict[int, list[Row]] = {1: []}

    def teardown(self) -> None:
        if hasattr(self, "duck"):
            self.duck.close()

    @rule(data=st.data(), count=st.integers(1, 6))
    def insert_rows(self, data: st.DataObject, count: int) -> None:
        rows = [self._row(data, self.keys + number) for number in range(count)]
        self.keys += count
        schema = pa.schema([("key", pa.int64()), *self._fields(self.columns)])
        new = pa.Table.from_pylist(rows, schema=schema)
        assert insert(self.table, new) == count
        self._in_duckdb("INSERT INTO t BY NAME SELECT * FROM new", new)

    @rule(data=st.data())
    def update_rows(self, data: st.DataObject) -> None:
        where = self._rowids()
        if not where:
            return
        keys = data.draw(st.lists(st.sampled_from(sorted(where)), unique=True, max_size=5))
        names = data.draw(st.lists(st.sampled_from(sorted(self.columns)), unique=True, min_size=1))
        chosen = {name: self.columns[name] for name in names}
        rows = [self._row(data, key, chosen) for key in keys]
        schema = pa.schema([("key", pa.int64()), *self._fields(chosen)])
        new = pa.Table.from_pylist(rows, schema=schema)
        sent = new.drop_columns(["key"]).append_column(
            "rowid", pa.array([where[key] for key in keys], pa.int64())
        )
        assert self.table.update_rows(sent.to_reader(), DMLOptions()).affected_rows == len(keys)
        assignments = ", ".join(f"{name} = new.{name}" for name in names)
        self._in_duckdb(f"UPDATE t SET {assignments} FROM new WHERE t.key = new.key", new)

    @rule(data=st.data())
    def delete_rows(self, data: st.DataObject) -> None:
        where = self._rowids()
        keys = data.draw(st.sets(st.sampled_from(sorted(where)), max_size=5)) if where else set()
        assert delete(self.table, *(where[key] for key in keys)) == len(keys)
        new = pa.table({"key": pa.array(sorted(keys), pa.int64())})
        self._in_duckdb("DELETE FROM t USING new WHERE t.key = new.key", new)

    @precondition(lambda self: len(self.columns) < 4)
    @rule(type=st.sampled_from(sorted(TYPES)))
    def add_column(self, type: str) -> None:
        name = self._fresh_name()
        self.table.add_column(pa.schema([(name, TYPES[type])]), AddColumnOptions())
        self.duck.execute(f"ALTER TABLE t ADD COLUMN {name} {type}")
        self.columns[name] = type

    @precondition(lambda self: len(self.columns) > 1)
    @rule(data=st.data())
    def remove_column(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.columns)))
        self.table.remove_column(name, RemoveColumnOptions())
        self.duck.execute(f"ALTER TABLE t DROP COLUMN {name}")
        del self.columns[name]

    @rule(data=st.data())
    def rename_column(self, data: st.DataObject) -> None:
        old, new = data.draw(st.sampled_from(sorted(self.columns))), self._fresh_name()
        self.table.rename_column(old, new, RenameColumnOptions())
        self.duck.execute(f"ALTER TABLE t RENAME COLUMN {old} TO {new}")
        self.columns[new] = self.columns.pop(old)

    @rule(data=st.data())
    def change_type_to_text(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.columns)))
        expression = f"CAST({name} AS VARCHAR)"
        schema = pa.schema([(name, pa.string())])
        self.table.change_column_type(schema, expression, ChangeColumnTypeOptions())
        self.duck.execute(f"ALTER TABLE t ALTER {name} TYPE VARCHAR")
        self.columns[name] = "VARCHAR"

    @invariant()
    def rows_are_the_same(self) -> None:
        if not hasattr(self, "duck"):
            return
        expected = self.duck.sql("SELECT * FROM t").to_arrow_table()
        assert set(expected.column_names) == {*self.table.arrow_schema().names} - {"rowid"}
        mine = read(self.table)
        assert _by_key(mine) == _by_key(expected.to_pylist())
        assert self.table.size(ScanOptions()).rows == len(mine)
        self.history[self.table.versions()[-1].version or 0] = _by_key(mine)

    @invariant()
    def statistics_are_true(self) -> None:
        if not hasattr(self, "duck"):
            return
        for name in self.columns:
            stats = self.table.column_statistics(name, "")
            for row in read(self.table):
                value = row[name]
                assert stats.has_null if value is None else stats.has_not_null
                if value is not None and stats.min is not None and stats.max is not None:
                    assert _order(stats.min.as_py()) <= _order(value) <= _order(stats.max.as_py())

    @rule(data=st.data())
    def the_past_has_not_changed(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.history)))
        assert _by_key(read(self.table, time_point=at_version(version))) == self.history[version]

    def _row(self, data: st.DataObject, key: int, columns: dict[str, str] | None = None) -> Row:
        row: Row = {"key": key}
        for name, type in (self.columns if columns is None else columns).items():
            row[name] = data.draw(st.none() | VALUES[type])
        return row

    def _fields(self, columns: dict[str, str]) -> list[tuple[str, pa.DataType]]:
        return [(name, TYPES[type]) for name, type in columns.items()]

    def _rowids(self) -> dict[int, int]:
        rows = self.table.scan(ScanOptions(columns=("key", "rowid"))).read_all().to_pylist()
        return {row["key"]: row["rowid"] for row in rows}

    def _fresh_name(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def _in_duckdb(self, sql: str, new: pa.Table) -> None:
        self.duck.register("new", new)
        self.duck.execute(sql)
        self.duck.unregister("new")


def _by_key(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["key"]))


def _order(value: Any) -> Any:
    """Texts are compared by their UTF-8 bytes."""
    return value.encode() if isinstance(value, str) else value


SameAsDuckDB.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestSameAsDuckDB = SameAsDuckDB.TestCase
