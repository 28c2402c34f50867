"""Several catalogs on one server: how a call finds its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack
import pyarrow as pa
import pytest

from lakeport.airport import Server
from lakeport.catalog import CatalogBuilder, StaticCatalog
from lakeport.errors import AlreadyExistsError, NotFoundError
from tests.airport.flight_client import RawFlightClient, Serving, path


def catalog(name: str, *, comment: str = "", value: str | None = None) -> StaticCatalog:
    """A catalog whose one table `s.t` holds its name."""
    return (
        CatalogBuilder(name, comment=comment)
        .schema("s")
        .table("t", pa.table({"catalog": [name if value is None else value]}))
        .build()
    )


@pytest.fixture
def two_catalogs(start_server: Serving) -> RawFlightClient:
    return start_server([catalog("red", comment="Red things"), catalog("blue")])


def reached(flight_client: RawFlightClient, *parts: str) -> str:
    (value,) = flight_client.scan(path(*parts)).column("catalog").to_pylist()
    return str(value)


def test_a_catalog_is_found_by_the_header(two_catalogs: RawFlightClient) -> None:
    for name in ("red", "blue"):
        assert reached(two_catalogs.with_headers(airport_catalog=name), "s", "t") == name


def test_a_catalog_is_found_by_the_path(two_catalogs: RawFlightClient) -> None:
    for name in ("red", "blue"):
        assert reached(two_catalogs, name, "s", "t") == name


def test_a_catalog_is_found_by_the_field(two_catalogs: RawFlightClient) -> None:
    for name in ("red", "blue"):
        (info,) = two_catalogs.items("s", name).values()
        assert msgpack.unpackb(info.app_metadata)["catalog"] == name


def test_a_name_that_no_header_can_contain_may_be_percent_encoded(start_server: Serving) -> None:
    flight_client = start_server([catalog("Übersicht"), catalog("50%41")])

    encoded = flight_client.with_headers(airport_catalog="%C3%9Cbersicht")
    (info,) = encoded.items("s", "%C3%9Cbersicht").values()

    assert msgpack.unpackb(info.app_metadata)["catalog"] == "%C3%9Cbersicht"
    assert encoded.scan(info.descriptor).column("catalog").to_pylist() == ["Übersicht"]
    assert reached(flight_client.with_headers(airport_catalog="50%41"), "s", "t") == "50%41"


def test_a_published_descriptor_needs_no_header(two_catalogs: RawFlightClient) -> None:
    for name in ("red", "blue"):
        (info,) = two_catalogs.items("s", name).values()
        (value,) = two_catalogs.scan(info.descriptor).column("catalog").to_pylist()
        assert value == name


def test_a_ticket_needs_no_header(two_catalogs: RawFlightClient) -> None:
    (endpoint,) = two_catalogs.with_headers(airport_catalog="blue").endpoints(path("s", "t"))

    assert two_catalogs.read(endpoint.ticket).column("catalog").to_pylist() == ["blue"]


CONFLICTS: dict[str, Callable[[RawFlightClient], Any]] = {
    "field and header": lambda flight_client: flight_client.list_schemas("red"),
    "path and header": lambda flight_client: flight_client.endpoints(path("red", "s", "t")),
    "JSON and header": lambda flight_client: flight_client.action(
        "GetSchemas", b'{"catalog_name": "red"}'
    ),
}


@pytest.mark.parametrize("conflict", CONFLICTS.values(), ids=CONFLICTS)
def test_names_that_contradict_each_other_are_refused(
    two_catalogs: RawFlightClient, conflict: Callable[[RawFlightClient], Any]
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"names several catalogs: \['blue', 'red'\]"):
        conflict(two_catalogs.with_headers(airport_catalog="blue"))


def test_an_unknown_catalog_is_told_the_known_ones(two_catalogs: RawFlightClient) -> None:
    with pytest.raises(
        KeyError, match="there is no catalog 'green'; this server has: 'blue', 'red'"
    ):
        two_catalogs.list_schemas("green")


def test_a_missing_name_is_told_the_known_ones(two_catalogs: RawFlightClient) -> None:
    with pytest.raises(KeyError, match="name the catalog to use; this server has: 'blue', 'red'"):
        two_catalogs.list_schemas()


def test_names_of_catalogs_are_exact(two_catalogs: RawFlightClient) -> None:
    with pytest.raises(KeyError, match="there is no catalog 'RED'"):
        two_catalogs.list_schemas("RED")


def test_a_catalog_that_stands_alone_needs_no_name(start_server: Serving) -> None:
    flight_client = start_server(catalog("red"))

    assert reached(flight_client, "s", "t") == "red"
    assert reached(flight_client.with_headers(airport_catalog="red"), "s", "t") == "red"
    with pytest.raises(KeyError, match="there is no catalog 'blue'; this server has: 'red'"):
        flight_client.list_schemas("blue")


def test_an_unnamed_catalog_that_stands_alone_answers_to_every_name(start_server: Serving) -> None:
    flight_client = start_server(catalog("", value="x"))

    for name in ("", "lake", "anything"):
        assert reached(flight_client.with_headers(airport_catalog=name), "s", "t") == "x"
        assert flight_client.list_schemas(name)["schemas"][0]["name"] == "s"


def test_an_unnamed_catalog_among_others_is_the_default(start_server: Serving) -> None:
    flight_client = start_server({"": catalog("", value="default"), "red": catalog("red")})

    assert reached(flight_client, "s", "t") == "default"
    assert reached(flight_client, "red", "s", "t") == "red"
    with pytest.raises(KeyError, match="there is no catalog 'blue'"):
        flight_client.list_schemas("blue")


def test_a_server_may_be_empty(start_server: Serving) -> None:
    flight_client = start_server({})

    with pytest.raises(KeyError, match="this server has: none"):
        flight_client.list_schemas("red")
    assert flight_client.scan(path("__databases")).num_rows == 0


def test_two_catalogs_of_one_name_are_refused() -> None:
    with pytest.raises(AlreadyExistsError, match="two catalogs are named 'red'"):
        Server([catalog("red"), catalog("red")])


def test_catalogs_come_and_go_while_the_server_runs(start_server: Serving) -> None:
    flight_client = start_server({"red": catalog("red")})

    flight_client.server.add_catalog("blue", catalog("blue"))
    assert flight_client.server.catalog_names() == ["red", "blue"]
    assert reached(flight_client, "blue", "s", "t") == "blue"

    flight_client.server.remove_catalog("red")
    assert flight_client.server.catalog_names() == ["blue"]
    with pytest.raises(KeyError, match="there is no catalog 'red'"):
        flight_client.list_schemas("red")

    flight_client.server.add_catalog("red", catalog("red", value="new red"))
    assert reached(flight_client, "red", "s", "t") == "new red"


def test_a_catalog_that_took_the_place_of_another_is_listed_anew(start_server: Serving) -> None:
    flight_client = start_server({"red": catalog("red"), "blue": catalog("blue")})
    assert list(flight_client.items("s", "red")) == ["t"]

    flight_client.server.remove_catalog("red")
    other = CatalogBuilder().schema("s").table("other", pa.table({"x": [1]})).build()
    flight_client.server.add_catalog("red", other)

    assert list(flight_client.items("s", "red")) == ["other"]


def test_a_scan_that_runs_goes_on_when_its_catalog_is_removed(start_server: Serving) -> None:
    schema = pa.schema([("x", pa.int64())])
    endless = (
        CatalogBuilder()
        .schema("s")
        .table("t", lambda: (pa.record_batch({"x": [n]}) for n in range(1000)), schema=schema)
        .build()
    )
    flight_client = start_server({"red": endless})
    (endpoint,) = flight_client.endpoints(path("red", "s", "t"))
    reader = flight_client.get(endpoint.ticket)
    reader.read_chunk()

    flight_client.server.remove_catalog("red")

    assert sum(chunk.data.num_rows for chunk in reader) == 999


def test_a_name_can_be_added_and_removed_once_only(start_server: Serving) -> None:
    flight_client = start_server({"red": catalog("red")})

    with pytest.raises(AlreadyExistsError, match="there is a catalog 'red' already"):
        flight_client.server.add_catalog("red", catalog("red"))
    with pytest.raises(NotFoundError, match="there is no catalog 'blue'"):
        flight_client.server.remove_catalog("blue")


def test_catalogs_can_be_changed_before_the_server_starts() -> None:
    server = Server({"red": catalog("red")})

    server.add_catalog("blue", catalog("blue"))
    server.remove_catalog("red")

    assert server.catalog_names() == ["blue"]


def test_the_databases_flight_lists_every_catalog(two_catalogs: RawFlightClient) -> None:
    # What the client's airport_databases() sends.
    info = two_catalogs.info(path("__databases"))
    read = two_catalogs.scan(path("__databases"))

    assert info.descriptor == path("__databases")
    assert info.schema.equals(read.schema)
    assert info.total_records == 2
    assert read.select(["name", "comment"]).to_pydict() == {
        "name": ["red", "blue"],
        "comment": ["Red things", ""],
    }
    assert set(read.column("location").to_pylist()) == {two_catalogs.server.location}
    assert two_catalogs.read(info.endpoints[0].ticket).equals(read)


def test_flights_are_listed_for_all_catalogs_or_for_one(two_catalogs: RawFlightClient) -> None:
    def listed(flight_client: RawFlightClient) -> list[str]:
        found = flight_client.client.list_flights(b"", flight_client.options())
        return [msgpack.unpackb(info.app_metadata)["catalog"] for info in found]

    assert listed(two_catalogs) == ["red", "blue"]
    assert listed(two_catalogs.with_headers(airport_catalog="blue")) == ["blue"]
    assert listed(two_catalogs.with_headers(airport_list_flights_filter_catalog="red")) == ["red"]
