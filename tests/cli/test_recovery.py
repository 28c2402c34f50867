"""`lakeport serve` when what it depends on goes away: it reports it, and recovers."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import lakeport
from lakeport.errors import UnavailableError
from tests.cli.processes import Serving, serving
from tests.cli.test_serve import get
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import wait_until


def health_of(server: Serving) -> Callable[[], tuple[int, dict[str, Any]]]:
    url = server.out.wait_for("/healthz").partition("/healthz")[0].strip()

    def health() -> tuple[int, dict[str, Any]]:
        status, body = get(f"{url}/healthz")
        return status, json.loads(body)

    return health


def java_of(server: Serving) -> psutil.Process:
    children = psutil.Process(server.process.pid).children(recursive=True)
    return next(child for child in children if child.name() == "java")


@pytest.fixture
def lake(make_lake: LakeMaker) -> RealLake:
    lake = make_lake()
    lake.execute(
        "CREATE TABLE trips AS SELECT i AS id, repeat('x', 40) || i AS s FROM range(3000000) r(i)",
        "CREATE VIEW short AS SELECT id FROM trips WHERE id < 10",
    )
    lake.detach()
    return lake


def test_a_killed_java_process_is_reported_and_replaced(lake: RealLake) -> None:
    arguments = [f"lake={lake.uri}", "--master", "local[2]", "--metrics-listen", "127.0.0.1:0"]
    with serving(*arguments, "--small-scan-bytes", "0") as server:
        health = health_of(server)
        with lakeport.connect(server.location, catalog="lake") as client:
            assert client.table("public.short").scan().count() == 10
            assert health() == (200, {"state": "ready"})
            running = client.table("public.trips").scan().to_reader()
            running.read_next_batch()
            first = java_of(server)

            os.kill(first.pid, signal.SIGKILL)

            assert wait_until(lambda: health()[0] == 503)
            status, report = health()
            with pytest.raises(UnavailableError, match="try again"):
                for _ in running:
                    pass
            assert wait_until(lambda: health() == (200, {"state": "ready"}))
            assert client.table("public.trips").scan(["id"]).count() == 3_000_000
            assert client.table("public.short").scan().count() == 10
        assert java_of(server).pid != first.pid
        log = "\n".join(server.log.all)
    assert (status, report["state"]) == (503, "degraded")
    assert report["reasons"] == ["Spark has ended and is being started again"]
    assert "Spark runs again" in log
    assert not re.search("Py4J|Traceback|Exception occurred", log), log


def test_what_needs_no_spark_is_answered_while_spark_does_not_start(
    lake: RealLake, tmp_path: Path
) -> None:
    config = tmp_path / "lakeport.toml"
    # Java refuses to start with so little memory.
    config.write_text(
        f'[[lake]]\nname = "lake"\nuri = "{lake.uri}"\n'
        '[spark]\nmaster = "local[1]"\nconf = { "spark.driver.memory" = "1k" }\n'
    )
    with serving("--config", str(config), "--metrics-listen", "127.0.0.1:0") as server:
        with lakeport.connect(server.location, catalog="lake") as client:
            trips = client.table("public.trips")
            assert trips.scan().count() == 3_000_000
            assert trips.scan(filter="id = 70").to_arrow()["id"].to_pylist() == [70]
        health = health_of(server)
        assert wait_until(lambda: health()[0] == 503)
        assert health()[1] == {"state": "degraded", "reasons": ["Spark does not start"]}
        server.log.wait_for("Spark does not start, next attempt in 1 s")


def test_a_catalog_database_that_cannot_be_read_is_reported(lake: RealLake, tmp_path: Path) -> None:
    file = Path(lake.uri.removeprefix("ducklake:"))
    arguments = [f"lake={lake.uri}", "--master", "local[2]", "--metrics-listen", "127.0.0.1:0"]
    with serving(*arguments) as server:
        health = health_of(server)
        assert health() == (200, {"state": "ready"})

        file.rename(tmp_path / "elsewhere")

        assert wait_until(lambda: health()[0] == 503)
        assert health()[1] == {
            "state": "degraded",
            "reasons": ["the catalog database of 'lake' cannot be read"],
        }
        (tmp_path / "elsewhere").rename(file)
        assert wait_until(lambda: health() == (200, {"state": "ready"}))
