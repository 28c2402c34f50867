"""Reading: the throughput of DoGet, the cost of listings, the latency of discovery."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgpack
from pyarrow import flight

from benchmarks.measure import Figure, interleaved, latencies
from benchmarks.servers import running

__all__ = ["discovery", "doget", "listing"]


def doget(*, rows: int, repeats: int) -> Iterator[Figure]:
    """A whole table against a bare Flight server that hands out the same batches."""
    with running("bare", rows=rows) as bare, running("lakeport", rows=rows) as lakeport:
        baseline, ours = flight.connect(bare), flight.connect(lakeport)
        ticket = _ticket(ours)
        samples = interleaved(
            {
                "bare": lambda: _drain(baseline, flight.Ticket(b"")),
                "lakeport": lambda: _drain(ours, ticket),
            },
            repeats=repeats,
        )
    ratio = samples["bare"].median / samples["lakeport"].median
    yield Figure(
        f"DoGet, {rows:,} rows of 4 columns",
        f"{ratio:.2f} of its throughput",
        "bare pyarrow.flight server, same batches",
        "at least 0.95",
        ratio >= 0.95,
        samples["lakeport"].spread,
    )


def listing(*, tables: int, repeats: int) -> Iterator[Figure]:
    """`list_schemas` of a large catalog: the first call, and the ones after it."""
    body = msgpack.packb({"catalog_name": ""})
    cold = []
    for _ in range(3):
        with running("wide", rows=tables) as location:
            client = flight.connect(location)
            list(client.list_actions())
            cold.append(latencies(lambda: _act(client, "list_schemas", body), repeats=1, warmups=0))  # noqa: B023
            warm = latencies(lambda: _act(client, "list_schemas", body), repeats=repeats)  # noqa: B023
    first = sorted(sample.median for sample in cold)[1]
    yield Figure(
        f"list_schemas, {tables:,} tables, repeated",
        f"{warm.median * 1000:.1f} ms, {warm.median / first:.3f} of the first",
        f"the first call: {first * 1000:.0f} ms",
        "less than 0.1 of the first",
        warm.median / first < 0.1,
        warm.spread,
    )


def discovery(*, tables: int, repeats: int) -> Iterator[Figure]:
    """The latencies that the endpoint-discovery contract promises."""
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
            worst = sample.percentile(99)
            yield Figure(
                f"{name}, 99th percentile, {tables:,} tables",
                f"{worst * 1000:.1f} ms",
                f"the contract's {limit * 1000:.0f} ms",
                f"less than {limit * 1000:.0f} ms",
                worst < limit,
                sample.spread,
            )


def _ticket(client: flight.FlightClient) -> flight.Ticket:
    info = client.get_flight_info(flight.FlightDescriptor.for_path("bench", "t"))
    return info.endpoints[0].ticket


def _drain(client: flight.FlightClient, ticket: flight.Ticket) -> int:
    return sum(chunk.data.num_rows for chunk in client.do_get(ticket))


def _act(client: flight.FlightClient, name: str, body: bytes) -> int:
    return sum(len(result.body) for result in client.do_action((name, body)))
