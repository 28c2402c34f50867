"""A limit for the memory that Arrow takes in a server, set before Arrow is loaded.

pyarrow decodes messages of clients before Lakeport gets them, and has no option to limit their size
(pyarrow 26: `FlightServerBase` takes neither `IpcReadOptions` nor a limit of messages). Its
allocator, mimalloc, can be confined to memory that is reserved when the process starts. An
allocation beyond it fails, and with it one call.

Must not import pyarrow.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lakeport.errors import DefinitionError

__all__ = ["VARIABLE", "bounded_arrow_memory"]

VARIABLE: Final = "LAKEPORT_ARROW_MEMORY"

_RESERVE: Final = "MIMALLOC_RESERVE_OS_MEMORY"
_CONFINE: Final = "MIMALLOC_DISALLOW_OS_ALLOC"
_GIB: Final = 1024**3
_UNITS: Final = {"": 1, "kib": 1024, "mib": 1024**2, "gib": _GIB}
_CONTROL_GROUPS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)


@contextmanager
def bounded_arrow_memory(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Limit the memory of Arrow if it is loaded inside the block.

    Processes that are started after the block do not inherit the limit.
    """
    size = _limit(environ.get(VARIABLE))
    is_chosen = any(name in environ for name in (_RESERVE, _CONFINE, "ARROW_DEFAULT_MEMORY_POOL"))
    if not size or is_chosen or "pyarrow" in sys.modules or not sys.platform.startswith("linux"):
        yield
        return
    environ[_RESERVE], environ[_CONFINE] = f"{size // 1024}KiB", "1"
    try:
        yield
    finally:
        del environ[_RESERVE], environ[_CONFINE]


def _limit(setting: str | None) -> int:
    """Return the bytes of a setting such as `8GiB`; without one, a quarter of the memory."""
    if setting is None:
        return max(2 * _GIB, _memory() // 4)
    match = re.fullmatch(r"(\d+)\s*(kib|mib|gib)?", setting.strip().lower())
    if match is None:
        raise DefinitionError(f"{VARIABLE} must be a size such as 8GiB, or 0, not {setting!r}")
    return int(match[1]) * _UNITS[match[2] or ""]


def _memory() -> int:
    """Return the bytes of memory that this process may use."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CONTROL_GROUPS:
        with suppress(OSError, ValueError):
            memory = min(memory, int(Path(path).read_text()))
    return memory
