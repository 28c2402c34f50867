"""The catalogs of the recording server as Lakeport catalogs, made from the recordings.

Definitions come from the recorded `list_schemas` replies, rows from the recorded scans.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import msgpack
import pyarrow as pa
from pyarrow import flight

from lakeport.airport.protocol.codec import decode_struct
from lakeport.airport.server.actions.metadata import descriptor_of
from lakeport.catalog import (
    CatalogBuilder,
    CatalogVersion,
    Endpoint,
    Partition,
    SchemaBuilder,
    StaticCatalog,
    StaticSchema,
    TransactionState,
)
from tests.transcripts import recording
from tests.transcripts.catalog_functions import add_functions
from tests.transcripts.catalog_tables import (
    BatchedTable,
    EndpointsTable,
    FailingTable,
    KeyedTable,
    UpdatableKeyedTable,
    reference_of,
)
from tests.transcripts.recording import Rpc
from tests.transcripts.reply_checks import Entry, Listing, check_list_schemas

__all__ = ["LiveCatalog", "TransactionalCatalog", "recorded_listing", "recorded_rows"]

# Themes whose scans show tables as they were at the start, the most complete first.
ROW_SOURCES = (
    "scan_projection",
    "filters_types",
    "filters_functions",
    "statistics",
    "endpoints_parallel",
    "errors",
    "attach",
    "update",
)


class LiveCatalog:
    """A catalog whose schemas do not change, which it promises only when told to."""

    def __init__(self, catalog: StaticCatalog, *, is_fixed: bool = False) -> None:
        self.name = catalog.name
        self.comment = catalog.comment
        self.version = 1
        self._is_fixed = is_fixed
        self._catalog = catalog

    def schemas(self) -> Sequence[StaticSchema]:
        return self._catalog.schemas()

    def schema(self, name: str) -> StaticSchema | None:
        return self._catalog.schema(name)

    def catalog_version(self) -> CatalogVersion:
        return CatalogVersion(self.version, self._is_fixed)


class TransactionalCatalog(LiveCatalog):
    """A catalog that numbers its transactions; nothing in it can change."""

    def __init__(self, catalog: StaticCatalog, *, is_fixed: bool = False) -> None:
        super().__init__(catalog, is_fixed=is_fixed)
        self.transactions: list[str] = []

    def begin_transaction(self) -> str:
        self.transactions.append(f"tx-{len(self.transactions)}")
        return self.transactions[-1]

    def commit_transaction(self, transaction_id: str) -> None:
        assert transaction_id in self.transactions

    def rollback_transaction(self, transaction_id: str) -> None:
        assert transaction_id in self.transactions

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        return TransactionState.ACTIVE if transaction_id in self.transactions else None


@cache
def recorded_listing(catalog: str = "db1", theme: str = "attach") -> Listing:
    """A catalog as the recording server listed it when the theme began."""
    for _, rpc in recording.load(theme)[0].rpcs:
        if rpc.action == "list_schemas" and _catalog_name(rpc) == catalog:
            return check_list_schemas(rpc.results[0], catalog)
    raise LookupError(f"{theme} does not list {catalog}")


@cache
def recorded_rows() -> dict[tuple[str, str], pa.Table]:
    """The rows of every table that was scanned, by schema and name."""
    rows: dict[tuple[str, str], pa.Table] = {}
    for name in ROW_SOURCES:
        for path, scan in _scans(name):
            rows.setdefault(path, scan)
    return rows


def build_catalog(
    name: str = "db1",
    *,
    location: Callable[[], str] = lambda: "",
    without: Sequence[str] = (),
) -> StaticCatalog:
    """A catalog equal to one of the recording server.

    `location` tells where the server listens, for tables whose endpoints say so; `without` names
    schemas that are made elsewhere.
    """
    listing = recorded_listing(name if name == "withmain" else "db1")
    builder = CatalogBuilder(name, comment=f"catalog {name}")
    for listed in listing.schemas:
        if listed.name in without:
            continue
        schema = builder.schema(listed.name, comment=listed.description, tags=listed.tags)
        for entry in listed.entries:
            if entry.kind == "table":
                _add_table(schema, entry, name, location)
        if listed.name == "utils":
            add_functions(schema)
    with warnings.catch_warnings():
        # One recorded catalog has a schema called main, to show that it cannot be used.
        warnings.simplefilter("ignore")
        return builder.build()


def _add_table(
    schema: SchemaBuilder, entry: Entry, catalog: str, location: Callable[[], str]
) -> None:
    rows = initial_rows(entry)
    match entry.schema_name, entry.name:
        case "ep", ("four" | "four_rowid"):
            schema.table(EndpointsTable.in_parts(entry.name, rows, 4))
        case "ep", ("zero" | "zero_rowid"):
            schema.table(EndpointsTable(entry.name, rows, list))
        case "ep", "host":
            here = _at(lambda: location().replace("127.0.0.1", "localhost"))
            schema.table(EndpointsTable(entry.name, rows, here))
        case "ep", "other":
            schema.table(EndpointsTable(entry.name, rows, _at(location)))
        case "ep", "smallbatches":
            schema.table(BatchedTable(entry.name, rows))
        case "ep", "zerobatch":
            schema.table(BatchedTable(entry.name, rows, with_empty=True))
        case "s", "no_rowid":
            schema.table(KeyedTable(entry.name, rows))
        case "s", ("rowid_first" | "rowid_str" | "rowid_struct" | "rowid_othername"):
            schema.table(UpdatableKeyedTable(entry.name, rows))
        case "errs", _:
            schema.table(FailingTable(entry.name, rows))
        case "remote_data", _:
            references = recorded_references()[entry.name]
            schema.table(EndpointsTable(entry.name, rows, lambda: references))
        case _:
            schema.table(
                entry.name,
                rows,
                comment=entry.comment or "",
                statistics=b"can_produce_statistics" in (entry.schema.metadata or {}),
            )


def initial_rows(entry: Entry) -> pa.Table:
    """The rows of a table before any statement; those that nobody read are made up or empty."""
    return _initial_rows(entry.schema_name, entry.name, entry.schema)


@cache
def _initial_rows(schema_name: str, name: str, columns: pa.Schema) -> pa.Table:
    known = recorded_rows()
    rows = known.get((schema_name, name))
    if schema_name == "ep" and name not in {"bigbatch", "zero", "zero_rowid"}:
        rows = known["ep", "host"]
        if len(columns) > len(rows.schema):
            rows = rows.append_column(columns.field(2), pa.array(range(rows.num_rows)))
    if schema_name == "errs":
        rows = known["errs", "exch_batch__servererror"]
    if name == "bigbatch":
        rows = pa.table([range(5000), [f"n{i}" for i in range(5000)]], schema=columns)
    if name == "big_chunk":
        rows = pa.table([range(100_000), range(100_000)], schema=columns)
    if rows is None:
        return pa.Table.from_batches([], columns)
    return rows.cast(columns)


@cache
def recorded_references() -> dict[str, list[Endpoint]]:
    """What the tables of `remote_data` refer to, by name."""
    found: dict[str, list[Endpoint]] = {}
    for theme in ("data_uri", "hazards"):
        for case in recording.load(theme):
            for _, rpc in case.rpcs:
                path = _path(rpc) if rpc.action == "endpoints" else ()
                if path[:1] == ("remote_data",) and rpc.results:
                    found.setdefault(path[1], [_reference(uri) for uri in _locations(rpc)])
    found["nyc_yellow_taxi"] = found["p1"]
    return found


def _locations(rpc: Rpc) -> list[str]:
    # Not by check_endpoints: one table was recorded with a form of URI that the client refuses.
    endpoints = [flight.FlightEndpoint.deserialize(e) for e in msgpack.unpackb(rpc.results[0])]
    return [endpoint.locations[0].uri.decode() for endpoint in endpoints]


def _reference(uri: str) -> Endpoint:
    return reference_of(uri) if uri.startswith("data:") else Partition(b"0:0")


def _at(location: Callable[[], str]) -> Callable[[], list[Endpoint]]:
    return lambda: [Partition(b"", location())]


def _scans(theme: str) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    paths: dict[str, tuple[str, ...]] = {}
    for _, rpc in recording.load(theme)[0].rpcs:
        trace = rpc.header("airport-trace-id")
        if rpc.action == "endpoints":
            paths[trace] = _path(rpc)
        elif rpc.method == "DoGet" and len(paths.get(trace, ())) == 2:
            batches = [m.batch for m in rpc.messages if m.batch is not None]
            schema = next((m.schema for m in rpc.messages if m.schema is not None), None)
            omitted = any(m.rows is not None and m.batch is None for m in rpc.messages)
            if schema is not None and not omitted and not rpc.error:
                schema_name, name = paths[trace]
                yield (schema_name, name), pa.Table.from_batches(batches, schema)


def _path(rpc: Rpc) -> tuple[str, ...]:
    descriptor = descriptor_of(decode_struct(rpc.body, rpc.action).blob("descriptor"))
    return tuple(part.decode() for part in descriptor.path)


def _catalog_name(rpc: Rpc) -> str:
    return decode_struct(rpc.body, rpc.action).text("catalog_name")
