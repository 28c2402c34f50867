"""Write delete files: Parquet files of positions, and Iceberg's deletion vectors.

A file that already has deletes gets a new delete file with all its positions. It embeds the
snapshot that deleted each of them, so that older snapshots can still be read.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from lakeport.arrow import thread_connection
from lakeport.ducklake.reading.data_files import INTERNAL_SNAPSHOT_FIELD
from lakeport.ducklake.reading.delete_files import INTERNAL_SNAPSHOT
from lakeport.ducklake.storage.encryption import can_encrypt, load_encryption
from lakeport.ducklake.writing.files.encoding.arrow_encoder import (
    ONE_PAGE,
    encryption_properties,
    new_key,
    open_output,
)
from lakeport.ducklake.writing.files.names import delete_file_name
from lakeport.ducklake.writing.files.target import FileTarget
from lakeport.ducklake.writing.written import WrittenDeleteFile
from lakeport.errors import InvalidArgumentError
from lakeport.types import duckdb_string, field_id

__all__ = ["deletion_vector", "deletion_vectors", "write_delete_file"]

Numbers = npt.NDArray[np.int64]

_PATH_FIELD: Final = 2147483646
_POSITION_FIELD: Final = 2147483645
_VECTOR_MAGIC: Final = b"\xd1\xd3\x39\x64"
_CONTAINER_MAGIC: Final = b"PFA1"
_NO_RUNS_COOKIE: Final = 12346
_ARRAY_LIMIT: Final = 4096


def write_delete_file(
    target: FileTarget,
    *,
    data_file_id: int,
    data_file: str,
    positions: Numbers | Sequence[int],
    snapshots: Numbers | Sequence[int] | None = None,
    commit_snapshot: int | None = None,
    replaces: int | None = None,
    has_containers: bool = False,
) -> WrittenDeleteFile:
    """Write all deleted positions of a data file into the directory of its table.

    The file is a deletion vector if the table's options ask for one, and if that loses nothing: a
    vector cannot be encrypted, and DuckLake 1.0 has no vector with snapshots.

    Args:
        target: The table.
        data_file_id: The id of the data file.
        data_file: The resolved path of the data file.
        positions: The deleted positions, ascending.
        snapshots: The snapshot that deleted each position; None if this commit deletes all.
        commit_snapshot: The id in `snapshots` that stands for this commit.
        replaces: The id of the delete file whose positions are among these.
        has_containers: The lake is of format 1.1, which has vectors with snapshots.
    """
    deleted = np.asarray(positions, np.int64)
    if not len(deleted) or deleted[0] < 0 or np.any(np.diff(deleted) <= 0):
        raise InvalidArgumentError("deleted positions must be ascending and not negative")
    owners = None if snapshots is None else np.asarray(snapshots, np.int64)
    is_vector = target.options.deletion_vectors and not target.encrypted
    if is_vector and (owners is None or has_containers):
        written = _write_vector(target, deleted, owners, data_file)
    else:
        written = _write_parquet(target, deleted, owners, data_file)
    first = None if owners is None else int(owners.min())
    is_old = owners is not None and commit_snapshot is None
    return WrittenDeleteFile(
        data_file_id=data_file_id,
        replaces=replaces,
        delete_count=len(deleted),
        begin_snapshot=None if first == commit_snapshot else first,
        embedded_snapshot=None if owners is None else commit_snapshot,
        last_snapshot=int(owners.max()) if owners is not None and is_old else None,
        **written,
    )


def _write_parquet(
    target: FileTarget, positions: Numbers, snapshots: Numbers | None, data_file: str
) -> dict[str, Any]:
    columns: dict[pa.Field, pa.Array] = {
        _field("file_path", pa.string(), _PATH_FIELD): pa.repeat(data_file, len(positions)),
        _field("pos", pa.int64(), _POSITION_FIELD): pa.array(positions),
    }
    if snapshots is not None:
        field = _field(INTERNAL_SNAPSHOT, pa.int64(), INTERNAL_SNAPSHOT_FIELD)
        columns[field] = pa.array(snapshots)
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(list(columns)))
    key = new_key() if target.encrypted else None
    # In memory first: a delete file is small, and its size is known before it is written.
    data = _encoded(table, key) if key is None or not can_encrypt() else _encrypted(table, key)
    path = delete_file_name()
    _write(target, path, data)
    return {
        "path": path,
        "file_size_bytes": len(data),
        "footer_size": struct.unpack("<I", data[-8:-4])[0],
        "encryption_key": None if key is None else base64.b64encode(key).decode(),
    }


def _encoded(table: pa.Table, key: bytes | None) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(
        table,
        buffer,
        compression="snappy",
        store_schema=False,
        encryption_properties=encryption_properties(key),
        # DuckDB 1.5 reads one page of a column that pyarrow encrypted.
        **({} if key is None else ONE_PAGE),
    )
    return buffer.getvalue()


def _encrypted(table: pa.Table, key: bytes) -> bytes:
    """Return the bytes of a file that DuckDB encrypts.

    Its change feed filters delete files, and DuckDB 1.5 filters only what it encrypted itself.
    """
    connection = thread_connection()
    load_encryption(connection)
    ids = ", ".join(f"{field.name}: {field_id(field)}" for field in table.schema)
    text = "".join(f"\\x{byte:02X}" for byte in key)
    with tempfile.TemporaryDirectory(prefix="lakeport-delete-") as folder:
        path = Path(folder) / "delete.parquet"
        connection.from_arrow(table).query(
            "deletes",
            f"COPY (FROM deletes) TO {duckdb_string(str(path))} (FORMAT parquet, "
            f"FIELD_IDS {{{ids}}}, ENCRYPTION_CONFIG {{footer_key_value: '{text}'::BLOB}})",
        )
        return path.read_bytes()


def _field(name: str, type: pa.DataType, id: int) -> pa.Field:
    return pa.field(name, type, metadata={b"PARQUET:field_id": str(id).encode()})


def _write_vector(
    target: FileTarget, positions: Numbers, snapshots: Numbers | None, data_file: str
) -> dict[str, Any]:
    if snapshots is None:
        data, footer = deletion_vector(positions), 0
    else:
        data, footer = deletion_vectors(positions, snapshots, data_file)
    path = delete_file_name(extension="puffin")
    _write(target, path, data)
    return {
        "path": path,
        "format": "puffin",
        "file_size_bytes": len(data),
        "footer_size": footer,
    }


def _write(target: FileTarget, path: str, data: bytes) -> None:
    with open_output(target.storage, target.directory + path) as sink:
        sink.write(data)


def deletion_vectors(positions: Numbers, snapshots: Numbers, data_file: str) -> tuple[bytes, int]:
    """Return a Puffin file with a cumulative vector for each snapshot, and its footer's size."""
    content = bytearray(_CONTAINER_MAGIC)
    blobs = []
    for snapshot in np.unique(snapshots):
        deleted = positions[snapshots <= snapshot]
        vector = deletion_vector(deleted)
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(vector),
                "properties": {
                    "referenced-data-file": data_file,
                    "cardinality": str(len(deleted)),
                    "ducklake-snapshot-id": str(snapshot),
                },
            }
        )
        content += vector
    payload = json.dumps({"blobs": blobs}).encode()
    footer = _CONTAINER_MAGIC + payload + struct.pack("<iI", len(payload), 0) + _CONTAINER_MAGIC
    return bytes(content + footer), len(footer)


