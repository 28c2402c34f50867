"""Where the rows of a table can be had: parts of a scan, or DuckDB functions that the client runs.

A table with the `EndpointTable` capability answers a scan with several endpoints, which DuckDB
reads in parallel. Each is either a `Partition` of the scan, read from this server (or another
one), or a table reference that the client resolves by itself, without this server seeing a row.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Endpoint", "FileFormat", "FileReference", "FunctionReference", "Partition"]


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of a scan that a Lakeport server reads."""

    token: bytes
    """Opaque to the server; comes back as `ScanOptions.partition`. Keep secrets out of it."""
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
    """The file formats that the client opens by itself."""

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
