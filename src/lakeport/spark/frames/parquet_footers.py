"""What a Parquet file holds, as its footer says: names, field ids and types, in DuckLake's words.

A footer is read once, as long as the file is the same. Types that Spark's reader does not read as
DuckDB does have no name here.
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

__all__ = ["Footer", "in_threads", "read_footer"]

_THREADS: Final = 16

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Footer:
    """The size of a file, and what it holds."""

    size: int
    length: int
    """How many bytes the footer itself has."""
    rows: int
    fields: tuple[ParquetField, ...]


def in_threads(work: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Do something that waits for storage, for several items at once."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, items))


def read_footer(storage: Storage, path: str, size: int | None) -> Footer | None:
    """The footer of a local file of a size; None if there is no such file that pyarrow can read."""
    try:
        status = Path(local_path(path)).stat()
        if size is not None and status.st_size != size:
            return None
        return _remembered_footer(storage, path, status.st_size, status.st_mtime_ns)
    except (_UnreadableError, OSError):
        return None


class _UnreadableError(Exception):
    """Nothing that would be remembered: the next attempt may find another file."""


@lru_cache(maxsize=16_384)
def _remembered_footer(storage: Storage, path: str, size: int, written: int) -> Footer:  # noqa: ARG001
    with storage.open(path) as handle:
        try:
            file = pq.ParquetFile(handle)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError):
            raise _UnreadableError from None
        leaves = iter([file.schema.column(i) for i in range(len(file.schema.names))])
        fields = tuple(_node(field, leaves) for field in file.schema_arrow)
        if next(leaves, None) is not None:
            raise _UnreadableError
        return Footer(size, file.metadata.serialized_size, file.metadata.num_rows, fields)
