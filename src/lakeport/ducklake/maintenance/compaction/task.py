"""`CompactionTask`: read the rows of some data files and write them to new ones.

It runs in a thread of this process or on a Spark executor, so it imports no catalog database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from lakeport.ducklake.maintenance.compaction.clustering import RowOrder, in_order
from lakeport.ducklake.maintenance.results import Cancel
from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID, INTERNAL_ROW_ID_FIELD
from lakeport.ducklake.reading.delete_files import INTERNAL_SNAPSHOT
from lakeport.ducklake.reading.derived_tasks import with_columns
from lakeport.ducklake.reading.parquet import open_parquet
from lakeport.ducklake.reading.tasks import FileTask
from lakeport.ducklake.writing.files import (
    INTERNAL_FIELDS,
    FileTarget,
    FileWriter,
    data_file_path,
)
from lakeport.ducklake.writing.written import (
    WrittenColumn,
    WrittenFile,
    WrittenVariantPath,
)
from lakeport.errors import CancelledError
from lakeport.types import arrow_field

__all__ = ["CompactionTask", "written_files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTask:
    """Writes the live rows of a group of data files to new data files."""

    number: int
    """The number of the group, which the result repeats: engines return results in no order."""
    reads: tuple[FileTask, ...]
    """The columns of the target, then `rowid` and `snapshot_id`, of each file."""
    target: FileTarget
    folder: str = ""
    """The folder of the new files below the table's directory, if the rows are not divided."""
    keeps_snapshots: bool = False
    """Write the snapshot of each row."""
    is_contiguous: bool = False
    """By the catalog, the row ids of the files follow each other."""
    order: RowOrder | None = None

    @property
    def estimated_bytes(self) -> int:
        """The bytes of the files."""
        return sum(read.estimated_bytes for read in self.reads)

    @property
    def bytes_to_read(self) -> int:
        """The bytes of the files."""
        return self.estimated_bytes

    @property
    def is_remote(self) -> bool:
        """Whether the files are in an object store."""
        return any(read.is_remote for read in self.reads)

    def run(self, is_cancelled: Cancel = lambda: False) -> dict[str, Any]:
        """Write the files; return them in plain values, and whether they contain row ids."""
        has_row_ids = not self.is_contiguous or self.order is not None or self._any_has_row_ids()
        internal = [INTERNAL_ROW_ID] if has_row_ids else []
        internal += [INTERNAL_SNAPSHOT] if self.keeps_snapshots else []
        schema = pa.schema(
            [
                *(arrow_field(column) for column in self.target.columns),
                *(INTERNAL_FIELDS[name] for name in internal),
            ]
        )

        def read(names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
            return self._batches(schema, internal, names)

        batches = read(None)
        if self.order is not None:
            batches = in_order(read, schema, self.order, internal)
        target = self.target
        # One file after the other: several at once would take turns, and mix the order of rows.
        with FileWriter(target, internal=internal, names=self._path, threads=1) as writer:
            for batch in batches:
                if is_cancelled():
                    raise CancelledError("the compaction was cancelled")
                writer.write(batch)
            files = writer.close()
        return {
            "number": self.number,
            "files": [asdict(file) for file in files],
            "has_row_ids": has_row_ids,
        }

    def _batches(
        self, schema: pa.Schema, internal: Sequence[str], names: Sequence[str] | None
    ) -> Iterator[pa.RecordBatch]:
        count = len(self.target.columns)
        wanted = {INTERNAL_ROW_ID: count, INTERNAL_SNAPSHOT: count + 1}
        positions = [*range(count), *(wanted[name] for name in internal)]
        for task in self.reads:
            if names is not None:
                # In the order of the table's columns.
                yield from with_columns(task, names).read()
                continue
            for batch in task.read():
                arrays = [batch.column(position) for position in positions]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _any_has_row_ids(self) -> bool:
        """Return whether rows of a file have ids of their own, whatever the catalog's first is."""
        for task in self.reads:
            with closing(open_parquet(task.context.storage, task.file.recorded)) as source:
                if source.shape.internal(INTERNAL_ROW_ID, INTERNAL_ROW_ID_FIELD) is not None:
                    return True
        return False

    def _path(self, folder: str) -> str:
        return data_file_path(folder or self.folder)


def written_files(result: Mapping[str, Any]) -> list[WrittenFile]:
    """Return the files of a task's result."""
    return [_written(dict(file)) for file in result["files"]]


def _written(values: dict[str, Any]) -> WrittenFile:
    columns = tuple(_column(dict(column)) for column in values.pop("columns"))
    partition = tuple(values.pop("partition_values"))
    values.pop("name_mapping")
    return WrittenFile(columns=columns, partition_values=partition, **values)


def _column(values: dict[str, Any]) -> WrittenColumn:
    paths = tuple(WrittenVariantPath(**path) for path in values.pop("variant_paths"))
    return replace(WrittenColumn(**values), variant_paths=paths)
