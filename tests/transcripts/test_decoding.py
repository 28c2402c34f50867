"""Every request of every recording, decoded by the server's own decoders to the recorded values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.protocol.addresses import DATABASES, parse_descriptor
from lakeport.airport.protocol.codec import Struct, decode_struct, read_one_row, read_schema
from lakeport.airport.server.actions.metadata import decode_descriptor
from lakeport.filters import ColumnRef, Unsupported, parse_filter, walk
from tests.transcripts import recording
from tests.transcripts.recording import Rpc, Statement

# Controls of the recording server, which a user called with airport_action: their bodies are text.
CONTROLS = {"bump_version", "create_database", "echo", "nosuch_action", "seed_empty", "seed_err"}

SCHEMAS = {"arrow_schema", "column_schema", "table_input_schema"}
ONE_ROW = {"parameters", "table_function_parameters"}
DESCRIPTORS = {"descriptor", "flight_descriptor"}

# A BLOB descriptor of airport_take_flight arrives as escaped text, which names nothing.
UNREADABLE_COMMAND = rb"{\x22schema_name\x22: \x22s\x22, \x22table_name\x22: \x22t\x22}"


@pytest.mark.parametrize("name", recording.names())
def test_every_action_body_decodes_to_the_recorded_values(name: str) -> None:
    for where, rpc in _rpcs(name, "DoAction"):
        if rpc.action in CONTROLS:
            continue
        request = decode_struct(rpc.body, rpc.action)
        _check_fields(request, rpc.raw["body_decoded"], f"{where} {rpc.action}")


@pytest.mark.parametrize("name", recording.names())
def test_every_descriptor_names_the_recorded_object(name: str) -> None:
    for where, rpc in _rpcs(name, "DoExchange", "GetFlightInfo"):
        if UNREADABLE_COMMAND in rpc.descriptor:
            continue
        _check_descriptor(rpc.descriptor, rpc.raw["descriptor_decoded"], where)


@pytest.mark.parametrize("name", recording.names())
def test_every_exchange_announces_an_operation_and_decodes_its_messages(name: str) -> None:
    operations = {"insert", "update", "delete", "scalar_function", "table_function_in_out"}
    for where, rpc in _rpcs(name, "DoExchange"):
        assert rpc.header("airport-operation") in operations, where
        assert rpc.header("return-chunks") in {"0", "1"}, where
        sent = [message for message in rpc.messages if message.from_client]
        schema = next((message.schema for message in sent if message.schema is not None), None)
        for message in sent:
            if message.batch is not None:
                assert schema is not None, where
                assert message.batch.schema.equals(schema), where
                assert message.rows == message.batch.num_rows, where
            if message.metadata is not None:
                request = decode_struct(message.metadata, "parameters")
                _check_fields(request, message.raw["app_metadata_decoded"], where)


@pytest.mark.parametrize("name", recording.names())
def test_every_pushed_filter_parses_and_names_its_columns(name: str) -> None:
    for where, text in _filters(name):
        parsed = parse_filter(text)
        if not text:
            assert not parsed, where
            continue
        recorded = json.loads(text)
        assert len(parsed.conjuncts) >= len(recorded["filters"]), where
        names = recorded["column_binding_names_by_index"]
        expected = {names[index] for index in _column_indexes(recorded["filters"])}
        parts = [part for conjunct in parsed.conjuncts for part in walk(conjunct)]
        found = {part.name for part in parts if isinstance(part, ColumnRef)}
        if any(isinstance(part, Unsupported) for part in parts):
            assert found <= expected, where
        else:
            assert found == expected == set(parsed.columns), where


def test_the_recordings_are_all_here() -> None:
    """A decoder that is given nothing accepts everything."""
    requests = [rpc for name in recording.names() for _, rpc in _rpcs(name)]

    assert len(recording.names()) == 32
    assert len(requests) == 4467
    assert sum(rpc.action == "endpoints" for rpc in requests) > 500
    assert sum(rpc.method == "DoExchange" for rpc in requests) > 250
    assert sum(1 for name in recording.names() for _, text in _filters(name) if text) > 300


def _check_fields(request: Struct, recorded: Mapping[str, Any], where: str) -> None:
    for name, value in recorded.items():
        _check_field(request, name, value, f"{where}: {name}")


def _check_field(request: Struct, name: str, value: Any, where: str) -> None:
    if value is None:
        assert name not in request, where
    elif name in DESCRIPTORS:
        _check_descriptor(request.blob(name), value, where)
    elif value == "":
        assert request.text(name) == "", where
    elif name in SCHEMAS:
        assert _lines(read_schema(request.blob(name), where)) == value, where
    elif isinstance(value, Mapping):
        _check_map(request, name, value, where)
    elif isinstance(value, bool):
        assert request.flag(name) is value, where
    elif isinstance(value, str):
        assert request.text(name) == value, where
    elif all(isinstance(item, int) for item in value):
        assert request.integers(name) == value, where
    else:
        assert request.texts(name) == value, where


def _check_map(request: Struct, name: str, value: Mapping[str, Any], where: str) -> None:
    if name == "json_filters":
        assert json.loads(request.text(name)) == value, where
    elif "json_filters" in value:
        _check_fields(request.struct(name), value, where)
    elif name in ONE_ROW:
        batch = read_one_row(request.blob(name), where)
        assert _lines(batch.schema) == value["schema"], where
        assert [repr(row) for row in batch.to_pylist()] == value["rows"], where
    else:
        assert not value, where
        assert request.struct(name) is not None, where


def _check_descriptor(raw: bytes, recorded: Any, where: str) -> None:
    descriptor = decode_descriptor(raw)
    address = parse_descriptor(descriptor)
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        command = json.loads(bytes(descriptor.command))
        assert (address.schema, address.name) == (command["schema_name"], command["table_name"])
        return
    path = [part.decode() for part in descriptor.path]
    if isinstance(recorded, str):
        assert recorded == str(descriptor), where
    else:
        assert recorded["path"] == path, where
    if path == [DATABASES]:
        assert address.name == DATABASES
    else:
        named = [address.catalog, address.schema, address.name, address.tag]
        assert [part for part in named if part] == path, where


def _rpcs(name: str, *methods: str) -> Iterator[tuple[str, Rpc]]:
    for theme in recording.load(name):
        for statement, rpc in theme.rpcs:
            if not methods or rpc.method in methods:
                yield _where(statement, rpc), rpc


def _where(statement: Statement, rpc: Rpc) -> str:
    return f"statement {statement.number} ({statement.sql[:60]}), {rpc}"


def _filters(name: str) -> Iterator[tuple[str, str]]:
    for where, rpc in _rpcs(name, "DoAction", "DoExchange"):
        if rpc.action == "endpoints":
            parameters = decode_struct(rpc.body, "endpoints").struct("parameters")
            yield where, parameters.text("json_filters")
        elif rpc.header("airport-operation") == "table_function_in_out":
            metadata = next(m.metadata for m in rpc.messages if m.metadata is not None)
            yield where, decode_struct(metadata, "parameters").text("json_filters")


def _column_indexes(node: Any) -> Iterator[int]:
    if isinstance(node, Mapping):
        if node.get("expression_class") == "BOUND_COLUMN_REF":
            yield node["binding"]["column_index"]
        for value in node.values():
            yield from _column_indexes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _column_indexes(value)


def _lines(schema: pa.Schema) -> list[str]:
    return str(schema.to_string(show_field_metadata=True)).split("\n")
