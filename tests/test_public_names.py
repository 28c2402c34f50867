"""The names that users import: a change here is a change of the public interface."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import lakeport

ROOMS = ["lakeport", "lakeport.catalog", "lakeport.filters", "lakeport.auth", "lakeport.memory"]


@pytest.mark.parametrize("room", ROOMS)
def test_every_exported_name_is_there(room: str) -> None:
    module = importlib.import_module(room)

    missing = [name for name in module.__all__ if not hasattr(module, name)]

    assert missing == []


def test_the_front_door_shows_what_the_documentation_uses() -> None:
    promised = {
        "CatalogBuilder",
        "MemoryCatalog",
        "Server",
        "TlsConfig",
        "col",
        "connect",
        "current_request",
        "find_rowid_column",
        "project_schema",
        "serve",
    }

    assert promised <= set(lakeport.__all__)


def test_importing_lakeport_does_not_import_spark() -> None:
    code = "import sys, lakeport; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
