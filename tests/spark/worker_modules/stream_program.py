"""A chain of streams that runs until it is killed: `python stream_program.py uri checkpoints`.

The first stream copies `s.source` to `s.copy`, the second `s.copy` to `s.end`.
"""

from __future__ import annotations

import sys

from lakeport.spark import session


def main(uri: str, checkpoints: str) -> None:
    spark = session("local[2]", spark_sql_shuffle_partitions="2")
    for source, target in (("source", "copy"), ("copy", "end")):
        reader = spark.readStream.format("ducklake").option("lake", uri)
        rows = reader.option("table", f"s.{source}").option("maxFilesPerTrigger", 1).load()
        writer = rows.writeStream.format("ducklake").option("lake", uri)
        writer = writer.option("table", f"s.{target}")
        writer.option("checkpointLocation", f"{checkpoints}/{target}").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
