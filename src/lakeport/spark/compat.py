"""`mapInArrow`, without the warning that it gives for a library that nobody uses here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeport.errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["is_connect", "map_in_arrow", "replaces_variables"]


def map_in_arrow(
    frame: DataFrame,
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """Run a function of Arrow batches on each partition of a DataFrame."""
    # PySpark asks for pandas here, which Arrow functions never touch, and warns of its newest.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        return frame.mapInArrow(function, schema)
    except ImportError as error:
        raise UnavailableError(f"Spark needs another package: {error}") from None


_SUBSTITUTE: Final = "spark.sql.variable.substitute"


def replaces_variables(spark: SparkSession) -> bool:
    """Whether Spark replaces `${env:NAME}` and the like in the text of a query, names included."""
    return str(spark.conf.get(_SUBSTITUTE, "true")).lower() != "false"


def is_connect(spark: SparkSession) -> bool:
    """Whether Spark is behind a Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")
