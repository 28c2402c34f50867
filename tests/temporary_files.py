"""The folder for temporary files of tests: in memory, where a commit does not wait for the disk.

No test depends on what a loss of power leaves.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil
import pytest

__all__ = ["keep_in_memory", "run_folder"]

_MEMORY: Final = Path("/dev/shm")
_MIN_FREE_BYTES: Final = 6 << 30


def keep_in_memory() -> None:
    """Let pytest make its folders in memory, if there is enough of it and no other was chosen."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    # Some tests run programs that they write.
    if os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC:
        return
    free = min(psutil.disk_usage(str(_MEMORY)).free, psutil.virtual_memory().available)
    if free > _MIN_FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@pytest.fixture(scope="session")
def run_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The folder of this worker, which is removed at the end unless a test has failed."""
    folder = tmp_path_factory.getbasetemp()
    yield folder
    if request.session.testsfailed == 0:
        shutil.rmtree(folder, ignore_errors=True)
