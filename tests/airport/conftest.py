"""Servers on free ports, each with a raw Flight client, and the tables they serve."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.airport.flight_client import Serving, started
from tests.airport.grpc_coverage import trace_handlers

trace_handlers()


@pytest.fixture
def start_server() -> Iterator[Serving]:
    """Start a server for catalogs with the given options; all are stopped after the test."""
    with started() as start:
        yield start
