"""The Spark of a server runs small queries as soon as it has started."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

# In a process of its own: the session of this one would be used, and it is warm.
SERVER = """
import sys, threading, time
from lakeport.cli.config import SparkSettings
from lakeport.cli.supervisor import SparkSupervisor

supervisor = SparkSupervisor(SparkSettings(master="local[1]", warm_up=sys.argv[1] == "yes"))
supervisor.start()
while supervisor.current is None:
    time.sleep(0.1)
time.sleep(0.5)
for thread in threading.enumerate():
    if thread.name == "lakeport-warm-up":
        thread.join()
print(supervisor.current.sparkContext._jsc.sc().dagScheduler().nextJobId())
supervisor.close()
"""


@pytest.mark.parametrize("wanted", ["yes", "no"])
def test_a_server_warms_up_its_spark_if_that_is_wanted(wanted: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVER, wanted],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )

    assert (int(done.stdout.split()[-1]) > 0) is (wanted == "yes")
