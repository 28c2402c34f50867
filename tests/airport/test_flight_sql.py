"""Clients of Flight SQL: each of their calls gets one clear sentence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.catalog import CatalogBuilder

SENTENCE = "Flight SQL is not supported, this server implements the Airport protocol"
COMMANDS = ["CommandGetSqlInfo", "CommandStatementQuery", "CommandGetTables", "CommandGetCatalogs"]


def packed(command: str, value: bytes = b"\x0a\x08SELECT 1") -> bytes:
    """A `google.protobuf.Any` as a Flight SQL client writes it."""
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{command}".encode()
    return b"".join([b"\x0a", bytes([len(url)]), url, b"\x12", bytes([len(value)]), value])


@pytest.fixture(scope="module")
def client() -> Any:
    catalog = CatalogBuilder().schema("s").table("t", pa.table({"x": [1]})).build()
    with Server(catalog) as server, flight.connect(server.location) as client:
        yield client


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("verb", ["get_flight_info", "get_schema"])
def test_commands_are_refused_with_a_sentence(client: Any, command: str, verb: str) -> None:
    descriptor = flight.FlightDescriptor.for_command(packed(command))

    with pytest.raises(pa.ArrowNotImplementedError, match=SENTENCE):
        getattr(client, verb)(descriptor)


def test_a_ticket_is_refused_with_a_sentence(client: Any) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match=SENTENCE):
        client.do_get(flight.Ticket(packed("TicketStatementQuery"))).read_all()


@pytest.mark.parametrize("action", ["CreatePreparedStatement", "BeginTransaction"])
def test_actions_are_refused_with_a_sentence(client: Any, action: str) -> None:
    with pytest.raises(pa.ArrowNotImplementedError, match=SENTENCE):
        list(client.do_action(flight.Action(action, packed(f"Action{action}Request"))))


def test_an_update_is_refused_with_a_sentence(client: Any) -> None:
    descriptor = flight.FlightDescriptor.for_command(packed("CommandStatementUpdate"))

    def write() -> None:
        writer, reader = client.do_put(descriptor, pa.schema([]))
        writer.done_writing()
        reader.read()
        writer.close()

    with pytest.raises(pa.ArrowNotImplementedError, match=SENTENCE):
        write()


def test_a_table_whose_name_is_like_a_type_can_be_described(client: Any) -> None:
    text = b'{"schema_name": "s", "table_name": "t", "note": "arrow.flight.protocol.sql."}'

    assert client.get_flight_info(flight.FlightDescriptor.for_command(text)).schema.names == ["x"]
