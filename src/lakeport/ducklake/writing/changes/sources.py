"""The rows of a table with their addresses: where each row is, so that it can be deleted.

An address is the number of a place and a position in it. A place is a data file, an inlined table,
or what the same transaction has added: a file, or rows that will be inlined. The position is the
row's number in the file or in the added rows, or its row id in an inlined table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeport.ducklake.model import DataFile
from lakeport.ducklake.reading.delete_files import Positions
from lakeport.ducklake.reading.tasks import FileTask, ScanTask

__all__ = [
    "ADDRESS",
    "PLACE",
    "POSITION",
    "ROW_ID",
    "AddressTask",
    "Place",
    "PlaceKey",
    "Touched",
    "group_addresses",
]

PLACE: Final = "_lakeport_place"
POSITION: Final = "_lakeport_position"
ROW_ID: Final = "_lakeport_row_id"
ADDRESS: Final = pa.schema([(PLACE, pa.int64()), (POSITION, pa.int64())])

PlaceKey: TypeAlias = tuple[str, int | str]
"""`file` and the id of a data file, `inlined` and the name of a table, `written` and the path of a
file of the transaction, `added` and the number of added rows."""
Touched: TypeAlias = Mapping[PlaceKey, Positions]
"""The touched positions of each place, ascending and unique."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place of rows, and the tasks that read it."""

    key: PlaceKey
    tasks: tuple[ScanTask, ...]

    @property
    def file(self) -> DataFile | None:
        """The data file; None for inlined rows."""
        task = self.tasks[0]
        return task.file if isinstance(task, FileTask) else None


@dataclass(frozen=True, slots=True)
class AddressTask:
    """Reads the rows of a task with their addresses before their columns.

    The task's last two columns are `rowid` and `file_row_number`.
    """

    task: ScanTask
    place: int
    positions: Positions | None = None
    """Read only these positions; all when left out."""
    excluded: Positions | None = None
    """Do not read these positions: the transaction has deleted them."""
    has_row_ids: bool = False
    """All rows have row ids. Rows that the transaction has added have none yet."""

    @property
    def estimated_bytes(self) -> int:
        """About how many bytes are handled, at most."""
        return self.task.estimated_bytes

    @property
    def bytes_to_read(self) -> int:
        """How many of them are read from storage, at most."""
        return self.task.bytes_to_read

    @property
    def schema(self) -> pa.Schema:
        """The columns of the address, the row id, and the columns of the task."""
        return address_schema(self.task.schema)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows."""
        schema = self.schema
        for batch in self._batches():
            kept = self._kept(batch)
            if kept.num_rows:
                *columns, row_ids, positions = kept.columns
                place = pa.array(np.full(kept.num_rows, self.place, np.int64))
                ids = row_ids if self.has_row_ids else _known_ids(row_ids)
                yield pa.RecordBatch.from_arrays([place, positions, ids, *columns], schema=schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if isinstance(self.task, FileTask):
            return self.task.read(positions=self.positions)
        return self.task.read()

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if self.positions is None and self.excluded is None:
            return batch
        positions = batch.column(batch.num_columns - 1).to_numpy()
        keep = np.ones(len(positions), np.bool_)
        if self.positions is not None:
            keep &= contains(self.positions, positions)
        if self.excluded is not None:
            keep &= ~contains(self.excluded, positions)
        return batch.filter(pa.array(keep))


def _known_ids(row_ids: pa.Array) -> pa.Array:
    # Rows without an id have a negative one here.
    return pc.if_else(pc.less(row_ids, 0), pa.scalar(None, pa.int64()), row_ids)


def address_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of an `AddressTask` for those of its task."""
    own = list(schema)[:-2]
    return pa.schema([*ADDRESS, pa.field(ROW_ID, pa.int64()), *own])


def contains(
    sorted_values: Positions, values: Positions
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which values are among the sorted ones."""
    if not len(sorted_values):
        return np.zeros(len(values), np.bool_)
    found = np.searchsorted(sorted_values, values).clip(max=len(sorted_values) - 1)
    return np.asarray(sorted_values[found] == values)


def group_addresses(addresses: pa.Table, places: Sequence[Place]) -> dict[PlaceKey, Positions]:
    """Return the positions of each place, ascending and unique."""
    if not addresses.num_rows:
        return {}
    numbers = addresses.column(PLACE).to_numpy()
    positions = addresses.column(POSITION).to_numpy()
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    ends = [*starts[1:], len(numbers)]
    return {
        places[int(numbers[start])].key: np.unique(positions[start:end])
        for start, end in zip(starts, ends, strict=True)
    }
