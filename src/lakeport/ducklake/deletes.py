"""Which positions of a data file are deleted at a snapshot: delete files in Parquet and Puffin."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport._wording import counted
from lakeport.ducklake.cache import WeighedCache
from lakeport.ducklake.filesystems import Storage
from lakeport.ducklake.model import DeleteFile
from lakeport.ducklake.puffin import deleted_positions
from lakeport.ducklake.recorded import check_size
from lakeport.ducklake.sources import Source, UndecodableError, open_source, open_with_duckdb
from lakeport.errors import CorruptLakeError

__all__ = ["INTERNAL_SNAPSHOT", "Positions", "deletes_at", "read_delete_file"]

Positions = npt.NDArray[np.int64]
Deletes = tuple[Positions, npt.NDArray[np.int64] | None]

INTERNAL_SNAPSHOT: Final = "_ducklake_internal_snapshot_id"


def deletes_at(storage: Storage, deletes: tuple[DeleteFile, ...], snapshot: int) -> Positions:
    """The positions that the delete files of one data file delete at a snapshot, ascending."""
    parts = []
    for delete in deletes:
        positions, snapshots = read_delete_file(storage, delete)
        parts.append(positions if snapshots is None else positions[snapshots <= snapshot])
    if len(parts) == 1:
        return parts[0]
    # Two delete files of one data file are an anomaly: what either deletes is deleted.
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def read_delete_file(storage: Storage, delete: DeleteFile) -> Deletes:
    """All positions of a delete file, and the snapshot that deleted each if the file tells."""
    return _RECENT.remembered((storage, delete), lambda: _read(storage, delete))


def _size(deletes: Deletes) -> int:
    """Bytes; the key has some too."""
    return 1000 + sum(array.nbytes for array in deletes if array is not None)


# The tasks of a divided file read the same delete file.
_RECENT = WeighedCache(256 << 20, _size)


def _read(storage: Storage, delete: DeleteFile) -> Deletes:
    if delete.format == "puffin":
        data = storage.read(delete.path)
        check_size(delete.recorded, len(data))
        return deleted_positions(data)
    if delete.format != "parquet":
        raise CorruptLakeError(
            f"the delete file {delete.path!r} has the unknown format {delete.format!r}"
        )
    source = open_source(storage, delete.recorded)
    names = source.schema.names
    has_snapshots = len(names) == 3 and names[2] == INTERNAL_SNAPSHOT
    fields = [1, 2] if has_snapshots else [1]
    try:
        if len(names) < 2 or len(names) > 3:
            raise CorruptLakeError(
                f"the delete file {delete.path!r} has {counted(len(names), 'column')}"
            )
        batches = _batches(source, fields)
    except UndecodableError:
        with closing(open_with_duckdb(storage, delete.recorded, source.schema)) as other:
            batches = _batches(other, fields)
    finally:
        source.close()
    positions = _numbers(batches, 0, delete)
    if len(positions) and (positions[0] < 0 or np.any(np.diff(positions) <= 0)):
        raise CorruptLakeError(
            f"the positions of the delete file {delete.path!r} are not ascending"
        )
    return positions, _numbers(batches, 1, delete) if has_snapshots else None


def _batches(source: Source, fields: list[int]) -> list[pa.RecordBatch]:
    return [batch for _, batch in source.batches(fields, batch_rows=1 << 20)]


def _numbers(
    batches: list[pa.RecordBatch], column: int, delete: DeleteFile
) -> npt.NDArray[np.int64]:
    arrays = [batch.column(column) for batch in batches]
    if any(array.null_count for array in arrays):
        raise CorruptLakeError(f"the delete file {delete.path!r} holds a NULL")
    parts = [np.asarray(array.cast(pa.int64())) for array in arrays]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
