"""What operators see of a lake: the doctor's findings, advice, and the schedule of maintenance.

Everything here is for callers who may maintain the lake.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import pyarrow as pa

from lakeport.catalog import (
    CallableTableFunction,
    Parameter,
    ParameterKind,
    ScanTable,
    TableFunction,
    current_request,
)
from lakeport.ducklake.maintenance import MaintenancePolicy
from lakeport.errors import InvalidInputError
from lakeport.lakehouse.functions.maintenance import may_maintain, require_maintaining
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.resources import LakeResources

__all__ = ["health_functions", "schedule_table"]

_FINDINGS: Final = pa.schema(
    [
        ("severity", pa.string()),
        ("check", pa.string()),
        ("where", pa.string()),
        ("what", pa.string()),
        ("effect", pa.string()),
        ("remedy", pa.string()),
        ("count", pa.int64()),
        ("examples", pa.list_(pa.string())),
        ("repairable", pa.bool_()),
    ]
)

_ADVICE: Final = pa.schema(
    [
        ("table_name", pa.string()),
        ("actions", pa.list_(pa.string())),
        ("files", pa.int64()),
        ("small_files", pa.int64()),
        ("bytes", pa.int64()),
        ("deleted_share", pa.float64()),
        ("delete_files", pa.int64()),
        ("inlined_rows", pa.int64()),
        ("read_per_needed", pa.float64()),
    ]
)

_SCHEDULE: Final = pa.schema(
    [
        ("table_name", pa.string()),
        ("every_seconds", pa.float64()),
        ("flush_rows", pa.int64()),
        ("merge_files", pa.int64()),
        ("rewrite_threshold", pa.float64()),
        ("expire_older_than", pa.string()),
        ("retain_last", pa.int64()),
        ("delete_older_than", pa.string()),
        ("orphans_older_than", pa.string()),
    ]
)

_MAX_SAMPLE: Final = 1000


def health_functions(access: LakeResources, names: PublishedNames) -> Iterator[TableFunction]:
    """Yield the functions that examine a lake and change nothing."""
    yield CallableTableFunction(
        "doctor",
        lambda deep, sample: _doctor(access, names, deep=bool(deep), sample=sample),
        (
            Parameter("deep", pa.bool_(), ParameterKind.NAMED, default=False),
            Parameter("sample", pa.int64(), ParameterKind.NAMED, default=20),
        ),
        _FINDINGS,
        comment="What is wrong with the lake, the worst first; deep reads all data files",
    )
    yield CallableTableFunction(
        "advise",
        lambda: _advise(access, names),
        (),
        _ADVICE,
        comment="What the shape of each table costs, and which maintenance would gain what",
    )


def schedule_table(access: LakeResources, names: PublishedNames) -> ScanTable:
    """Return the table of the server's own maintenance: empty if there is none."""

    def rows() -> Iterator[dict[str, Any]]:
        schedule = access.schedule
        if schedule is None or not may_maintain():
            return
        yield {"every_seconds": schedule.every, **_thresholds(schedule.policy)}
        for table, policy in schedule.policy.tables.items():
            shown = _published(names, table)
            yield {"table_name": shown, "every_seconds": schedule.every, **_thresholds(policy)}

    return ScanTable(
        "schedule",
        _SCHEDULE,
        lambda _: pa.Table.from_pylist(list(rows()), schema=_SCHEDULE),
        comment="When this server maintains the lake by itself, for callers who may maintain it",
    )


def _doctor(
    access: LakeResources, names: PublishedNames, *, deep: bool, sample: int | None
) -> pa.Table:
    require_maintaining()
    if sample is None or not 0 <= sample <= _MAX_SAMPLE:
        raise InvalidInputError(f"sample is the number of files to read, from 0 to {_MAX_SAMPLE}")
    request = current_request()

    def report(check: str) -> None:
        request.notes.progress = lambda: f"checks {check.removeprefix('check_').replace('_', ' ')}"

    # DuckDB 1.5 and pyarrow 26 corrupt the heap if the files are read in a thread of gRPC.
    with ThreadPoolExecutor(1, thread_name_prefix="lakeport-doctor") as thread:
        work = partial(access.lake.check, deep=deep, sample=sample, progress=report)
        diagnosis = thread.submit(copy_context().run, work).result()
    shows_values = _sees_everything(access, names)
    permissions = Permissions.of_request(access, names)
    rows = [
        {**finding.as_json(), **({} if shows_values else {"examples": []})}
        for finding in diagnosis.findings
        if _sees(permissions, finding.where.removeprefix("table "))
    ]
    return pa.Table.from_pylist(rows, schema=_FINDINGS)


def _advise(access: LakeResources, names: PublishedNames) -> pa.Table:
    require_maintaining()
    advice = access.lake.advise()
    rows: list[dict[str, Any]] = []
    if advice.actions:
        rows.append({"actions": list(advice.actions)})
    permissions = Permissions.of_request(access, names)
    for table in advice.tables:
        if not _sees(permissions, table.table):
            continue
        shown = {**asdict(table), "table_name": _published(names, table.table)}
        rows.append({key: value for key, value in shown.items() if key in _ADVICE.names})
    return pa.Table.from_pylist(rows, schema=_ADVICE)


def _sees_everything(access: LakeResources, names: PublishedNames) -> bool:
    """Return whether the caller sees every value and name, which examples of findings may have."""
    permissions = Permissions.of_request(access, names)
    if permissions.are_all_given:
        return True
    tables = access.contents(access.newest_snapshot()).tables
    return all(
        permissions.reads(table) and permissions.restriction(table) is None for table in tables
    )


def _sees(permissions: Permissions, table: str) -> bool:
    """Return whether the caller may list a table, by its name in the lake; True for the catalog."""
    schema, _, name = table.partition(".")
    return not name or permissions.sees_name(schema, name)


def _thresholds(policy: MaintenancePolicy) -> dict[str, Any]:
    ages = ("expire_older_than", "delete_older_than", "orphans_older_than")
    shown = {name: getattr(policy, name) for name in _SCHEDULE.names[2:]}
    return {k: str(v) if k in ages and v is not None else v for k, v in shown.items()}


def _published(names: PublishedNames, table: str) -> str:
    schema, _, name = table.partition(".")
    return f"{names.published(schema)}.{name}"
