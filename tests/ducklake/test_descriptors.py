"""A process that has run out of file descriptors reads no catalog, and lives on."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.fixtures_lakes import LakeMaker

SCRIPT = """
import os, resource, sys
from lakeport.ducklake import Lake
from lakeport._files import keep_reserve
from lakeport.errors import UnavailableError

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
with Lake.open(sys.argv[1]) as lake:
    before = lake.snapshot().id
    if sys.argv[2] == "reserve":
        keep_reserve()
    taken = []
    try:
        while True:
            taken.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    try:
        assert lake.snapshot().id == before
        print("read")
    except UnavailableError as error:
        print(error)
    for descriptor in taken:
        os.close(descriptor)
    assert lake.snapshot().id == before
"""


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
@pytest.mark.parametrize(
    ("how", "printed"), [("none", "no file descriptors left"), ("reserve", "read")]
)
@pytest.mark.process
def test_a_catalog_is_refused_without_descriptors_and_read_from_the_reserve(
    make_lake: LakeMaker, kind: str, how: str, printed: str
) -> None:
    lake = make_lake(kind)
    lake.execute("CREATE TABLE t AS SELECT 1 AS x")
    lake.detach()

    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, lake.uri, how],
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 0, result.stderr
    assert printed in result.stdout
