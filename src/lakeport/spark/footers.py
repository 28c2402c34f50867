"""What a Parquet file holds, as its footer says: names, field ids and types, in DuckLake's words.

A footer is read once, as long as the file is the same. Types that Spark's reader does not read as
DuckDB does have no name here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake import Storage
from lakeport.ducklake.align import field_id
from lakeport.ducklake.paths import local_path

__all__ = ["Footer", "Node", "in_threads", "read_footer"]

UNKNOWN: Final = "unknown"
_THREADS: Final = 16

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """A field of a file: a column, struct field, list element, map key or value."""

    name: str
    id: int | None
    type: str
    """A DuckLake type, or `unknown`."""
    children: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Footer:
    """The size of a file, and what it holds."""

    size: int
    length: int
    """How many bytes the footer itself has."""
    rows: int
    fields: tuple[Node, ...]


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


def _node(field: pa.Field, leaves: Iterator[Any]) -> Node:
    type = field.type
    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if pa.types.is_struct(type):
        kind, inner = "struct", list(type)
    elif pa.types.is_map(type):
        kind, inner = "map", [type.key_field, type.item_field]
    elif pa.types.is_list(type) or pa.types.is_large_list(type):
        kind, inner = "list", [type.value_field]
    else:
        leaf = next(leaves, None)
        return Node(field.name, field_id(field), UNKNOWN if leaf is None else _leaf_type(leaf))
    return Node(field.name, field_id(field), kind, tuple(_node(child, leaves) for child in inner))


def _leaf_type(leaf: Any) -> str:
    """The DuckLake type whose values Spark reads from such a leaf as they are."""
    logical = json.loads(leaf.logical_type.to_json())
    match leaf.physical_type, logical:
        case "BOOLEAN", {"Type": "None"}:
            return "boolean"
        case "INT32", {"Type": "None"}:
            return "int32"
        case "INT64", {"Type": "None"}:
            return "int64"
        case "INT32" | "INT64", {"Type": "Int", "bitWidth": width, "isSigned": signed}:
            return f"{'' if signed else 'u'}int{width}"
        case "FLOAT", {"Type": "None"}:
            return "float32"
        case "DOUBLE", {"Type": "None"}:
            return "float64"
        case "INT32", {"Type": "Date"}:
            return "date"
        case "INT64", {"Type": "Timestamp", "timeUnit": "microseconds", "isAdjustedToUTC": utc}:
            return "timestamptz" if utc else "timestamp"
        case "INT32" | "INT64" | "FIXED_LEN_BYTE_ARRAY", {
            "Type": "Decimal",
            "precision": precision,
            "scale": scale,
        }:
            return f"decimal({precision},{scale})"
        case "BYTE_ARRAY", {"Type": "String" | "JSON" | "Enum"}:
            return "varchar"
        case "BYTE_ARRAY", {"Type": "None"}:
            return "blob"
    return UNKNOWN
