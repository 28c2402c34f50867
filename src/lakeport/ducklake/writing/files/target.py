"""What files a writer makes: the columns, where the files go, and the options of the table.

The options are resolved values: which scope of the catalog they come from is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lakeport.ducklake.model import PartitionSpec, SortField
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.errors import InvalidArgumentError
from lakeport.types import Column

__all__ = ["FileOptions", "FileTarget"]

Compression = Literal["none", "snappy", "gzip", "zstd", "brotli", "lz4"]

_COMPRESSIONS: Final[Mapping[str, Compression]] = {
    "uncompressed": "none",
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    # DuckDB and pyarrow both write the raw frame for either name.
    "lz4": "lz4",
    "lz4_raw": "lz4",
}
_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """DuckLake's options of data files, with the defaults of DuckLake."""

    compression: Compression = "snappy"
    compression_level: int | None = None
    page_version: Literal["1.0", "2.0"] = "1.0"
    row_group_rows: int = 122_880
    row_group_bytes: int | None = None
    """A limit in bytes of Arrow data; None for the limit that bounds the memory of a writer."""
    target_file_bytes: int = 2**29
    hive_folders: bool = True
    files_per_thread: bool = False
    sort_on_insert: bool = True
    deletion_vectors: bool = False

    @classmethod
    def from_mapping(cls, options: Mapping[str, str]) -> FileOptions:
        """Return the options from DuckLake's names and texts; other names are ignored."""
        readers: dict[str, tuple[str, Any]] = {
            "parquet_compression": ("compression", _compression),
            "parquet_compression_level": ("compression_level", _integer),
            "parquet_version": ("page_version", _page_version),
            "parquet_row_group_size": ("row_group_rows", _positive),
            "parquet_row_group_size_bytes": ("row_group_bytes", _bytes),
            "target_file_size": ("target_file_bytes", _bytes),
            "hive_file_pattern": ("hive_folders", _boolean),
            "per_thread_output": ("files_per_thread", _boolean),
            "sort_on_insert": ("sort_on_insert", _boolean),
            "write_deletion_vectors": ("deletion_vectors", _boolean),
        }
        values = {
            own: read(name, options[name])
            for name, (own, read) in readers.items()
            if name in options
        }
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """A table as a writer of files sees it. It can be pickled, for Spark tasks."""

    columns: tuple[Column, ...]
    directory: str
    """The resolved directory of the table, with its separator at the end."""
    storage: Storage = field(default_factory=Storage)
    partition_spec: PartitionSpec | None = None
    sort_order: tuple[SortField, ...] = ()
    encrypted: bool = False
    options: FileOptions = FileOptions()
    exact: bool = False
    """Refuse integers of 128 bits and offsets of times that a file cannot hold.

    By default such integers become floats, and such times those of UTC.
    """

    @property
    def is_partitioned(self) -> bool:
        """Whether rows are divided by the values of partition keys."""
        return self.partition_spec is not None and bool(self.partition_spec.fields)


def _compression(name: str, text: str) -> Compression:
    found = _COMPRESSIONS.get(text.strip().lower())
    if found is None:
        known = ", ".join(_COMPRESSIONS)
        raise InvalidArgumentError(
            f"option {name}: {text!r} is no compression; give one of {known}"
        )
    return found


def _page_version(name: str, text: str) -> Literal["1.0", "2.0"]:
    match text.strip().lower().removeprefix("v"):
        case "1" | "1.0":
            return "1.0"
        case "2" | "2.0":
            return "2.0"
    raise InvalidArgumentError(f"option {name}: {text!r} is no version; give V1 or V2")


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(f"option {name}: {text!r} is not a whole number") from None


def _positive(name: str, text: str) -> int:
    number = _integer(name, text)
    if number < 1:
        raise InvalidArgumentError(f"option {name}: {text!r} is less than 1")
    return number


def _bytes(name: str, text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match.group(2) not in _UNITS:
        raise InvalidArgumentError(f"option {name}: {text!r} is not a size such as 512MiB")
    size = int(float(match.group(1)) * _UNITS[match.group(2)])
    if size < 1:
        raise InvalidArgumentError(f"option {name}: {text!r} is less than 1 byte")
    return size


def _boolean(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true" | "1":
            return True
        case "false" | "0":
            return False
    raise InvalidArgumentError(f"option {name}: {text!r} is neither true nor false")
