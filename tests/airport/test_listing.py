"""`list_schemas` and `catalog_version`: what DuckDB learns when it attaches."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport.server.listing import ListingCache
from lakeport.airport.server.routing import CatalogRoute
from lakeport.catalog import (
    ANY,
    CatalogBuilder,
    CatalogVersion,
    RequestContext,
    Stability,
    StaticCatalog,
    column,
    request_scope,
    rowid_field,
    with_check_constraints,
)
from tests.airport.flight_client import Serving, one_row, open_container
from tests.airport.mutable_catalog import MutableCatalog, MutableTable

COLUMNS = pa.schema([("x", pa.int64())])


@pytest.fixture
def catalog() -> StaticCatalog:
    builder = CatalogBuilder("shop")
    schema = builder.schema("sales", comment="What we sold", tags={"team": "red"})
    columns = pa.schema(
        [
            column("id", pa.int64(), nullable=False, comment="The key", default="42"),
            ("note", pa.string()),
            rowid_field(),
        ]
    )
    schema.table(
        "orders",
        columns.empty_table,
        schema=with_check_constraints(columns, ["id > 0"]),
        comment="All orders",
    )

    @schema.scalar_function(
        parameters={"x": pa.int64(), "any": ANY},
        returns=pa.string(),
        comment="Says so",
        stability=Stability.CONSISTENT,
    )
    def say(x: Any, any: Any = None) -> str:
        return "so"

    schema.table_function(
        "series",
        lambda stop, label="": COLUMNS.empty_table(),
        parameters={"stop": pa.int64(), "label": pa.string()},
        schema=COLUMNS,
        comment="Counts",
    )
    schema.table_function_in_out("echo", lambda rows: rows, schema=COLUMNS)
    builder.schema("empty")
    return builder.build()


def metadata(info: flight.FlightInfo) -> dict[str, Any]:
    found: dict[str, Any] = msgpack.unpackb(info.app_metadata)
    return found


def test_the_root_of_a_listing_has_every_field(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    root = start_server(catalog).list_schemas("shop")

    assert root["contents"] == {"sha256": "", "url": None, "serialized": None}
    assert root["version_info"] == {"catalog_version": 1, "is_fixed": True}
    assert [
        {key: value for key, value in entry.items() if key != "contents"}
        for entry in root["schemas"]
    ] == [
        {
            "name": "sales",
            "description": "What we sold",
            "tags": {"team": "red"},
            "is_default": True,
        },
        {"name": "empty", "description": "", "tags": {}, "is_default": False},
    ]


def test_the_contents_of_a_schema_are_inline_with_their_digest(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    for entry in start_server(catalog).list_schemas()["schemas"]:
        contents = entry["contents"]
        assert contents["url"] is None
        assert hashlib.sha256(contents["serialized"]).hexdigest() == contents["sha256"]


def test_an_empty_schema_has_an_empty_array(start_server: Serving, catalog: StaticCatalog) -> None:
    empty = start_server(catalog).list_schemas()["schemas"][1]

    assert open_container(empty["contents"]["serialized"]) == []


def test_a_table_is_published_with_all_that_duckdb_reads(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    info = start_server(catalog).items("sales", "shop")["orders"]

    assert metadata(info) == {
        "type": "table",
        "schema": "sales",
        "catalog": "shop",
        "name": "orders",
        "comment": "All orders",
        "input_schema": None,
        "action_name": None,
        "description": None,
        "extra_data": None,
    }
    assert info.schema.names == ["id", "note", "rowid"]
    assert info.schema.field("rowid").metadata == {b"is_rowid": b"1"}
    assert info.schema.field("id").metadata == {b"comment": b"The key", b"default": b"42"}
    assert not info.schema.field("id").nullable
    packed = info.schema.metadata[b"check_constraints"]
    assert msgpack.unpackb(packed) == {"constraints": ["id > 0"]}


def test_the_descriptor_of_a_table_finds_it_again(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    flight_client = start_server({"shop": catalog, "other": catalog})
    descriptor = flight_client.items("sales", "shop")["orders"].descriptor

    assert flight_client.scan(descriptor).schema.names == ["id", "note", "rowid"]


def test_descriptors_of_names_in_any_script_fit_into_a_header(start_server: Serving) -> None:
    builder = CatalogBuilder("100%")
    schema = builder.schema("Straße")
    schema.table("Füße", pa.table({"größe": [38]}))

    @schema.scalar_function(parameters={"x": pa.int64()}, returns=pa.int64())
    def plus(x: Any) -> Any:
        return x

    sizes = pa.table({"größe": [39]})
    schema.table_function("größen", lambda: sizes, parameters={}, schema=sizes.schema)
    flight_client = start_server(builder.build())
    found = flight_client.items("Straße", "100%")

    for info in found.values():
        assert all(32 <= byte < 127 for part in info.descriptor.path for byte in part)
    repeated = b"/".join(found["Füße"].descriptor.path).decode()
    as_duckdb = flight_client.with_headers(airport_flight_path=repeated, airport_catalog="100%")
    assert as_duckdb.scan(found["Füße"].descriptor).to_pylist() == [{"größe": 38}]
    rows = as_duckdb.scan(found["größen"].descriptor, arguments=one_row())
    assert rows.to_pylist() == [{"größe": 39}]
    batch = pa.RecordBatch.from_pydict({"x": [1]})
    assert as_duckdb.scalar(found["plus"].descriptor, [batch])[1][0].to_pylist() == [{"result": 1}]


def test_a_scalar_function_is_published_with_its_overloads(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    items = start_server(catalog).items("sales", "shop")
    longer, shorter = items["say"], items["say#2"]

    assert metadata(longer)["type"] == "scalar_function"
    assert metadata(longer)["description"] == "Says so"
    assert msgpack.unpackb(metadata(longer)["extra_data"]) == {"stability": "consistent"}
    assert longer.schema.types == [pa.string()]
    inputs = pa.ipc.read_schema(pa.py_buffer(metadata(longer)["input_schema"]))
    assert inputs.names == ["x", "any"]
    assert inputs.field("x").type == pa.int64()
    assert inputs.field("any").metadata == {b"is_any_type": b"1"}
    assert longer.descriptor != shorter.descriptor


def test_table_functions_are_published_with_the_kinds_of_their_parameters(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    items = start_server(catalog).items("sales", "shop")
    series, echo = metadata(items["series"]), metadata(items["echo"])

    assert (series["type"], echo["type"]) == ("table_function", "table_function")
    inputs = pa.ipc.read_schema(pa.py_buffer(series["input_schema"]))
    assert [(f.name, f.metadata) for f in inputs] == [
        ("stop", None),
        ("label", {b"is_named_parameter": b"1"}),
    ]
    rows = pa.ipc.read_schema(pa.py_buffer(echo["input_schema"]))
    assert rows.field(-1).metadata == {b"is_table_type": b"1"}
    assert series["extra_data"] is None


def test_the_catalog_in_a_listing_is_the_name_the_client_attached(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    unnamed = StaticCatalog(catalog.schemas())
    flight_client = start_server(unnamed)

    for name in ("", "lake", "Other"):
        assert {metadata(i)["catalog"] for i in flight_client.items("sales", name).values()} == {
            name
        }


def test_integers_and_flags_are_always_there(start_server: Serving) -> None:
    flight_client = start_server(MutableCatalog())

    version = msgpack.unpackb(flight_client.call("catalog_version", catalog_name=""))

    assert version == {"catalog_version": 0, "is_fixed": False}
    assert flight_client.list_schemas()["version_info"] == version


def test_the_version_of_a_catalog_grows_with_its_changes(start_server: Serving) -> None:
    catalog = MutableCatalog()
    flight_client = start_server(catalog)
    flight_client.call("create_schema", catalog_name="", schema="s")

    version = msgpack.unpackb(flight_client.call("catalog_version", catalog_name=""))

    assert version["catalog_version"] == 1


def test_a_catalog_that_neither_changes_nor_counts_has_a_fixed_version(
    start_server: Serving,
) -> None:
    class Plain:
        def schemas(self) -> list[Any]:
            return []

        def schema(self, name: str) -> None:
            return None

    class Changing(Plain):
        def create_schema(self, name: str, options: Any) -> Any: ...

        def drop_schema(self, name: str, options: Any) -> None: ...

    plain = msgpack.unpackb(start_server(Plain()).call("catalog_version"))
    changing = msgpack.unpackb(start_server(Changing()).call("catalog_version"))

    assert plain == {"catalog_version": 1, "is_fixed": True}
    assert changing["is_fixed"] is False


def test_a_new_object_is_in_the_next_listing(start_server: Serving) -> None:
    catalog = MutableCatalog()
    flight_client = start_server(catalog)
    assert flight_client.list_schemas()["schemas"] == []

    flight_client.call("create_schema", catalog_name="", schema="s")
    assert list(flight_client.items("s")) == []

    column_schema = COLUMNS.serialize().to_pybytes()
    flight_client.call("create_table", schema_name="s", table_name="t", arrow_schema=column_schema)
    assert list(flight_client.items("s")) == ["t"]


class Counted(StaticCatalog):
    """A catalog that counts how often it is listed, with a version of one's own choice."""

    def __init__(self) -> None:
        super().__init__([])
        self.listed = 0
        self.version = 1

    def schemas(self) -> Any:
        self.listed += 1
        return super().schemas()

    def catalog_version(self) -> CatalogVersion:
        return CatalogVersion(self.version)


