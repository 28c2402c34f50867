"""The table `queries` and the function `kill` of a served lake, and `lakeport ps`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import flight
from typer.testing import CliRunner

from lakeport import Server, connect
from lakeport.auth import AccessRequest, CallerLimits, LimitRules, Operation, Who
from lakeport.cli.app import app
from lakeport.errors import CancelledError, LakeportError, NotFoundError
from lakeport.lakehouse import LakeCatalog
from tests.airport.flight_client import RawFlightClient, path
from tests.wait import TIMEOUT_SECONDS, wait_until

TOKENS = {"token-of-ada-0123456789": "ada", "token-of-bob-0123456789": "bob"}
ADA, BOB = TOKENS


@pytest.fixture
def lake(make_lake: Callable[..., Any]) -> Any:
    lake = make_lake()
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)")
    lake.detach()
    return lake


def tables_seen(location: str, token: str | None = None) -> set[tuple[str, str]]:
    with connect(location, token=token, timeout=TIMEOUT_SECONDS) as client:
        rows = client.table("lakeport.queries").scan().to_arrow().to_pylist()
    return {(row["identity"], row["table"]) for row in rows}


def read(location: str, token: str | None = None) -> None:
    with connect(location, token=token, timeout=TIMEOUT_SECONDS) as client:
        assert client.table("public.t").scan(["id"], "id < 3").to_arrow().num_rows == 3


def test_a_caller_sees_its_own_queries_and_an_administrator_all(lake: Any) -> None:
    def authorize(access: AccessRequest) -> bool:
        return access.operation is not Operation.ADMIN or access.identity == "ada"

    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog, auth=TOKENS, authorize=authorize) as server,
    ):
        for token in TOKENS:
            read(server.location, token)

        assert {("ada", "public.t"), ("bob", "public.t")} <= tables_seen(server.location, ADA)
        seen = tables_seen(server.location, BOB)
        assert ("bob", "public.t") in seen
        assert not [who for who, _ in seen if who != "bob"]


def test_without_an_authorizer_identities_see_only_themselves(lake: Any) -> None:
    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog, auth=TOKENS) as server,
    ):
        read(server.location, ADA)

        assert not [who for who, _ in tables_seen(server.location, BOB) if who == "ada"]


def test_ps_shows_ended_queries_and_kill_names_a_missing_one(lake: Any) -> None:
    runner = CliRunner()
    with LakeCatalog(lake.uri, engine="local") as catalog, Server(catalog) as server:
        read(server.location)
        listed = runner.invoke(app, ["ps", server.location, "--all", "--json"])
        table = runner.invoke(app, ["ps", server.location, "--all"])
        idle = runner.invoke(app, ["ps", server.location])
        missing = runner.invoke(app, ["kill", server.location, "abc"])
        untrusted = runner.invoke(app, ["ps", server.location, "--tls-ca", "missing.pem"])
        with (
            connect(server.location, timeout=TIMEOUT_SECONDS) as client,
            pytest.raises(NotFoundError, match="no running query 'abc'"),
        ):
            client.call_table("lakeport.kill", "abc").to_arrow()

    rows = [json.loads(line) for line in listed.stdout.splitlines()]
    assert {row["table"] for row in rows} == {"public.t"}
    assert rows[0]["filter"] == '("id" < ?)'
    assert "public.t" in table.stdout
    assert "no query is running" in idle.stdout
    assert missing.exit_code == 1
    assert "no running query" in missing.stderr
    assert "missing.pem cannot be read" in untrusted.stderr


def test_a_query_that_has_just_ended_is_cancelled_without_an_error(lake: Any) -> None:
    with LakeCatalog(lake.uri, engine="local") as catalog, Server(catalog) as server:
        read(server.location)
        with connect(server.location, timeout=TIMEOUT_SECONDS) as client:
            rows = client.table("lakeport.queries").scan().to_arrow().to_pylist()
            ended = next(row["id"] for row in rows if row["table"] == "public.t")
            killed = client.call_table("lakeport.kill", ended).to_arrow()
        printed = CliRunner().invoke(app, ["kill", server.location, ended])

    assert killed.num_rows == 0
    assert printed.exit_code == 0
    assert printed.stdout == f"{ended} had already ended\n"


def test_a_caller_at_its_limit_cancels_a_scan_that_waits_and_frees_its_place(lake: Any) -> None:
    one_waits = CallerLimits(scans=1, queued_scans=1)
    limits = LimitRules(((Who(everyone=True), one_waits),), CallerLimits())
    trace = "0b5c1c52-5a0e-4a5f-9b0f-1f7d3f8f2a11"
    ends: list[LakeportError | int] = []

    def read_all(client: Any) -> None:
        try:
            ends.append(client.table("public.t").scan().traced(trace).to_arrow().num_rows)
        except LakeportError as error:
            ends.append(error)

    def waiting(client: Any) -> list[str]:
        rows = client.table("lakeport.queries").scan().to_arrow().to_pylist()
        return [
            row["id"] for row in rows if row["trace_id"] == trace and "its turn" in row["progress"]
        ]

    lake.attach()
    lake.execute("CREATE TABLE big AS SELECT repeat('x', 1000) AS v FROM range(50_000)")
    lake.detach()
    with (
        LakeCatalog(lake.uri, engine="local") as catalog,
        Server(catalog, caller_limits=limits) as server,
        flight.connect(server.location) as holder,
        connect(server.location, timeout=TIMEOUT_SECONDS) as other,
        connect(server.location, timeout=TIMEOUT_SECONDS) as client,
    ):
        wire = RawFlightClient(server, holder, {})
        # It has the only place while its rows are not read.
        held = holder.do_get(wire.endpoints(path("public", "big"))[0].ticket, wire.options())
        held.read_chunk()
        thread = threading.Thread(target=read_all, args=(other,))
        thread.start()
        assert wait_until(lambda: bool(waiting(client)))
        client.call_table("lakeport.kill", waiting(client)[0]).to_arrow()
        thread.join(TIMEOUT_SECONDS)
        assert waiting(client) == []
        thread = threading.Thread(target=read_all, args=(other,))
        thread.start()
        assert wait_until(lambda: bool(waiting(client)))
        held.cancel()
        thread.join(TIMEOUT_SECONDS)

    assert isinstance(ends[0], CancelledError)
    assert str(ends[0]) == "the query was cancelled"
    assert ends[1] == 100
