"""Parquet files that DuckDB encrypts: their footers, and whether it can write them here.

The Parquet standard authenticates each part of a file with its position (the AAD). DuckDB leaves
the AAD empty, so other readers reject the file. The footer is decrypted here for its field ids;
DuckDB reads the rows.
"""

from __future__ import annotations

import base64
import importlib
import struct
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.ducklake.storage.filesystems import Storage
from lakeport.errors import CorruptLakeError

__all__ = ["can_encrypt", "decrypted_footer", "load_encryption"]

_MAGIC = b"PARE"
_NONCE = 12


@cache
def can_encrypt() -> bool:
    """Return whether DuckDB can encrypt files: that needs its extension httpfs, with OpenSSL."""
    import duckdb

    with duckdb.connect() as connection:
        return load_encryption(connection)


def load_encryption(connection: Any) -> bool:
    """Load the extension by which DuckDB encrypts files; return False if it is not installed."""
    import duckdb

    for name in (*_packaged(duckdb.__version__), "httpfs"):
        try:
            connection.execute(f"LOAD '{name}'")
            return True
        except duckdb.Error:
            continue
    return False


def _packaged(version: str) -> list[str]:
    """Return the path of the extension in the package duckdb-extension-httpfs, if it is there."""
    try:
        package = importlib.import_module("duckdb_extension_httpfs")
    except ImportError:
        return []
    folder = Path(next(iter(package.__path__)))
    path = folder / "extensions" / f"v{version}" / "httpfs.duckdb_extension"
    return [str(path)] if path.exists() else []


def decrypted_footer(storage: Storage, path: str, key: str) -> tuple[pq.FileMetaData, int]:
    """Return the footer of a file encrypted by DuckDB, and its length in the file in bytes."""
    tail = _tail(storage, path)
    footer = pq.read_metadata(pa.BufferReader(_plain_footer_file(tail, path, key)))
    return footer, len(tail)


def _tail(storage: Storage, path: str) -> bytes:
    with storage.open(path) as file:
        size = file.size()
        if size < 12:
            raise CorruptLakeError(f"the file {path!r} is too small to be a Parquet file")
        file.seek(size - 8)
        end = bytes(file.read(8))
        (length,) = struct.unpack("<I", end[:4])
        if end[4:] != _MAGIC or length + 12 > size:
            raise CorruptLakeError(f"the file {path!r} is not an encrypted Parquet file")
        file.seek(size - 8 - length)
        return bytes(file.read(length))


def _plain_footer_file(tail: bytes, path: str, key: str) -> bytes:
    """Return a Parquet file that consists of the decrypted footer only."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(base64.b64decode(key))
    # The length of the crypto metadata before the footer is not stored; it has a few bytes.
    for start in range(min(len(tail) - 4, 256)):
        (length,) = struct.unpack_from("<I", tail, start)
        if start + 4 + length != len(tail):
            continue
        sealed = tail[start + 4 :]
        try:
            footer = cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], b"")
        except InvalidTag:
            continue
        return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"
    raise CorruptLakeError(f"the footer of {path!r} cannot be opened with the catalog's key")
