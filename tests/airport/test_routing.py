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
from tests.airport.rig import Serving, Wire, path


def catalog(name: str, *, comment: str = "", value: str | None = None) -> StaticCatalog:
    """A catalog whose one table `s.t` holds its name."""
    return (
        CatalogBuilder(name, comment=comment)
        .schema("s")
        .table("t", pa.table({"catalog": [name if value is None else value]}))
        .build()
    )


@pytest.fixture
def two(serving: Serving) -> Wire:
    return serving([catalog("red", comment="Red things"), catalog("blue")])


def reached(wire: Wire, *parts: str) -> str:
    (value,) = wire.scan(path(*parts)).column("catalog").to_pylist()
    return str(value)


def test_a_catalog_is_found_by_the_header(two: Wire) -> None:
    for name in ("red", "blue"):
        assert reached(two.with_headers(airport_catalog=name), "s", "t") == name


def test_a_catalog_is_found_by_the_path(two: Wire) -> None:
    for name in ("red", "blue"):
        assert reached(two, name, "s", "t") == name


def test_a_catalog_is_found_by_the_field(two: Wire) -> None:
    for name in ("red", "blue"):
        (info,) = two.items("s", name).values()
        assert msgpack.unpackb(info.app_metadata)["catalog"] == name


def test_a_published_descriptor_needs_no_header(two: Wire) -> None:
    for name in ("red", "blue"):
        (info,) = two.items("s", name).values()
        (value,) = two.scan(info.descriptor).column("catalog").to_pylist()
        assert value == name


def test_a_ticket_needs_no_header(two: Wire) -> None:
    (endpoint,) = two.with_headers(airport_catalog="blue").endpoints(path("s", "t"))

    assert two.read(endpoint.ticket).column("catalog").to_pylist() == ["blue"]


CONFLICTS: dict[str, Callable[[Wire], Any]] = {
    "field and header": lambda wire: wire.list_schemas("red"),
    "path and header": lambda wire: wire.endpoints(path("red", "s", "t")),
    "JSON and header": lambda wire: wire.action("GetSchemas", b'{"catalog_name": "red"}'),
}


@pytest.mark.parametrize("conflict", CONFLICTS.values(), ids=CONFLICTS)
def test_names_that_contradict_each_other_are_refused(
    two: Wire, conflict: Callable[[Wire], Any]
) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"names several catalogs: \['blue', 'red'\]"):
        conflict(two.with_headers(airport_catalog="blue"))


def test_an_unknown_catalog_is_told_the_known_ones(two: Wire) -> None:
    with pytest.raises(
        KeyError, match="there is no catalog 'green'; this server has: 'blue', 'red'"
    ):
        two.list_schemas("green")


def test_a_missing_name_is_told_the_known_ones(two: Wire) -> None:
    with pytest.raises(KeyError, match="name the catalog to use; this server has: 'blue', 'red'"):
        two.list_schemas()


def test_names_of_catalogs_are_exact(two: Wire) -> None:
    with pytest.raises(KeyError, match="there is no catalog 'RED'"):
        two.list_schemas("RED")


def test_a_catalog_that_stands_alone_needs_no_name(serving: Serving) -> None:
    wire = serving(catalog("red"))

    assert reached(wire, "s", "t") == "red"
    assert reached(wire.with_headers(airport_catalog="red"), "s", "t") == "red"
    with pytest.raises(KeyError, match="there is no catalog 'blue'; this server has: 'red'"):
        wire.list_schemas("blue")


def test_an_unnamed_catalog_that_stands_alone_answers_to_every_name(serving: Serving) -> None:
    wire = serving(catalog("", value="x"))

    for name in ("", "lake", "anything"):
        assert reached(wire.with_headers(airport_catalog=name), "s", "t") == "x"
        assert wire.list_schemas(name)["schemas"][0]["name"] == "s"


def test_an_unnamed_catalog_among_others_is_the_default(serving: Serving) -> None:
    wire = serving({"": catalog("", value="default"), "red": catalog("red")})

    assert reached(wire, "s", "t") == "default"
    assert reached(wire, "red", "s", "t") == "red"
    with pytest.raises(KeyError, match="there is no catalog 'blue'"):
        wire.list_schemas("blue")


