"""Delete files: Parquet files of positions, and Iceberg's `deletion-vector-v1` blobs.

A deletion vector is a bare blob or is inside a Puffin container. It is decoded with numpy, without
a loop over positions.
"""

from __future__ import annotations

import json
import struct
import zlib
from contextlib import closing
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport._cache import LruCache
from lakeport._wording import counted
from lakeport.ducklake.model import DeleteFile
from lakeport.ducklake.reading.file_shapes import INTERNAL_SNAPSHOT
from lakeport.ducklake.reading.parquet import (
    ParquetReader,
    UndecodableError,
    open_parquet,
    open_with_duckdb,
)
from lakeport.ducklake.reading.recorded import check_size
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.errors import CorruptLakeError

__all__ = ["INTERNAL_SNAPSHOT", "Positions", "deleted_positions", "deletes_at", "read_delete_file"]

_CONTAINER_MAGIC: Final = b"PFA1"
_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_NO_RUNS_COOKIE: Final = 12346
_RUNS_COOKIE: Final = 12347
_SNAPSHOT_PROPERTY: Final = "ducklake-snapshot-id"

Positions = npt.NDArray[np.int64]
Deletes = tuple[Positions, npt.NDArray[np.int64] | None]
"""Deleted positions, ascending, and the snapshot that deleted each, if the file contains it."""


def deleted_positions(data: bytes) -> Deletes:
    """Return the positions of a deletion vector file, ascending, with their snapshots.

    The snapshots are None if the file does not contain them: then every position is deleted.
    """
    if not data.startswith(_CONTAINER_MAGIC):
        return _vector(data), None
    blobs = [(_snapshot(blob), _blob(data, blob)) for blob in _footer(data)["blobs"]]
    recorded = [snapshot for snapshot, _ in blobs if snapshot is not None]
    if not recorded:
        return np.unique(np.concatenate([p for _, p in blobs] or [_none()])), None
    if len(recorded) != len(blobs):
        raise CorruptLakeError("a deletion vector names the snapshots of only some of its blobs")
    ordered = sorted(((s, p) for s, p in blobs if s is not None), key=lambda pair: pair[0])
    positions, snapshots = _none(), _none()
    # Vectors are cumulative: the first vector that contains a position deleted it.
    for snapshot, vector in ordered:
        fresh = np.setdiff1d(vector, positions, assume_unique=True)
        positions = np.concatenate([positions, fresh])
        snapshots = np.concatenate([snapshots, np.full(len(fresh), snapshot, np.int64)])
    order = np.argsort(positions, kind="stable")
    return positions[order], snapshots[order]


def _footer(data: bytes) -> dict[str, Any]:
    if len(data) < 16 or not data.endswith(_CONTAINER_MAGIC):
        raise CorruptLakeError("a Puffin file is cut off")
    size, flags = struct.unpack("<iI", data[-12:-4])
    if flags & 1:
        raise CorruptLakeError("a Puffin file has a compressed footer, which DuckLake never writes")
    try:
        footer = json.loads(data[-12 - size : -12])
    except ValueError:
        raise CorruptLakeError("the footer of a Puffin file is not JSON") from None
    if not isinstance(footer, dict) or not isinstance(footer.get("blobs"), list):
        raise CorruptLakeError("the footer of a Puffin file lists no blobs")
    return footer


def _blob(data: bytes, blob: dict[str, Any]) -> Positions:
    start, length = int(blob["offset"]), int(blob["length"])
    return _vector(data[start : start + length])


def _snapshot(blob: dict[str, Any]) -> int | None:
    value = (blob.get("properties") or {}).get(_SNAPSHOT_PROPERTY)
    return None if value is None else int(value)


def _vector(data: bytes) -> Positions:
    """Decode one blob: length, magic, bitmaps by their high 32 bits, checksum."""
    try:
        (length,) = struct.unpack_from(">I", data, 0)
        body = data[4 : 4 + length]
        (checksum,) = struct.unpack_from(">I", data, 4 + length)
        if body[:4] != _VECTOR_MAGIC or zlib.crc32(body) != checksum:
            raise CorruptLakeError("a deletion vector fails its checksum")
        (count,) = struct.unpack_from("<q", body, 4)
        offset, parts = 12, [_none()]
        for _ in range(count):
            (high,) = struct.unpack_from("<i", body, offset)
            low, offset = _bitmap(body, offset + 4)
            parts.append((np.int64(high) << 32) | low.astype(np.int64))
        return np.concatenate(parts)
    except (struct.error, ValueError, IndexError):
        raise CorruptLakeError("a deletion vector is cut off") from None


