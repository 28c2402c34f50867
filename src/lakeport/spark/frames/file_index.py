"""A file index of Spark in Python: the files of a scan that the predicates of a query may need.

Spark's planner calls `listFiles` with the predicates of each query, whether it comes from `where`,
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
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.ducklake.storage import local_path
from lakeport.filters import Filter
from lakeport.spark.compat import is_connect
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
_MOST_LISTINGS: Final = 8
_BLOCK_BYTES: Final = 32 * 1024 * 1024
# Two threads must not start the callback server of one gateway.
_starting = threading.Lock()


def indexed_dataframe(
    spark: SparkSession,
    scan: ParquetScan,
    schema: StructType,
    options: Mapping[str, str],
    pruning: FilePruning,
) -> DataFrame | None:
    """Return the fields of a scan's files; None if Spark cannot call this process."""
    if is_connect(spark):
        return None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.java_gateway import ensure_callback_server_started
    from pyspark.sql import DataFrame

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    jvm: Any = spark._jvm  # noqa: SLF001
    in_java: Any = spark._jsparkSession  # noqa: SLF001
    try:
        _check_methods(jvm)
        with _starting:
            ensure_callback_server_started(gateway)
        relation = jvm.org.apache.spark.sql.execution.datasources.HadoopFsRelation(
            LakeFileIndex(gateway, jvm, scan, pruning),
            jvm.org.apache.spark.sql.types.StructType(),
            in_java.parseDataType(schema.json()),
            jvm.scala.Option.empty(),
            jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat(),
            jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(options)),
            in_java,
        )
        return DataFrame(in_java.baseRelationToDataFrame(relation), spark)
    except (Py4JError, OSError, TypeError) as error:
        _log.warning("Spark lists the files of a table itself and leaves out none: %s", error)
        return None


# The JVM's methods do not change; another JVM of this process has the same Spark.
_methods: list[str] = []


def _check_methods(jvm: Any) -> None:
    """Raise TypeError if the interface has methods that Spark would not find here."""
    if not _methods:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        interface = loader.loadClass(LakeFileIndex.Java.implements[0])
        names = {method.getName() for method in interface.getMethods()}
        # Scala's copies of default methods, such as `toString$`, are static.
        _methods.extend(sorted(name for name in names if "$" not in name))
    missing = [name for name in _methods if not hasattr(LakeFileIndex, name)]
    if missing:
        raise TypeError(f"Spark's FileIndex has other methods: {', '.join(missing)}")


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


class LakeFileIndex:
    """Implements `org.apache.spark.sql.execution.datasources.FileIndex`; Spark calls its methods.

    Any process of this machine can call them, too, by the port of py4j's callback server: they
    return only references to Java objects.
    """

    def __init__(self, gateway: Any, jvm: Any, scan: ParquetScan, pruning: FilePruning) -> None:
        self._gateway, self._jvm = gateway, jvm
        self._scan, self._pruning = scan, pruning
        self._lock = threading.Lock()
        self._listings: OrderedDict[tuple[int, ...], Any] = OrderedDict()

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: ARG002, N802
        """Return the files that may have rows for a query, as one partition directory."""
        return self._listing(self._kept(data_filters))

    def rootPaths(self) -> Any:  # noqa: N802
        """Return a folder, for Spark's description of a plan."""
        return self._root_paths

    def inputFiles(self) -> Any:  # noqa: N802
        """Return the URLs of all files."""
        urls = [file_url(file) for file in self._scan.files]
        array = self._gateway.new_array(self._jvm.java.lang.String, len(urls))
        for position, url in enumerate(urls):
            array[position] = url
        return array

    def sizeInBytes(self) -> Any:  # noqa: N802
        """Return the size of all files, for Spark's estimate."""
        return self._size

    def partitionSchema(self) -> Any:  # noqa: N802
        """Return no columns: partition values are also in the files."""
        return self._jvm.org.apache.spark.sql.types.StructType()

    def refresh(self) -> None:
        """Do nothing: the files of a snapshot do not change."""

    def isTimeTravel(self) -> bool:  # noqa: N802
        """Return whether the files are those of an older version; Spark must not replace them."""
        return False

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802
        """Return no time spent on metadata."""
        return self._jvm.scala.Option.empty()

    def toString(self) -> str:  # noqa: N802
        """Return a text that is equal for equal files."""
        return self._digest

    def hashCode(self) -> int:  # noqa: N802
        """Return a hash of the files."""
        return int(self._digest[-7:], 16)

    def equals(self, other: Any) -> bool:
        """Return whether another index has the same files, so that `cache()` finds their plan."""
        return other is not None and other.toString() == self._digest

    @cached_property
    def _digest(self) -> str:
        paths = "\0".join(sorted(file.task.file.path for file in self._scan.files))
        return f"LakeFileIndex {hashlib.sha256(paths.encode()).hexdigest()}"

    @cached_property
    def _root_paths(self) -> Any:
        folder = Path(local_path(self._scan.files[0].task.file.path)).absolute().parent
        path = self._jvm.org.apache.hadoop.fs.Path(f"file:{folder}")
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq([path])

    @cached_property
    def _size(self) -> Any:
        total = sum(file.footer.size for file in self._scan.files)
        # A small number would become an Integer, which is no Long.
        return self._jvm.java.lang.Long.valueOf(str(total))

    def _kept(self, data_filters: Any) -> Sequence[ParquetFile]:
        try:
            predicates = [data_filters.apply(i) for i in range(data_filters.length())]
            excluded = self._pruning.excluded(self._scan, predicates)
        except Exception as error:  # noqa: BLE001 - a query must not fail because it reads too much
            _log.warning("a query reads all files of a table: %s", error)
            return self._scan.files
        return [file for file in self._scan.files if file.task.file.id not in excluded]

    def _listing(self, files: Sequence[ParquetFile]) -> Any:
        key = tuple(file.task.file.id for file in files)
        with self._lock:
            found = self._listings.get(key)
        if found is None:
            found = self._directories(files)
            with self._lock:
                self._listings[key] = found
                while len(self._listings) > _MOST_LISTINGS:
                    self._listings.popitem(last=False)
        return found

    def _directories(self, files: Sequence[ParquetFile]) -> Any:
        """Return a Seq of one PartitionDirectory; its files are created by a few calls."""
        jvm = self._jvm
        data = struct.pack(">i", len(files)) + b"".join(map(_file_status, files))
        array = self._gateway.new_array(jvm.org.apache.hadoop.fs.FileStatus, len(files))
        statuses = jvm.org.apache.hadoop.io.ArrayWritable(array.getClass().getComponentType())
        stream = jvm.java.io.ByteArrayInputStream(data)
        statuses.readFields(jvm.java.io.DataInputStream(stream))
        jvm.java.lang.System.arraycopy(statuses.get(), 0, array, 0, len(files))
        directory = jvm.org.apache.spark.sql.execution.datasources.PartitionDirectory.apply(
            jvm.org.apache.spark.sql.catalyst.InternalRow.empty(), array
        )
        return jvm.org.apache.spark.api.python.PythonUtils.toSeq([directory])

    class Java:
        """The interface, for py4j."""

        implements: Final = ["org.apache.spark.sql.execution.datasources.FileIndex"]


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
