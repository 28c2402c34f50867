"""What a client learns of a catalog."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from lakeport.airport.client import Client, FunctionKind
from lakeport.catalog import (
    ANY,
    CatalogBuilder,
    CatalogVersion,
    ParameterKind,
    Stability,
    StaticCatalog,
    column,
    rowid_field,
    with_check_constraints,
)
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from tests.client.conftest import Attach
from tests.client.handwritten_server import (
    NO_CONTENTS,
    HandwrittenServer,
    catalog_root,
    flight_info,
    packed,
)


@pytest.fixture
def shop() -> StaticCatalog:
    columns = pa.schema(
        [
            column("Id", pa.int64(), nullable=False, comment="the key"),
            column("name", pa.string(), default="'new'"),
            rowid_field("row", pa.int32()),
        ]
    )
    columns = with_check_constraints(columns, ["Id > 0"])
    items = pa.table({"Id": [1, 2], "name": ["a", "b"], "row": pa.array([7, 8], pa.int32())})
    builder = CatalogBuilder()
    schema = builder.schema("Shop", comment="What we sell", tags={"team": "sales"})
    schema.table("Items", items.cast(columns), comment="All items", statistics=True)
    schema.table("plain", pa.table({"x": [1]}))
    schema.scalar_function(
        "twice",
        lambda x: x,
        parameters={"x": ANY},
        returns=pa.int64(),
        comment="Doubles",
        stability=Stability.CONSISTENT,
    )
    schema.table_function(
        "rows",
        lambda n, label="a": pa.table({"i": range(n)}),
        parameters={"n": pa.int64(), "label": pa.string()},
        schema=pa.schema([("i", pa.int64())]),
    )
    schema.table_function_in_out("echo", lambda rows: rows, schema=lambda schema: schema)
    builder.schema("other").table("plain", pa.table({"y": [1]}))
    return builder.build()


@pytest.fixture
def client(attach_client: Attach, shop: StaticCatalog) -> Client:
    return attach_client(shop)


def test_schemas_have_comments_and_tags(client: Client) -> None:
    schema = client.schemas()[0]
    assert (schema.name, schema.comment, schema.tags) == ("Shop", "What we sell", {"team": "sales"})
    assert [each.name for each in client.schemas()] == ["Shop", "other"]


def test_a_table_tells_everything_about_itself(client: Client) -> None:
    table = client.table("shop.items")
    assert (table.schema_name, table.name, table.comment) == ("Shop", "Items", "All items")
    assert table.schema.names == ["Id", "name"]
    assert table.rowid_type == pa.int32()
    assert table.check_constraints == ("Id > 0",)
    assert table.has_statistics
    key, name = table.columns
    assert (key.name, key.type, key.comment, key.not_null) == ("Id", pa.int64(), "the key", True)
    assert (name.default, name.not_null) == ("'new'", False)


def test_a_plain_table_has_none_of_that(client: Client) -> None:
    table = client.table("plain", schema="other")
    assert (table.comment, table.rowid_type, table.check_constraints) == ("", None, ())
    assert not table.has_statistics
    with pytest.raises(UnsupportedError, match="has no statistics"):
        table.statistics("y")


def test_tables_are_found_in_every_way(client: Client) -> None:
    assert repr(client.table("SHOP.ITEMS")) == "RemoteTable(Shop.Items)"
    assert client.table("items").schema_name == "Shop"
    assert client.table("ITEMS", schema="shop").name == "Items"
    assert [table.name for table in client.tables("shop")] == ["Items", "plain"]
    assert len(client.tables()) == 3


def test_a_name_in_two_schemas_must_be_qualified(client: Client) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Shop\.plain, other\.plain"):
        client.table("plain")


@pytest.mark.parametrize("name", ["shop.nothing", "nothing", "nowhere.items"])
def test_what_is_not_there_is_not_found(client: Client, name: str) -> None:
    with pytest.raises(NotFoundError, match="there is no"):
        client.table(name)


def test_functions_have_kinds_parameters_and_stability(client: Client) -> None:
    functions = {function.name: function for function in client.functions("shop")}
    assert set(functions) == {"twice", "rows", "echo"}
    (twice,) = functions["twice"].overloads
    (rows,) = functions["rows"].overloads
    (echo,) = client.function("SHOP.Echo").overloads
    assert (twice.kind, twice.comment, twice.stability) == (
        FunctionKind.SCALAR,
        "Doubles",
        Stability.CONSISTENT,
    )
    assert twice.parameters[0].type is ANY
    assert twice.returns is not None
    assert twice.returns.type == pa.int64()
    assert rows.kind is FunctionKind.TABLE
    assert [p.kind for p in rows.parameters] == [ParameterKind.POSITIONAL, ParameterKind.NAMED]
    assert echo.kind is FunctionKind.IN_OUT
    with pytest.raises(NotFoundError, match="no function"):
        client.function("shop.items")


def test_statistics_of_a_column(client: Client) -> None:
    statistics = client.table("shop.items").statistics("NAME")
    assert (statistics.min, statistics.max) == ("a", "b")
    assert (statistics.has_null, statistics.has_not_null) == (False, True)
    assert statistics.max_string_length == 1
    with pytest.raises(NotFoundError, match="no column 'zip'"):
        client.table("shop.items").statistics("zip")


def test_databases_actions_and_version(attach_client: Attach, shop: StaticCatalog) -> None:
    client = attach_client({"one": shop, "two": shop}, catalog="two")
    assert [row["name"] for row in client.databases()] == ["one", "two"]
    assert client.catalog_version() == CatalogVersion(1, is_fixed=True)
    assert "list_schemas" in dict(client.list_actions())
    assert client.table("shop.items").scan().count() == 2
    assert "two" in repr(client)


def test_an_unknown_catalog_is_not_found(attach_client: Attach, shop: StaticCatalog) -> None:
    with pytest.raises(NotFoundError, match="there is no catalog 'three'"):
        attach_client({"one": shop, "two": shop}, catalog="three").schemas()


def test_threads_may_share_a_client(client: Client) -> None:
    counts: list[int] = []

    def work() -> None:
        counts.append(client.table("shop.items").scan().count())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2] * 8


# The ways in which contents can come


def _serve_contents(
    handwritten_server: HandwrittenServer,
    contents: dict[str, Any],
    bundle: dict[str, Any] | None = None,
) -> None:
    schema = {"name": "w", "contents": {**NO_CONTENTS, **contents}}
    handwritten_server.replies["list_schemas"] = catalog_root([schema], contents=bundle)


def test_inline_contents_without_a_digest(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    _serve_contents(handwritten_server, {"serialized": handwritten_server.contents()})
    assert client_of_handwritten_server.table("w.t").comment == "by hand"


def test_a_bundle_of_all_schemas(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    blob = handwritten_server.contents()
    digest = hashlib.sha256(blob).hexdigest()
    bundle = packed([[digest, blob]])
    outer: dict[str, Any] = {
        "sha256": hashlib.sha256(bundle).hexdigest(),
        "url": None,
        "serialized": bundle,
    }
    _serve_contents(handwritten_server, {"sha256": digest}, bundle=outer)
    assert client_of_handwritten_server.table("w.t").comment == "by hand"


def test_a_digest_without_a_bundle_is_tolerated(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    outer: dict[str, Any] = {"sha256": "0" * 64, "url": None, "serialized": None}
    _serve_contents(handwritten_server, {"serialized": handwritten_server.contents()}, bundle=outer)
    assert client_of_handwritten_server.table("w.t").comment == "by hand"


def test_contents_by_listing_flights(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    _serve_contents(handwritten_server, {})
    assert client_of_handwritten_server.table("w.t").comment == "by hand"
    seen = handwritten_server.last("ListFlights")
    assert seen.header("airport-list-flights-filter-catalog") == "db"
    assert seen.header("airport-list-flights-filter-schema") == "w"


@pytest.fixture
def web() -> Iterator[HTTPServer]:
    """A web server that answers every path with its `content`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = getattr(self.server, "content", None)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _url(web: HTTPServer) -> str:
    return f"http://127.0.0.1:{web.server_port}/contents"


