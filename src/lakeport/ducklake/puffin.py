"""Deletion vectors: Iceberg's `deletion-vector-v1` blobs, bare or inside a Puffin container.

Decoded with numpy, without a loop over positions.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lakeport.errors import CorruptLakeError

__all__ = ["deleted_positions"]

Positions = npt.NDArray[np.int64]

_CONTAINER_MAGIC: Final = b"PFA1"
_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_NO_RUNS_COOKIE: Final = 12346
_RUNS_COOKIE: Final = 12347
_SNAPSHOT_PROPERTY: Final = "ducklake-snapshot-id"


def deleted_positions(data: bytes) -> tuple[Positions, npt.NDArray[np.int64] | None]:
    """The positions of a deletion vector file, ascending, with the snapshot that deleted each.

    The snapshots are None when the file does not tell: then every position is deleted.
    """
    if not data.startswith(_CONTAINER_MAGIC):
        return _vector(data), None
    blobs = [(_snapshot(blob), _blob(data, blob)) for blob in _footer(data)["blobs"]]
    known = [snapshot for snapshot, _ in blobs if snapshot is not None]
    if not known:
        return np.unique(np.concatenate([p for _, p in blobs] or [_none()])), None
    if len(known) != len(blobs):
        raise CorruptLakeError("a deletion vector names the snapshots of only some of its blobs")
    ordered = sorted(((s, p) for s, p in blobs if s is not None), key=lambda pair: pair[0])
    positions, snapshots = _none(), _none()
    for (
        snapshot,
        vector,
    ) in ordered:  # vectors are cumulative: the first one with a position deleted it
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
    """One blob: length, magic, bitmaps by their high 32 bits, checksum."""
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
    """One 32-bit roaring bitmap in the portable format; where it ends."""
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
    """The low 16 bits of one container: runs, an array, or a bitmap."""
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
