"""`lakeport serve` where Spark is not installed, or not wanted: the server does all the work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport import Lake
from tests.cli.processes import block, run, serving


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = f"ducklake:sqlite:{tmp_path}/lake.sqlite"
    with Lake.create(uri, data_path=f"{tmp_path}/data/") as lake:
        lake.create_table_as("t", pa.table({"id": range(1000)}))
        lake.create_view("v", "SELECT max(id) AS largest FROM t")
    return uri


def use(location: str) -> None:
    with lakeport.connect(location) as client:
        table = client.table("public.t")
        # A scan of any size and a view: small_scan_bytes=0 would leave both to Spark.
        assert table.scan().count() == 1000
        table.insert([{"id": 1000}])
        assert client.table("public.v").scan().to_arrow().to_pylist() == [{"largest": 1000}]


def test_spark_is_not_started_when_it_is_not_installed(uri: str, tmp_path: Path) -> None:
    block(tmp_path, "pyspark")

    with serving(uri, "--writable", "--small-scan-bytes", "0", PYTHONPATH=str(tmp_path)) as server:
        use(server.location)

    server.log.wait_for("Spark is not installed")


def test_spark_is_not_started_when_it_is_turned_off(uri: str) -> None:
    with serving(uri, "--writable", "--small-scan-bytes", "0", "--no-spark") as server:
        use(server.location)

    assert not any("Spark" in line for line in server.log.all)


def test_queries_of_spark_cannot_be_offered_without_spark(uri: str) -> None:
    result = run("serve", uri, "--no-spark", "--spark-sql", "--listen", "127.0.0.1:0")

    assert result.returncode == 1
    assert "spark_sql needs Spark" in result.stderr
