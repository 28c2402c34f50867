"""One open data file: row groups are encoded into it, and it becomes a written file."""

from __future__ import annotations

import base64
import contextlib
import secrets
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake.reading.data_files import INTERNAL_ROW_ID
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import is_local, local_path
from lakeport.ducklake.writing.files.encoding.layout import FileLayout
from lakeport.ducklake.writing.files.encoding.statistics import FileStatistics
from lakeport.ducklake.writing.files.target import FileTarget
from lakeport.ducklake.writing.written import WrittenFile
from lakeport.errors import PermissionDeniedError, UnavailableError, first_line

__all__ = ["ONE_PAGE", "ArrowEncoder", "Encoder", "encryption_properties", "new_key", "open_output"]


class Encoder(Protocol):
    """An open file of a partition; all calls come from one thread at a time."""

    rows: int
    """The number of rows written so far."""

    def write(self, table: pa.Table) -> None:
        """Encode one row group, in the columns and types of the table."""

    @property
    def bytes_written(self) -> int:
        """The size of the file so far."""

    def close(self) -> WrittenFile:
        """Write the footer; return the file."""

    def abort(self) -> None:
        """Close the file without a footer. The caller removes it."""


class ArrowEncoder:
    """A data file that pyarrow writes."""

    def __init__(
        self,
        target: FileTarget,
        layout: FileLayout,
        path: str,
        partition_values: tuple[str | None, ...] = (),
        with_nan: frozenset[int] = frozenset(),
    ) -> None:
        """Open a file; `with_nan` are the leaves of which its row groups may hold NaN."""
        self.rows = 0
        self._layout = layout
        self._with_nan = with_nan
        self._statistics = FileStatistics(layout, with_nan)
        self._key = new_key() if target.encrypted else None
        self._path = path
        self._partition_values = partition_values
        self._partition_id = target.partition_spec.id if target.partition_spec else None
        self._footers: list[pq.FileMetaData] = []
        self._sink = open_output(target.storage, target.directory + path)
        try:
            self._writer = self._open(target)
        except BaseException:
            self._sink.close()
            raise

    def _open(self, target: FileTarget) -> pq.ParquetWriter:
        options = target.options
        return pq.ParquetWriter(
            self._sink,
            self._layout.schema,
            compression=options.compression,
            compression_level=options.compression_level,
            data_page_version=options.page_version,
            # As in the files of DuckLake: no copy of Arrow's schema, decimals as integers.
            store_schema=False,
            store_decimal_as_integer=True,
            write_statistics=(
                self._layout.paths_without(self._with_nan) if self._with_nan else True
            ),
            # Row ids and snapshots ascend: their differences take a fraction of the bytes.
            use_dictionary=self._layout.own_paths if self._layout.internal else True,
            column_encoding=dict.fromkeys(self._layout.internal, "DELTA_BINARY_PACKED") or None,
            metadata_collector=self._footers,
            encryption_properties=encryption_properties(self._key),
            **({} if self._key is None else ONE_PAGE),
        )

    def write(self, table: pa.Table) -> None:
        """Encode one row group."""
        stored = self._layout(table)
        self._statistics.observe(stored)
        self._writer.write_table(stored, row_group_size=max(table.num_rows, 1))
        self.rows += table.num_rows

    @property
    def bytes_written(self) -> int:
        """The size of the file so far."""
        return int(self._sink.tell())

    def close(self) -> WrittenFile:
        """Write the footer; return the file."""
        before = self._sink.tell()
        self._writer.close()
        size = self._sink.tell()
        self._sink.close()
        return WrittenFile(
            path=self._path,
            record_count=self.rows,
            file_size_bytes=size,
            # The footer is followed by its length and the magic number, of 4 bytes each.
            footer_size=size - before - 8,
            columns=self._statistics.columns(self._footers[0]),
            partition_id=self._partition_id,
            partition_values=self._partition_values,
            encryption_key=None if self._key is None else base64.b64encode(self._key).decode(),
            carries_row_ids=INTERNAL_ROW_ID in self._layout.internal,
        )

    def abort(self) -> None:
        """Close the file without a footer."""
        # A writer that is dropped writes its footer, and fails if the file is closed.
        self._writer.is_open = False
        with contextlib.suppress(OSError, pa.ArrowException):
            self._sink.close()


ONE_PAGE: Final = {"data_page_size": 1 << 30, "max_rows_per_page": 1 << 30}
"""Options of a writer that makes one page of each column of a row group."""


def new_key() -> bytes:
    """Return a new key for the files of an encrypted lake."""
    return secrets.token_bytes(16)


def encryption_properties(key: bytes | None) -> Any:
    """Return the properties of a file that is encrypted with one key; None without a key."""
    if key is None:
        return None
    import pyarrow.parquet.encryption as pe

    return pe.create_encryption_properties(footer_key=key)


def open_output(storage: Storage, path: str) -> pa.NativeFile:
    """Open a new file for writing; create the directories of a local path."""
    filesystem, name = storage.filesystem(path)
    try:
        if is_local(path):
            Path(local_path(path)).parent.mkdir(parents=True, exist_ok=True)
        return filesystem.open_output_stream(name)
    except PermissionError as error:
        raise PermissionDeniedError(f"the file {path!r} may not be written: {error}") from None
    except OSError as error:
        raise UnavailableError(
            f"the file {path!r} cannot be written: {first_line(error)}"
        ) from None
