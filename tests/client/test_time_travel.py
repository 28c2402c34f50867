"""AT (VERSION …) and AT (TIMESTAMP …): the table, and its columns, of another time."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from lakeport.airport.client import Client
from lakeport.catalog import CatalogBuilder, ScanOptions, TimePoint
from lakeport.errors import InternalError, InvalidArgumentError, NotFoundError, UnsupportedError
from lakeport.filters import col
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandwrittenServer, flight_info


class History:
    """Version 1 has one column, version 2 has two; every version asked for is kept."""

    name = "history"
    comment = ""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.versions = {
            "1": pa.table({"a": [1]}),
            "2": pa.table({"a": [1, 2], "b": ["x", "y"]}),
        }

    def arrow_schema(self, columns: Any = None) -> pa.Schema:
        return self.versions["2"].schema

    def schema_at(self, time_point: TimePoint) -> pa.Schema:
        return self._at(time_point).schema

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return self._at(options.time_point).to_reader()

    def _at(self, time_point: TimePoint | None) -> pa.Table:
        if time_point is None:
            return self.versions["2"]
        self.asked.append(str(time_point))
        if time_point.unit.name == "TIMESTAMP":
            return self.versions["1"]
        if time_point.value not in self.versions:
            raise NotFoundError(f"there is no version {time_point.value}")
        return self.versions[time_point.value]


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def client(attach_client: Attach, history: History) -> Client:
    return attach_client(CatalogBuilder().schema("s").table(history).build())


def test_an_old_version_has_its_own_columns(client: Client) -> None:
    table = client.table("s.history")
    old = table.scan(version=1)
    assert old.schema.names == ["a"]
    assert old.to_arrow().to_pydict() == {"a": [1]}
    assert table.scan(version="2", filter=col("b") == "y").to_arrow().to_pydict() == {
        "a": [2],
        "b": ["y"],
    }
    with pytest.raises(NotFoundError, match="no column 'b'"):
        old.select("b").to_arrow()


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("yesterday", "yesterday"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        (dt.datetime(2024, 1, 2, 3, 4, 5), "2024-01-02 03:04:05"),
        (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), "2024-01-02 00:00:00+00"),
        (
            dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "2024-01-02 01:04:05.000006+00",
        ),
    ],
)
def test_times_are_written_as_duckdb_writes_them(
    client: Client, history: History, moment: Any, text: str
) -> None:
    assert client.table("s.history").scan(timestamp=moment).count() == 1
    assert set(history.asked) == {f"TIMESTAMP => {text}"}


def test_an_unknown_version_is_an_error(client: Client) -> None:
    with pytest.raises(NotFoundError, match="there is no version 9"):
        client.table("s.history").scan(version=9).to_arrow()


def test_a_table_without_history_says_so(attach_client: Attach) -> None:
    client = attach_client(CatalogBuilder().schema("s").table("t", pa.table({"a": [1]})).build())
    with pytest.raises(UnsupportedError, match="has no history"):
        client.table("s.t").scan(version=1).to_arrow()


def test_version_and_time_exclude_each_other(client: Client) -> None:
    with pytest.raises(InvalidArgumentError, match="not both"):
        client.table("s.history").scan(version=1, timestamp="now")


def test_the_calls_are_those_of_duckdb(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    table = client_of_handwritten_server.table("w.t")
    handwritten_server.seen.clear()
    assert table.scan(version=3).count() == 3
    assert handwritten_server.calls_seen() == [
        "create_transaction",
        "flight_info",
        "catalog_version",
        "flight_info",
        "endpoints",
        "DoGet",
    ]
    lookup, bind = (seen for seen in handwritten_server.seen if seen.name == "flight_info")
    assert lookup.header("airport-transaction-id") is None
    assert lookup.header("airport-trace-id") is None
    assert bind.header("airport-transaction-id") == "tx1"
    assert bind.header("airport-flight-path") == "w/t"
    assert lookup.request == bind.request
    assert (bind.request["at_unit"], bind.request["at_value"]) == (b"VERSION", b"3")
    parameters = handwritten_server.last("endpoints").request["parameters"]
    assert (parameters[b"at_unit"], parameters[b"at_value"]) == (b"VERSION", b"3")


def test_the_server_must_describe_the_table_asked_for(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    handwritten_server.replies["flight_info"] = flight_info(
        pa.schema([]), ["w", "other"], None
    ).serialize()
    with pytest.raises(InternalError, match=r"another table than w\.t"):
        client_of_handwritten_server.table("w.t").scan(version=3).to_arrow()
