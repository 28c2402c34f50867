"""The change feed of a table, read on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from lakeport.ducklake import ChangeFeed
from lakeport.spark.scan import Scan

__all__ = ["Changes"]


@dataclass(frozen=True, slots=True)
class Changes(ChangeFeed):
    """What happened to a table from one snapshot to another, both included."""

    insertions: Scan
    deletions: Scan

    @classmethod
    def of(cls, feed: ChangeFeed) -> Self:
        """A change feed of the format, ready to run."""
        return cls(feed.first, feed.last, Scan.of(feed.insertions), Scan.of(feed.deletions))
