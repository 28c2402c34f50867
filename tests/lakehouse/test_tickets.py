"""Tickets of lakes: self-contained, pinned to a snapshot, worth nothing to a forger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import Partition, ScanOptions, Table, col
from lakeport.catalog import EndpointTable, TimePoint, TimeUnit
from lakeport.errors import InvalidArgumentError, LakeportError, UnavailableError
from lakeport.filters import Filter
from lakeport.lakehouse import LakeCatalog
from lakeport.lakehouse.tickets import split_tasks
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    """Three files of about the same size, and a table that nobody asks for."""
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(0, 1000) r(i)",
        "INSERT INTO t SELECT i, 'v' || i FROM range(1000, 2000) r(i)",
        "INSERT INTO t SELECT i, 'v' || i FROM range(2000, 3000) r(i)",
        "CREATE TABLE secret AS SELECT i AS id, 'hidden' AS v FROM range(10) r(i)",
    )
    lake.detach()
    return lake


def table_of(catalog: LakeCatalog, name: str = "t") -> EndpointTable:
    schema = catalog.schema("public")
    assert schema is not None
    table = schema.table(name)
    assert isinstance(table, EndpointTable)
    return table


def tokens(table: EndpointTable, options: ScanOptions | None = None) -> list[bytes]:
    endpoints = table.endpoints(options or ScanOptions())
    assert all(isinstance(endpoint, Partition) for endpoint in endpoints)
    return [endpoint.token for endpoint in endpoints if isinstance(endpoint, Partition)]


def ids(table: Table, *parts: bytes) -> list[int]:
    found: list[int] = []
    for part in parts:
        rows: pa.Table = table.scan(ScanOptions(partition=part)).read_all()
        found += rows["id"].to_pylist()
    return sorted(found)


def test_a_scan_has_one_endpoint_for_each_core_and_never_more_than_files(
    lake: Any, serve: Serve
) -> None:
    assert len(tokens(table_of(serve(lake).catalog))) == 2
    assert len(tokens(table_of(serve(lake, endpoints=3).catalog))) == 3
    assert len(tokens(table_of(serve(lake, endpoints=64).catalog))) == 3
    one_file = ScanOptions(filter=Filter.of(col("id") < 5))
    assert len(tokens(table_of(serve(lake, endpoints=64).catalog), one_file)) == 1
    no_file = ScanOptions(filter=Filter.of(col("id") < -5))
    assert tokens(table_of(serve(lake).catalog), no_file) == []


def test_the_parts_of_a_scan_are_disjoint_and_complete(lake: Any, serve: Serve) -> None:
    table = table_of(serve(lake, endpoints=2).catalog)
    first, second = tokens(table)

    assert ids(table, first, second) == list(range(3000))
    assert sorted([len(ids(table, first)), len(ids(table, second))]) == [1000, 2000]


def test_any_replica_answers_a_ticket(lake: Any, serve: Serve) -> None:
    here, there = serve(lake, endpoints=3), serve(lake, endpoints=1)
    with (
        flight.connect(here.server.location) as asked,
        flight.connect(there.server.location) as answering,
    ):
        info = asked.get_flight_info(flight.FlightDescriptor.for_path("public", "t"))
        rows = [answering.do_get(part.ticket).read_all() for part in info.endpoints]

    assert len(rows) == 3
    assert sorted(pa.concat_tables(rows)["id"].to_pylist()) == list(range(3000))


def test_a_ticket_reads_the_snapshot_that_was_newest_when_it_was_made(
    lake: Any, serve: Serve
) -> None:
    here, there = serve(lake), serve(lake)
    made = tokens(table_of(here.catalog))

    lake.execute("INSERT INTO t VALUES (-1, 'new')", "DELETE FROM t WHERE id < 500")
    lake.detach()

    assert ids(table_of(here.catalog), *made) == list(range(3000))
    assert ids(table_of(there.catalog), *made) == list(range(3000))


def test_a_ticket_survives_a_compaction_on_the_server_that_made_it(lake: Any, serve: Serve) -> None:
    table = table_of(serve(lake).catalog)
    made = tokens(table)

    lake.execute("CALL ducklake_merge_adjacent_files('lake')")
    lake.detach()

    assert ids(table, *made) == list(range(3000))


def test_a_replica_asks_to_run_the_query_again_after_a_compaction(lake: Any, serve: Serve) -> None:
    here, there = serve(lake), serve(lake)
    made = tokens(table_of(here.catalog))

    lake.execute("CALL ducklake_merge_adjacent_files('lake')")
    lake.detach()

    with pytest.raises(UnavailableError, match="run the query again"):
        ids(table_of(there.catalog), made[0])


def test_a_ticket_of_a_table_that_was_replaced_asks_to_run_the_query_again(
    lake: Any, serve: Serve
) -> None:
    catalog = serve(lake).catalog
    made = tokens(table_of(catalog))

    lake.execute("DROP TABLE t", "CREATE TABLE t(id BIGINT)")
    lake.detach()

    with pytest.raises(UnavailableError, match="run the query again"):
        ids(table_of(catalog), made[0])


def test_tickets_carry_neither_paths_nor_credentials(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0, ENCRYPTED")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(10) r(i)")
    keys = [row[0] for row in lake.query("SELECT encryption_key FROM meta.ducklake_data_file")]
    paths = [row[0] for row in lake.query("SELECT path FROM meta.ducklake_data_file")]

    served = serve(lake)
    with flight.connect(served.server.location) as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path("public", "t"))
    tickets = [bytes(part.ticket.ticket) for part in info.endpoints]

    assert keys
    assert all(keys)
    for ticket in tickets:
        assert not any(text.encode() in ticket for text in [*keys, *paths, lake.data_path])


def test_a_token_of_one_table_opens_no_other(lake: Any, serve: Serve) -> None:
    catalog = serve(lake).catalog
    of_secret = tokens(table_of(catalog, "secret"))[0]

    with pytest.raises(UnavailableError):
        ids(table_of(catalog), of_secret)


def test_a_forged_token_reads_nothing_but_the_table_it_is_presented_for(
    lake: Any, serve: Serve
) -> None:
    catalog = serve(lake, endpoints=2).catalog
    table = table_of(catalog)
    version, snapshot, id, digest, part, parts = msgpack.unpackb(tokens(table)[0])
    secret = msgpack.unpackb(tokens(table_of(catalog, "secret"))[0])[2]
    allowed = set(range(3000))
    forged = [
        [version, snapshot, secret, digest, part, parts],
        [version, snapshot - 1, id, digest, part, parts],
        [version, 0, id, digest, part, parts],
        [version, 10**15, id, digest, part, parts],
        [version, snapshot, id, bytes(16), part, parts],
        [version, snapshot, id, digest, 0, 1],
        [version, snapshot, id, digest, 70, 10**12],
    ]

    for fields in forged:
        try:
            found = ids(table, msgpack.packb(fields))
        except LakeportError:
            continue
        assert set(found) <= allowed, fields


@dataclass(frozen=True)
class Sized:
    estimated_bytes: int


@pytest.mark.parametrize(("parts", "loads"), [(3, [9, 11, 11]), (2**62, [2, 3, 4, 5, 8, 9])])
def test_parts_have_about_the_same_size_and_are_no_more_than_files(
    parts: int, loads: list[int]
) -> None:
    tasks: list[Any] = [Sized(size) for size in (3, 9, 2, 8, 5, 4)]

    found = split_tasks(tasks, parts)

    assert sorted(sum(task.estimated_bytes for task in part) for part in found) == loads


def test_a_forged_number_of_parts_costs_no_more_than_any_other() -> None:
    tasks: list[Any] = [Sized(size % 7) for size in range(100_000)]

    assert len(split_tasks(tasks, 2**62)) == len(tasks)


@pytest.mark.parametrize(
    "token",
    [
        b"\x00",
        b"garbage",
        msgpack.packb([]),
        msgpack.packb({"snapshot": 1}),
        msgpack.packb([2, 1, 1, bytes(16), 0, 1]),
        msgpack.packb([1, -1, 1, bytes(16), 0, 1]),
        msgpack.packb([1, 1, 1, "text", 0, 1]),
        msgpack.packb([1, 1, 1, bytes(16), 1, 1]),
        msgpack.packb([1, 1, 1, bytes(16), 0, 0]),
        msgpack.packb([1, True, 1, bytes(16), "0", 1]),
        msgpack.packb([1, 1, 1, bytes(16), 0, 1]) + b"more",
        b"\x96" * 5000,
    ],
)
def test_a_garbled_token_is_refused_in_one_sentence(lake: Any, serve: Serve, token: bytes) -> None:
    table = table_of(serve(lake).catalog)

    with pytest.raises(InvalidArgumentError, match="not one of ours"):
        table.scan(ScanOptions(partition=token))


def test_every_prefix_and_every_changed_byte_of_a_token_is_survived(
    lake: Any, serve: Serve
) -> None:
    table = table_of(serve(lake, endpoints=1).catalog)
    good = tokens(table)[0]
    garbled = [good[:length] for length in range(1, len(good))]
    garbled += [
        bytes([*good[:index], good[index] ^ 0xFF, *good[index + 1 :]]) for index in range(len(good))
    ]

    for token in garbled:
        with pytest.raises(LakeportError):
            table.scan(ScanOptions(partition=token))


def test_a_part_of_the_past_is_refused_when_the_time_means_another_table_by_now(
    lake: Any, serve: Serve
) -> None:
    table = table_of(serve(lake).catalog)
    tomorrow = TimePoint(TimeUnit.TIMESTAMP, "2999-01-01")
    made = tokens(table, ScanOptions(time_point=tomorrow))

    lake.execute("ALTER TABLE t ADD COLUMN w INTEGER")
    lake.detach()

    with pytest.raises(UnavailableError, match="run the query again"):
        table.scan(ScanOptions(partition=made[0], time_point=tomorrow))
