"""Errors of the processes in which Spark plans a data source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from lakeport.errors import LakeportError

__all__ = ["errors_in_one_sentence"]


@contextmanager
def errors_in_one_sentence() -> Iterator[None]:
    """Make Spark report an error of Lakeport without the traceback of the planning process."""
    try:
        yield
    except LakeportError:
        # PySpark reads it when it reports the error, after which this process ends.
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise
