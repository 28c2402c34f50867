"""Which format versions are written, and why the others are refused."""

from __future__ import annotations

import re

from lakeport.errors import LakeVersionError

__all__ = ["WRITTEN_VERSION", "check_writable"]

WRITTEN_VERSION = "1.0"
"""The format of lakes that are created: every DuckDB with DuckLake 1.0 or newer reads it."""


def check_writable(version: str, location: object) -> None:
    """Raise LakeVersionError for a lake whose format is read but not written."""
    if re.fullmatch(r"1\.[01](-dev\d+)?", version):
        return
    if version.startswith("0."):
        raise LakeVersionError(
            f"the lake has format version {version}, which is read but not written: migrate it "
            f"with DuckDB, ATTACH 'ducklake:{location}' AS lake (AUTOMATIC_MIGRATION TRUE)"
        )
    raise LakeVersionError(
        f"the lake has format version {version}, and Lakeport writes 1.0 and 1.1: upgrade Lakeport"
    )
