"""Servers to knock at, and certificates to knock with."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeport.catalog import CatalogBuilder, StaticCatalog
from tests.airport.flight_client import Serving, started
from tests.auth.certificates import Authority
from tests.auth.shop import Shop, make_shop


@pytest.fixture
def start_server() -> Iterator[Serving]:
    """Start a server for catalogs with the given options; all are stopped after the test."""
    with started() as start:
        yield start


@pytest.fixture
def catalog() -> StaticCatalog:
    """A catalog with one table `s.t`."""
    return CatalogBuilder().schema("s").table("t", pa.table({"x": [1, 2, 3]})).build()


@pytest.fixture
def shop() -> Shop:
    """Two schemas, each with a table `open` and one `closed`, and functions of each kind."""
    return make_shop()


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("Test authority")
