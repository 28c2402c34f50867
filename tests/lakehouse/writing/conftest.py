"""Lakes of the real implementation, served writable, beside twins that the reference writes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
import pytest

from lakeport import Client, Server, connect
from lakeport.lakehouse import LakeCatalog
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import TIMEOUT_SECONDS


@dataclass(frozen=True)
class Written:
    """A lake behind a server, and the lake that the reference changes by the same statements."""

    ours: RealLake
    theirs: RealLake
    catalog: LakeCatalog
    server: Server
    client: Client

    def reference(self, *statements: str) -> None:
        self.theirs.execute(*statements)
        self.theirs.detach()

    def rows(self, table: str, where: str, *columns: str) -> pa.Table:
        """Row ids and columns of the rows that pass a condition."""
        return self.client.table(table).scan(["rowid", *columns], where).to_arrow()

    def compare(self, *tables: str, row_ids: bool = True) -> None:
        """Compare tables of both lakes, as the reference reads them, and ours as we read it."""
        own = "rowid, *" if row_ids else "*"
        for table in tables:
            theirs, ours = (
                (
                    lake.query(f"DESCRIBE {table}"),
                    sorted(lake.query(f"SELECT {own} FROM {table}"), key=repr),
                )
                for lake in self._lakes()
            )
            assert ours == theirs, table
        self.ours.check()
        self.ours.detach()

    def _lakes(self) -> Iterator[RealLake]:
        for lake in (self.theirs, self.ours):
            lake.attach()
            yield lake
            lake.detach()


Write: TypeAlias = Callable[..., Written]


@pytest.fixture(scope="module")
def made(
    reference: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., RealLake]:
    """Make a lake of a kind by statements, once for a module: its tests get copies."""
    folder = tmp_path_factory.mktemp("made")

    @cache
    def make(kind: str, *statements: str) -> RealLake:
        place = folder / uuid.uuid4().hex
        uri = f"ducklake:{'sqlite:' if kind == 'sqlite' else ''}{place}"
        lake = RealLake(reference, uri, f"{place}_data/")
        lake.execute(*statements)
        lake.detach()
        return lake

    return make


@pytest.fixture
def write(make_lake: LakeMaker, made: Callable[..., RealLake]) -> Iterator[Write]:
    """Make two equal lakes and serve one of them, writable."""
    with ExitStack() as stack:

        def served(*statements: str, kind: str = "sqlite", **options: Any) -> Written:
            lake = made(kind, *statements)
            ours, theirs = lake.copy_to(make_lake(kind)), lake.copy_to(make_lake(kind))
            options = {"writable": True, "engine": "local", **options}
            catalog = stack.enter_context(LakeCatalog(ours.uri, **options))
            server = stack.enter_context(Server(catalog))
            client = stack.enter_context(connect(server.location, timeout=TIMEOUT_SECONDS))
            return Written(ours, theirs, catalog, server, client)

        yield served
