"""Constants of the protocol that server and client share."""

from __future__ import annotations

__all__ = ["LIMIT_HEADER"]

LIMIT_HEADER = "lakeport-limit"
"""The most rows that Lakeport's client will read. The protocol has no field for it."""
