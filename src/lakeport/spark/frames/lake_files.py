"""Classes in Java for the files of a table: an index of them, and Spark's Parquet reader, extended.

`LakeFiles.java` is compiled in the driver by Janino, the compiler that Spark has for generated
code. Executors get the classes in a jar, which Spark sends them with the first query. The reader
gives each row its position in the file, and a deleted row a negative number.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import threading
import zipfile
from collections.abc import Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from lakeport.ducklake.reading import Positions
from lakeport.spark.compat import is_connect
from lakeport.spark.security import private_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["FILE_SIZE", "NUMBERS", "bitmap", "deleted_bits", "lake_files", "select_columns"]

NUMBERS: Final = "_tmp_metadata_row_index"
"""The column that Spark's Parquet reader fills with the positions of rows."""

FILE_SIZE: Final = "_lakeport_file_size"
"""A partition column with the size of each file."""

_log = logging.getLogger("lakeport.spark")

_CLASS: Final = "lakeport.LakeFiles"
# The bits of a file are sent with every task that reads a part of it.
MAX_BYTES_OF_FILE: Final = 1 << 20
# The driver keeps the bits of all files of a DataFrame.
MAX_BYTES: Final = 64 << 20

_lock = threading.Lock()
_formats: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def lake_files(spark: SparkSession) -> Any:
    """Return the FileFormat that reads the files, a Java object; None if Spark cannot run it."""
    if is_connect(spark):
        return None
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm  # noqa: SLF001
    with _lock:
        if jvm not in _formats:
            # Another version of Spark may have other classes: it is tried once.
            _formats[jvm] = None
            try:
                _formats[jvm] = _compiled(jvm)
            except (Py4JError, OSError, TypeError) as error:
                _log.warning("Spark lists files itself and leaves out none: %s", error)
        return _formats[jvm]


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    source = _source()
    compiler.cook(source)
    classes = compiler.getBytecodes()
    # Spark takes no second jar of one name with other contents.
    jar = private_folder() / f"lakeport-{hashlib.sha256(source.encode()).hexdigest()[:16]}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name in sorted(classes.keySet()):
            archive.writestr(f"{name.replace('.', '/')}.class", bytes(classes.get(name)))
    found = compiler.getClassLoader().loadClass(_CLASS)
    made = found.getDeclaredConstructor(None).newInstance(None)
    made.setJar(str(jar))
    return made


def _source() -> str:
    return files("lakeport.spark.frames").joinpath("LakeFiles.java").read_text()


def select_columns(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """Return `frame.selectExpr(*expressions)`, with one call into the JVM where possible."""
    from pyspark.sql import DataFrame

    spark = frame.sparkSession
    format = lake_files(spark)  # noqa: A001 - Spark's word
    if format is None or not expressions or any("\0" in sql for sql in expressions):
        return frame.selectExpr(*expressions)
    in_java: Any = frame._jdf  # noqa: SLF001
    return DataFrame(format.select(in_java, "\0".join(expressions)), spark)


def deleted_bits(rows: Sequence[int], deleted: Sequence[Positions]) -> list[bytes] | None:
    """Return the deleted positions of files with so many rows, as Java reads them.

    These are the number of words, and words with a bit for each position. None if there are too
    many for the tasks.
    """
    inside = [
        positions[(positions >= 0) & (positions < count)]
        for count, positions in zip(rows, deleted, strict=True)
    ]
    sizes = [_words(positions) * 8 for positions in inside]
    if max(sizes, default=0) > MAX_BYTES_OF_FILE or sum(sizes) > MAX_BYTES:
        return None
    bitmaps = map(bitmap, inside)
    return [struct.pack(">i", len(words)) + words.astype(">i8").tobytes() for words in bitmaps]


def bitmap(positions: Positions) -> np.ndarray:
    """Return a bit for each position, in words of 64 bits up to the last position."""
    bits = np.zeros(_words(positions) * 64, np.bool_)
    bits[positions] = True
    return np.packbits(bits, bitorder="little").view(np.int64)


def _words(positions: Positions) -> int:
    return int(positions[-1]) // 64 + 1 if len(positions) else 0
