"""A driver that dies at its commit: `python killed_driver.py uri before|after`."""

from __future__ import annotations

import os
import signal
import sys

from lakeport import Lake
from lakeport.ducklake.writing import database
from lakeport.spark import session


def main(uri: str, step: str) -> None:
    spark = session("local[2]", spark_ui_enabled="false")
    commit = database.CatalogWriter.commit

    def dying(self: database.CatalogWriter) -> None:
        if step == "after":
            commit(self)
        os.kill(os.getpid(), signal.SIGKILL)

    database.CatalogWriter.commit = dying  # type: ignore[method-assign]
    with Lake.open(uri, spark=spark) as lake:
        lake.table("t").append(spark.range(0, 20_000, 1, 2))


if __name__ == "__main__":
    main(*sys.argv[1:])