@pytest.mark.parametrize("inline", [None, b"something else"])
def test_contents_behind_a_url(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    web: HTTPServer,
    inline: bytes | None,
) -> None:
    blob = handwritten_server.contents()
    web.content = blob  # type: ignore[attr-defined]
    digest = hashlib.sha256(blob).hexdigest()
    _serve_contents(handwritten_server, {"sha256": digest, "url": _url(web), "serialized": inline})
    assert client_of_handwritten_server.table("w.t").comment == "by hand"


def test_a_download_with_another_digest_is_refused(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, web: HTTPServer
) -> None:
    web.content = b"tampered"  # type: ignore[attr-defined]
    _serve_contents(handwritten_server, {"sha256": "0" * 64, "url": _url(web)})
    with pytest.raises(InternalError, match="does not match its digest"):
        client_of_handwritten_server.tables()


def test_a_failing_download_says_so(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, web: HTTPServer
) -> None:
    _serve_contents(handwritten_server, {"sha256": "0" * 64, "url": _url(web)})
    with pytest.raises(UnavailableError, match="cannot be downloaded"):
        client_of_handwritten_server.tables()


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"sha256": "0" * 64, "serialized": b"x"}, "does not match its digest"),
        ({"sha256": "0" * 64}, "is missing"),
        ({"url": "http://127.0.0.1/x"}, "need a digest"),
        ({"sha256": "0" * 64, "url": "file:///etc/passwd"}, "which is not an HTTP URL"),
        ({"serialized": b"garbage"}, "cannot be decoded"),
        ({"serialized": packed([5, b"not zstd"])}, "cannot be decoded"),
    ],
)
def test_contents_that_cannot_be_had(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    contents: dict[str, object],
    message: str,
) -> None:
    _serve_contents(handwritten_server, contents)
    with pytest.raises(InternalError, match=message):
        client_of_handwritten_server.tables()


