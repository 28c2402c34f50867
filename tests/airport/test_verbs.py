"""Every Flight verb answers a fault with one sentence: no traceback, no path of the server."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import errors
from lakeport.catalog import Action, CatalogBuilder, ScanOptions
from tests.airport.flight_client import RawFlightClient, Serving, path
from tests.wait import TIMEOUT_SECONDS

SENTENCE = "the sentence of this error"
COLUMNS = pa.schema([("x", pa.int64())])


class Failing:
    """A table that fails wherever it is touched."""

    name = "t"
    comment = ""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def arrow_schema(self, columns: Any = None) -> pa.Schema:
        raise self._error

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        raise self._error


class FailingSchema:
    """A schema with such a table, which cannot be built, since building looks at its columns."""

    name = "s"
    comment = ""

    def __init__(self, error: Exception) -> None:
        self._table = Failing(error)

    def tables(self) -> list[Failing]:
        return [self._table]

    def table(self, name: str) -> Failing:
        return self._table

    def scalar_functions(self) -> list[Any]:
        raise self._table._error

    def table_functions(self) -> list[Any]:
        raise self._table._error

    def table_functions_in_out(self) -> list[Any]:
        raise self._table._error


class FailingCatalog:
    """A catalog with that schema, and an action that fails."""

    def __init__(self, error: Exception) -> None:
        self._schema = FailingSchema(error)

    def schemas(self) -> list[FailingSchema]:
        return [self._schema]

    def schema(self, name: str) -> FailingSchema:
        return self._schema

    def actions(self) -> list[Action]:
        raise self._schema._table._error


class Shaking(flight.ClientAuthHandler):  # type: ignore[misc]
    """Says something in a Handshake, and reads the answer."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        outgoing.write(b"hello")
        incoming.read()

    def get_token(self) -> bytes:
        return b""


def _put(flight_client: RawFlightClient) -> Any:
    writer, reader = flight_client.client.do_put(path("s", "t"), COLUMNS, flight_client.options())
    writer.write_batch(pa.record_batch({"x": [1]}))
    writer.done_writing()
    reader.read()
    writer.close()


VERBS: dict[str, Callable[[RawFlightClient], Any]] = {
    "ListFlights": lambda flight_client: list(
        flight_client.client.list_flights(b"", flight_client.options())
    ),
    "GetFlightInfo": lambda flight_client: flight_client.info(path("s", "t")),
    "GetFlightInfo of everything": lambda flight_client: flight_client.info(
        flight.FlightDescriptor.for_command(b"")
    ),
    "GetSchema": lambda flight_client: flight_client.client.get_schema(
        path("s", "t"), flight_client.options()
    ),
    "DoGet": lambda flight_client: flight_client.read(b'{"schema_name": "s", "table_name": "t"}'),
    "DoExchange": lambda flight_client: flight_client.change(
        "insert", path("s", "t"), pa.table({"x": [1]})
    ),
    "scalar function": lambda flight_client: flight_client.scalar(
        path("s", "f"), [pa.record_batch({"x": [1]})]
    ),
    "DoAction": lambda flight_client: flight_client.list_schemas(),
    "custom action": lambda flight_client: flight_client.action("anything"),
    "ListActions": lambda flight_client: flight_client.client.list_actions(flight_client.options()),
}

REFUSED: dict[str, Callable[[RawFlightClient], Any]] = {
    "DoPut": _put,
    "Handshake": lambda flight_client: flight_client.client.authenticate(
        Shaking(), flight_client.options()
    ),
    "Handshake with a password": lambda flight_client: (
        flight_client.client.authenticate_basic_token("a", "b")
    ),
    "unknown action": lambda flight_client: flight_client.action("no_such_action"),
    "CancelFlightInfo": lambda flight_client: flight_client.action("CancelFlightInfo", b"\x00"),
    "RenewFlightEndpoint": lambda flight_client: flight_client.action(
        "RenewFlightEndpoint", b"\x00"
    ),
    "SetSessionOptions": lambda flight_client: flight_client.action("SetSessionOptions", b"\x00"),
    "CloseSession": lambda flight_client: flight_client.action("CloseSession"),
    "GetFlightInfo of a command": lambda flight_client: flight_client.info(
        flight.FlightDescriptor.for_command(b"\x0a\x01SELECT 1")
    ),
    "GetSchema of a command": lambda flight_client: flight_client.client.get_schema(
        flight.FlightDescriptor.for_command(b"SELECT 1"), flight_client.options()
    ),
    "GetSchema of nothing": lambda flight_client: flight_client.client.get_schema(
        flight.FlightDescriptor.for_command(b""), flight_client.options()
    ),
    "DoGet of nonsense": lambda flight_client: flight_client.read(b"\xff\xfe"),
    "DoExchange of nothing": lambda flight_client: flight_client.client.do_exchange(
        path("s", "t"), flight_client.options()
    )[1].read_all(),
}

