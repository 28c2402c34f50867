"""Replies that crash, hang or mislead the client: the server sends none, whatever catalogs do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.catalog import (
    Catalog,
    CatalogBuilder,
    ColumnStats,
    FunctionReference,
    ScanOptions,
    project_schema,
)
from lakeport.errors import DefinitionError
from tests.transcripts import exchanges, recording, reply_checks
from tests.transcripts.recording import Message, Rpc, Theme
from tests.transcripts.replay import Replay
from tests.transcripts.replay_client import Answers, CallFailedError, ReplayClient
from tests.transcripts.servers import Backend, serve

COLUMNS = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())])
ROWS = pa.table([[1, 2, 3], ["a", "b", None], [0.5, 1.5, None]], schema=COLUMNS)
OTHER_LAYOUTS = pa.schema(
    [("id", pa.int32()), ("name", pa.large_string()), ("amount", pa.float32())]
)
NUMBERS = pa.schema([("i", pa.int64())])

Rows = Callable[[ScanOptions], Any]


@pytest.mark.parametrize("case", recording.load("hazards"), ids=lambda case: case.note)
def test_a_recorded_hazard_is_answered_acceptably(case: Theme) -> None:
    with (
        serve("hazards", Backend.MEMORY) as server,
        Replay(ReplayClient(server.location), first_version=1) as replay,
    ):
        for statement in case.statements:
            replay.run(statement, compare=False)


def test_every_recorded_crash_and_hang_is_replayed() -> None:
    cases = recording.load("hazards")

    assert len(cases) == 35
    outcomes = [statement.outcome for case in cases for statement in case.statements]
    dead = [o for o in outcomes if o.error.startswith(("client process ended", "no answer"))]
    assert len(dead) == 12


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(lambda options: ROWS.select(["id"]), id="narrower"),
        pytest.param(lambda options: ROWS.select(["amount", "name", "id"]), id="another order"),
        pytest.param(
            lambda options: ROWS.cast(OTHER_LAYOUTS),
            id="other layouts",
        ),
        pytest.param(
            lambda options: [ROWS.to_batches()[0].slice(0, 0), *ROWS.to_batches()],
            id="empty batches",
        ),
        pytest.param(
            lambda options: ROWS.append_column("more", pa.array([1, 2, 3])), id="a column too many"
        ),
    ],
)
def test_a_scan_has_the_columns_that_were_announced(rows: Rows) -> None:
    builder = CatalogBuilder()
    builder.schema("s").table("t", rows, schema=COLUMNS)

    with _served(builder.build()) as wire:
        table = _scan(wire, ["s", "t"], COLUMNS, column_ids=[0])

    assert table.column("id").to_pylist() == [1, 2, 3]


def test_columns_that_nobody_reads_are_null_even_when_they_must_not_be() -> None:
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    rows = pa.table([[1, 2], ["a", "b"]], schema=columns)
    builder = CatalogBuilder()
    builder.schema("s").table("t", rows)

    with _served(builder.build()) as wire:
        table = _scan(wire, ["s", "t"], columns, column_ids=[1])

    assert table.column("name").to_pylist() == ["a", "b"]
    assert table.column("id").null_count == 2


def test_a_scan_that_lacks_a_column_which_is_read_fails_instead_of_crashing_the_client() -> None:
    builder = CatalogBuilder()
    builder.schema("s").table("t", lambda options: ROWS.select(["id"]), schema=COLUMNS)

    with _served(builder.build()) as wire, pytest.raises(CallFailedError, match="no column 'name'"):
        _scan(wire, ["s", "t"], COLUMNS, column_ids=[0, 1])


def test_dictionaries_are_sent_with_their_values() -> None:
    letters = pa.array(["x", "y", "x"]).dictionary_encode()
    rows = pa.table({"d": letters})
    builder = CatalogBuilder()
    builder.schema("s").table("t", rows)

    with _served(builder.build()) as wire:
        table = _scan(wire, ["s", "t"], rows.schema, column_ids=[0])

    assert table.column("d").to_pylist() == ["x", "y", "x"]


def test_statistics_are_not_offered_where_the_client_would_fail() -> None:
    class Known:
        """A table that knows its columns."""

        name = "t"
        comment = ""

        def __init__(self, columns: pa.Schema) -> None:
            self._columns = columns

        def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
            return project_schema(self._columns, columns)

        def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(self._columns, [])

        def column_statistics(self, column: str, duckdb_type: str) -> ColumnStats:
            return ColumnStats()

    rowid = pa.field("rowid", pa.int64(), metadata={"is_rowid": "1"})
    for offered, fields in {
        True: [pa.field("a", pa.string()), rowid],
        False: [pa.field("a", pa.string()), pa.field("i", pa.month_day_nano_interval()), rowid],
        None: [rowid, pa.field("a", pa.string())],
    }.items():
        builder = CatalogBuilder()
        builder.schema("s").table(Known(pa.schema(fields)))
        with _served(builder.build()) as wire:
            (entry,) = _listing(wire).entries.values()
            reply_checks.check_advertised_statistics(entry)
            metadata = entry.schema.metadata or {}
            assert bool(metadata.get(b"can_produce_statistics")) is bool(offered)
            if offered:
                # Nothing is known, but a null bound of a text would be read as the text NULL.
                reply_checks.check_statistics(_statistics(wire, ["s", "t"], "a"), pa.string())


def test_a_reference_cannot_have_a_row_identifier() -> None:
    """The client fails for good when it counts the rows of such a table."""
    rowid = pa.field("rowid", pa.int64(), metadata={"is_rowid": "1"})
    builder = CatalogBuilder()
    builder.schema("s").reference_table(
        "t", FunctionReference("read_parquet", ("a.parquet",)), schema=COLUMNS.append(rowid)
    )

    with pytest.raises(DefinitionError, match="rowid"):
        builder.build()


@pytest.mark.parametrize("rows", [0, 1, 2047, 2048, 2049, 4096])
def test_an_in_out_answer_never_ends_on_a_full_chunk(rows: int) -> None:
    def count(received: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for _ in received:
            yield pa.RecordBatch.from_arrays([pa.array(range(rows))], schema=NUMBERS)
        yield pa.RecordBatch.from_arrays([pa.array(range(rows))], schema=NUMBERS)

    builder = CatalogBuilder()
    builder.schema("s").table_function_in_out("f", count, schema=NUMBERS)
    one = pa.RecordBatch.from_arrays([pa.array([1])], schema=NUMBERS)

    with _served(builder.build()) as wire:
        answers, rpc = _call_in_out(wire, ["s", "f"], [one, one])

    exchanges.same_in_out_answers(answers, rpc, values=False)
    assert [sum(c.batch.num_rows for c in chunks if c.batch) for chunks in answers.per_batch] == [
        rows,
        rows,
    ]


def test_a_scalar_function_that_forgets_rows_is_an_error() -> None:
    builder = CatalogBuilder()
    schema = builder.schema("s")
    schema.scalar_function(
        "f", lambda a: a.slice(0, 1), parameters={"a": pa.int64()}, returns=pa.int64()
    )
    rows = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})

    with (
        _served(builder.build()) as wire,
        pytest.raises(CallFailedError, match="1 value for 3 rows"),
    ):
        _call_scalar(wire, ["s", "f"], rows)


def test_a_scalar_function_answers_in_the_declared_type() -> None:
    builder = CatalogBuilder()
    schema = builder.schema("s")
    schema.scalar_function(
        "f", lambda a: a.cast(pa.int16()), parameters={"a": pa.int64()}, returns=pa.int64()
    )
    rows = pa.RecordBatch.from_pydict({"a": [1, 2, 3]})

    with _served(builder.build()) as wire:
        answers, rpc = _call_scalar(wire, ["s", "f"], rows)
        (declared,) = _listing(wire).entries.values()

    exchanges.same_scalar_answers(answers, rpc, declared, values=False)


@pytest.mark.parametrize(
    "action",
    ["create_transaction", "catalog_version", "list_schemas"],
)
def test_an_action_that_the_client_dereferences_has_a_result(action: str) -> None:
    builder = CatalogBuilder()
    builder.schema("s")

    with _served(builder.build()) as wire:
        results = wire.action(action, msgpack.packb({"catalog_name": "db"}), {})

    reply_checks.check_one_result(results, action)


@contextmanager
def _served(catalog: Catalog) -> Iterator[ReplayClient]:
    with Server({"db": catalog}) as server:
        wire = ReplayClient(server.location)
        try:
            yield wire
        finally:
            wire.close()


def _scan(
    wire: ReplayClient, path: Sequence[str], columns: pa.Schema, *, column_ids: Sequence[int]
) -> pa.Table:
    request = {
        "descriptor": flight.FlightDescriptor.for_path(*path).serialize(),
        "parameters": {
            "json_filters": "",
            "column_ids": list(column_ids),
            "table_function_parameters": b"",
            "table_function_input_schema": b"",
            "at_unit": "",
            "at_value": "",
        },
    }
    body = msgpack.packb(request, use_bin_type=False)
    (endpoint,) = reply_checks.check_endpoints(wire.action("endpoints", body, {})[0])
    return reply_checks.check_stream(wire.get(endpoint.ticket, {}), columns)


def _listing(wire: ReplayClient) -> reply_checks.Listing:
    body = msgpack.packb({"catalog_name": "db"})
    return reply_checks.check_list_schemas(wire.action("list_schemas", body, {})[0], "db")


def _statistics(wire: ReplayClient, path: Sequence[str], column: str) -> bytes:
    request = {
        "flight_descriptor": flight.FlightDescriptor.for_path(*path).serialize(),
        "column_name": column,
        "type": "VARCHAR",
    }
    results = wire.action("column_statistics", msgpack.packb(request, use_bin_type=False), {})
    return reply_checks.check_one_result(results, "column_statistics")


def _call_scalar(
    wire: ReplayClient, path: Sequence[str], rows: pa.RecordBatch
) -> tuple[Answers, Rpc]:
    messages = (Message(True, schema=rows.schema), Message(True, batch=rows, rows=rows.num_rows))
    return _exchange(wire, path, "scalar_function", messages)


def _call_in_out(
    wire: ReplayClient, path: Sequence[str], batches: Sequence[pa.RecordBatch]
) -> tuple[Answers, Rpc]:
    arguments = pa.BufferOutputStream()
    with pa.ipc.new_stream(arguments, pa.schema([])) as writer:
        writer.write_batch(pa.RecordBatch.from_pylist([{}], schema=pa.schema([])))
    parameters = {
        "json_filters": "",
        "column_ids": [],
        "parameters": arguments.getvalue().to_pybytes(),
        "at_unit": "",
        "at_value": "",
    }
    messages = (
        Message(True, metadata=msgpack.packb(parameters, use_bin_type=False)),
        Message(True, schema=batches[0].schema),
        *(Message(True, batch=batch, rows=batch.num_rows) for batch in batches),
    )
    return _exchange(wire, path, "table_function_in_out", messages)


def _exchange(
    wire: ReplayClient, path: Sequence[str], operation: str, messages: tuple[Message, ...]
) -> tuple[Answers, Rpc]:
    descriptor = flight.FlightDescriptor.for_path(*path)
    headers = {"airport-operation": [operation], "return-chunks": ["1"]}
    rpc = Rpc("DoExchange", headers, descriptor=descriptor.serialize(), messages=messages)
    return wire.exchange(rpc, descriptor, headers).finish(), rpc
