"""Flight SQL, which this server does not implement: its messages are recognised and refused.

A Flight SQL client, such as ADBC's driver, packs each command into a `google.protobuf.Any`, whose
type URL stands near the beginning of the message. Nothing more of it is decoded.
"""

from __future__ import annotations

from typing import Final

from lakeport.errors import UnsupportedError

__all__ = ["ACTIONS", "check_not_flight_sql", "refusal"]

ACTIONS: Final = frozenset(
    {
        "BeginSavepoint",
        "BeginTransaction",
        "CancelQuery",
        "ClosePreparedStatement",
        "CreatePreparedStatement",
        "CreatePreparedSubstraitPlan",
        "EndSavepoint",
        "EndTransaction",
    }
)
"""The actions of Flight SQL. The names of our own are in lower case."""

_TYPE: Final = b"type.googleapis.com/arrow.flight.protocol.sql."
_HEAD: Final = 16
"""The tag and the length of the first field come before the type."""


def check_not_flight_sql(message: bytes) -> None:
    """Refuse the command or ticket of a Flight SQL client."""
    if _TYPE in message[: _HEAD + len(_TYPE)]:
        raise refusal()


def refusal() -> UnsupportedError:
    """Return the error for a Flight SQL client."""
    return UnsupportedError(
        "Flight SQL is not supported, this server implements the Airport protocol: use DuckDB's "
        "airport extension, lakeport.connect, or a plain Flight client with the path of a table"
    )
