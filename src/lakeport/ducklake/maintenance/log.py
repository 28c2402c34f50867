"""The log of a lake's maintenance: the newest results, in the catalog, for all who share the lake.

It is a row of `ducklake_metadata` under a key of Lakeport, which other clients ignore.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.catalog_changes import change_catalog
from lakeport.ducklake.maintenance.results import MaintenanceResult
from lakeport.ducklake.metadata.rows import MetadataRow
from lakeport.ducklake.writing.database import CatalogWriter
from lakeport.ducklake.writing.options import store_option

__all__ = ["LogEntry", "read_log", "write_log"]

_log = logging.getLogger("lakeport.ducklake.maintenance")

KEY: Final = "lakeport_maintenance_log"
MAX_ENTRIES: Final = 100
_FIELDS: Final = (
    "operation", "table", "files_replaced", "files_written", "bytes_replaced", "bytes_written",
    "rows", "deletes", "redone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One operation of maintenance, when it had ended."""

    time: datetime
    values: dict[str, Any]
    """The fields of the result that are numbers and names; `expired` is a number here."""


def write_log(lake: Lake, results: Sequence[MaintenanceResult]) -> None:
    """Add results to the log; the oldest ones leave it."""
    if not results:
        return

    def work(writer: CatalogWriter) -> None:
        time = writer.now.astimezone(UTC).isoformat()
        new = [{"time": time, **_values(result)} for result in results]
        known = _parsed(writer.select(MetadataRow, ["key"], [(KEY,)]))
        text = json.dumps([*known, *new][-MAX_ENTRIES:])
        store_option(writer, KEY, text, None, None)
        writer.commit()

    change_catalog(lake, work)


def read_log(lake: Lake) -> list[LogEntry]:
    """Return the newest results of `Lake.maintain`, of all processes, oldest first."""
    rows = [row for row in lake.option_rows() if row.key == KEY]
    return [
        LogEntry(
            datetime.fromisoformat(entry["time"]), {k: v for k, v in entry.items() if k != "time"}
        )
        for entry in _parsed(rows)
    ]


def _values(result: MaintenanceResult) -> dict[str, Any]:
    values = {name: getattr(result, name) for name in _FIELDS}
    return {**values, "expired": len(result.expired), "skipped": list(result.skipped[:5])}


def _parsed(rows: Sequence[MetadataRow]) -> list[dict[str, Any]]:
    for row in rows:
        try:
            entries = json.loads(row.value)
        except ValueError:
            entries = None
        if isinstance(entries, list):
            return [e for e in entries if isinstance(e, dict) and "time" in e]
        _log.warning("the log of the maintenance is not understood, and begins anew")
    return []
