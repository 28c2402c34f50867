"""Constants of the protocol that server and client share."""

from __future__ import annotations

__all__ = ["LIMIT_HEADER", "NULL_COLUMNS_HEADER", "ROWS_ONLY_HEADER"]

LIMIT_HEADER = "lakeport-limit"
"""The most rows that Lakeport's client will read. The protocol has no field for it."""

NULL_COLUMNS_HEADER = "lakeport-null-columns"
"""Sent by a client that accepts Arrow's null type for columns that it did not request."""

ROWS_ONLY_HEADER = "lakeport-rows-only"
"""Sent with `endpoints` by a client that reads no value, only the number of rows."""
