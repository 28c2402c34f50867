"""Servers on free ports with clients attached: a real one, and one written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, TypeAlias

import pyarrow as pa
import pytest

from lakeport.airport import Server
from lakeport.airport.client import Client, connect
from lakeport.catalog import Catalog
from tests.client.wire import HandTable, WireServer
from tests.waiting import TIMEOUT_SECONDS

Attach: TypeAlias = Callable[..., Client]


@pytest.fixture
def attach() -> Iterator[Attach]:
    """Serve catalogs with the given options of a server, and attach a client to them."""
    with ExitStack() as stack:

        def attached(
            catalogs: Catalog | dict[str, Catalog], *, catalog: str = "", **options: Any
        ) -> Client:
            server = stack.enter_context(Server(catalogs, **options))
            return stack.enter_context(connect(server.location, catalog=catalog))

        yield attached


@pytest.fixture
def wire() -> Iterator[WireServer]:
    """A server written by hand, with one table `w.t`."""
    with WireServer() as server:
        schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
        rows = [{"id": i, "name": name, "rowid": i * 10} for i, name in enumerate("abc", start=1)]
        server.tables["t"] = HandTable(schema, rows, comment="by hand")
        yield server


@pytest.fixture
def hand_client(wire: WireServer) -> Iterator[Client]:
    """A client of the hand-written server."""
    with connect(wire.location, catalog="db", timeout=TIMEOUT_SECONDS) as client:
        yield client
