"""A few rows of a row group, read by DuckDB, which skips the values of other rows.

pyarrow 26 decodes all values of a column up to the last one that is needed: its Python interface
reads no ranges of rows and ignores the page index (apache/arrow#29598). DuckDB decompresses the
same pages, but decodes only vectors with a requested row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeport.arrow import arrow_query, combine, thread_connection
from lakeport.ducklake.reading.file_shapes import FileShape
from lakeport.ducklake.storage.paths import is_local, local_path
from lakeport.types import duckdb_identifier, duckdb_string

__all__ = ["FindRows", "are_few", "has_row", "parquet_file_sql", "pick_rows"]

Rows = npt.NDArray[np.int64]

FindRows = Callable[[int, int], Rows | None]
"""Returns the rows to read of the row group from one position to another, ascending, or None: all.

Other rows may be read as well.
"""

# A row group with fewer rows to read than this share is read in small batches, up to the last row.
_FEW_ROWS: Final = 0.01

# With more rows, or fewer values to skip, pyarrow is as quick as DuckDB.
_MOST_PICKED: Final = 32
_SKIPPED_VALUES: Final = 500_000

_NUMBER: Final = "file_row_number"


def are_few(rows: Rows, count: int) -> bool:
    """Return whether so few of the rows of a row group are read that other rows are skipped."""
    return len(rows) < _FEW_ROWS * count


def has_row(rows: Rows, start: int, end: int) -> bool:
    """Return whether one of some ascending positions is in a range."""
    at = np.searchsorted(rows, start)
    return bool(at < len(rows) and rows[at] < end)


def parquet_file_sql(path: str, *options: str) -> str:
    """Return the call of `read_parquet` for one local file."""
    # Folders must not become columns, and wildcards in the path must match themselves.
    exact = "".join(f"[{c}]" if c in "*?[" else c for c in path)
    arguments = (duckdb_string(exact), "hive_partitioning = false", *options)
    return f"read_parquet({', '.join(arguments)})"


def pick_rows(
    path: str, shape: FileShape, fields: tuple[int, ...], rows: Rows, first: int
) -> list[tuple[int, pa.RecordBatch]] | None:
    """Return some rows of the row group that begins at `first`, in batches with their positions.

    None if pyarrow should read them: because it is as quick, or because DuckDB returns other types.
    """
    values = (int(rows[-1]) + 1 - first) * len(fields)
    if len(rows) > _MOST_PICKED or values < _SKIPPED_VALUES or not is_local(path):
        return None
    if fields in shape.unpickable or not _are_plain(shape, fields):
        return None
    names = [shape.fields[index].name for index in fields]
    found = _query(local_path(path), names, rows)
    if found is None or found.schema.types[:-1] != [shape.fields[i].type for i in fields]:
        shape.unpickable.add(fields)
        return None
    *columns, numbers = (combine(column) for column in found.columns)
    if not np.array_equal(np.asarray(numbers), rows):
        return None
    batch = pa.RecordBatch.from_arrays(columns, names=names)
    return list(_adjacent(batch, rows))


def _are_plain(shape: FileShape, fields: Sequence[int]) -> bool:
    """Return whether DuckDB finds fields by their names, and none of them is nested."""
    names = {field.name.lower() for field in shape.fields}
    return (
        len(names) == len(shape.fields)
        and _NUMBER not in names
        and all(shape.fields[index].type.num_fields == 0 for index in fields)
    )


def _query(path: str, names: Sequence[str], rows: Rows) -> pa.Table | None:
    """Return columns and positions of some rows; None if DuckDB cannot read them."""
    import duckdb

    columns = ", ".join(duckdb_identifier(name) for name in (*names, _NUMBER))
    source = parquet_file_sql(path, f"{_NUMBER} = true")
    chosen = ", ".join(map(str, rows.tolist()))
    sql = f"SELECT {columns} FROM {source} WHERE {_NUMBER} IN ({chosen})"  # noqa: S608
    try:
        return arrow_query(thread_connection(), sql).to_arrow_table()
    except duckdb.Error:
        # Texts that are not UTF-8, for example, which pyarrow does not check.
        return None


def _adjacent(batch: pa.RecordBatch, rows: Rows) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch that follow each other in the file, with their first position."""
    starts = [0, *(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
    for start, end in pairwise(starts):
        yield int(rows[start]), batch.slice(start, end - start)
