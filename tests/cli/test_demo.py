"""`lakeport demo`, on the session of the tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.errors import DefinitionError
from tests.cli.processes import run

Command = Callable[..., Any]


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
def test_a_duckdb_without_the_extension_asks_for_the_extra_of_the_demo(tmp_path: Path) -> None:
    other_version = tmp_path / "duckdb_extension_ducklake" / "extensions" / "v0.0.0"
    other_version.mkdir(parents=True)
    (other_version.parent.parent / "__init__.py").touch()
    unreachable = "http://127.0.0.1:9"

    result = run(
        "demo",
        "--once",
        "--folder",
        str(tmp_path / "rental"),
        PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
        HOME=str(tmp_path),
        HTTP_PROXY=unreachable,
        HTTPS_PROXY=unreachable,
        http_proxy=unreachable,
        https_proxy=unreachable,
    )

    assert result.returncode == 1
    assert 'pip install "lakeport[demo]"' in result.stderr
    assert "duckdb-extension" not in result.stderr
    assert "Traceback" not in result.stderr