def test_a_server_may_be_empty(serving: Serving) -> None:
    wire = serving({})

    with pytest.raises(KeyError, match="this server has: none"):
        wire.list_schemas("red")
    assert wire.scan(path("__databases")).num_rows == 0


def test_two_catalogs_of_one_name_are_refused() -> None:
    with pytest.raises(AlreadyExistsError, match="two catalogs are named 'red'"):
        Server([catalog("red"), catalog("red")])


def test_catalogs_come_and_go_while_the_server_runs(serving: Serving) -> None:
    wire = serving({"red": catalog("red")})

    wire.server.add_catalog("blue", catalog("blue"))
    assert wire.server.catalog_names() == ["red", "blue"]
    assert reached(wire, "blue", "s", "t") == "blue"

    wire.server.remove_catalog("red")
    assert wire.server.catalog_names() == ["blue"]
    with pytest.raises(KeyError, match="there is no catalog 'red'"):
        wire.list_schemas("red")

    wire.server.add_catalog("red", catalog("red", value="new red"))
    assert reached(wire, "red", "s", "t") == "new red"


def test_a_catalog_that_took_the_place_of_another_is_listed_anew(serving: Serving) -> None:
    wire = serving({"red": catalog("red"), "blue": catalog("blue")})
    assert list(wire.items("s", "red")) == ["t"]

    wire.server.remove_catalog("red")
    other = CatalogBuilder().schema("s").table("other", pa.table({"x": [1]})).build()
    wire.server.add_catalog("red", other)

    assert list(wire.items("s", "red")) == ["other"]


def test_a_scan_that_runs_goes_on_when_its_catalog_is_removed(serving: Serving) -> None:
    schema = pa.schema([("x", pa.int64())])
    endless = (
        CatalogBuilder()
        .schema("s")
        .table("t", lambda: (pa.record_batch({"x": [n]}) for n in range(1000)), schema=schema)
        .build()
    )
    wire = serving({"red": endless})
    (endpoint,) = wire.endpoints(path("red", "s", "t"))
    reader = wire.get(endpoint.ticket)
    reader.read_chunk()

    wire.server.remove_catalog("red")

    assert sum(chunk.data.num_rows for chunk in reader) == 999


def test_a_name_can_be_added_and_removed_once_only(serving: Serving) -> None:
    wire = serving({"red": catalog("red")})

    with pytest.raises(AlreadyExistsError, match="there is a catalog 'red' already"):
        wire.server.add_catalog("red", catalog("red"))
    with pytest.raises(NotFoundError, match="there is no catalog 'blue'"):
        wire.server.remove_catalog("blue")


def test_catalogs_can_be_changed_before_the_server_starts() -> None:
    server = Server({"red": catalog("red")})

    server.add_catalog("blue", catalog("blue"))
    server.remove_catalog("red")

    assert server.catalog_names() == ["blue"]


def test_the_databases_flight_lists_every_catalog(two: Wire) -> None:
    # What the client's airport_databases() sends.
    info = two.info(path("__databases"))
    read = two.scan(path("__databases"))

    assert info.descriptor == path("__databases")
    assert info.schema.equals(read.schema)
    assert info.total_records == 2
    assert read.select(["name", "comment"]).to_pydict() == {
        "name": ["red", "blue"],
        "comment": ["Red things", ""],
    }
    assert set(read.column("location").to_pylist()) == {two.server.location}
    assert two.read(info.endpoints[0].ticket).equals(read)


def test_flights_are_listed_for_all_catalogs_or_for_one(two: Wire) -> None:
    def listed(wire: Wire) -> list[str]:
        found = wire.client.list_flights(b"", wire.options())
        return [msgpack.unpackb(info.app_metadata)["catalog"] for info in found]

    assert listed(two) == ["red", "blue"]
    assert listed(two.with_headers(airport_catalog="blue")) == ["blue"]
    assert listed(two.with_headers(airport_list_flights_filter_catalog="red")) == ["red"]
