"""Footers of Parquet files that were read before.

A footer is kept by the identity of its file: path, size and times of a local file, path, size and
ETag of an object. A file that was changed a moment ago has no identity, because two changes of one
clock tick have the same time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Hashable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport._cache import LruCache
from lakeport.ducklake.storage.paths import is_local, local_path

__all__ = ["file_identity", "known_footer", "matching_row_groups", "remember_footer"]

_QUIET_NANOSECONDS: Final = 2_000_000_000

_MAX_BYTES: Final = 64 * 1024 * 1024
# A footer has about so many bytes in memory for each byte in the file.
_EXPANSION: Final = 8


def _weight(footer: Any) -> int:
    return _EXPANSION * int(footer.serialized_size)


_footers: Final = LruCache(_MAX_BYTES, weigh=_weight)
_fragments: Final = LruCache(_MAX_BYTES, weigh=lambda fragment: _weight(fragment.metadata))


def file_identity(path: str, handle: pa.NativeFile, size: int) -> Hashable | None:
    """Return a value that differs for every content that a file has had; None if there is none."""
    if is_local(path):
        try:
            stat = os.stat(local_path(path))  # noqa: PTH116 (no object for each file)
        except OSError:
            return None
        changed = max(stat.st_mtime_ns, stat.st_ctime_ns)
        if changed + _QUIET_NANOSECONDS > time.time_ns():
            return None
        return (path, size, stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns)
    tag = (handle.metadata() or {}).get("ETag")
    return None if not tag else (path, size, tag)


def known_footer(identity: Hashable | None) -> pq.FileMetaData | None:
    """Return the footer of a file that was read before; None if it is not known."""
    return None if identity is None else _footers.get(identity)


def remember_footer(identity: Hashable | None, footer: pq.FileMetaData) -> None:
    """Keep a footer for the next time that its file is read."""
    if identity is not None:
        _footers.put(identity, footer)


def matching_row_groups(
    file: pa.NativeFile, schema: pa.Schema, where: pc.Expression, identity: Hashable | None = None
) -> set[int]:
    """Return the row groups of an open Parquet file whose statistics allow a match."""
    fragment = None if identity is None else _fragments.get(identity)
    if fragment is None:
        import pyarrow.dataset as ds

        fragment = ds.ParquetFileFormat().make_fragment(file)
        # Arrow reads the footer here, and keeps it.
        fragment.ensure_complete_metadata()
        if identity is not None:
            _fragments.put(identity, fragment)
    return {group.id for group in fragment.subset(where, schema=schema).row_groups}
