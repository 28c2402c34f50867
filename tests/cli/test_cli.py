"""The command line, run as a user runs it: in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport.errors import UnauthenticatedError

COMMAND = [sys.executable, "-m", "lakeport"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """A `lakeport serve` in another process; gives its location."""
    command = [*COMMAND, "serve", *arguments, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            banner = process.stdout.readline()
            match = re.search(r"grpc\S*://127\.0\.0\.1:\d+", banner)
            assert match, banner
            yield match.group()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0


def test_serve_memory_serves_an_empty_catalog_that_can_be_filled() -> None:
    with serving("memory:") as location, lakeport.connect(location, catalog="lake") as client:
        client.create_schema("shop")
        client.create_table_as("shop", "orders", pa.table({"id": [1, 2, 3]}))

        assert client.table("shop.orders").scan().count() == 3


def test_serve_takes_several_named_catalogs() -> None:
    with serving("one=memory:", "two=memory:") as location:
        with lakeport.connect(location, catalog="one") as one:
            one.create_schema("only_here")
        with lakeport.connect(location, catalog="two") as two:
            assert [row["name"] for row in two.databases()] == ["one", "two"]
            assert two.schemas() == []


def test_serve_takes_a_catalog_of_a_module() -> None:
    with (
        serving("demo=lakeport.cli.demo:demo_catalog") as location,
        lakeport.connect(location, catalog="demo") as client,
    ):
        assert client.table("rental.stations").scan().count() == 6


def test_serve_with_a_token_file_lets_in_only_who_has_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# who may call\ngood-token reader\n")
    with serving("memory:", "--token-file", str(tokens)) as location:
        with lakeport.connect(location, token="good-token") as client:
            assert client.schemas() == []
        with (
            lakeport.connect(location, token="bad-token") as client,
            pytest.raises(UnauthenticatedError),
        ):
            client.schemas()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "neither 'memory:' nor"),
        (["no.such.module:catalog"], "cannot be loaded"),
        (["os:path"], "not a catalog"),
        (["memory:", "memory:"], "two catalogs"),
        (["memory:", "--tls-cert", "x"], "--tls-key"),
        (["memory:", "--token-file", "/nowhere"], "token file"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_exit_code_one(
    arguments: list[str], sentence: str
) -> None:
    result = run("serve", *arguments, "--listen", "127.0.0.1:0")

    assert result.returncode == 1
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


def test_demo_once_shows_queries_and_how_to_attach() -> None:
    result = run("demo", "--once")

    assert result.returncode == 0, result.stderr
    assert "SELECT count(*) FROM rental.trips" in result.stdout
    assert "300000" in result.stdout
    assert "ATTACH 'demo' AS demo (TYPE airport, LOCATION 'grpc://127.0.0.1:" in result.stdout


@pytest.mark.parametrize("command", [[], ["serve"], ["demo"]])
def test_help_explains_every_command(command: list[str]) -> None:
    result = run(*command, "--help")

    assert result.returncode == 0
    assert "Usage" in result.stdout


def test_version_is_told() -> None:
    assert run("--version").stdout.strip() == f"lakeport {lakeport.__version__}"
