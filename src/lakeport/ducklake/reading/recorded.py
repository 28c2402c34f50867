"""Check that a file is the one that the catalog describes.

If a Parquet file is replaced by another valid file, reading it raises no error but returns other
rows. The catalog records the size, the length of the footer and the number of rows of every file.
"""

from __future__ import annotations

from lakeport.ducklake.model import RecordedFile
from lakeport.errors import CorruptLakeError

__all__ = ["check_footer", "check_size"]


def check_size(file: RecordedFile, actual: int) -> None:
    """Raise an error unless a file has the number of bytes that the catalog records."""
    _check(file, "bytes", actual, file.bytes)


def check_footer(file: RecordedFile, *, rows: int, footer_bytes: int) -> None:
    """Raise an error unless a footer has the length and the rows that the catalog records."""
    _check(file, "rows", rows, file.rows)
    _check(file, "bytes of footer", footer_bytes, file.footer_bytes)


def _check(file: RecordedFile, unit: str, actual: int, recorded: int | None) -> None:
    if recorded is not None and recorded != actual:
        raise CorruptLakeError(
            f"the lake's file {file.path!r} has {actual} {unit}, but the catalog records "
            f"{recorded}: it is not the file that was committed"
        )
