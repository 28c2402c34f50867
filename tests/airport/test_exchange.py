"""Exchanges: when an error is sent, how often they are routed, how they end with the server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakeport.airport.protocol.addresses import Address
from lakeport.airport.protocol.limits import DEFAULT_LIMITS
from lakeport.airport.server.headers import Call
from lakeport.airport.server.idle import IdleStreams
from lakeport.airport.server.routing import NO_CATALOG, CatalogRoute
from lakeport.airport.server.verbs import exchange_dml
from lakeport.airport.server.verbs.do_exchange import Exchange
from lakeport.airport.server.verbs.exchange_functions import (
    call_in_out_function,
    call_scalar_function,
)
from lakeport.errors import InvalidArgumentError, NotFoundError
from tests.airport.flight_client import Serving, path
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

COLUMNS = pa.schema([("x", pa.int64())])

HANDLERS: dict[str, Callable[[Any, Any], None]] = {
    "insert": exchange_dml.insert,
    "update": exchange_dml.update,
    "delete": exchange_dml.delete,
    "scalar function": call_scalar_function,
    "in-out function": call_in_out_function,
}


@pytest.mark.parametrize("handle", HANDLERS.values(), ids=HANDLERS)
def test_nothing_is_refused_before_the_client_has_sent_its_columns(
    handle: Callable[[Any, Any], None],
) -> None:
    # The client would receive the error while it writes, and lose its type.
    happened: list[str] = []

    class Refusing:
        host = SimpleNamespace(limits=DEFAULT_LIMITS)

        def read_metadata(self) -> bytes:
            return b"not msgpack"

        def input_schema(self) -> pa.Schema:
            happened.append("columns")
            return COLUMNS

        address = Address("s", "t")
        after_columns = Exchange.after_columns

    route = CatalogRoute("", NO_CATALOG)
    with pytest.raises((NotFoundError, InvalidArgumentError)):
        handle(Refusing(), route)
    assert happened == ["columns"]


def test_a_stopping_server_does_not_wait_for_the_rest_of_the_input() -> None:
    stopping = threading.Event()
    read: list[int] = []

    class Endless:
        def read_chunk(self) -> None:
            read.append(len(read))
            assert len(read) < 10
            if len(read) == 3:
                stopping.set()

    host: Any = SimpleNamespace(stopping=stopping, idle=IdleStreams())
    exchange = Exchange(host, Call({}), Address("s", "t"), None, Endless(), None)
    exchange.drain()
    exchange.close()
    host.idle.close()

    assert len(read) == 3


def test_a_client_that_goes_on_writing_cannot_hold_up_the_stop(start_server: Serving) -> None:
    catalog = MutableCatalog()
    catalog.with_table(MutableTable("t", COLUMNS, []))
    flight_client = start_server(catalog)
    batch = pa.record_batch({"x": [1]})
    ended: list[bool] = []

    stop = threading.Thread(target=lambda: ended.append(flight_client.server.stop(grace=10)))
    with (
        pytest.raises(pa.ArrowException),
        flight_client.open_exchange(path("s", "t"), "insert", return_chunks="0") as (
            writer,
            reader,
        ),
    ):
        writer.begin(batch.schema)
        assert reader.schema == COLUMNS
        writer.write_batch(batch)
        stop.start()
        while stop.is_alive():
            writer.write_batch(batch)
        reader.read_chunk()
    stop.join()

    assert ended == [True]