def test_a_bundle_that_does_not_match_is_refused(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    bundle = packed([["0" * 64, b"other"]])
    outer: dict[str, Any] = {
        "sha256": hashlib.sha256(bundle).hexdigest(),
        "url": None,
        "serialized": bundle,
    }
    _serve_contents(handwritten_server, {"sha256": "0" * 64}, bundle=outer)
    with pytest.raises(InternalError, match="does not match its digests"):
        client_of_handwritten_server.schemas()


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"type": "view", "schema": "w", "catalog": "db", "name": "v"}, "neither a table nor"),
        ({"type": "table", "schema": "x", "catalog": "db", "name": "v"}, "another schema"),
        ({"type": "table", "schema": "w", "catalog": "x", "name": "v"}, "another catalog"),
        ({"type": "table", "schema": "w", "catalog": "db"}, "'name' is missing"),
        ({"type": "scalar_function", "schema": "w", "catalog": "db", "name": "v"}, "input_schema"),
    ],
)
def test_objects_that_cannot_be_told(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    metadata: dict[str, object],
    message: str,
) -> None:
    handwritten_server.functions = [
        flight_info(pa.schema([("x", pa.int64())]), ["w", "v"], metadata)
    ]
    with pytest.raises(InternalError, match=message):
        client_of_handwritten_server.tables()


def test_flights_without_metadata_are_skipped(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.functions = [flight_info(pa.schema([]), ["w", "v"], None)]
    assert [table.name for table in client_of_handwritten_server.tables()] == ["t"]


@pytest.mark.parametrize("names", [["w", "W"], [""]])
def test_schemas_must_have_names_of_their_own(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client, names: list[str]
) -> None:
    schemas = [{"name": name, "contents": NO_CONTENTS} for name in names]
    handwritten_server.replies["list_schemas"] = catalog_root(schemas)
    with pytest.raises(InternalError, match="empty or repeated names"):
        client_of_handwritten_server.schemas()


def test_msgpack_of_another_server_is_read_as_well(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    # The Go library packs its texts as binary, which DuckDB's client accepts.
    handwritten_server.replies["catalog_version"] = msgpack.packb(
        {"catalog_version": 3, "is_fixed": False}
    )
    handwritten_server.replies["create_transaction"] = msgpack.packb({"identifier": b"tx"})
    assert client_of_handwritten_server.catalog_version() == CatalogVersion(3)
    client_of_handwritten_server.table("w.t").scan().to_arrow()
    assert handwritten_server.last("DoGet").header("airport-transaction-id") == "tx"
