"""A lake on S3, read by Spark: the secret reaches the tasks, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeport.ducklake import S3Secret
from lakeport.spark import Lake
from tests.fixtures_lakes import RealLake

IDS = [n for n in range(100) if n % 3]


@pytest.fixture
def lake(s3_reference: S3Secret, make_lake: Callable[..., RealLake]) -> RealLake:
    """Two files, one of them with deleted rows."""
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0", data_path="s3://lake/spark ü/")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS name FROM range(50) r(i)",
        "INSERT INTO t SELECT i, 'v' || i FROM range(50, 100) r(i)",
        "DELETE FROM t WHERE id % 3 = 0",
    )
    lake.detach()
    return lake


def test_streams_and_frames_read_it(spark: Any, lake: RealLake, s3: S3Secret) -> None:
    with Lake.open(lake.uri, storage=s3) as ours:
        scan = ours.table("t").scan()
        rows = scan.to_arrow(spark)
        frame = scan.to_spark(spark)

        assert sorted(rows["id"].to_pylist()) == IDS
        assert [row.id for row in frame.where("id >= 0").orderBy("id").collect()] == IDS
        assert ours.table("t").scan(filter="id > 60").count(spark) == sum(n > 60 for n in IDS)


def test_the_data_source_reads_it_and_keeps_the_secret(
    spark: Any, lake: RealLake, s3: S3Secret, capfd: pytest.CaptureFixture[str]
) -> None:
    reader = spark.read.format("ducklake").options(
        catalog=lake.uri,
        table="t",
        **{
            "s3.key_id": "key",
            "s3.secret": "hush-hush",
            "s3.region": "us-east-1",
            "s3.endpoint": s3.endpoint,
            "s3.use_ssl": "false",
        },
    )

    frame = reader.load()

    assert [row.id for row in frame.orderBy("id").collect()] == IDS
    assert [row.name for row in frame.where("id = 98").collect()] == ["v98"]
    frame.explain("extended")
    captured = capfd.readouterr()
    assert "hush-hush" not in captured.out + captured.err
