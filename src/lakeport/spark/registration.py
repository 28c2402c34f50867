"""What of a lake is in a Spark session, and how to take it out again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Registration"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What of a lake is in a Spark session."""

    snapshot: int
    """The snapshot that everything is read at."""
    names: Mapping[tuple[str, str], str]
    """The temporary view of each table and view, by schema and name."""
    refused: Mapping[tuple[str, str], str]
    """Why a table or view is not there, by schema and name."""
    hidden: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    """Why some columns of a table are not there, by schema and name, then by column."""
    spark: SparkSession = field(repr=False, compare=False)

    def unregister(self) -> None:
        """Drop the temporary views; what they were called is free again."""
        for name in self.names.values():
            self.spark.catalog.dropTempView(name)

    def __repr__(self) -> str:
        lines = [f"Registration of snapshot {self.snapshot}"]
        lines += [f"  {s}.{n} as {name}" for (s, n), name in self.names.items()]
        lines += [
            f"  {s}.{n} without column {column}: {reason}"
            for (s, n), columns in self.hidden.items()
            for column, reason in columns.items()
        ]
        lines += [f"  {s}.{n} refused: {reason}" for (s, n), reason in self.refused.items()]
        return "\n".join(lines)
