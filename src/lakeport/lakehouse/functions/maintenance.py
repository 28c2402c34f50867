"""The functions of a writable lake that maintain it, such as `CALL lake.lakeport.maintain()`.

The table `lakeport.maintenance` has what was done.

They commit on their own, whatever the session has staged: no statement sees a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeport._wording import counted, size_text
from lakeport.auth import Operation
from lakeport.catalog import (
    CallableTableFunction,
    Parameter,
    ParameterKind,
    ScanTable,
    TableFunction,
    current_request,
)
from lakeport.ducklake import Lake, LakeTable
from lakeport.ducklake.maintenance import MaintenanceResult, Progress, read_log
from lakeport.errors import InvalidInputError, PermissionDeniedError
from lakeport.lakehouse.names import PublishedNames, parse_table_name
from lakeport.lakehouse.resources import LakeResources

__all__ = ["maintenance_functions", "maintenance_table", "may_maintain", "require_maintaining"]

_RESULT: Final = pa.schema(
    [
        ("operation", pa.string()),
        ("table_name", pa.string()),
        ("files_replaced", pa.int64()),
        ("files_written", pa.int64()),
        ("bytes_replaced", pa.int64()),
        ("bytes_written", pa.int64()),
        ("rows", pa.int64()),
        ("deletes", pa.int64()),
        ("snapshots_expired", pa.int64()),
        ("skipped", pa.list_(pa.string())),
    ]
)
_LOG: Final = pa.schema([("time", pa.timestamp("us", "UTC")), *_RESULT])
_TABLE: Final = Parameter("table_name", pa.string())
_DRY_RUN: Final = Parameter("dry_run", pa.bool_(), ParameterKind.NAMED, default=False)


class _MaintenanceFunction(CallableTableFunction):
    """A function that the server runs as a statement."""

    changes_catalog = True


def maintenance_functions(access: LakeResources, names: PublishedNames) -> Iterator[TableFunction]:
    """Yield the functions that maintain a lake; none if it is served read-only."""
    if access.writes.writable:
        yield from _Maintenance(access, names).functions()


def maintenance_table(lake: Lake, names: PublishedNames) -> ScanTable:
    """Return the table of the newest maintenance, of tables of which the caller sees all."""

    def rows() -> Iterator[dict[str, Any]]:
        request = current_request()
        for entry in read_log(lake):
            values = dict(entry.values)
            schema, _, name = (values.pop("table", None) or "").partition(".")
            shown = None
            if name:
                published = names.published(schema)
                # Numbers of rows and bytes are for those who see all of them.
                sees_all = (
                    request.may(Operation.READ, published, name)
                    and request.restriction(published, name) is None
                )
                if not sees_all and not may_maintain(published, name):
                    continue
                shown = f"{published}.{name}"
            expired = values.pop("expired", 0)
            yield {**values, "time": entry.time, "table_name": shown, "snapshots_expired": expired}

    return ScanTable(
        "maintenance",
        _LOG,
        lambda _: pa.Table.from_pylist(list(rows()), schema=_LOG),
        comment="The newest maintenance of the lake, by any server",
    )


def may_maintain(*names: str) -> bool:
    """Return whether the caller may maintain a table, or without names the whole lake."""
    return current_request().may(Operation.MAINTAIN, *names)


def require_maintaining(*names: str) -> None:
    """Raise `PermissionDeniedError` if the caller may not maintain a table, or the whole lake."""
    if not may_maintain(*names):
        raise PermissionDeniedError(f"you may not maintain {'.'.join(names) or 'this lake'}")


class _Maintenance:
    """The functions of one request."""

    def __init__(self, access: LakeResources, names: PublishedNames) -> None:
        self._access = access
        self._lake = access.lake
        self._names = names

    def functions(self) -> Iterator[TableFunction]:
        yield self._function(
            "maintain",
            self._maintain,
            (_DRY_RUN,),
            "Flush, merge, rewrite, expire and clean up whatever reaches its threshold",
        )
        yield self._function(
            "merge_files",
            self._merge,
            (_TABLE, _DRY_RUN),
            "Merge the small files of a table",
        )
        yield self._function(
            "rewrite_files",
            self._rewrite,
            (_TABLE, Parameter("threshold", pa.float64(), ParameterKind.NAMED, None), _DRY_RUN),
            "Rewrite the files of a table of which a share of rows is deleted",
        )
        yield self._function(
            "flush",
            lambda table_name, dry_run: [self._table(table_name).flush(dry_run=dry_run)],
            (_TABLE, _DRY_RUN),
            "Write the inlined rows and deletes of a table to files",
        )
        yield self._function(
            "expire_snapshots",
            self._expire,
            (
                Parameter("older_than", pa.string(), ParameterKind.NAMED, None),
                Parameter("retain_last", pa.int64(), ParameterKind.NAMED, None),
                _DRY_RUN,
            ),
            "Remove snapshots that are older than a time or an age such as '7 days'",
        )
        yield self._function(
            "clean_up",
            self._clean_up,
            (_DRY_RUN,),
            "Delete files that no snapshot has needed for two days",
        )

    def _function(
        self,
        name: str,
        work: Callable[..., Sequence[MaintenanceResult]],
        parameters: Sequence[Parameter],
        comment: str,
    ) -> TableFunction:
        def call(*, dry_run: bool | None, **arguments: Any) -> pa.Table:
            return self._rows(work(dry_run=bool(dry_run), **arguments))

        return _MaintenanceFunction(name, call, parameters, _RESULT, comment=comment)

    def _maintain(self, *, dry_run: bool) -> Sequence[MaintenanceResult]:
        require_maintaining()
        schedule = self._access.schedule
        policy = None if schedule is None else schedule.policy
        call = _Call()
        return self._lake.maintain(
            policy, dry_run=dry_run, progress=call.report, cancel=call.is_ending
        )

    def _merge(self, table_name: str | None, *, dry_run: bool) -> Sequence[MaintenanceResult]:
        table, call = self._table(table_name), _Call()
        return [table.merge_files(dry_run=dry_run, progress=call.report, cancel=call.is_ending)]

    def _rewrite(
        self, table_name: str | None, threshold: float | None, *, dry_run: bool
    ) -> Sequence[MaintenanceResult]:
        table, call = self._table(table_name), _Call()
        return [
            table.rewrite_files(
                threshold=threshold,
                dry_run=dry_run,
                progress=call.report,
                cancel=call.is_ending,
            )
        ]

    def _expire(
        self, older_than: str | None, retain_last: int | None, *, dry_run: bool
    ) -> Sequence[MaintenanceResult]:
        require_maintaining()
        return [self._lake.expire(older_than=older_than, retain_last=retain_last, dry_run=dry_run)]

    def _clean_up(self, *, dry_run: bool) -> Sequence[MaintenanceResult]:
        require_maintaining()
        return [self._lake.clean_up(dry_run=dry_run)]

    def _table(self, name: str | None) -> LakeTable:
        """Return a table that the caller may alter."""
        if name is None:
            raise InvalidInputError("the name of the table is NULL")
        schema, found = parse_table_name(self._names, name)
        require_maintaining(self._names.published(schema), found)
        return self._lake.table(found, schema)

    def _rows(self, results: Sequence[MaintenanceResult]) -> pa.Table:
        rows = [
            {
                "operation": result.operation,
                "table_name": self._published(result.table),
                "files_replaced": result.files_replaced,
                "files_written": result.files_written,
                "bytes_replaced": result.bytes_replaced,
                "bytes_written": result.bytes_written,
                "rows": result.rows,
                "deletes": result.deletes,
                "snapshots_expired": len(result.expired),
                "skipped": list(result.skipped),
            }
            for result in results
            if not result.is_empty or result.skipped
        ]
        return pa.Table.from_pylist(rows, schema=_RESULT)

    def _published(self, table: str | None) -> str | None:
        if table is None:
            return None
        schema, _, name = table.partition(".")
        return f"{self._names.published(schema)}.{name}"


class _Call:
    """The call that runs an operation, as other threads see it."""

    def __init__(self) -> None:
        self._request = current_request()

    def report(self, progress: Progress) -> None:
        """Record how far the operation is, for the list of queries."""
        on = f" {progress.table}" if progress.table else ""
        done = f"{progress.operation}{on}: {progress.done} of {counted(progress.groups, 'group')}"
        size = f"{size_text(progress.bytes_done)} of {size_text(progress.bytes)}"
        self._request.notes.progress = lambda: f"{done}, {size}"

    def is_ending(self) -> bool:
        """Return whether the operation should end: its caller or the server does."""
        return self._request.is_cancelled() or self._request.activity.draining