def test_a_listing_is_made_once_per_version_name_and_caller() -> None:
    listings, catalog = ListingCache(), Counted()

    def ask(name: str = "a", identity: str = "") -> int:
        with request_scope(RequestContext(identity=identity)):
            listings.list_schemas(CatalogRoute(name, catalog))
        return catalog.listed

    assert (ask(), ask()) == (1, 1)
    assert (ask("b"), ask("b")) == (2, 2)
    assert (ask(identity="ada"), ask(identity="ada")) == (3, 3)
    catalog.version = 2
    assert (ask(), ask()) == (4, 4)


def test_a_listing_asks_for_the_version_once(start_server: Serving) -> None:
    asked: list[int] = []

    class Asked(StaticCatalog):
        def catalog_version(self) -> CatalogVersion:
            asked.append(1)
            return CatalogVersion(1)

    rows = pa.table({"x": [1]})
    schemas = CatalogBuilder().schema("s").table("t", rows).table("u", rows).build().schemas()
    flight_client = start_server(Asked(schemas))

    assert list(flight_client.items("s")) == ["t", "u"]
    assert len(asked) == 1
    assert len(list(flight_client.client.list_flights(b"", flight_client.options()))) == 2
    assert len(asked) == 2


def test_a_listing_inside_a_transaction_is_not_kept() -> None:
    # What a transaction has changed is for itself alone, whatever the version says.
    listings, catalog = ListingCache(), Counted()

    for _ in range(2):
        with request_scope(RequestContext(transaction_id="t1")):
            listings.list_schemas(CatalogRoute("a", catalog))
    listings.list_schemas(CatalogRoute("a", catalog))

    assert catalog.listed == 3


