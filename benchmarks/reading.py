"""Reading: the throughput of DoGet, the cost of listings, the latency of discovery."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgpack
from pyarrow import flight

from benchmarks.measure import Figure, Sample, interleaved, latencies
from benchmarks.servers import running

__all__ = ["discovery", "doget", "listing"]


def doget(*, rows: int, repeats: int) -> Iterator[Figure]:
    """Read a whole table, against a bare Flight server with the same batches."""
    with running("bare", rows=rows) as bare, running("lakeport", rows=rows) as lakeport:
        baseline, ours = flight.connect(bare), flight.connect(lakeport)
        whole, parts = _tickets(ours, "whole"), _tickets(ours, "t")
        samples = interleaved(
            {
                "bare": lambda: _drain(baseline, flight.Ticket(b"")),
                "whole": lambda: _drain(ours, whole[0]),
                "parts": lambda: _drain_all(ours, parts),
            },
            repeats=repeats,
            same=True,
        )
    yield Figure.throughput(
        f"DoGet, {rows:,} rows of 4 columns, one endpoint",
        samples["whole"],
        samples["bare"],
        "bare pyarrow.flight server, same batches",
        0.95,
    )
    yield Figure.throughput(
        f"DoGet, {rows:,} rows of 4 columns, {len(parts)} endpoints at once, the default",
        samples["parts"],
        samples["bare"],
        "bare pyarrow.flight server, same batches, one stream",
    )


def listing(*, tables: int, repeats: int) -> Iterator[Figure]:
    """`list_schemas` of a large catalog: the first call, and the ones after it."""
    body = msgpack.packb({"catalog_name": ""})
    first, again = [], []
    for _ in range(repeats):
        with running("wide", rows=tables) as location:
            client = flight.connect(location)
            list(client.list_actions())
            call = partial(_act, client, "list_schemas", body)
            first.append(latencies(call, repeats=1, warmups=0).median)
            again.append(latencies(call, repeats=20).median)
    yield Figure.share(
        f"list_schemas, {tables:,} tables, repeated",
        Sample(tuple(again)),
        Sample(tuple(first)),
        "the first call",
        0.1,
    )


def discovery(*, tables: int, repeats: int) -> Iterator[Figure]:
    """Measure the latencies that the endpoint-discovery contract promises."""
    tables_of = json.dumps({"schema_name": "bench", "table_name_pattern": "t1*"}).encode()
    path = flight.FlightDescriptor.for_path("bench", "t7")
    with running("wide", rows=tables) as location:
        client = flight.connect(location)
        calls = {
            "GetFlightInfo": (lambda: client.get_flight_info(path), 0.100),
            "ListActions": (lambda: list(client.list_actions()), 0.050),
            "GetTables": (lambda: _act(client, "GetTables", tables_of), 0.500),
        }
        for name, (call, limit) in calls.items():
            sample = latencies(call, repeats=repeats)
            yield Figure.latency(
                f"{name}, {tables:,} tables, 99th percentile",
                sample,
                f"none: the contract says {limit * 1000:.0f} ms",
                percent=99,
                less_than=limit,
            )


def _tickets(client: flight.FlightClient, table: str) -> list[flight.Ticket]:
    info = client.get_flight_info(flight.FlightDescriptor.for_path("bench", table))
    return [endpoint.ticket for endpoint in info.endpoints]


def _drain_all(client: flight.FlightClient, tickets: list[flight.Ticket]) -> int:
    """Read endpoints as DuckDB does, with a thread for each."""
    with ThreadPoolExecutor(len(tickets)) as pool:
        return sum(pool.map(partial(_drain, client), tickets))


def _drain(client: flight.FlightClient, ticket: flight.Ticket) -> int:
    return sum(chunk.data.num_rows for chunk in client.do_get(ticket))


def _act(client: flight.FlightClient, name: str, body: bytes) -> int:
    return sum(len(result.body) for result in client.do_action((name, body)))
