"""DuckDB with the real lake format, and lakes made by it: for one run, or kept under build/."""

from __future__ import annotations

import fcntl
import importlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

__all__ = ["attached", "connect", "kept_lake", "temporary_lake"]

_KEPT: Final = Path(__file__).parents[1] / "build" / "bench"
_FREE_BYTES: Final = 2 << 30

MakeLake = Callable[[duckdb.DuckDBPyConnection], object]


def connect(*extensions: str) -> duckdb.DuckDBPyConnection:
    """Return a DuckDB with extensions that were installed as Python packages."""
    connection = duckdb.connect()
    for name in extensions:
        package = importlib.import_module(f"duckdb_extension_{name}")
        place = Path(next(iter(package.__path__)), "extensions", f"v{duckdb.__version__}")
        connection.execute(f"LOAD '{place / name}.duckdb_extension'")
    return connection


@contextmanager
def attached(uri: str, options: str = "READ_ONLY") -> Iterator[duckdb.DuckDBPyConnection]:
    """Return a DuckDB with a lake attached as `lake`."""
    with connect("ducklake", "sqlite_scanner", "postgres_scanner", "tpch") as connection:
        connection.execute(f"ATTACH '{uri}' AS lake ({options})")
        yield connection


def kept_lake(name: str, make: MakeLake, *, needed_bytes: int = 0) -> str:
    """Return the URI of a lake that is made once and kept; `make` fills it."""
    folder = _KEPT / f"{name}-duckdb{duckdb.__version__}"
    uri = f"ducklake:sqlite:{folder}/meta.sqlite"
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / "lock").open("w") as lock:
        # Another run may be making the same lake.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "ready").exists():
            return uri
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if shutil.disk_usage(folder).free < needed_bytes + _FREE_BYTES:
            raise OSError(f"the disk has no room for {needed_bytes / 1e9:.0f} GB")
        _make(uri, folder, make)
        (folder / "ready").touch()
    return uri


@contextmanager
def temporary_lake(make: MakeLake, uri: str | None = None) -> Iterator[str]:
    """Return the URI of a lake that is gone afterwards, on SQLite unless another place is given."""
    with tempfile.TemporaryDirectory() as folder:
        place = uri or f"ducklake:sqlite:{folder}/meta.sqlite"
        _make(place, Path(folder), make)
        yield place


def _make(uri: str, folder: Path, make: MakeLake) -> None:
    with attached(uri, f"DATA_PATH '{folder}/data/'") as connection:
        connection.execute("CALL lake.set_option('data_inlining_row_limit', 0)")
        make(connection)
        connection.execute("DETACH lake")
