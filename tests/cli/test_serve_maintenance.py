"""The maintenance of lakes inside `lakeport serve`: which lakes, and which metrics."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import generate_latest

from lakeport.cli.commands.serve import _schedule
from lakeport.cli.config import load_settings
from lakeport.lakehouse import LakeCatalog
from lakeport.observability import Metrics
from tests.fixtures_lakes import LakeMaker, RealLake
from tests.wait import TIMEOUT_SECONDS


@pytest.fixture
def lakes(make_lake: LakeMaker) -> dict[str, RealLake]:
    made = {"sales": make_lake("sqlite"), "archive": make_lake("sqlite")}
    for lake in made.values():
        lake.execute("CREATE TABLE t (id INTEGER)")
        lake.execute(
            *(f"INSERT INTO t SELECT i FROM range({n}, {n + 20}) r(i)" for n in (0, 20, 40))
        )
        lake.detach()
    return made


def test_the_server_maintains_the_lakes_that_ask_for_it(
    lakes: dict[str, RealLake], tmp_path: Path
) -> None:
    file = tmp_path / "lakeport.toml"
    file.write_text(
        f"""
        [[lake]]
        name = "sales"
        uri = "{lakes["sales"].uri}"
        [[lake]]
        name = "archive"
        uri = "{lakes["archive"].uri}"
        [lake.maintenance]
        enabled = false
        [maintenance]
        enabled = true
        every = 0.1
        merge_files = 3
        """
    )
    settings = load_settings(file)
    metrics = Metrics()
    opened = {name: LakeCatalog(lake.uri, engine="local") for name, lake in lakes.items()}
    served: Any = SimpleNamespace(opened=opened, lakes={lake.name: lake for lake in settings.lake})
    schedule = _schedule(settings, served, metrics)
    assert schedule is not None
    done = 'lakeport_maintenance_total{catalog="sales",operation="merge",result="done"} 1.0'
    with schedule:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while done not in (text := generate_latest(metrics.registry).decode()):
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
    assert 'lakeport_maintenance_files_total{catalog="sales",operation="merge"} 3.0' in text
    assert "archive" not in text
    for name, count in (("sales", 1), ("archive", 3)):
        assert len(opened[name].lake.table("t").files()) == count
        opened[name].close()


def test_a_server_without_the_section_maintains_nothing(tmp_path: Path) -> None:
    file = tmp_path / "lakeport.toml"
    file.write_text('[[lake]]\nuri = "meta.ducklake"\n')
    served: Any = SimpleNamespace(opened={}, lakes={})
    assert _schedule(load_settings(file), served, Metrics()) is None
