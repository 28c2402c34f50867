"""The endpoints of a scan: tickets for a server, or `data:` URIs that the client resolves."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyarrow import flight

from lakeport.airport.codec import encode, write_batch
from lakeport.airport.host import REUSE_CONNECTION, Host
from lakeport.airport.limits import Limits
from lakeport.airport.scans import Scan, scan_options
from lakeport.airport.tickets import ScanTicket
from lakeport.catalog import Endpoint, FileReference, FunctionReference, Partition
from lakeport.errors import InternalError, MessageTooLargeError

__all__ = ["scan_endpoints"]

_FUNCTION_CALL = "application/x-msgpack-duckdb-function-call"
_FILE = "application/msgpack"


def scan_endpoints(
    host: Host, scan: Scan, ticket: ScanTicket, *, location: str = REUSE_CONNECTION
) -> list[flight.FlightEndpoint]:
    """The endpoints of a scan; `location` is where the tickets are to be presented.

    A filter is a hint, which the client applies again: one that is beyond the bounds, or that makes
    a ticket too large, is left out. Then the limit is left out, too: it counts rows that pass.
    """
    try:
        return _endpoints(host, scan, ticket, location)
    except MessageTooLargeError:
        if not ticket.filters:
            raise
        return _endpoints(host, scan, replace(ticket, filters="", limit=None), location)


def _endpoints(
    host: Host, scan: Scan, ticket: ScanTicket, location: str
) -> list[flight.FlightEndpoint]:
    return [
        _endpoint(endpoint, ticket, location, host.limits)
        for endpoint in scan.endpoints(scan_options(host, ticket))
    ]


def _endpoint(
    endpoint: Endpoint, ticket: ScanTicket, location: str, limits: Limits
) -> flight.FlightEndpoint:
    match endpoint:
        case Partition(token, elsewhere):
            part = replace(ticket, partition=token or None).to_bytes()
            limits.check(len(part), limits.ticket_bytes, "the ticket")
            return flight.FlightEndpoint(part, [elsewhere or location])
        case FunctionReference():
            return flight.FlightEndpoint(b"", [_function_uri(endpoint)])
        case FileReference(uri, format):
            reference = {"format": format.value, "uri": uri}
            return flight.FlightEndpoint(b"", [_data_uri(_FILE, reference)])
    raise InternalError(f"{type(endpoint).__name__} is not an endpoint")


def _function_uri(reference: FunctionReference) -> str:
    row: dict[str, Any] = {f"arg_{i}": value for i, value in enumerate(reference.arguments)}
    row.update(reference.named)
    call = {"function_name": reference.function, "data": write_batch(_one_row(row))}
    return _data_uri(_FUNCTION_CALL, call)


def _one_row(values: Mapping[str, Any]) -> pa.RecordBatch:
    arrays: Sequence[pa.Array] = [
        pa.repeat(value, 1) if isinstance(value, pa.Scalar) else pa.array([value])
        for value in values.values()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(values))


def _data_uri(media_type: str, content: Mapping[str, Any]) -> str:
    return f"data:{media_type};base64,{base64.b64encode(encode(content)).decode()}"