def _bitmap(data: bytes, start: int) -> tuple[npt.NDArray[np.uint32], int]:
    """Decode one 32-bit roaring bitmap in the portable format; return its values and its end."""
    (cookie,) = struct.unpack_from("<I", data, start)
    offset = start + 4
    if cookie & 0xFFFF == _RUNS_COOKIE:
        size = (cookie >> 16) + 1
        marks = (size + 7) // 8
        is_run = np.unpackbits(np.frombuffer(data, np.uint8, marks, offset), bitorder="little")[
            :size
        ]
        offset += marks
        has_offsets = size >= 4
    elif cookie == _NO_RUNS_COOKIE:
        (size,) = struct.unpack_from("<I", data, offset)
        offset += 4
        is_run = np.zeros(size, np.uint8)
        has_offsets = True
    else:
        raise CorruptLakeError("a deletion vector holds an unknown bitmap format")
    header = np.frombuffer(data, "<u2", size * 2, offset).reshape(size, 2)
    offset += size * 4 + (size * 4 if has_offsets else 0)
    parts = [np.empty(0, np.uint32)]
    for index in range(size):
        key, cardinality = np.uint32(header[index, 0]), int(header[index, 1]) + 1
        values, offset = _values(data, offset, cardinality, runs=bool(is_run[index]))
        parts.append((key << np.uint32(16)) | values)
    return np.concatenate(parts), offset


def _values(
    data: bytes, offset: int, cardinality: int, *, runs: bool
) -> tuple[npt.NDArray[np.uint32], int]:
    """Decode the low 16 bits of one container: runs, an array, or a bitmap."""
    if runs:
        (count,) = struct.unpack_from("<H", data, offset)
        pairs = (
            np.frombuffer(data, "<u2", count * 2, offset + 2).reshape(count, 2).astype(np.uint32)
        )
        lengths = pairs[:, 1].astype(np.int64) + 1
        steps = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return (np.repeat(pairs[:, 0], lengths) + steps).astype(np.uint32), offset + 2 + count * 4
    if cardinality <= 4096:
        return np.frombuffer(data, "<u2", cardinality, offset).astype(
            np.uint32
        ), offset + cardinality * 2
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, offset), bitorder="little")
    return np.flatnonzero(bits).astype(np.uint32), offset + 8192


def _none() -> Positions:
    return np.empty(0, np.int64)


def deletes_at(storage: Storage, deletes: tuple[DeleteFile, ...], snapshot: int) -> Positions:
    """Return the positions that the delete files of a data file delete at a snapshot, ascending."""
    parts = []
    for delete in deletes:
        positions, snapshots = read_delete_file(storage, delete)
        parts.append(positions if snapshots is None else positions[snapshots <= snapshot])
    if len(parts) == 1:
        return parts[0]
    # A data file with two delete files is an anomaly: the positions of both are deleted.
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


def read_delete_file(storage: Storage, delete: DeleteFile) -> Deletes:
    """Return all positions of a delete file, and the snapshot that deleted each if recorded."""
    return _RECENT.get_or_load((storage, delete), lambda: _read(storage, delete))


def _size(deletes: Deletes) -> int:
    """Return the approximate bytes of a cache entry, with its key."""
    return 1000 + sum(array.nbytes for array in deletes if array is not None)


# The tasks of a divided file read the same delete file.
_RECENT = LruCache(256 << 20, weigh=_size, name="delete_files")


def _read(storage: Storage, delete: DeleteFile) -> Deletes:
    if delete.format == "puffin":
        data = storage.read(delete.path)
        check_size(delete.recorded, len(data))
        return deleted_positions(data)
    if delete.format != "parquet":
        raise CorruptLakeError(
            f"the delete file {delete.path!r} has the unknown format {delete.format!r}"
        )
    source = open_parquet(storage, delete.recorded)
    names = source.shape.schema.names
    has_snapshots = len(names) == 3 and names[2] == INTERNAL_SNAPSHOT
    fields = [1, 2] if has_snapshots else [1]
    try:
        if len(names) < 2 or len(names) > 3:
            raise CorruptLakeError(
                f"the delete file {delete.path!r} has {counted(len(names), 'column')}"
            )
        batches = _batches(source, fields)
    except UndecodableError:
        with closing(open_with_duckdb(storage, delete.recorded, source.shape.schema)) as other:
            batches = _batches(other, fields)
    finally:
        source.close()
    positions = _numbers(batches, 0, delete)
    if len(positions) and (positions[0] < 0 or np.any(np.diff(positions) <= 0)):
        raise CorruptLakeError(
            f"the positions of the delete file {delete.path!r} are not ascending"
        )
    return positions, _numbers(batches, 1, delete) if has_snapshots else None


def _batches(source: ParquetReader, fields: list[int]) -> list[pa.RecordBatch]:
    return [batch for _, batch in source.batches(fields, batch_rows=1 << 20)]


def _numbers(
    batches: list[pa.RecordBatch], column: int, delete: DeleteFile
) -> npt.NDArray[np.int64]:
    arrays = [batch.column(column) for batch in batches]
    if any(array.null_count for array in arrays):
        raise CorruptLakeError(f"the delete file {delete.path!r} holds a NULL")
    parts = [np.asarray(array.cast(pa.int64())) for array in arrays]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
