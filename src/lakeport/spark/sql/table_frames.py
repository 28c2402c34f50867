"""DataFrames of whole tables, kept for the next query of the same snapshot and session.

To make one, all files of the table are planned and their footers are read; a query over it reads
only the files that its conditions need.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from lakeport.spark.frames.dataframes import to_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake import Lake, LakeTable

__all__ = ["table_frame"]

_MOST: Final = 16
_Key = tuple[int, int, int, tuple[str, ...]]

_lock = threading.Lock()
_kept: WeakKeyDictionary[Lake, OrderedDict[_Key, DataFrame]] = WeakKeyDictionary()


def table_frame(
    spark: SparkSession, lake: Lake, table: LakeTable, columns: Sequence[str]
) -> DataFrame:
    """Return columns of a table at its snapshot."""
    # A merge replaces the files of older snapshots; it is a snapshot of its own.
    key = table.id, table.snapshot.id, lake.snapshot().id, tuple(columns)
    with _lock:
        frames = _kept.setdefault(lake, OrderedDict())
        found = frames.get(key)
        if found is not None and found.sparkSession is spark:
            frames.move_to_end(key)
            return found
    made = to_dataframe(spark, table.scan(columns).plan, table.planner)
    with _lock:
        frames[key] = made
        while len(frames) > _MOST:
            frames.popitem(last=False)
    return made