ALL = VERBS | REFUSED

FAULTS: list[Exception] = [
    errors.NotFoundError(SENTENCE),
    errors.InvalidArgumentError(SENTENCE),
    errors.InvalidInputError(SENTENCE),
    errors.UnsupportedError(SENTENCE),
    errors.UnauthenticatedError(SENTENCE),
    errors.PermissionDeniedError(SENTENCE),
    errors.UnavailableError(SENTENCE),
    errors.CancelledError(SENTENCE),
    errors.InternalError(SENTENCE),
    RuntimeError(SENTENCE),
    KeyError(SENTENCE),
    OSError(SENTENCE),
    pa.ArrowInvalid(SENTENCE),
    flight.FlightServerError(SENTENCE),
    flight.FlightUnavailableError(SENTENCE),
]


def assert_clean(told: BaseException) -> None:
    text = str(told)
    assert "Traceback" not in text
    assert ".py" not in text
    assert "site-packages" not in text
    assert "lakeport/" not in text


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_fault_of_a_catalog_is_a_sentence_in_every_verb(
    start_server: Serving, verb: Callable[[RawFlightClient], Any], fault: Exception
) -> None:
    flight_client = start_server({"lake": FailingCatalog(fault)})

    with pytest.raises((pa.ArrowException, OSError, KeyError, KeyboardInterrupt)) as told:
        verb(flight_client)

    assert_clean(told.value)
    # pyarrow's client takes some cancelled calls for an interrupt by the keyboard.
    assert SENTENCE in str(told.value) or isinstance(told.value, KeyboardInterrupt)


@pytest.mark.parametrize("verb", REFUSED.values(), ids=REFUSED)
def test_what_a_verb_does_not_do_is_refused_in_a_sentence(
    start_server: Serving, verb: Callable[[RawFlightClient], Any]
) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()

    with pytest.raises((pa.ArrowException, OSError, KeyError)) as told:
        verb(start_server(catalog))

    assert_clean(told.value)


@pytest.mark.parametrize("verb", ALL.values(), ids=ALL)
def test_a_caller_who_may_nothing_is_refused_in_a_sentence(
    start_server: Serving, verb: Callable[[RawFlightClient], Any]
) -> None:
    catalog = CatalogBuilder("lake").schema("s").table("t", pa.table({"x": [1]})).build()
    flight_client = start_server(catalog, authorize=lambda access: False)

    try:
        verb(flight_client)
    except (pa.ArrowException, OSError, KeyError) as told:
        assert_clean(told)


@pytest.mark.parametrize("body", [b"", b"\x08\x01\x1a\x01s\x1a\x01t"], ids=["nothing", "a path"])
def test_a_verb_that_pyarrow_does_not_have_is_refused_in_a_sentence(
    start_server: Serving, body: bytes
) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    grpc: Any = importlib.import_module("grpc")  # it has no types
    host = start_server(catalog).server.location.removeprefix("grpc://")

    with grpc.insecure_channel(host) as channel:
        call = channel.unary_unary("/arrow.flight.protocol.FlightService/PollFlightInfo")
        with pytest.raises(grpc.RpcError) as told:
            call(body, timeout=TIMEOUT_SECONDS)

    codes = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT}
    assert told.value.code() in codes
    assert_clean(Exception(told.value.details()))


def test_getschema_names_the_code_that_pyarrow_cannot_send(start_server: Serving) -> None:
    catalog = CatalogBuilder("lake").schema("s").table("t", pa.table({"x": [1]})).build()
    flight_client = start_server(catalog, authorize=lambda access: access.operation.value != "read")

    with pytest.raises(pa.ArrowException, match=r"you may not read lake\.s\.t.*PermissionDenied"):
        flight_client.client.get_schema(path("s", "t"), flight_client.options())
