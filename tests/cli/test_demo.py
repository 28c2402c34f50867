"""`lakeport demo`, on the session of the tests."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import DefinitionError
from tests.cli.processes import block, run
from tests.demo_recording import PICTURE

Command = Callable[..., Any]
README = Path(__file__).parents[2] / "README.md"


def test_the_demo_shows_queries_and_how_to_attach(
    spark: Any, lakeport_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    result = lakeport_command("demo", "--once")

    assert result.exit_code == 0, result.stderr
    assert "WHERE minutes > 150" in result.stdout
    assert "AT (VERSION => 3)" in result.stdout
    assert "300000" in result.stdout
    assert "lakeport.snapshots()" in result.stdout
    assert "Ferry Pier" in result.stdout
    assert "a new station" in result.stdout
    assert "public (main)" in result.stdout
    assert "ATTACH 'demo' AS demo (TYPE airport, LOCATION 'grpc://127.0.0.1:" in result.stdout
    assert list(tmp_path.glob("lakeport-demo-*")) == []
    # make recording draws the picture again.
    picture = unescape(PICTURE.read_text()).replace("\N{NO-BREAK SPACE}", " ")
    for line in result.stdout.splitlines():
        if line.startswith(("SELECT", "CALL", "INSERT")):
            assert line.partition("   ")[0] in picture
    # README.md shows the same lines.
    shown = {" ".join(line.split()) for line in result.stdout.splitlines()}
    for line in in_readme():
        assert any(each.startswith(line) for each in shown), line


def in_readme() -> list[str]:
    """Return the lines of the demo that are the same in every run, with single spaces."""
    (code,) = re.findall(r"```console\n\$ make demo\n(.*?)```", README.read_text(), re.DOTALL)
    lines = [" ".join(line.split()) for line in code.splitlines()]
    # A port or a folder that is free, and the rows of a query in any order.
    changing = ("Lakeport serves", "ATTACH", "The console", "…", "┏", "┃", "┡", "│", "└")
    kept = [line.partition("duckdb:…")[0].strip() for line in lines]
    return [line for line in kept if line and not line.startswith(changing)]


def test_a_lake_that_is_there_is_not_overwritten(lakeport_command: Command, tmp_path: Path) -> None:
    (tmp_path / "demo.ducklake").write_text("precious")

    result = lakeport_command("demo", "--once", "--folder", str(tmp_path))

    assert result.exit_code == 1
    assert "there is a lake already" in result.stderr
    assert (tmp_path / "demo.ducklake").read_text() == "precious"


def test_the_folder_is_made(
    lakeport_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(folder: Path) -> Path:
        raise DefinitionError(f"it is {'there' if folder.is_dir() else 'missing'}")

    monkeypatch.setattr("lakeport.cli.commands.demo.make_lake", stop)

    result = lakeport_command("demo", "--once", "--folder", str(tmp_path / "new" / "rental"))

    assert "it is there" in result.stderr


def test_a_folder_that_cannot_be_made_is_one_sentence(
    lakeport_command: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()

    result = lakeport_command("demo", "--once", "--folder", str(tmp_path / "file" / "rental"))

    assert result.exit_code == 1
    assert "rental cannot be made" in result.stderr


@pytest.mark.process
def test_the_demo_needs_neither_spark_nor_an_extension_of_duckdb(tmp_path: Path) -> None:
    block(tmp_path, "pyspark", "duckdb_extension_ducklake")

    result = run("demo", "--once", PYTHONPATH=str(tmp_path), HOME=str(tmp_path))

    assert result.returncode == 0, result.stderr
    assert "300000" in result.stdout
    assert "Ferry Pier" in result.stdout
