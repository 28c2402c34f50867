"""Footers of Parquet files: which row groups may match, and the footers that were read before.

A footer is kept by the identity of its file: path, size and times of a local file, path, size and
ETag of an object. A file that was changed a moment ago has no identity, because two changes of one
clock tick have the same time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeport._cache import LruCache
from lakeport.ducklake.model import NameMapping
from lakeport.ducklake.reading.alignment import find_child
from lakeport.ducklake.reading.file_shapes import FileShape
from lakeport.ducklake.storage.paths import is_local, local_path
from lakeport.filters import Filter
from lakeport.filters.encoders import ArrowEncoder
from lakeport.types import Column, arrow_type

__all__ = [
    "file_identity",
    "known_footer",
    "matching_row_groups",
    "remember_footer",
    "row_group_filter",
]

_QUIET_NANOSECONDS: Final = 2_000_000_000

_MAX_BYTES: Final = 64 * 1024 * 1024
# A footer has about so many bytes in memory for each byte in the file.
_EXPANSION: Final = 8


def _weight(footer: Any) -> int:
    return _EXPANSION * int(footer.serialized_size)


_footers: Final = LruCache(_MAX_BYTES, weigh=lambda known: _weight(known[0]), name="footers")
_fragments: Final = LruCache(
    _MAX_BYTES, weigh=lambda fragment: _weight(fragment.metadata), name="fragments"
)


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


def known_footer(
    identity: Hashable | None,
) -> tuple[pq.FileMetaData, FileShape] | tuple[None, None]:
    """Return the footer and the shape of a file that was read before; None if not known."""
    found: tuple[pq.FileMetaData, FileShape] | None
    found = None if identity is None else _footers.get(identity)
    return (None, None) if found is None else found


def remember_footer(identity: Hashable | None, footer: pq.FileMetaData, shape: FileShape) -> None:
    """Keep a footer and a shape for the next time that their file is read."""
    if identity is not None:
        _footers.put(identity, (footer, shape))


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


def row_group_filter(
    filter: Filter,
    columns: Sequence[Column | str],
    schema: pa.Schema,
    name_mapping: Mapping[int, NameMapping] | None,
    without_nan: Collection[int] = (),
) -> pc.Expression | None:
    """Return the part of a filter that applies to the columns of a file, or None.

    The columns whose ids are in `without_nan` have no NaN in the file.
    """
    if not filter:
        return None
    fields, file_names, plain_numbers = list(schema), {}, []
    for column in columns:
        if isinstance(column, Column) and column.name in filter.columns and not column.children:
            position = find_child(fields, column, name_mapping)
            if position is not None and schema.field(position).type == arrow_type(column):
                file_names[column.name] = schema.field(position).name
                if column.id in without_nan:
                    plain_numbers.append(schema.field(position).name)
    conjuncts = [part for part in filter.conjuncts if Filter((part,)).columns <= file_names.keys()]
    encoder = ArrowEncoder(schema, column_mapping=file_names, without_nan=plain_numbers)
    return encoder.encode(Filter(tuple(conjuncts)))
