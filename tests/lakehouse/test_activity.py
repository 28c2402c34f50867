"""The table `queries` and the function `kill` of a served lake, and `lakeport ps`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from lakeport import Server, connect
from lakeport.auth import AccessRequest, Operation
from lakeport.cli.app import app
from lakeport.errors import NotFoundError
from lakeport.lakehouse import LakeCatalog
from tests.wait import TIMEOUT_SECONDS

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
