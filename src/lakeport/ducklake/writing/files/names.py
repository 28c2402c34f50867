"""Names of files: UUIDs in order of time, and folders of partition values."""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from lakeport.ducklake.model import PartitionField
from lakeport.types import Column

__all__ = [
    "FileNamer",
    "data_file_path",
    "delete_file_name",
    "escape_folder",
    "folder_of",
    "partition_key_names",
    "uuid7",
]

FileNamer: TypeAlias = Callable[[str], str]
"""Returns the path of the next data file in a folder, which is empty or ends with `/`.

It is called before the file is opened, so that a caller can record every name.
"""

_HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
)


def data_file_path(folder: str) -> str:
    """Return a new path of a data file below the directory of its table."""
    return f"{folder}ducklake-{uuid7()}.parquet"


def delete_file_name(*, extension: str = "parquet") -> str:
    """Return a new name of a delete file."""
    return f"ducklake-{uuid7()}-delete.{extension}"


def uuid7() -> uuid.UUID:
    """Return a new UUID of version 7: milliseconds since 1970, then random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76
    return uuid.UUID(int=value & ~(0x3 << 62) | 0x2 << 62)


def partition_key_names(
    fields: Sequence[PartitionField], columns: Sequence[Column]
) -> tuple[str, ...]:
    """Return the names of the folders' keys, one for each field of a partition spec."""
    by_id = {column.id: column.name for column in columns}
    used: set[str] = set()
    names = []
    for field in fields:
        column = by_id[field.column_id]
        name = column if field.transform == "identity" else field.transform.partition("(")[0]
        if name in used:
            name = f"{name}_{column}"
        base, number = name, 2
        while name in used:
            name, number = f"{base}_{number}", number + 1
        used.add(name)
        names.append(name)
    return tuple(names)


def folder_of(keys: Sequence[str], values: Sequence[str | None]) -> str:
    """Return the folder of partition values, such as `year=2024/cat=a%20b/`."""
    return "".join(
        f"{escape_folder(key)}={_HIVE_NULL if value is None else escape_folder(value)}/"
        for key, value in zip(keys, values, strict=True)
    )


def escape_folder(text: str) -> str:
    """Return a text with every byte that is not unreserved as `%XX`."""
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in text.encode())
