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
from tests.client.handwritten_server import HandwrittenServer, catalog_root, container, packed

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
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    name: str,
    garbage: bytes,
) -> None:
    handwritten_server.replies[name] = garbage
    with pytest.raises(InternalError, match=r"cannot be decoded|did not describe"):
        QUESTIONS[name](client_of_handwritten_server)


@pytest.mark.parametrize("name", [*QUESTIONS, "create_transaction", "create_schema"])
def test_no_reply_at_all(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, name: str
) -> None:
    handwritten_server.replies[name] = []
    ask = QUESTIONS.get(name, _create_schema)
    with pytest.raises(InternalError, match=f"did not reply to {name}"):
        ask(client_of_handwritten_server)


def _create_schema(client: Client) -> None:
    client.create_schema("n")


def test_further_results_are_ignored(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    version = packed({"catalog_version": 3, "is_fixed": False})
    handwritten_server.replies["catalog_version"] = [version, b"more", b"\xff"]
    assert client_of_handwritten_server.catalog_version().version == 3


def test_results_without_end_are_cut_off(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["flood"] = lambda _: Flood()
    with pytest.raises(LakeportError, match="too large"):
        client_of_handwritten_server.action("flood")


class Flood(list[bytes]):
    """Results that never end."""

    def __iter__(self) -> Iterator[bytes]:
        while True:
            yield b"x"


def test_a_reply_that_unfolds_to_too_much_is_refused(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["list_schemas"] = packed([2**40, b"x"])
    with pytest.raises(InternalError, match="too large"):
        client_of_handwritten_server.schemas()


def test_too_many_columns_are_refused(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    schema = pa.schema([(f"c{i}", pa.int8()) for i in range(20_000)])
    info = flight.FlightInfo(schema, flight.FlightDescriptor.for_path("w", "t"), [], -1, -1)
    contents = container(packed([info.serialize()]))
    handwritten_server.replies["list_schemas"] = catalog_root(
        [{"name": "w", "contents": {"sha256": "", "url": None, "serialized": contents}}]
    )
    with pytest.raises(InternalError, match="number of columns"):
        client_of_handwritten_server.tables()


@pytest.mark.parametrize("garbage", [b"", b"junk", packed({}), b"\xff\xff\xff\xff" * 10])
def test_garbage_for_statistics(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, garbage: bytes
) -> None:
    table = handwritten_server.tables["t"]
    table.schema = table.schema.with_metadata({"can_produce_statistics": "1"})
    handwritten_server.replies["column_statistics"] = garbage
    with pytest.raises(InternalError, match="statistics"):
        client_of_handwritten_server.table("w.t").statistics("id")


@pytest.mark.parametrize("garbage", [b"junk", packed({}), packed({"constraints": 5})])
def test_garbage_for_check_constraints(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, garbage: bytes
) -> None:
    table = handwritten_server.tables["t"]
    table.schema = table.schema.with_metadata({"check_constraints": garbage})
    with pytest.raises(InternalError, match="check constraints"):
        _ = client_of_handwritten_server.table("w.t").check_constraints


def test_a_stream_that_is_not_a_stream(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.stream = lambda: None
    with pytest.raises(LakeportError):
        client_of_handwritten_server.table("w.t").scan().to_arrow()


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
