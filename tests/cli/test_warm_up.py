"""The Spark of a server runs small queries as soon as it has started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.wait import TIMEOUT_SECONDS

pytest.importorskip("pyspark")

# In a process of its own: the session of this one would be used, and it is warm.
SERVERS = """
import time
from lakeport.cli.config import SparkSettings
from lakeport.cli.supervisor import SparkSupervisor

def jobs(supervisor):
    return supervisor.current.sparkContext._jsc.sc().dagScheduler().nextJobId()

for wanted in (False, True):
    supervisor = SparkSupervisor(SparkSettings(master="local[1]", warm_up=wanted))
    supervisor.start()
    while supervisor.current is None:
        time.sleep(0.1)
    time.sleep(0.5)
    while wanted and jobs(supervisor) == 0:
        time.sleep(0.1)
    print(jobs(supervisor))
    supervisor.close()
"""


def test_a_server_warms_up_its_spark_if_that_is_wanted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVERS],
        capture_output=True,
        text=True,
        timeout=2 * TIMEOUT_SECONDS,
        check=True,
    )

    without, wanted = map(int, done.stdout.split()[-2:])
    assert without == 0
    assert wanted > 0