def test_only_so_many_listings_are_kept() -> None:
    listings, catalog = ListingCache(max_entries=2), Counted()

    for name in ("a", "b", "c", "b", "c", "a"):
        listings.list_schemas(CatalogRoute(name, catalog))

    assert catalog.listed == 4


def test_listings_of_a_removed_catalog_are_forgotten() -> None:
    listings, removed, kept = ListingCache(), Counted(), Counted()
    for catalog in (removed, kept):
        listings.list_schemas(CatalogRoute("a", catalog))

    listings.remove(removed)
    for catalog in (removed, kept):
        listings.list_schemas(CatalogRoute("a", catalog))

    assert (removed.listed, kept.listed) == (2, 1)


def test_a_catalog_without_versions_is_listed_anew() -> None:
    class Unversioned:
        listed = 0

        def schemas(self) -> list[Any]:
            self.listed += 1
            return []

        def schema(self, name: str) -> None:
            return None

    listings, catalog = ListingCache(), Unversioned()
    for _ in range(3):
        listings.list_schemas(CatalogRoute("a", catalog))

    assert catalog.listed == 3


def test_the_descriptor_of_a_changing_table_fixes_its_columns(start_server: Serving) -> None:
    catalog = MutableCatalog()
    table = catalog.with_table(MutableTable("t", COLUMNS))
    flight_client = start_server(catalog)
    before = flight_client.items("s")["t"].descriptor

    table.columns = COLUMNS.append(pa.field("y", pa.int64()))
    catalog.calls.append(("altered",))

    assert flight_client.items("s")["t"].descriptor != before


def test_cached_replies_are_bounded_by_their_bytes() -> None:
    listings, catalog = ListingCache(max_bytes=1), Counted()

    listings.list_schemas(CatalogRoute("", catalog))
    listings.list_schemas(CatalogRoute("", catalog))

    assert catalog.listed == 2
