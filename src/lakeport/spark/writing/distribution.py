"""Which task writes which rows, and in which order.

Rows of one partition of the table go to one task, as long as they are not too many. Spark divides a
partition that is too large, and gives several small ones to one task: the hint `rebalance`, for
parts of about `spark.sql.adaptive.advisoryPartitionSizeInBytes`. The exact values of the partition
keys are computed by the tasks; here, only equal values must have equal keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakeport.ducklake import PartitionField, SortField
from lakeport.ducklake.writing.files import FileTarget, bucket_numbers
from lakeport.spark.frames.columns import FrameColumn
from lakeport.types import Column, fold_name, spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["distributed"]

_BUCKET: Final = re.compile(r"bucket\((\d{1,9})\)")
_KEY: Final = "_lakeport_key_{}"


def distributed(
    frame: DataFrame, target: FileTarget, columns: Sequence[FrameColumn]
) -> tuple[DataFrame, bool]:
    """Return the rows in the places and the order in which tasks write them.

    The second value is whether the rows of each task are in the sort order of the table already.
    """
    names = {fold_name(column.name): column for column in columns}
    keys = _keys(target, names)
    order = _order(target, names) if target.options.sort_on_insert else []
    if keys:
        from pyspark.sql import functions as f

        own = frame.columns
        numbered = [_KEY.format(i) for i in range(len(keys))]
        frame = frame.select("*", *(k.alias(n) for k, n in zip(keys, numbered, strict=True)))
        together = [f.col(name) for name in numbered]
        # Without adaptive execution Spark ignores the hint.
        is_adaptive = frame.sparkSession.conf.get("spark.sql.adaptive.enabled", "true") == "true"
        frame = frame.hint("rebalance", *together) if is_adaptive else frame.repartition(*together)
        frame = frame.sortWithinPartitions(*together, *(order or []))
        frame = frame.select(*(f.col(spark_identifier(name)) for name in own))
    elif order:
        frame = frame.sortWithinPartitions(*order)
    return frame, bool(order)


def _keys(target: FileTarget, columns: dict[str, FrameColumn]) -> list[SparkColumn]:
    """Return expressions of which rows of one partition have the same values."""
    if target.partition_spec is None:
        return []
    by_id = {column.id: column for column in target.columns}
    keys = []
    for field in target.partition_spec.fields:
        column = by_id.get(field.column_id)
        # A column that the rows do not have has one value in all of them.
        if column is not None and fold_name(column.name) in columns:
            keys.append(_key(field, column, columns[fold_name(column.name)]))
    return keys


def _key(field: PartitionField, column: Column, source: FrameColumn) -> SparkColumn:
    from pyspark.sql import functions as f

    value = f.col(spark_identifier(source.name))
    if field.transform in _PARTS and pa.types.is_temporal(source.type):
        if pa.types.is_timestamp(source.type) and source.type.tz:
            # The parts of an instant are those of UTC, whatever the session's time zone is.
            seconds = f.unix_seconds(value)
            if field.transform == "epoch_hour":
                return f.floor(seconds / 3600)
            if field.transform == "hour":
                return f.floor(f.pmod(seconds, f.lit(86400)) / 3600)
            value = f.date_add(
                f.lit("1970-01-01").cast("date"), f.floor(seconds / 86400).cast("int")
            )
        return _PARTS[field.transform](f, value)
    bucket = _BUCKET.fullmatch(field.transform)
    if bucket is not None:
        return _bucket(value, column, int(bucket.group(1)))
    return value


# Values of a day or plain timestamp that are the same in all rows of a partition, and in no other.
_PARTS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "year": lambda f, value: f.year(value),
    "month": lambda f, value: f.month(value),
    "day": lambda f, value: f.dayofmonth(value),
    "hour": lambda f, value: f.hour(value),
    "epoch_year": lambda f, value: f.year(value),
    "epoch_month": lambda f, value: f.trunc(value, "month"),
    "epoch_day": lambda f, value: f.to_date(value),
    "epoch_hour": lambda f, value: f.date_trunc("hour", value),
}


def _bucket(value: Any, column: Column, buckets: int) -> SparkColumn:
    from pyspark.sql.functions import arrow_udf

    def numbers(values: pa.Array) -> pa.Array:
        return bucket_numbers(values, column, buckets)

    return arrow_udf(numbers, "int")(value)


def _order(target: FileTarget, columns: dict[str, FrameColumn]) -> list[SparkColumn] | None:
    """Return the sort order of the table in Spark; None if Spark cannot evaluate it."""
    found = []
    for field in target.sort_order:
        key = _sort_key(field, target, columns)
        if key is None:
            return None
        found.append(key)
    return found


def _sort_key(
    key: SortField, target: FileTarget, columns: dict[str, FrameColumn]
) -> SparkColumn | None:
    from pyspark.sql import functions as f

    name = key.expression.strip().strip('"')
    source = columns.get(fold_name(name))
    own = next((c for c in target.columns if fold_name(c.name) == fold_name(name)), None)
    if source is None or own is None or not source.can_be_filtered:
        return None
    value = f.col(spark_identifier(source.name))
    if key.descending:
        return value.desc_nulls_first() if key.nulls_first else value.desc_nulls_last()
    return value.asc_nulls_first() if key.nulls_first else value.asc_nulls_last()
