"""The values that methods of a catalog return: row counts, statistics, versions, sizes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "Action",
    "ActionHandler",
    "CatalogVersion",
    "ColumnStats",
    "DMLResult",
    "Endpoint",
    "FileFormat",
    "FileReference",
    "FunctionReference",
    "Partition",
    "TableSize",
    "TransactionState",
]


@dataclass(frozen=True, slots=True)
class DMLResult:
    """The result of an INSERT, UPDATE or DELETE."""

    affected_rows: int
    """The number of rows that were inserted, updated or deleted."""


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """Statistics of a column. None means unknown. DuckDB relies on all other values.

    Bounds may be wider than the data but never narrower, in every state that a client may read.
    """

    has_not_null: bool | None = None
    """Whether any value is not null."""
    has_null: bool | None = None
    """Whether any value is null."""
    distinct_count: int | None = None
    """An estimate of the number of distinct values."""
    min: Any = None
    """A value no greater than any in the column: a Python value or a `pa.Scalar`."""
    max: Any = None
    """A value no smaller than any in the column: a Python value or a `pa.Scalar`."""
    max_string_length: int | None = None
    """The length of the longest text or blob, in bytes."""
    contains_unicode: bool | None = None
    """Whether any text has characters beyond ASCII."""


@dataclass(frozen=True, slots=True)
class CatalogVersion:
    """The version of a catalog. When it changes, DuckDB binds prepared statements again."""

    version: int
    """A number that grows with every change of the catalog."""
    is_fixed: bool = False
    """Whether the catalog never changes, so that the client requests the version only once."""


@dataclass(frozen=True, slots=True)
class TableSize:
    """An estimate of the size of a table; None means unknown."""

    rows: int | None = None
    """Number of rows."""
    bytes: int | None = None
    """Size in bytes."""


class TransactionState(enum.Enum):
    """The state of a transaction."""

    ACTIVE = "active"
    COMMITTED = "committed"
    ABORTED = "aborted"


ActionHandler: TypeAlias = Callable[[bytes], bytes | str | Iterable[bytes | str] | None]
"""Takes the body of the request and returns no result, one, or several."""


@dataclass(frozen=True, slots=True)
class Action:
    """A named action of a server or catalog."""

    name: str
    """The name that clients call."""
    handler: ActionHandler
    """The callable; `lakeport.current_request()` returns the identity of its caller."""
    description: str = ""
    """One line, shown by ListActions."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a scan that a Lakeport server reads."""

    token: bytes
    """Returned as `ScanOptions.partition`. Clients can read it: it must not contain secrets."""
    location: str | None = None
    """Another server that reads it, such as `grpc://host:8815`; None means this one."""


@dataclass(frozen=True, slots=True)
class FunctionReference:
    """A table function of DuckDB that the client runs, such as `read_parquet` or `read_csv`."""

    function: str
    """The name of the function."""
    arguments: tuple[Any, ...] = ()
    """Positional arguments; a list of paths is a list."""
    named: Mapping[str, Any] = field(default_factory=dict)
    """Named arguments, such as `{"header": True}`."""


class FileFormat(enum.Enum):
    """The file formats that the client opens itself."""

    PARQUET = "parquet"
    IPC_STREAM = "ipc-stream"
    IPC_FILE = "ipc-file"


@dataclass(frozen=True, slots=True)
class FileReference:
    """A file that the client reads: Parquet by name, Arrow IPC with exactly the table's schema."""

    uri: str
    """Where the file is, as seen by the client."""
    format: FileFormat = FileFormat.PARQUET
    """How it is written."""


Endpoint: TypeAlias = Partition | FunctionReference | FileReference
