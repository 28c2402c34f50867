"""Read the rows that a transaction has added itself: in files, or to be inlined.

Rows that have no row id yet have a negative one here, which `AddressTask` reads as NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakeport.ducklake.model import DataFile, TableState
from lakeport.ducklake.planning.plan import Planner, inlined_tasks
from lakeport.ducklake.reading.tasks import FileTask, ScanContext, ScanTask
from lakeport.ducklake.writing.changes.target import directory_of
from lakeport.ducklake.writing.written import InlinedRowInserts, WrittenFile
from lakeport.errors import UnsupportedError

if TYPE_CHECKING:
    from lakeport.ducklake.writing.table_writer import TableWriter

__all__ = ["added_tasks", "planner_of_new_table", "written_task"]

_NO_ROW_IDS: Final = -(1 << 62)


def written_task(context: ScanContext, directory: str, file: WrittenFile) -> FileTask:
    """Return a task that reads a file of the transaction."""
    if file.name_mapping is not None:
        raise UnsupportedError(
            "rows of files that the transaction has added with add_files can be changed only by a "
            "later transaction"
        )
    return FileTask(
        context=context,
        estimated_rows=file.record_count,
        estimated_bytes=file.file_size_bytes,
        file=DataFile(
            id=-1,
            path=directory + file.path,
            record_count=file.record_count,
            file_size_bytes=file.file_size_bytes,
            footer_size=file.footer_size,
            begin_snapshot=context.snapshot,
            row_id_start=_NO_ROW_IDS,
            encryption_key=file.encryption_key,
        ),
    )


def added_tasks(context: ScanContext, added: InlinedRowInserts) -> list[ScanTask]:
    """Return tasks that contain rows which will be inlined."""
    count = added.rows.num_rows
    no_ids = pa.array(np.full(count, _NO_ROW_IDS))
    virtual = {
        "rowid": no_ids if added.row_ids is None else added.row_ids,
        "file_row_number": pa.array(np.arange(count, dtype=np.int64)),
        "snapshot_id": pa.array(np.full(count, context.snapshot, np.int64)),
        "filename": pa.nulls(count, pa.string()),
    }
    arrays = [
        virtual[column] if isinstance(column, str) else added.rows.column(column.name)
        for column in context.read_columns
    ]
    return inlined_tasks(context, pa.Table.from_arrays(arrays, schema=context.read_schema))


def planner_of_new_table(writer: TableWriter) -> Planner:
    """Return a planner of a table that the transaction creates; it has only its own rows."""
    lake, definition = writer.transaction.lake, writer.definition
    state = TableState(
        id=definition.id,
        uuid=definition.uuid,
        schema=definition.schema.name,
        name=definition.name,
        path=directory_of(writer),
        columns=writer.columns,
        comment=None,
        tags={},
        partition_specs={},
        partition_spec=None,
        sort_order=(),
        stats=None,
        inlined_tables=(),
        inlined_delete_table=None,
        mappings={},
        columns_with_older_types=frozenset(),
    )
    base = lake.snapshot(version=writer.transaction.base)
    return Planner(lake.catalog, lake.storage, base, state)
