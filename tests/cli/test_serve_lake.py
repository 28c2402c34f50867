"""`lakeport serve` with a lake: the whole product in a process of its own, Spark included."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import lakeport
from tests.cli.processes import serving
from tests.cli.test_serve import get
from tests.fixtures_lakes import LakeMaker
from tests.wait import TIMEOUT_SECONDS


def test_a_lake_is_served_measured_reloaded_and_drained(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE trips AS SELECT i AS id, i * 0.5 AS minutes FROM range(200000) r(i)",
        "DELETE FROM trips WHERE id < 1000",
    )
    other = make_lake()
    other.detach()
    lake.detach()
    other.execute("CREATE TABLE late AS SELECT 1 AS x")
    other.detach()
    config = tmp_path / "lakeport.toml"
    first = f'[[lake]]\nname = "rental"\nuri = "{lake.uri}"\nmain_as = "base"\n'
    log = '[log]\nformat = "json"\nlevel = "DEBUG"\n'
    config.write_text(f"{first}{log}")

    arguments = ["--config", str(config), "--master", "local[2]", "--drain", str(TIMEOUT_SECONDS)]
    arguments.append("--spark-sql")
    with serving(*arguments, "--metrics-listen", "127.0.0.1:0") as server:
        told = "\n".join(server.out.all)
        url = server.out.wait_for("/metrics").partition("/healthz")[0].strip()
        with lakeport.connect(server.location, catalog="rental") as client:
            trips = client.table("base.trips")
            assert trips.scan(["id"], filter=lakeport.col("id") >= 199_990).count() == 10
            assert trips.scan(version=1).count() == 200_000
            counted = client.call_table("lakeport.spark_sql", "SELECT count(*) AS n FROM trips")
            assert counted.to_arrow().to_pylist() == [{"n": 199_000}]
            figures = get(f"{url}/metrics")[1]

            second = f'[[lake]]\nname = "other"\nuri = "{other.uri}"\n'
            config.write_text(f"{first}{second}{log}")
            server.send(signal.SIGHUP)
            server.log.wait_for("reloaded")
            with lakeport.connect(server.location, catalog="other") as late:
                assert [t.name for t in late.tables("public")] == ["late"]

            reader = trips.scan().to_reader()
            rows = reader.read_next_batch().num_rows
            server.send(signal.SIGTERM)
            server.log.wait_for("draining")
            rows += sum(batch.num_rows for batch in reader)
        assert server.wait() == 0

    assert rows == 199_000
    assert "base (main)" in told
    assert "lakeport_spark_scans 0.0" in figures
    assert "lakeport_spark_jobs_active" in figures
    entries = [json.loads(line) for line in server.log.all]
    assert "lakeport.jvm" in {entry["logger"] for entry in entries}
