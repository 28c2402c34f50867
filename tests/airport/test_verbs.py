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
from tests.airport.rig import Serving, Wire, path
from tests.waiting import TIMEOUT_SECONDS

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


def _put(wire: Wire) -> Any:
    writer, reader = wire.client.do_put(path("s", "t"), COLUMNS, wire.options())
    writer.write_batch(pa.record_batch({"x": [1]}))
    writer.done_writing()
    reader.read()
    writer.close()


VERBS: dict[str, Callable[[Wire], Any]] = {
    "ListFlights": lambda wire: list(wire.client.list_flights(b"", wire.options())),
    "GetFlightInfo": lambda wire: wire.info(path("s", "t")),
    "GetFlightInfo of everything": lambda wire: wire.info(flight.FlightDescriptor.for_command(b"")),
    "GetSchema": lambda wire: wire.client.get_schema(path("s", "t"), wire.options()),
    "DoGet": lambda wire: wire.read(b'{"schema_name": "s", "table_name": "t"}'),
    "DoExchange": lambda wire: wire.change("insert", path("s", "t"), pa.table({"x": [1]})),
    "scalar function": lambda wire: wire.scalar(path("s", "f"), [pa.record_batch({"x": [1]})]),
    "DoAction": lambda wire: wire.list_schemas(),
    "custom action": lambda wire: wire.action("anything"),
    "ListActions": lambda wire: wire.client.list_actions(wire.options()),
}

REFUSED: dict[str, Callable[[Wire], Any]] = {
    "DoPut": _put,
    "Handshake": lambda wire: wire.client.authenticate(Shaking(), wire.options()),
    "Handshake with a password": lambda wire: wire.client.authenticate_basic_token("a", "b"),
    "unknown action": lambda wire: wire.action("no_such_action"),
    "CancelFlightInfo": lambda wire: wire.action("CancelFlightInfo", b"\x00"),
    "RenewFlightEndpoint": lambda wire: wire.action("RenewFlightEndpoint", b"\x00"),
    "SetSessionOptions": lambda wire: wire.action("SetSessionOptions", b"\x00"),
    "CloseSession": lambda wire: wire.action("CloseSession"),
    "GetFlightInfo of a command": lambda wire: wire.info(
        flight.FlightDescriptor.for_command(b"\x0a\x01SELECT 1")
    ),
    "GetSchema of a command": lambda wire: wire.client.get_schema(
        flight.FlightDescriptor.for_command(b"SELECT 1"), wire.options()
    ),
    "GetSchema of nothing": lambda wire: wire.client.get_schema(
        flight.FlightDescriptor.for_command(b""), wire.options()
    ),
    "DoGet of nonsense": lambda wire: wire.read(b"\xff\xfe"),
    "DoExchange of nothing": lambda wire: wire.client.do_exchange(path("s", "t"), wire.options())[
        1
    ].read_all(),
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
    serving: Serving, verb: Callable[[Wire], Any], fault: Exception
) -> None:
    wire = serving({"lake": FailingCatalog(fault)})

    with pytest.raises((pa.ArrowException, OSError, KeyError, KeyboardInterrupt)) as told:
        verb(wire)

    assert_clean(told.value)
    # pyarrow's client takes some cancelled calls for an interrupt by the keyboard.
    assert SENTENCE in str(told.value) or isinstance(told.value, KeyboardInterrupt)


@pytest.mark.parametrize("verb", REFUSED.values(), ids=REFUSED)
def test_what_a_verb_does_not_do_is_refused_in_a_sentence(
    serving: Serving, verb: Callable[[Wire], Any]
) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()

    with pytest.raises((pa.ArrowException, OSError, KeyError)) as told:
        verb(serving(catalog))

    assert_clean(told.value)


@pytest.mark.parametrize("verb", ALL.values(), ids=ALL)
def test_a_caller_who_may_nothing_is_refused_in_a_sentence(
    serving: Serving, verb: Callable[[Wire], Any]
) -> None:
    catalog = CatalogBuilder("lake").schema("s").table("t", pa.table({"x": [1]})).build()
    wire = serving(catalog, authorize=lambda access: False)

    try:
        verb(wire)
    except (pa.ArrowException, OSError, KeyError) as told:
        assert_clean(told)


@pytest.mark.parametrize("body", [b"", b"\x08\x01\x1a\x01s\x1a\x01t"], ids=["nothing", "a path"])
def test_a_verb_that_pyarrow_does_not_have_is_refused_in_a_sentence(
    serving: Serving, body: bytes
) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    grpc: Any = importlib.import_module("grpc")  # it has no types
    host = serving(catalog).server.location.removeprefix("grpc://")

    with grpc.insecure_channel(host) as channel:
        call = channel.unary_unary("/arrow.flight.protocol.FlightService/PollFlightInfo")
        with pytest.raises(grpc.RpcError) as told:
            call(body, timeout=TIMEOUT_SECONDS)

    codes = {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT}
    assert told.value.code() in codes
    assert_clean(Exception(told.value.details()))


def test_getschema_names_the_code_that_pyarrow_cannot_send(serving: Serving) -> None:
    catalog = CatalogBuilder("lake").schema("s").table("t", pa.table({"x": [1]})).build()
    wire = serving(catalog, authorize=lambda access: access.operation.value != "read")

    with pytest.raises(pa.ArrowException, match=r"you may not read lake\.s\.t.*PermissionDenied"):
        wire.client.get_schema(path("s", "t"), wire.options())
