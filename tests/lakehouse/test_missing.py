"""What a lake catalog leaves out, and how it says why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import flight

from lakeport import AccessRequest
from lakeport.errors import NotFoundError
from tests.airport.flight_client import RawFlightClient, path
from tests.lakehouse.conftest import Serve, Served

MakeLake = Callable[..., Any]


@pytest.fixture
def lake(make_lake: MakeLake) -> Any:
    """Snapshots 1 to 7, a table of an unknown type, and two views that cannot run."""
    lake = make_lake()
    lake.execute(
        "CREATE TABLE dropped(id INTEGER)",
        "CREATE TABLE renamed(id INTEGER)",
        "CREATE TABLE odd(id INTEGER)",
        "CREATE VIEW broken AS SELECT * FROM dropped",
        "CREATE VIEW over_broken AS SELECT * FROM broken",
        "DROP TABLE dropped",
        "ALTER TABLE renamed RENAME TO late",
    )
    lake.execute(
        "UPDATE meta.ducklake_column SET column_type = 'tensor' WHERE table_id IN"
        " (SELECT table_id FROM meta.ducklake_table WHERE table_name = 'odd')"
    )
    return lake


def unlisted(served: Served) -> dict[str, tuple[str, str, str]]:
    rows = served.client.table("lakeport.unlisted").scan().to_arrow().to_pylist()
    return {
        row["table_name"]: (row["schema_name"], row["table_type"], row["reason"]) for row in rows
    }


def test_what_is_not_listed_is_a_row_with_the_reason(lake: Any, serve: Serve) -> None:
    served = serve(lake)

    found = unlisted(served)

    assert [table.name for table in served.client.tables("public")] == ["late"]
    assert set(found) == {"odd", "broken", "over_broken"}
    assert found["odd"][:2] == ("public", "BASE TABLE")
    assert "tensor" in found["odd"][2]
    assert found["broken"] == ("public", "VIEW", "the view reads dropped, which is not there")
    assert found["over_broken"][:2] == ("public", "VIEW")


def test_reading_a_view_that_is_not_listed_gives_the_reason(lake: Any, serve: Serve) -> None:
    served = serve(lake)

    with pytest.raises(NotFoundError) as told:
        served.client.take_flight(["public", "Broken"]).to_arrow()

    assert str(told.value) == (
        "the view public.Broken cannot be read: the view reads dropped, which is not there"
    )


def test_a_table_of_other_snapshots_is_not_called_missing(lake: Any, serve: Serve) -> None:
    served = serve(lake)

    for name, reason in (
        ("dropped", "snapshot 6 dropped or renamed it"),
        ("renamed", "snapshot 7 dropped or renamed it"),
    ):
        with pytest.raises(NotFoundError) as told:
            served.client.take_flight(["public", name]).to_arrow()
        assert str(told.value) == f"there is no table public.{name} at snapshot 7: {reason}"
    with pytest.raises(NotFoundError) as told:
        served.client.table("public.late").scan(version=2).to_arrow()
    assert str(told.value) == ("there is no table public.late at snapshot 2: snapshot 7 created it")
    with pytest.raises(NotFoundError, match=r"^there is no table public\.nothing$"):
        served.client.take_flight(["public", "nothing"]).to_arrow()


def test_reasons_name_nothing_that_is_denied(lake: Any, serve: Serve) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.name not in ("dropped", "late")

    served = serve(lake, authorize=authorize)

    assert {reason for _, kind, reason in unlisted(served).values() if kind == "VIEW"} == {
        "its SQL cannot be run"
    }
    wire = RawFlightClient(served.server, served.flight, {})
    for name in ("DROPPED", "LATE"):
        try:
            wire.endpoints(path("public", name))
        except flight.FlightUnauthorizedError as denied:
            told = str(denied)
        except KeyError as missing:
            told = str(missing)
        assert "snapshot" not in told


def test_views_that_are_denied_are_not_among_the_unlisted(lake: Any, serve: Serve) -> None:
    served = serve(lake, authorize=lambda access: access.name != "broken")

    assert "broken" not in unlisted(served)
    with pytest.raises(KeyError) as told:
        RawFlightClient(served.server, served.flight, {}).endpoints(path("public", "BROKEN"))
    assert "view" not in str(told.value)
