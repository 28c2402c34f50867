"""The real implementation beside ours: lakes made by DuckDB's own extension, then compared."""

from __future__ import annotations

import importlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.ducklake import Scan

EXTENSIONS = ("ducklake", "sqlite_scanner", "postgres_scanner", "mysql_scanner", "httpfs")


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB with the real implementation loaded."""
    # DuckDB verifies the signature of a file, for a tenth of a second, each time that it loads it.
    # These come from packages whose hashes pip has verified.
    connection = duckdb.connect(config={"threads": 2, "allow_unsigned_extensions": "true"})
    for name in EXTENSIONS:
        package = importlib.import_module(f"duckdb_extension_{name}")
        folder = Path(next(iter(package.__path__))) / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / name}.duckdb_extension'")
    connection.execute("SET TimeZone = 'UTC'; SET arrow_lossless_conversion = true")
    return connection


class RealLake:
    """A lake made by the real implementation. SQL goes to it; `check` compares what ours reads."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, uri: str, data_path: str, options: str = ""
    ) -> None:
        self.connection, self.uri, self.data_path = connection, uri, data_path
        self._options = (
            f"DATA_PATH '{data_path}', METADATA_CATALOG 'meta'{options and ', ' + options}"
        )
        self.meta = "meta"
        self.attached = False

    def attach(self) -> None:
        if not self.attached:
            self.connection.execute(f"ATTACH '{self.uri}' AS lake ({self._options})")
            self.connection.execute("USE lake")
            self.attached = True

    def detach(self) -> None:
        if self.attached:
            self.connection.execute("USE memory")
            self.connection.execute("DETACH lake")
            self.attached = False

    def execute(self, *statements: str) -> None:
        self.attach()
        for statement in statements:
            self.connection.execute(statement)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self.attach()
        rows: list[tuple[Any, ...]] = self.connection.execute(sql).fetchall()
        return rows

    @contextmanager
    def on_one_thread(self) -> Iterator[None]:
        """For the change feed: on two, the real one errs in a snapshot once in 300 calls."""
        self.execute("SET threads = 1")
        try:
            yield
        finally:
            self.execute("SET threads = 2")

    def copy_to(self, other: RealLake) -> RealLake:
        """Make another lake, in a file and not attached yet, equal to this one; return it.

        The reference takes a twentieth of a second to create a table.
        """
        self.detach()
        shutil.copyfile(self._file, other._file)
        if Path(self.data_path).is_dir():
            shutil.copytree(self.data_path, other.data_path)
        move = "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'"
        if self.uri.startswith("ducklake:sqlite:"):
            with closing(sqlite3.connect(other._file)) as catalog, catalog:
                catalog.execute(move, [other.data_path])
        else:
            with closing(duckdb.connect(other._file)) as file:
                file.execute(move, [other.data_path])
        return other

    @property
    def _file(self) -> Path:
        return Path(self.uri.removeprefix("ducklake:").removeprefix("sqlite:"))

    def open(self, **options: Any) -> Lake:
        """Our lake. The real one lets go of the database first."""
        self.detach()
        return Lake.open(self.uri, **options)

    def snapshots(self) -> list[int]:
        return [
            row[0]
            for row in self.query("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1")
        ]

    def tables(self, snapshot: int) -> list[tuple[str, str]]:
        visible = (
            f"begin_snapshot <= {snapshot} AND (end_snapshot IS NULL OR end_snapshot > {snapshot})"
        )
        rows = self.query(
            f"SELECT schema_name, table_name"
            f" FROM (FROM {self.meta}.ducklake_table WHERE {visible})"
            f" JOIN (FROM {self.meta}.ducklake_schema WHERE {visible}) USING (schema_id)"
            f" ORDER BY ALL"
        )
        return [(row[0], row[1]) for row in rows]

    def check(
        self,
        *reads: Callable[[Scan], pa.Table],
        snapshots: list[int] | None = None,
        **options: Any,
    ) -> int:
        """Compare every table at every snapshot, read in some ways; how many were compared."""
        expected: dict[tuple[int, str, str], tuple[list[Any], list[Any]]] = {}
        names = {s: self.tables(s) for s in (self.snapshots() if snapshots is None else snapshots)}
        for snapshot, tables in names.items():
            for schema, table in tables:
                name = f"lake.{quote(schema)}.{quote(table)} AT (VERSION => {snapshot})"
                expected[(snapshot, schema, table)] = self._rows(name)
        with self.open(**options) as lake, self._kept_open():
            actual, counted = {}, {}
            for snapshot, schema, name in expected:
                ours = lake.table(name, schema, version=snapshot)
                counted[(snapshot, schema, name)] = ours.scan().count()
                scan = ours.scan([*ours.schema.names, "rowid", "snapshot_id"])
                found = [read(scan) for read in reads or (Scan.to_arrow,)]
                actual[(snapshot, schema, name)] = found
            for snapshot, wanted in names.items():
                if wanted:
                    assert lake.tables(version=snapshot) == wanted
        for key, (types, rows) in expected.items():
            assert counted[key] == len(rows), key
            for found in actual[key]:
                self.connection.register("ours", found)
                our_types, our_rows = self._rows("ours")
                self.connection.unregister("ours")
                assert our_types == types, key
                assert our_rows == rows, key
        return len(expected)

    def _kept_open(self) -> AbstractContextManager[Any]:
        """Whoever opens a DuckDB file that the process has open already is much quicker."""
        path = Path(self.uri.removeprefix("ducklake:"))
        return duckdb.connect(path, read_only=True) if path.is_file() else nullcontext()

    def _rows(self, source: str) -> tuple[list[Any], list[Any]]:
        """Types, and rows as text with row ids, in one order."""
        described = self.connection.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        columns = [
            (n, t.replace("VARIANT", "JSON"))
            for n, t, *_ in described
            if n not in ("rowid", "snapshot_id")
        ]
        texts = [
            f"CASE WHEN {quote(n)} IS NOT NULL THEN {quote(n)}::JSON::VARCHAR END"
            if t == "JSON"
            else f"{quote(n)}::VARCHAR"
            for n, t in columns
        ]
        rows = self.connection.execute(
            f"SELECT rowid, snapshot_id, {', '.join(texts)} FROM {source}"
        ).fetchall()
        return columns, sorted(rows, key=repr)


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture(scope="module")
def reference() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB of the module's own: what a failed test leaves behind ends with the module."""
    with closing(connect()) as connection:
        yield connection