def deletion_vector(positions: Numbers) -> bytes:
    """Return one `deletion-vector-v1` blob: bitmaps by the high 32 bits, with a checksum."""
    high = positions >> 32
    keys = np.unique(high)
    body = bytearray(_VECTOR_MAGIC + struct.pack("<q", len(keys)))
    for key in keys:
        low = (positions[high == key] & 0xFFFFFFFF).astype(np.uint32)
        body += struct.pack("<i", int(key)) + _bitmap(low)
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(bytes(body)))


def _bitmap(values: npt.NDArray[np.uint32]) -> bytes:
    """Return a 32-bit roaring bitmap in the portable format, without runs."""
    keys, starts, counts = np.unique(values >> 16, return_index=True, return_counts=True)
    header = np.column_stack([keys, counts - 1]).astype("<u2").tobytes()
    low = (values & 0xFFFF).astype("<u2")
    containers = [
        _container(low[start : start + count]) for start, count in zip(starts, counts, strict=True)
    ]
    first = 8 + len(header) + 4 * len(keys)
    ends = np.cumsum([0, *(len(container) for container in containers)])[:-1]
    offsets = (first + ends).astype("<u4").tobytes()
    return struct.pack("<II", _NO_RUNS_COOKIE, len(keys)) + header + offsets + b"".join(containers)


def _container(values: npt.NDArray[np.uint16]) -> bytes:
    if len(values) <= _ARRAY_LIMIT:
        return values.tobytes()
    bits = np.zeros(1 << 16, np.uint8)
    bits[values] = 1
    return np.packbits(bits, bitorder="little").tobytes()
