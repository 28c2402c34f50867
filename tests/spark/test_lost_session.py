"""A test that is interrupted inside a call to Java fails alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.wait import TIMEOUT_SECONDS

INTERRUPTED = """
import signal
import pytest

class Interruption(BaseException):
    pass

def interrupt(number, frame):
    raise Interruption

def test_that_leaves_a_reply_unread(spark):
    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(2)
    with pytest.raises(Interruption):
        spark._jvm.java.lang.Thread.sleep(20_000)
"""

NEXT = """
def test_that_needs_spark(spark):
    assert spark.range(3).count() == 3
"""


def test_the_next_module_gets_a_new_session(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import class_archive_of_the_run, run_folder, spark\n"
    )
    (tmp_path / "test_1.py").write_text(INTERRUPTED)
    (tmp_path / "test_2.py").write_text(NEXT)
    plain = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-n", "0"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, "--rootdir", tmp_path, "test_1.py", "test_2.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_SECONDS,
    )

    assert "2 passed" in done.stdout, done.stdout + done.stderr
