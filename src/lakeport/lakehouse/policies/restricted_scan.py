"""Run the scan of a restricted table: where its files are read, at the cost of its filter.

A row filter that a scan can apply, over columns without masks, is added to that of the client.
For the others DuckDB computes row filter and masks over the rows that are read: in this process,
or in the Spark tasks that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeport.ducklake import AutoEngine, LakeTable, Scan, ScanTask, View
from lakeport.ducklake.metadata import TableSummary
from lakeport.ducklake.views import PlannedTable, ReadTable, ViewTask, filtered
from lakeport.errors import LakeportError
from lakeport.filters import Filter, bind, parse_sql_filter
from lakeport.lakehouse.policies.raw_tables import filter_below, open_raw_table, safe_filter
from lakeport.lakehouse.policies.visible import (
    RawTable,
    SeenTable,
    VisibleTable,
    over_table,
    raw_path,
    raw_table,
    view_over,
)
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.tickets import split_tasks
from lakeport.spark import retried_when_lost
from lakeport.types import Column, arrow_schema

__all__ = ["RestrictedScan", "open_seen_table"]

# So that all Spark tasks have work until the end.
_TASKS_PER_CORE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RestrictedScan:
    """A scan of what a caller sees of a table."""

    access: LakeResources
    table: LakeTable
    summary: TableSummary
    visible: VisibleTable
    schema: pa.Schema
    """The columns to return; there is at least one."""
    filter: Filter
    """The part of the client's filter that cannot fail."""
    failure: str
    """The message of an error of a policy's SQL."""

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as they are read."""
        plain = self._plain_filter()
        with retried_when_lost():
            if plain is not None:
                plan = self.table.scan(self.schema.names, plain).plan
                return Scan(plan, self.access.engine).to_batches()
            return self._computed_here() if self._is_small() else self._computed_in_tasks()

    def _plain_filter(self) -> Filter | None:
        """Return the filter of a scan that needs no DuckDB; None if there is none."""
        needed = {*self.schema.names, *self.filter.columns}
        if not needed.isdisjoint(self.visible.masked):
            return None
        condition = self.visible.row_filter
        if condition is None:
            return self.filter
        columns = self.table.planner.state.columns
        schema = arrow_schema(columns)
        try:
            parsed = bind(parse_sql_filter(condition, columns), schema, zoned_nanoseconds=True)
        except LakeportError:  # DuckDB raises it again, without values
            return None
        if safe_filter(parsed, schema) != parsed:
            return None
        return Filter((*parsed.conjuncts, *self.filter.conjuncts))

    def _is_small(self) -> bool:
        """Return whether a scan of the whole table would be read in this process."""
        engine, table = self.access.engine, self.table
        if not isinstance(engine, AutoEngine):
            return engine.name == "local"
        found: bool = self.access.facts.get_or_load(
            ("small", table.id, table.snapshot.id),
            lambda: engine.choose(table.scan().plan.tasks) is engine.local,
        )
        return found

    def _computed_here(self) -> pa.RecordBatchReader:
        return self.access.view_database.stream(
            over_table(self.summary, self.visible),
            open_raw_table(self.access, self.table.snapshot.id),
            schema=self.schema,
            filter=self.filter,
            failure=self.failure,
        )

    def _computed_in_tasks(self) -> pa.RecordBatchReader:
        """Compute row filter and masks in the tasks; each task has a share of the files."""
        visible = self.visible.narrowed({*self.schema.names, *self.filter.columns})
        raw = raw_table(self.summary, visible.raw_columns)
        view = view_over(self.summary, visible.select(raw_path(raw)))
        columns, pushed = self._request(raw, view)
        plan = self.table.scan([column.name for column in columns], pushed).plan
        engine = Scan(plan, self.access.engine).runs_on
        if engine.name == "local":
            return self._computed_here()
        shares = split_tasks(plan.tasks, engine.parallelism * _TASKS_PER_CORE)
        tasks = [self._task(raw, view, columns, share) for share in shares]
        return engine.stream(tasks, self.schema)

    def _request(self, raw: RawTable, view: View) -> tuple[tuple[Column, ...], Filter]:
        """Return the columns and the filter that DuckDB requests of the table for this scan."""
        requests: list[tuple[Sequence[str], Filter]] = []

        def read(names: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
            requests.append((names, filter))
            fields = [own.field(name) for name in names]
            return pa.RecordBatchReader.from_batches(pa.schema(fields), [])

        own = arrow_schema(self.visible.raw_columns)
        reads: list[RawTable | View] = [raw, view]
        with self.access.view_database.stream(
            reads,
            lambda _: read,
            schema=self.schema,
            filter=self.filter,
            failure=self.failure,
        ) as nothing:
            nothing.read_all()
        named = {name for names, filter in requests for name in (*names, *filter.columns)}
        chosen = tuple(column for column in self.visible.raw_columns if column.name in named)
        # One scan of the table is all that the SELECT of a policy makes.
        pushed = requests[0][1] if len(requests) == 1 else Filter.always()
        return chosen or self.visible.raw_columns[-1:], pushed

    def _task(
        self,
        raw: RawTable,
        view: View,
        columns: tuple[Column, ...],
        tasks: tuple[ScanTask, ...],
    ) -> ViewTask:
        planned = PlannedTable(schema=raw.schema, name=raw.name, columns=columns, tasks=tasks)
        return ViewTask(
            reads=(planned, view), schema=self.schema, filter=self.filter, failure=self.failure
        )


def open_seen_table(
    access: LakeResources, snapshot: int, failure: str
) -> Callable[[SeenTable], ReadTable]:
    """Return a function that returns how a view reads what its caller sees of a table.

    The policies of a table run in a query of their own. DuckDB would otherwise evaluate conditions
    of the view before the row filter, where an error shows rows that the caller does not see.
    """
    open_raw = open_raw_table(access, snapshot)

    def open_table(found: SeenTable) -> ReadTable:
        visible = found.visible
        if visible is None:
            return open_raw(found)
        table = access.table(found.source.schema, found.source.name, snapshot)
        schema = arrow_schema(found.columns)

        def read(columns: Sequence[str], filter: Filter) -> pa.RecordBatchReader:
            below = filter_below(filter, visible)
            rest = frozenset() if below == filter else filter.columns
            # A batch without columns has no number of rows.
            needed = list(dict.fromkeys([*columns, *sorted(rest)])) or schema.names[:1]
            rows = RestrictedScan(
                access=access,
                table=table,
                summary=found.source,
                visible=visible,
                schema=pa.schema([schema.field(name) for name in needed]),
                filter=below,
                failure=failure,
            ).to_batches()
            return rows if below == filter else filtered(rows, columns, filter)

        return read

    return open_table
