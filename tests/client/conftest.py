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
from tests.client.handwritten_server import HandTable, HandwrittenServer
from tests.wait import TIMEOUT_SECONDS

Attach: TypeAlias = Callable[..., Client]


@pytest.fixture
def attach_client() -> Iterator[Attach]:
    """Serve catalogs with the given options of a server, and attach a client to them."""
    with ExitStack() as stack:

        def attached(
            catalogs: Catalog | dict[str, Catalog], *, catalog: str = "", **options: Any
        ) -> Client:
            server = stack.enter_context(Server(catalogs, **options))
            return stack.enter_context(connect(server.location, catalog=catalog))

        yield attached


@pytest.fixture
def handwritten_server() -> Iterator[HandwrittenServer]:
    """A server written by hand, with one table `w.t`."""
    with HandwrittenServer() as server:
        schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
        rows = [{"id": i, "name": name, "rowid": i * 10} for i, name in enumerate("abc", start=1)]
        server.tables["t"] = HandTable(schema, rows, comment="by hand")
        yield server


@pytest.fixture
def client_of_handwritten_server(handwritten_server: HandwrittenServer) -> Iterator[Client]:
    """A client of the hand-written server."""
    with connect(handwritten_server.location, catalog="db", timeout=TIMEOUT_SECONDS) as client:
        yield client
