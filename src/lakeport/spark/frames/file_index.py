"""A file index of Spark: the files of a scan that the predicates of a query may need.

Spark's planner calls the index with the predicates of each query, whether it comes from `where`,
from SQL or through a view. The call reaches this process by py4j's callback server, as those of
`foreachBatch` do. A predicate that has no translation leaves out nothing.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.ducklake.storage import local_path
from lakeport.filters import Filter
from lakeport.spark.frames.lake_files import lake_files
from lakeport.spark.frames.parquet_scans import ParquetFile, ParquetScan
from lakeport.spark.frames.predicates import stored_columns, translate_predicates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["ExcludedFiles", "FilePruning", "file_url", "indexed_dataframe"]

_log = logging.getLogger("lakeport.spark")

ExcludedFiles = Callable[[Filter], frozenset[int]]
"""Returns the ids of the data files in which no row passes a filter."""

_MOST_CACHED: Final = 64
_NONE_DELETED: Final = struct.pack(">i", 0)
_BLOCK_BYTES: Final = 32 * 1024 * 1024
# Two threads must not start the callback server of one gateway.
_starting = threading.Lock()


def indexed_dataframe(
    spark: SparkSession,
    scan: ParquetScan,
    schema: StructType,
    options: Mapping[str, str],
    pruning: FilePruning,
    bits: Sequence[bytes] | None = None,
) -> DataFrame | None:
    """Return the fields of a scan's files; None if Spark cannot call this process.

    Args:
        spark: The session.
        scan: The files.
        schema: The fields; with the column `NUMBERS`, which has the positions of rows.
        options: Options of the reader.
        pruning: Finds the files that a query does not need.
        bits: The deleted rows of each file, from `deleted_bits`: their positions become negative.
            Then a partition column has the size of each file, if the scan needs it.
    """
    format = lake_files(spark)  # noqa: A001 - Spark's word
    if format is None:
        return None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    jvm: Any = spark._jvm  # noqa: SLF001
    in_java: Any = spark._jsparkSession  # noqa: SLF001
    deleted = [_NONE_DELETED] * len(scan.files) if bits is None else bits
    try:
        with _starting:
            ensure_callback_server_started(gateway)
        index = format.index(
            struct.pack(">i", len(scan.files)) + b"".join(map(_file_status, scan.files)),
            b"".join(deleted),
            bits is not None and scan.layout.needs_file_columns,
            str(Path(file_url(scan.files[0])).parent),
            _digest(scan, deleted),
            _KeptFiles(scan, pruning),
        )
        relation = jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
            index,
            index.partitionSchema(),
            in_java.parseDataType(schema.json()),
            jvm.scala.Option.empty(),
            format,
            jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options)),
            in_java,
        )
        return DataFrame(in_java.baseRelationToDataFrame(relation), spark)
    except (Py4JError, OSError, TypeError) as error:
        _log.warning("Spark lists the files of a table itself and leaves out none: %s", error)
        return None


def _digest(scan: ParquetScan, deleted: Sequence[bytes]) -> str:
    """Return a text that is equal for equal files with the same deleted rows."""
    paths = (file.task.file.path.encode() for file in scan.files)
    digest = hashlib.sha256()
    for path, bits in sorted(zip(paths, deleted, strict=True)):
        digest.update(struct.pack(">q", len(path)) + path + bits)
    return digest.hexdigest()


class FilePruning:
    """Finds the files that predicates exclude; caches the last results. For several scans."""

    def __init__(self, excluded: ExcludedFiles | None) -> None:
        self._excluded = excluded
        self._lock = threading.Lock()
        self._cached: OrderedDict[Filter, frozenset[int]] = OrderedDict()

    def excluded(self, scan: ParquetScan, predicates: Sequence[Any]) -> frozenset[int]:
        """Return the ids of files that the predicates of Spark, all together, exclude."""
        if self._excluded is None or not predicates:
            return frozenset()
        filter = translate_predicates(stored_columns(scan), predicates)
        if filter is None:
            return frozenset()
        with self._lock:
            if filter in self._cached:
                self._cached.move_to_end(filter)
                return self._cached[filter]
        found = self._excluded(filter)
        with self._lock:
            self._cached[filter] = found
            while len(self._cached) > _MOST_CACHED:
                self._cached.popitem(last=False)
        return found


class _KeptFiles:
    """Implements `java.util.function.Function`: from the predicates of a query to the files for it.

    Any process of this machine can call it, too, by the port of py4j's callback server: it returns
    only numbers of files.
    """

    def __init__(self, scan: ParquetScan, pruning: FilePruning) -> None:
        self._scan, self._pruning = scan, pruning

    def apply(self, data_filters: Any) -> bytes | None:
        """Return the positions of the files to read, as Java's integers; None for all files."""
        try:
            predicates = [data_filters.apply(i) for i in range(data_filters.length())]
            excluded = self._pruning.excluded(self._scan, predicates)
        except Exception as error:  # noqa: BLE001 - a query must not fail because it reads too much
            _log.warning("a query reads all files of a table: %s", error)
            return None
        if not excluded:
            return None
        files = enumerate(self._scan.files)
        kept = [position for position, file in files if file.task.file.id not in excluded]
        return struct.pack(f">{len(kept)}i", *kept)

    class Java:
        """The interface, for py4j."""

        implements: Final = ["java.util.function.Function"]


def file_url(file: ParquetFile) -> str:
    """Return the URL of a file for Spark."""
    return f"file:{Path(local_path(file.task.file.path)).absolute()}"


def _file_status(file: ParquetFile) -> bytes:
    """Return a file as Hadoop's FileStatus reads it: a length and a protobuf FileStatusProto."""
    path = file_url(file).encode()
    message = b"".join(
        (
            _number(1, 2),  # a file, no directory
            _bytes(2, path),
            _number(3, file.footer.size),
            _bytes(4, _number(1, 0o444)),
            _number(7, file.footer.written_ns // 1_000_000),
            _number(10, 1),
            _number(11, _BLOCK_BYTES),
        )
    )
    return struct.pack(">i", len(message)) + message


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    parts.append(value)
    return bytes(parts)
