"""Parquet footers: names, field ids and types of fields, with DuckLake's type names.

A footer is cached until the file changes. Types that Spark's reader does not read as DuckDB does
have no name here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake.storage import Storage, local_path
from lakeport.types import ParquetField, _node

__all__ = ["Footer", "map_in_threads", "read_footer"]

_THREADS: Final = 16

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Footer:
    """The size, rows and fields of a file."""

    size: int
    length: int
    """How many bytes the footer itself has."""
    rows: int
    fields: tuple[ParquetField, ...]
    written_ns: int = 0
    """When the file was last changed, in nanoseconds since 1970."""


def map_in_threads(work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Call a function that waits for storage for several items at once."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, items))


def read_footer(storage: Storage, path: str, size: int | None) -> Footer | None:
    """Return the footer of a local file; None if it has another size or cannot be read."""
    try:
        status = Path(local_path(path)).stat()
        if size is not None and status.st_size != size:
            return None
        return _cached_footer(storage, path, status.st_size, status.st_mtime_ns)
    except (_UnreadableError, OSError):
        return None


class _UnreadableError(Exception):
    """The file cannot be read; an exception, because it must not be cached."""


@lru_cache(maxsize=16_384)
def _cached_footer(storage: Storage, path: str, size: int, written: int) -> Footer:
    with storage.open(path) as handle:
        try:
            file = pq.ParquetFile(handle)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
            raise _UnreadableError from None
        leaves = iter([file.schema.column(i) for i in range(len(file.schema.names))])
        fields = tuple(_node(field, leaves) for field in file.schema_arrow)
        if next(leaves, None) is not None:
            raise _UnreadableError
        # Most files of a table have the same fields; one object is compared by its identity.
        fields = _shared_fields(fields)
        return Footer(size, file.metadata.serialized_size, file.metadata.num_rows, fields, written)


@lru_cache(maxsize=1024)
def _shared_fields(fields: tuple[ParquetField, ...]) -> tuple[ParquetField, ...]:
    return fields
