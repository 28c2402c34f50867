"""The names that users import: a change here is a change of the public interface."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import lakeport

SOURCES = Path(lakeport.__file__).parent
DOORS = [
    ".".join(("lakeport", *stub.parent.relative_to(SOURCES).parts))
    for stub in sorted(SOURCES.rglob("__init__.pyi"))
]


@pytest.mark.parametrize("door", DOORS)
def test_every_exported_name_is_there(door: str) -> None:
    module = importlib.import_module(door)

    missing = [name for name in module.__all__ if not hasattr(module, name)]

    assert missing == []


@pytest.mark.parametrize("door", ["lakeport.ducklake", "lakeport.spark"])
def test_the_reference_lists_every_exported_name(door: str) -> None:
    page = (SOURCES.parents[1] / "docs/reference" / f"{door.partition('.')[2]}.md").read_text()
    # The members of the first module of the page.
    listed = re.findall(r"^ +- (\w+)$", page.split(":::")[1], re.MULTILINE)

    assert sorted(listed) == sorted(importlib.import_module(door).__all__)


def test_the_front_door_shows_what_the_documentation_uses() -> None:
    promised = {
        "CatalogBuilder",
        "LakeCatalog",
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


@pytest.mark.process
def test_a_task_of_spark_imports_no_server_and_no_catalog_database() -> None:
    modules = imported_by(
        "import lakeport.spark.transport.sender, lakeport.spark.transport.results\n"
        "import lakeport.ducklake.reading.tasks, lakeport.ducklake.reading.derived_tasks"
    )

    assert "lakeport.ducklake.reading.data_files" in modules
    assert not modules & {"lakeport.airport", "lakeport.ducklake.lake", "sqlalchemy", "pyspark"}


@pytest.mark.process
def test_a_task_that_writes_files_imports_no_catalog_database() -> None:
    modules = imported_by(
        "from lakeport.ducklake.writing.files import (\n"
        "    FileTarget, RowFitter, read_added_files, write_delete_file, write_files)"
    )

    assert "lakeport.ducklake.writing.files.writer" in modules
    assert not modules & {"lakeport.airport", "lakeport.ducklake.lake", "sqlalchemy", "pyspark"}


@pytest.mark.process
def test_a_lake_is_opened_and_described_without_importing_spark() -> None:
    code = "from lakeport import Lake; from lakeport.ducklake import AutoEngine; AutoEngine().spark"

    assert "pyspark" not in imported_by(code)


def test_there_is_one_lake() -> None:
    assert lakeport.Lake is lakeport.ducklake.Lake
    assert not {"Lake", "LakeTable", "Scan", "ChangeFeed"} & set(lakeport.spark.__all__)


@pytest.mark.process
def test_importing_lakeport_does_not_import_spark() -> None:
    assert "pyspark" not in imported_by("from lakeport import *")


@pytest.mark.process
def test_an_archive_of_the_package_gives_the_same_names(tmp_path: Path) -> None:
    source = Path(lakeport.__file__).parent
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", source.parent, source.name)
    code = (
        f"import sys; sys.path.insert(0, {archive!r})\n"
        "import lakeport, lakeport.spark\n"
        "print(lakeport.spark.session.__module__, lakeport.connect.__module__, lakeport.__file__)"
    )

    printed = run(code).split()

    assert printed == [
        "lakeport.spark.session",
        "lakeport.airport.client.client",
        str(Path(archive, "lakeport", "__init__.py")),
    ]


def imported_by(code: str) -> set[str]:
    return set(run(f"{code}\nimport sys; print(*sys.modules)").split())


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout


def test_the_names_beside_those_of_airport_go_are_ours() -> None:
    page = Path(__file__).parent.parent / "docs" / "guides" / "airport-go.md"
    named = re.findall(r"^\| `[^|]+\| `(lakeport\.[\w.]+)` \|", page.read_text(), re.MULTILINE)

    missing = [name for name in named if not _resolves(name)]

    assert len(named) > 60
    assert missing == []


def _resolves(name: str) -> bool:
    found: object = lakeport
    for part in name.split(".")[1:]:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True
