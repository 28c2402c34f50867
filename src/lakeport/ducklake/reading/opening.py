"""Open a data file, check its size against the catalog, and re-raise errors with its path."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from lakeport.ducklake.model import RecordedFile
from lakeport.ducklake.reading.footers import file_identity
from lakeport.ducklake.reading.recorded import check_size
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import is_local
from lakeport.errors import CorruptLakeError, UnavailableError

__all__ = ["open_data_file", "translate_errors"]

# Files that are read at once: their footer and their columns are near to each other.
_WHOLE_FILE_BYTES: Final = 128 * 1024
_WHOLE_REMOTE_FILE_BYTES: Final = 1024 * 1024


def open_data_file(storage: Storage, file: RecordedFile) -> tuple[pa.NativeFile, Hashable | None]:
    """Open a file and check its size; return it with its identity, a small one as its content."""
    handle = storage.open(file.path)
    try:
        size = handle.size()
        check_size(file, size)
        # The footer of an encrypted file is not kept: reading it is what checks the key.
        is_plain = file.encryption_key is None
        identity = file_identity(file.path, handle, size) if is_plain else None
        if size <= (_WHOLE_FILE_BYTES if is_local(file.path) else _WHOLE_REMOTE_FILE_BYTES):
            with handle, translate_errors(file.path):
                handle = pa.BufferReader(handle.read_buffer())
    except BaseException:
        handle.close()
        raise
    return handle, identity


@contextmanager
def translate_errors(path: str, *errors: type[Exception]) -> Iterator[None]:
    """Re-raise read errors with the file's path."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, *errors) as error:
        reason = (str(error).splitlines() or ["?"])[0]
        message = f"the lake's file {path!r} cannot be read: {reason}"
        # Errors with an errno, or from the AWS client, are temporary. Arrow reports a damaged file
        # without an errno.
        if getattr(error, "errno", None) is not None or "AWS Error" in str(error):
            raise UnavailableError(message) from None
        raise CorruptLakeError(message) from None