@pytest.fixture(scope="session")
def lake_class() -> type[RealLake]:
    return RealLake


LakeMaker = Callable[..., RealLake]


def make_twins(
    make_lake: LakeMaker, *statements: str, kind: str = "duckdb", options: str = ""
) -> tuple[RealLake, RealLake]:
    """Make two equal lakes by the same statements."""
    first, second = make_lake(kind, options), make_lake(kind, options)
    first.execute(*statements)
    first.detach()
    if kind in ("duckdb", "sqlite"):
        return first, first.copy_to(second)
    second.execute(*statements)
    second.detach()
    return first, second


@pytest.fixture
def make_lake(
    reference: duckdb.DuckDBPyConnection, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[LakeMaker]:
    """Make lakes on any of the four databases; they are detached at the end of the test."""
    made: list[RealLake] = []

    def make(kind: str = "duckdb", options: str = "", data_path: str | None = None) -> RealLake:
        name = f"lake{len(made)}"
        if kind == "duckdb":
            uri = f"ducklake:{tmp_path / name}.ducklake"
        elif kind == "sqlite":
            uri = f"ducklake:sqlite:{tmp_path / name}.sqlite"
        elif kind == "postgresql":
            uri = request.getfixturevalue("postgresql")()
        else:
            uri = request.getfixturevalue("mariadb")()
        lake = RealLake(reference, uri, data_path or f"{tmp_path / name}_data/", options)
        made.append(lake)
        return lake

    yield make
    # A test that was interrupted may have left a transaction open, and a lake attached unnoticed.
    with suppress(duckdb.Error):
        reference.execute("ROLLBACK")
    reference.execute("USE memory; DETACH DATABASE IF EXISTS lake")
