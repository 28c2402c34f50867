"""Small tables and shortcuts shared by the tests of the catalog model."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.catalog import CatalogBuilder, SchemaBuilder


@pytest.fixture
def schema() -> SchemaBuilder:
    """An empty schema `s`; its `build()` builds the whole catalog."""
    return CatalogBuilder("lake", comment="All of it").schema("s", comment="Some of it")


@pytest.fixture
def people_table() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "name": pa.array(["Ada", None, "Grace"], pa.string()),
        }
    )
