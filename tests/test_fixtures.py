"""What the tests share survives the loss of a process, so that one fault stays one failure."""

from __future__ import annotations

from pathlib import Path

import psycopg

from tests.fixtures_databases import PostgreSQL, unavailable
from tests.wait import wait_until


def test_a_database_server_that_was_killed_is_started_again(tmp_path: Path) -> None:
    initdb = PostgreSQL.initdb()
    if initdb is None:
        unavailable("PostgreSQL is not installed (Debian: postgresql)")
        return
    folder = tmp_path / "server"
    folder.mkdir()
    server = PostgreSQL(folder, initdb)
    try:
        server.create_database()
        process = server._process
        assert process is not None
        process.kill()
        assert wait_until(lambda: process.poll() is not None)

        location = server.create_database()

        address = location.removeprefix("ducklake:postgres:")
        with psycopg.connect(address) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == ("lake2",)
    finally:
        server.close()
