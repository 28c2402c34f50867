"""Delete files: all deleted positions of a data file, with the snapshots that deleted them.

The positions of the commit itself get the id that its snapshot will have. The commit kernel has the
file written again if another transaction takes that id.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lakeport.ducklake.model import DataFile
from lakeport.ducklake.reading.delete_files import Positions, read_delete_file
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.writing.files import FileTarget, write_delete_file
from lakeport.ducklake.writing.written import WrittenDeleteFile
from lakeport.errors import CorruptLakeError

__all__ = ["AllDeletes", "all_deletes"]


@dataclass(frozen=True, slots=True)
class AllDeletes:
    """The deleted positions of a data file: those of its delete file, and new ones."""

    file: DataFile
    positions: Positions
    """Ascending."""
    old_snapshots: Positions
    """The snapshot that deleted each position before; -1 for a new one."""

    @property
    def replaces(self) -> int | None:
        """The delete file from which the new one is built."""
        return self.file.deletes[0].id if self.file.deletes else None

    @property
    def is_complete(self) -> bool:
        """Whether no row of the file is left."""
        return self.file.record_count is not None and len(self.positions) >= self.file.record_count

    def write(self, target: FileTarget, snapshot: int) -> WrittenDeleteFile:
        """Write the delete file of a commit that is expected to make this snapshot."""
        snapshots = None
        if self.replaces is not None:
            snapshots = np.where(self.old_snapshots < 0, snapshot, self.old_snapshots)
        return write_delete_file(
            target,
            data_file_id=self.file.id,
            data_file=self.file.path,
            positions=self.positions,
            snapshots=snapshots,
            commit_snapshot=None if snapshots is None else snapshot,
            replaces=self.replaces,
        )


def all_deletes(storage: Storage, file: DataFile, positions: Positions) -> AllDeletes:
    """Return the positions of the file's delete file and new ones, which are not among them."""
    if len(file.deletes) > 1:
        raise CorruptLakeError(
            f"the data file {file.path!r} has {len(file.deletes)} delete files, of which DuckLake "
            "reads one: merge them into one before rows of the file are deleted"
        )
    old, snapshots = np.empty(0, np.int64), np.empty(0, np.int64)
    for delete in file.deletes:
        old, embedded = read_delete_file(storage, delete)
        snapshots = np.full(len(old), delete.begin_snapshot) if embedded is None else embedded
    together = np.concatenate([old, positions])
    order = np.argsort(together, kind="stable")
    marks = np.concatenate([snapshots, np.full(len(positions), -1)])
    return AllDeletes(file, together[order], marks[order])
