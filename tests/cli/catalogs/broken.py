"""A catalog of one's own that cannot be made."""

from __future__ import annotations

from lakeport.catalog import Catalog


def catalog() -> Catalog:
    raise ValueError("the catalog is broken")
