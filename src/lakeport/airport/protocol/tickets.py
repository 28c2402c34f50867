"""Tickets: everything that a DoGet needs, so that any replica of a server can read any of them.

A ticket is a msgpack map. It contains no secret and grants nothing: its caller is authenticated and
authorised as for any other call. A JSON ticket, which the discovery contract defines, names a table
and optionally a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgpack

from lakeport.airport.protocol.addresses import Address, address_from_json, check_not_flight_sql
from lakeport.airport.protocol.codec import decode_struct, encode
from lakeport.airport.protocol.limits import DEFAULT_LIMITS, Limits
from lakeport.catalog import TimePoint
from lakeport.errors import InvalidArgumentError

__all__ = ["ScanTicket"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class ScanTicket:
    """A request for rows of a table or table function."""

    address: Address
    """The table or function, with the time of a JSON ticket."""
    columns: tuple[str, ...] | None = None
    """The requested columns; None means all."""
    filters: str = ""
    """The client's predicate, as it was received."""
    at_unit: str = ""
    at_value: str = ""
    arguments: bytes | None = None
    """The arguments of a table function, as one row of Arrow; None for a table."""
    partition: bytes | None = None
    """The part of the table."""
    limit: int | None = None
    """The most rows that the client will read; None means all."""
    rows_only: bool = False
    """Whether the client reads no value of the requested columns, only the number of rows."""

    @property
    def time_point(self) -> TimePoint | None:
        """The time to read, or None for the present."""
        return TimePoint.parse(self.at_unit, self.at_value) or self.address.time_point

    def pinned(self, catalog: str) -> ScanTicket:
        """Return the ticket with its catalog, and with the time of a JSON address as its own."""
        address = replace(self.address, catalog=catalog)
        time_point = self.time_point
        if time_point is None:
            return replace(self, address=address)
        return replace(
            self, address=address, at_unit=time_point.unit.name, at_value=time_point.value
        )

    def to_bytes(self) -> bytes:
        """Encode the ticket."""
        return encode(
            {
                "v": _VERSION,
                "address": [
                    self.address.catalog,
                    self.address.schema,
                    self.address.name,
                    self.address.tag,
                ],
                "columns": None if self.columns is None else list(self.columns),
                "filters": self.filters,
                "at": [self.at_unit, self.at_value],
                "arguments": self.arguments,
                "partition": self.partition,
                "limit": None if self.limit is None else [self.limit],
                **({"rows_only": True} if self.rows_only else {}),
            }
        )

    @classmethod
    def from_bytes(cls, raw: bytes, *, limits: Limits = DEFAULT_LIMITS) -> ScanTicket:
        """Decode a ticket; raise `InvalidArgumentError` if it is malformed."""
        check_not_flight_sql(raw)
        limits.check(len(raw), limits.ticket_bytes, "the ticket")
        if raw.lstrip()[:1] == b"{":
            return cls(address_from_json(raw, limits=limits))
        try:
            version = msgpack.unpackb(raw, raw=True)[b"v"]
        except (ValueError, TypeError, KeyError, IndexError, msgpack.UnpackException):
            raise InvalidArgumentError("the ticket is not one of this server") from None
        if version != _VERSION:
            raise InvalidArgumentError("the ticket has another version; run the query again")
        fields = decode_struct(raw, "ticket", limits=limits)
        address, at = fields.texts("address"), fields.texts("at")
        if len(address) != 4 or len(at) != 2:
            raise InvalidArgumentError("the ticket is not one of this server")
        columns = tuple(fields.texts("columns")) if "columns" in fields else None
        if columns is not None:
            limits.check(len(columns), limits.columns, "the number of columns")
        return cls(
            Address(address[1], address[2], catalog=address[0], tag=address[3]),
            columns=columns,
            filters=fields.text("filters"),
            at_unit=at[0],
            at_value=at[1],
            arguments=fields.blob("arguments") if "arguments" in fields else None,
            partition=fields.blob("partition") if "partition" in fields else None,
            limit=_limit(fields.integers("limit")) if "limit" in fields else None,
            rows_only=fields.flag("rows_only", default=False),
        )


def _limit(values: list[int]) -> int:
    if len(values) != 1 or values[0] < 0:
        raise InvalidArgumentError("the ticket is not one of this server")
    return values[0]
