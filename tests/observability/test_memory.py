"""The memory of the processes below a server."""

from __future__ import annotations

import subprocess
import sys

from lakeport.cli.config import SparkSettings
from lakeport.cli.supervisor import SparkSupervisor, add_spark_gauges
from lakeport.observability import CHILD_KINDS, Metrics
from tests.wait import wait_until


def test_the_memory_of_child_processes_is_counted_by_kind() -> None:
    metrics = Metrics()
    add_spark_gauges(metrics, SparkSupervisor(SparkSettings()), lambda: 1)
    name = "lakeport_child_resident_memory_bytes"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        try:
            assert wait_until(
                lambda: (metrics.registry.get_sample_value(name, {"process": "python"}) or 0) > 1e6
            )
        finally:
            child.kill()
    [family] = [f for f in metrics.registry.collect() if f.name == name]
    assert {sample.labels["process"] for sample in family.samples} == set(CHILD_KINDS)
