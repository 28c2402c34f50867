"""The lake of `lakeport demo`: trips of a bicycle rental, made by DuckDB's own extension."""

from __future__ import annotations

import importlib
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from lakeport.errors import DefinitionError, UnavailableError

__all__ = ["BEFORE_DELETE", "make_lake"]

TRIPS: Final = 300_000
_STATIONS: Final = (
    ("Harbour", 40),
    ("Old Mill", 24),
    ("Observatory", 18),
    ("Market Square", 60),
    ("Botanic Garden", 30),
    ("Lighthouse", 12),
    ("Workshop", 8),
)

BEFORE_DELETE: Final = 3
"""The snapshot that still has the trips of the workshop."""


def make_lake(folder: Path) -> Path:
    """Make a lake in a folder, snapshot by snapshot; gives the file of its catalog database."""
    database = folder / "demo.ducklake"
    if database.exists():
        raise DefinitionError(f"there is a lake already: lakeport serve {database} serves it")
    with closing(_duckdb_with_ducklake()) as duckdb:
        data = str(folder / "files").replace("'", "''")
        name = str(database).replace("'", "''")
        duckdb.execute(f"ATTACH 'ducklake:{name}' AS lake (DATA_PATH '{data}/')")
        for statement in _statements():
            duckdb.execute(statement)
    return database


def _statements() -> list[str]:
    """One snapshot each, except the comments, which share one."""
    stations = ", ".join(f"('{name}', {docks})" for name, docks in _STATIONS)
    half = TRIPS // 2
    return [
        f"CREATE TABLE lake.stations AS FROM (VALUES {stations}) AS s(name, docks)",
        f"CREATE TABLE lake.trips AS {_trips(0, half)}",
        f"INSERT INTO lake.trips {_trips(half, TRIPS)}",
        # Rides of the workshop are no trips.
        "DELETE FROM lake.trips WHERE station = 'Workshop'",
        "ALTER TABLE lake.trips RENAME COLUMN duration TO minutes",
        "BEGIN",
        "COMMENT ON TABLE lake.trips IS 'Every trip of a year'",
        "COMMENT ON COLUMN lake.trips.minutes IS 'How long the trip took'",
        "COMMENT ON TABLE lake.stations IS 'Where bicycles stand'",
        "COMMIT",
    ]


def _trips(first: int, last: int) -> str:
    """Trips with numbers of a range; the same ones every time."""
    return f"""
        SELECT i AS id,
            TIMESTAMPTZ '2025-01-01 00:00:00+00' + i * INTERVAL 105 SECOND AS started_at,
            s.name AS station,
            round(exp(2.8 + 0.6 * sqrt(-2 * ln((hash(i, 1) % 999983 + 1) / 1000000.0))
                * cos(2 * pi() * (hash(i, 2) % 1000003) / 1000003.0)), 1) AS duration
        FROM range({first}, {last}) AS r(i)
        JOIN (SELECT name, row_number() OVER () - 1 AS number FROM lake.stations) AS s
            ON s.number = hash(i, 3) % {len(_STATIONS)}
        ORDER BY i
    """  # noqa: S608


def _duckdb_with_ducklake() -> Any:
    import duckdb

    connection = duckdb.connect()
    try:
        connection.execute(f"LOAD '{_packaged(duckdb.__version__)}'")
    except (ImportError, duckdb.Error):
        try:
            connection.execute("INSTALL ducklake; LOAD ducklake")
        except duckdb.Error:
            connection.close()
            raise UnavailableError(
                "the demo writes its lake with DuckDB's extension 'ducklake', which is not "
                f"installed for DuckDB {duckdb.__version__} and cannot be downloaded: "
                'pip install "lakeport[demo]" installs a DuckDB and its extension'
            ) from None
    return connection


def _packaged(version: str) -> Path:
    """The extension of the package duckdb-extension-ducklake."""
    package = importlib.import_module("duckdb_extension_ducklake")
    folder = Path(next(iter(package.__path__)))
    return folder / "extensions" / f"v{version}" / "ducklake.duckdb_extension"
