"""`each_batch`: the function for `foreachBatch` that writes each batch of a stream once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeport.ducklake import Lake
from lakeport.ducklake.writing import RetryPolicy
from lakeport.errors import ConflictError, InvalidArgumentError
from lakeport.spark.compat import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakeport.ducklake.writing import TableWriter

__all__ = ["each_batch"]

WriteBatch: TypeAlias = "Callable[[TableWriter, DataFrame], Any]"

# The property that Spark gives the thread of a query.
_QUERY: Final = "sql.streaming.queryId"


def each_batch(
    lake: Lake | str,
    table: str,
    write: WriteBatch | None = None,
    *,
    schema: str = "main",
    application: str | None = None,
) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that writes each batch of a stream once.

    ```python
    def upsert(orders, rows):
        merge = orders.merge(rows, "target.id = source.id")
        merge.when_matched(update="*").when_not_matched().execute()


    stream.writeStream.foreachBatch(each_batch(uri, "orders", upsert)).start()
    ```

    The number of the batch is recorded in the transaction of the write. A batch that Spark runs
    again is found there and skipped. If others have changed the same rows, the batch is run again.

    Args:
        lake: The lake, or its address; with an address it is opened for each batch.
        table: The name of the table.
        write: Called with the table of the transaction and the rows; appends when left out. What
            it writes to other tables of the transaction is part of the same snapshot.
        schema: The schema of the table.
        application: The name under which the batches are recorded; by default the id of the query,
            which Spark keeps in the checkpoint.
    """
    change = write or (lambda target, rows: target.append(rows))

    def run(rows: DataFrame, batch: int) -> None:
        name = application or _query_id(rows)
        policy = RetryPolicy()
        with _opened(lake) as opened:
            for attempt in range(policy.attempts):
                try:
                    _write(opened, rows, name, batch)
                except ConflictError:
                    if attempt == policy.attempts - 1:
                        raise
                    time.sleep(policy.pause(attempt))
                else:
                    return

    def _write(opened: Lake, rows: DataFrame, name: str, batch: int) -> None:
        with opened.transaction(message=f"batch {batch} of {name}") as transaction:
            target = transaction.table(table, schema)
            if target.begin_batch(name, batch):
                change(target, rows)

    return run


@contextmanager
def _opened(lake: Lake | str) -> Iterator[Lake]:
    if isinstance(lake, Lake):
        yield lake
        return
    with Lake.open(lake) as opened:
        yield opened


def _query_id(rows: DataFrame) -> str:
    """Return the id of the query that runs the batch."""
    spark = rows.sparkSession
    found = None if is_connect(spark) else spark.sparkContext.getLocalProperty(_QUERY)
    if not found:
        raise InvalidArgumentError(
            "Spark has not given the id of the query to this thread: give each_batch the name of "
            "an application, which the query keeps"
        )
    return str(found)
