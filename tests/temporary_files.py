"""The folder for temporary files of tests: in memory, where a commit does not wait for the disk.

No test depends on what a loss of power leaves.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import psutil

__all__ = ["keep_in_memory"]

_MEMORY: Final = Path("/dev/shm")
_MIN_FREE_BYTES: Final = 6 << 30


def keep_in_memory() -> None:
    """Let pytest make its folders in memory, if there is enough of it and no other was chosen."""
    if not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    free = min(psutil.disk_usage(str(_MEMORY)).free, psutil.virtual_memory().available)
    if free > _MIN_FREE_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))
