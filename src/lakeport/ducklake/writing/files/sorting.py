"""Sort the rows of a statement by the table's sort order, with DuckDB.

DuckDB writes to a temporary directory what does not fit its memory limit.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from lakeport.arrow import LOSSLESS_SETTINGS, relabel, sandbox
from lakeport.ducklake.model import SortField
from lakeport.errors import InvalidInputError, first_line

__all__ = ["sorted_batches"]

_MEMORY: Final = "1GB"
_BATCH_ROWS: Final = 122_880


def sorted_batches(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, order: Sequence[SortField]
) -> Iterator[pa.RecordBatch]:
    """Yield all rows in the order of the expressions that are in DuckDB's dialect."""
    keys = [field for field in order if field.dialect == "duckdb"]
    if not keys:
        yield from batches
        return
    import duckdb

    failures: list[BaseException] = []
    reader = pa.RecordBatchReader.from_batches(schema, _recorded(batches, failures))
    with (
        tempfile.TemporaryDirectory(prefix="lakeport-sort-") as folder,
        # The expressions are those of any writer of the lake.
        sandbox(
            lambda fresh: fresh.execute(LOSSLESS_SETTINGS),
            memory_limit=_MEMORY,
            temp_directory=folder,
            threads=str(os.cpu_count() or 1),
        ) as connection,
    ):
        text = ", ".join(_key_sql(key) for key in keys)
        try:
            found = connection.from_arrow(reader).order(text).to_arrow_reader(_BATCH_ROWS)
            for batch in found:
                arrays = [
                    relabel(array, field.type)
                    for array, field in zip(batch.columns, schema, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (duckdb.Error, pa.ArrowException) as error:
            if failures:
                raise failures[0] from None
            raise InvalidInputError(
                f"the rows cannot be sorted by {text}: {first_line(error)}"
            ) from None


def _key_sql(key: SortField) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{key.expression} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _recorded(
    batches: Iterator[pa.RecordBatch], failures: list[BaseException]
) -> Iterator[pa.RecordBatch]:
    """Keep the error of a source: DuckDB reports it as its own."""
    try:
        yield from batches
    except BaseException as error:
        failures.append(error)
        raise
