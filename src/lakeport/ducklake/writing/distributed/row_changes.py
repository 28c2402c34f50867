"""The two phases of a delete, update or merge as tasks of an engine.

Phase one finds the addresses of touched rows. Phase two reads the touched rows in all columns and
writes what they become. Changes that read little run in this process instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.engine import AutoEngine
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.writing.change_set import DataChanges
from lakeport.ducklake.writing.changes.sources import (
    PLACE,
    AddressTask,
    Place,
    PlaceKey,
    address_schema,
)
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.tasks import (
    ChangeGroup,
    ChangeQuery,
    Progress,
    RowsOutput,
    TaskReport,
    few_rows_of,
    group_reads,
)
from lakeport.types import arrow_schema

if TYPE_CHECKING:
    from lakeport.ducklake.writing.changes.table_rows import TableRows
    from lakeport.ducklake.writing.files import FileTarget

__all__ = [
    "MAX_SENT_BYTES",
    "MAX_SHARED_BYTES",
    "ChangeEngine",
    "EngineRows",
    "Matches",
    "engine_rows",
]

MAX_SHARED_BYTES: Final = 128 << 20
"""How many bytes of a merge's keys every task gets; with more, this process joins them."""
MAX_SENT_BYTES: Final = 512 << 20
"""How many bytes of a merge's source all tasks get together; with more, this process writes."""


class ChangeEngine(Protocol):
    """An engine whose tasks find and write rows."""

    @property
    def parallelism(self) -> int:
        """How many tasks run at once."""

    small_change_bytes: int
    """Changes that read less than this run in this process."""

    def run_changes(
        self,
        query: ChangeQuery,
        groups: Sequence[ChangeGroup],
        *,
        target: FileTarget,
        title: str,
        progress: Progress | None,
    ) -> list[TaskReport]:
        """Run a query on each group; return the reports."""


def engine_rows(
    rows: TableRows, places: Sequence[Place], title: str, engine: Any = None
) -> EngineRows | None:
    """Return the rows of places as an engine reads them; None if this process should read them."""
    own = rows.writer.transaction.lake.engine
    found = engine if engine is not None else own
    size = sum(task.bytes_to_read for place in places for task in place.tasks)
    if isinstance(found, AutoEngine):
        found = found.choose([task for place in places for task in place.tasks])
    elif size < getattr(found, "small_change_bytes", 0):
        return None
    if not hasattr(found, "run_changes") or not size:
        return None
    definition = rows.writer.definition
    name = f"{title} {definition.schema.name}.{definition.name}"
    return EngineRows(rows, cast("ChangeEngine", found), name)


@dataclass(frozen=True, slots=True)
class Matches:
    """Which row of a merge's source belongs to which row of the table."""

    addresses: pa.Table
    """Addresses with the numbers of rows of the source."""
    source: pa.Table
    number: str
    """The name of the column of numbers in both."""

    def of(self, reads: Sequence[AddressTask]) -> tuple[pa.Table, pa.Table]:
        """Return the matches of the places that a group reads, and their rows of the source."""
        places = np.unique(np.array([read.place for read in reads], np.int64))
        found = self.addresses.filter(pc.is_in(self.addresses.column(PLACE), pa.array(places)))
        numbers = found.column(self.number).combine_chunks()
        return found, self.source.filter(pc.is_in(self.source.column(self.number), numbers))


@dataclass(frozen=True, slots=True)
class EngineRows:
    """The rows of a table in a transaction, read and written by an engine."""

    rows: TableRows
    engine: ChangeEngine
    title: str

    def find(
        self,
        places: Sequence[Place],
        sql: str,
        schema: pa.Schema,
        *,
        source: pa.Table | None = None,
    ) -> pa.Table:
        """Return the result of a query over the rows of places, with their addresses."""
        reads = self.rows.reads(places)
        query = ChangeQuery(sql=sql, schema=schema, rows=_schema(places), source=source)
        groups = [ChangeGroup(part) for part in group_reads(reads, self.engine.parallelism)]
        reports = self._run(query, groups, "find rows")
        found = [report.rows for report in reports if report.rows is not None]
        return pa.concat_tables(found) if found else schema.empty_table()

    def write(
        self,
        places: Sequence[Place],
        touched: Mapping[PlaceKey, Any],
        selected: Sequence[str],
        joined: str = "candidates",
        *,
        matches: Matches | None = None,
    ) -> None:
        """Write the new form of touched rows, with the row ids that they had."""
        writer = self.rows.writer
        target = file_target(writer, in_order=True)
        schema = pa.schema([*arrow_schema(writer.columns), pa.field(INTERNAL_ROW_ID, pa.int64())])
        query = ChangeQuery(
            sql=f"SELECT {', '.join(selected)} FROM {joined}",
            schema=schema,
            rows=_schema(places),
            output=RowsOutput(
                target=target,
                internal=(INTERNAL_ROW_ID,),
                few_rows=few_rows_of(writer.inlining_limit),
            ),
        )
        reads = self.rows.reads(places, touched)
        groups = [
            ChangeGroup(part, *(matches.of(part) if matches is not None else ()))
            for part in group_reads(reads, self.engine.parallelism)
        ]
        reports = self._run(query, groups, "write rows")
        self.rows.take(
            DataChanges(files=tuple(file for report in reports for file in report.files))
        )
        few = [report.rows for report in reports if report.rows is not None]
        if few:
            self.rows.add(pa.concat_tables(few).to_reader(), has_row_ids=True, in_order=True)

    def _run(
        self, query: ChangeQuery, groups: Sequence[ChangeGroup], phase: str
    ) -> list[TaskReport]:
        return self.engine.run_changes(
            query,
            groups,
            target=file_target(self.rows.writer),
            title=f"{self.title}: {phase}",
            progress=self.rows.writer.transaction.progress,
        )


def _schema(places: Sequence[Place]) -> pa.Schema:
    return address_schema(places[0].tasks[0].schema)
