"""Ids of a commit: new objects get the next ids of the snapshot that the commit follows."""

from __future__ import annotations

from lakeport.ducklake.metadata.rows import SnapshotRow

__all__ = ["CommitIds"]


class CommitIds:
    """The ids that one attempt of a commit allocates. Another attempt allocates others."""

    def __init__(self, latest: SnapshotRow) -> None:
        self.snapshot = latest.snapshot_id + 1
        self.next_catalog_id = latest.next_catalog_id
        self.next_file_id = latest.next_file_id
        self._objects: dict[int, int] = {}

    def allocate_object(self, id: int) -> int:
        """Give an id to an object that the transaction has created with a negative one."""
        if id >= 0:
            return id
        if id not in self._objects:
            self._objects[id] = self.next_catalog_id
            self.next_catalog_id += 1
        return self._objects[id]

    def object(self, id: int) -> int:
        """Return the id of an object; objects with a negative id have been allocated before."""
        return id if id >= 0 else self._objects[id]

    def allocate_file(self) -> int:
        """Return the next id of a data file, delete file or name mapping."""
        self.next_file_id += 1
        return self.next_file_id - 1
