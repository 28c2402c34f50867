"""Servers that answer garbage: a clear error, no hang, no traceback of anything else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import flight

from lakeport.airport.client import Client
from lakeport.airport.client.replies import (
    read_bundle,
    read_catalog_root,
    read_contents,
    read_contents_ref,
    read_endpoints,
    read_flight_description,
    read_transaction,
    read_version,
)
from lakeport.errors import InternalError, LakeportError
from tests.client.wire import WireServer, catalog_root, container, packed

GARBAGE = [
    b"",
    b"\x00",
    b"\xc1",
    b"\xff" * 100,
    b"not msgpack at all",
    packed(None),
    packed([]),
    packed({}),
    packed({b"\xff": 1}),
    packed({1: 2}),
    packed([1, 2, 3]),
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\x91" * 5000,
    container(b""),
    container(packed({})),
    packed([2**31, b"x"]),
    packed([-1, b"x"]),
    packed([2**62, b"x"]),
    packed([10, pa.compress(b"x" * 1000, codec="zstd", asbytes=True)]),
    packed({"catalog_version": -1, "is_fixed": False}),
    packed({"catalog_version": True, "is_fixed": False}),
    packed({"catalog_version": 1, "is_fixed": "no"}),
    packed({"identifier": 5}),
]

QUESTIONS: dict[str, Callable[[Client], Any]] = {
    "list_schemas": lambda client: client.schemas(),
    "catalog_version": lambda client: client.catalog_version(),
    "endpoints": lambda client: client.table("w.t").scan().to_arrow(),
    "flight_info": lambda client: client.table("w.t").scan(version=1).to_arrow(),
    "create_table": lambda client: client.create_table("w", "n", pa.schema([("x", pa.int64())])),
    "add_column": lambda client: client.table("w.t").add_column("x", pa.int64()),
}


@pytest.mark.parametrize(
    ("name", "garbage"),
    # An empty list of endpoints is a valid one.
    [(n, g) for n in QUESTIONS for g in GARBAGE if (n, g) != ("endpoints", packed([]))],
)
def test_garbage_for_a_reply(
    wire: WireServer, hand_client: Client, name: str, garbage: bytes
) -> None:
    wire.replies[name] = garbage
    with pytest.raises(InternalError, match=r"cannot be decoded|did not describe"):
        QUESTIONS[name](hand_client)


@pytest.mark.parametrize("name", [*QUESTIONS, "create_transaction", "create_schema"])
def test_no_reply_at_all(wire: WireServer, hand_client: Client, name: str) -> None:
    wire.replies[name] = []
    ask = QUESTIONS.get(name, _create_schema)
    with pytest.raises(InternalError, match=f"did not reply to {name}"):
        ask(hand_client)


def _create_schema(client: Client) -> None:
    client.create_schema("n")


def test_further_results_are_ignored(wire: WireServer, hand_client: Client) -> None:
    version = packed({"catalog_version": 3, "is_fixed": False})
    wire.replies["catalog_version"] = [version, b"more", b"\xff"]
    assert hand_client.catalog_version().version == 3


def test_results_without_end_are_cut_off(wire: WireServer, hand_client: Client) -> None:
    wire.replies["flood"] = lambda _: Flood()
    with pytest.raises(LakeportError, match="too large"):
        hand_client.action("flood")


class Flood(list[bytes]):
    """Results that never end."""

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b"x"


def test_a_reply_that_unfolds_to_too_much_is_refused(wire: WireServer, hand_client: Client) -> None:
    wire.replies["list_schemas"] = packed([2**40, b"x"])
    with pytest.raises(InternalError, match="too large"):
        hand_client.schemas()


def test_too_many_columns_are_refused(wire: WireServer, hand_client: Client) -> None:
    schema = pa.schema([(f"c{i}", pa.int8()) for i in range(20_000)])
    info = flight.FlightInfo(schema, flight.FlightDescriptor.for_path("w", "t"), [], -1, -1)
    contents = container(packed([info.serialize()]))
    wire.replies["list_schemas"] = catalog_root(
        [{"name": "w", "contents": {"sha256": "", "url": None, "serialized": contents}}]
    )
    with pytest.raises(InternalError, match="number of columns"):
        hand_client.tables()


@pytest.mark.parametrize("garbage", [b"", b"junk", packed({}), b"\xff\xff\xff\xff" * 10])
def test_garbage_for_statistics(wire: WireServer, hand_client: Client, garbage: bytes) -> None:
    table = wire.tables["t"]
    table.schema = table.schema.with_metadata({"can_produce_statistics": "1"})
    wire.replies["column_statistics"] = garbage
    with pytest.raises(InternalError, match="statistics"):
        hand_client.table("w.t").statistics("id")


@pytest.mark.parametrize("garbage", [b"junk", packed({}), packed({"constraints": 5})])
def test_garbage_for_check_constraints(
    wire: WireServer, hand_client: Client, garbage: bytes
) -> None:
    table = wire.tables["t"]
    table.schema = table.schema.with_metadata({"check_constraints": garbage})
    with pytest.raises(InternalError, match="check constraints"):
        _ = hand_client.table("w.t").check_constraints


def test_a_stream_that_is_not_a_stream(wire: WireServer, hand_client: Client) -> None:
    wire.stream = lambda: None
    with pytest.raises(LakeportError):
        hand_client.table("w.t").scan().to_arrow()


READERS: list[Callable[[bytes], Any]] = [
    read_bundle,
    read_catalog_root,
    read_contents,
    read_contents_ref,
    read_flight_description,
    read_endpoints,
    read_transaction,
    read_version,
]


@pytest.mark.parametrize("read", READERS)
@given(body=st.binary(max_size=300))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_are_read_or_refused(read: Callable[[bytes], Any], body: bytes) -> None:
    _read_or_refuse(read, body)


MSGPACK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=20)
    | st.sampled_from(["sha256", "url", "serialized", "contents", "schemas", "name"]),
    lambda children: st.lists(children, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["contents", "schemas", "version_info", "name", "tags", "sha256", "identifier",
             "catalog_version", "is_fixed", "serialized", "description"]
        ),
        children,
        max_size=6,
    ),
)  # fmt: skip


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("wrap", [bytes, container])
@given(value=MSGPACK)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_msgpack_is_read_or_refused(
    read: Callable[[bytes], Any], wrap: Callable[[bytes], bytes], value: Any
) -> None:
    _read_or_refuse(read, wrap(msgpack.packb(value)))


def _read_or_refuse(read: Callable[[bytes], Any], body: bytes) -> None:
    # Anything but this error fails the test.
    with suppress(InternalError):
        read(body)
