"""Which format versions can be read, and what to say about the others."""

from __future__ import annotations

import re

from lakeport.errors import LakeVersionError

__all__ = ["check_version", "partition_columns_are_ordinals"]

_OLDER = ("0.1", "0.2", "0.3-dev1", "0.3", "0.4-dev1", "0.4")


def check_version(version: str) -> str:
    """Accept 0.1 to 0.4 and every 1.x; refuse what nobody has described yet."""
    if version in _OLDER or re.fullmatch(r"1\.\d+(-dev\d+)?", version):
        return version
    raise LakeVersionError(
        f"the lake has format version {version!r}, and Lakeport reads 0.1 to 0.4 and 1.x: "
        "upgrade Lakeport, or open the lake with a DuckDB that can migrate it"
    )


def partition_columns_are_ordinals(version: str) -> bool:
    """In 0.1 a partition key names its column by position, later by column id."""
    return version == "0.1"
