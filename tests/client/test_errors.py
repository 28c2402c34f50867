"""Errors of a server, turned back into the tree of `lakeport.errors`."""

from __future__ import annotations

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import errors
from lakeport.airport import Server
from lakeport.airport.client import Client, connect
from lakeport.catalog import Action, CatalogBuilder, ScanOptions
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandwrittenServer

SCHEMA = pa.schema([("x", pa.int64())])

# What arrives when a server raises each error of the tree where DuckDB types can travel.
ARRIVING = [
    (errors.NotFoundError, errors.NotFoundError),
    (errors.AlreadyExistsError, errors.InvalidArgumentError),
    (errors.InvalidArgumentError, errors.InvalidArgumentError),
    (errors.MessageTooLargeError, errors.InvalidArgumentError),
    (errors.InvalidInputError, errors.InvalidInputError),
    (errors.NullRowIdError, errors.InvalidInputError),
    (errors.ConstraintError, errors.ConstraintError),
    (errors.SchemaNotEmptyError, errors.InvalidArgumentError),
    (errors.UnsupportedError, errors.UnsupportedError),
    (errors.UnauthenticatedError, errors.UnauthenticatedError),
    (errors.PermissionDeniedError, errors.PermissionDeniedError),
    (errors.UnavailableError, errors.UnavailableError),
    (errors.CancelledError, errors.CancelledError),
    (errors.InternalError, errors.InternalError),
]


@pytest.mark.parametrize(("raised", "arriving"), ARRIVING)
def test_errors_of_a_scan(
    attach_client: Attach, raised: type[errors.LakeportError], arriving: type[errors.LakeportError]
) -> None:
    def scan(options: ScanOptions) -> pa.Table:
        raise raised("one clear sentence: with details")

    client = attach_client(CatalogBuilder().schema("s").table("t", scan, schema=SCHEMA).build())
    with pytest.raises(arriving) as caught:
        client.table("s.t").scan().to_arrow()
    assert str(caught.value) == "one clear sentence: with details"


@pytest.mark.parametrize(("raised", "arriving"), ARRIVING)
def test_errors_of_an_action(
    attach_client: Attach, raised: type[errors.LakeportError], arriving: type[errors.LakeportError]
) -> None:
    def fail(body: bytes) -> None:
        raise raised("one clear sentence")

    if arriving in (errors.ConstraintError, errors.InvalidInputError):
        # Actions carry no DuckDB types.
        arriving = errors.InvalidArgumentError
    catalog = CatalogBuilder().schema("s").build()
    client = attach_client(catalog, actions=[Action("fail", fail)])
    with pytest.raises(arriving, match=r"^one clear sentence$"):
        client.action("fail")


@pytest.mark.parametrize(
    ("raised", "arriving", "message"),
    [
        (ValueError("bad value"), errors.InvalidArgumentError, "bad value"),
        (KeyError("no key"), errors.NotFoundError, "no key"),
        (NotImplementedError("not done"), errors.UnsupportedError, "not done"),
        (RuntimeError("broken"), errors.InternalError, "broken"),
        (flight.FlightServerError("failed"), errors.InternalError, "failed"),
        (flight.FlightTimedOutError("slow"), errors.UnavailableError, "slow"),
        (flight.FlightInternalError("inner. Detail: x"), errors.InternalError, "inner. Detail: x"),
        (flight.FlightCancelledError("gone"), errors.CancelledError, "gone"),
        (flight.FlightServerError("f", extra_info=b"\xc1"), errors.InternalError, "f"),
        (flight.FlightServerError("f", extra_info=b"{}"), errors.InternalError, "f"),
        (
            flight.FlightServerError(
                "f", extra_info=msgpack.packb({"exception_type": "Odd", "message": "m"})
            ),
            errors.InternalError,
            "f",
        ),
        (
            flight.FlightServerError(
                "f",
                extra_info=msgpack.packb(
                    {"exception_type": "ConstraintException", "message": "duplicate"}
                ),
            ),
            errors.ConstraintError,
            "duplicate",
        ),
    ],
)
def test_errors_of_other_servers_lose_their_noise(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    raised: Exception,
    arriving: type[Exception],
    message: str,
) -> None:
    handwritten_server.replies["fail"] = raised
    with pytest.raises(arriving) as caught:
        client_of_handwritten_server.action("fail")
    assert str(caught.value) == message
    assert caught.value.__cause__ is None


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with (
        connect("grpc://127.0.0.1:1") as client,
        pytest.raises(errors.UnavailableError, match="onnect"),
    ):
        client.schemas()


def test_tokens_open_the_door(attach_client: Attach) -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    with Server(catalog, auth={"good": "ada"}) as server:
        with connect(server.location, token="good") as client:
            assert client.table("s.t").scan().count() == 1
        for token in (None, "bad"):
            with (
                connect(server.location, token=token) as client,
                pytest.raises(errors.UnauthenticatedError),
            ):
                client.schemas()


def test_what_is_forbidden_is_denied() -> None:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    server = Server(
        catalog, auth={"good": "ada"}, authorize=lambda access: access.operation.value == "list"
    )
    with server, connect(server.location, token="good") as client:
        table = client.table("s.t")
        with pytest.raises(errors.PermissionDeniedError, match=r"you may not read s\.t"):
            table.scan().to_arrow()
