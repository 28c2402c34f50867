"""Which themes are replayed on what, and which recorded outcomes Lakeport does not share."""

from __future__ import annotations

from tests.transcripts import recording

__all__ = ["DIFFERENT", "NOT_ON_BUILDER", "READ_AND_WRITE_THEMES", "READ_THEMES", "WRITE_THEMES"]

READ_THEMES = (
    "attach",
    "data_uri",
    "discovery_functions",
    "endpoints_parallel",
    "filters_comparison",
    "filters_functions",
    "filters_types",
    "scalar_functions",
    "scan_projection",
    "statistics",
    "table_functions",
    "table_in_out",
)
"""Themes that a catalog of `CatalogBuilder` can answer."""

WRITE_THEMES = tuple(
    name for name in recording.names() if name not in READ_THEMES and name != "hazards"
)
"""Themes that change tables, with the reads between; the hazards have tests of their own."""

READ_AND_WRITE_THEMES = (
    "discovery_functions",
    "endpoints_parallel",
    "filters_comparison",
    "filters_functions",
    "scan_projection",
    "statistics",
)
"""Read themes over tables that a memory catalog has too."""

NOT_ON_BUILDER: dict[str, dict[int, str]] = {
    "discovery_functions": {8: "reads a version; tables of the builder have no history"},
    "endpoints_parallel": {14: "creates a table"},
    "statistics": {19: "updates a table of the builder", 20: "deletes from it"},
}
"""Statements that need a catalog that can be changed. They are not sent."""

DIFFERENT: dict[str, dict[int, str]] = {
    "attach": {
        41: "the recording server answers to an empty catalog name with another one, which the "
        "client refuses; Lakeport asks for a name when it has several catalogs",
    },
    "data_uri": {
        16: "the recording server sent data:// on purpose; Lakeport sends data:",
    },
    "ddl_struct_fields": {
        2: "add_field does not carry the name of the field; Lakeport refuses it",
        11: "add_field does not carry the name of the field; Lakeport refuses it",
        12: "add_field does not carry the name of the field; Lakeport refuses it",
    },
    "endpoints_parallel": {
        17: "the recording server sent an endpoint without location on purpose",
        18: "the recording server sent an unknown scheme on purpose",
    },
    "scalar_functions": {
        22: "the recording server answered with too few rows on purpose",
    },
    "statistics": {
        15: "the recording server lied about nulls on purpose",
        16: "the recording server failed on purpose",
    },
    "time_travel": {
        15: "before the table existed: the recording server gives no rows, Lakeport says so",
        16: "before the table existed: the recording server gives no rows, Lakeport says so",
    },
    "update": {
        13: "the recording server does not check constraints on UPDATE; MemoryCatalog does",
        14: "the recording server does not check constraints on UPDATE; MemoryCatalog does",
    },
}
"""Statements whose replies must be acceptable, but not equal to those of the recording server."""
