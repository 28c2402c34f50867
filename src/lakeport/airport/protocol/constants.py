"""Fixed words of the protocol that server and client share."""

from __future__ import annotations

__all__ = ["LIMIT_HEADER"]

LIMIT_HEADER = "lakeport-limit"
"""How many rows a client of ours will look at. The protocol has no field for it."""
