"""Lakes made by the real implementation, served by ours, with a client attached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from pyarrow import flight

from lakeport import Client, Server, connect
from lakeport.auth import Authorizer
from lakeport.lakehouse import LakeCatalog
from tests.wait import TIMEOUT_SECONDS


@dataclass(frozen=True)
class Served:
    """A lake behind a server of its own."""

    catalog: LakeCatalog
    server: Server
    client: Client
    flight: flight.FlightClient


Serve: TypeAlias = Callable[..., Served]


@pytest.fixture
def serve(spark: Any) -> Iterator[Serve]:
    """Serve a lake with the given options; the real implementation lets go of it first.

    Files are read on Spark, however small they are, unless a test gives `small_scan_bytes`. Small
    tables offer statistics too, unless a test gives `statistics_rows`.
    """
    with ExitStack() as stack:

        def served(lake: Any, *, authorize: Authorizer | None = None, **options: Any) -> Served:
            lake.detach()
            options.setdefault("small_scan_bytes", 0)
            options.setdefault("statistics_rows", 0)
            catalog = stack.enter_context(LakeCatalog(lake.uri, spark=spark, **options))
            server = stack.enter_context(Server(catalog, authorize=authorize))
            client = stack.enter_context(connect(server.location, timeout=TIMEOUT_SECONDS))
            plain = stack.enter_context(flight.connect(server.location))
            return Served(catalog, server, client, plain)

        yield served
