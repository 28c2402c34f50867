"""PostgreSQL and MariaDB servers of the tests and of one benchmark.

A server that has ended is started again on its data when the next database is created, so that one
lost process does not fail every test that follows.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import psycopg
import pymysql
import pytest

from tests.wait import TIMEOUT_SECONDS

__all__ = ["DatabaseServer", "MariaDB", "PostgreSQL", "mariadb", "postgresql", "unavailable"]

_START_ATTEMPTS: Final = 5


def unavailable(reason: str) -> None:
    """Skip the test; fail it on CI, where every server must be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


class DatabaseServer:
    """A server process in a folder of its own, on a free port of the loopback interface."""

    name: str
    stop_signal = signal.SIGTERM

    def __init__(self) -> None:
        # Not below pytest's folder: every pytest that starts makes that one private again, and a
        # server that runs as another user loses its data (pytest 9, `make_numbered_dir`).
        self.folder = Path(tempfile.mkdtemp(prefix="lakeport-database-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def create_database(self) -> str:
        """Create a database and return the location of a lake in it."""
        self._ensure_running()
        self._databases += 1
        name = f"lake{self._databases}"
        self.create(name)
        return self.location(name)

    def restart(self) -> None:
        """Stop the server and start it again on its data and its port."""
        self._stop()
        for _ in range(_START_ATTEMPTS):
            if self._start():
                return
        raise TimeoutError(f"{self.name} did not start again: {self._log_tail()}")

    def close(self) -> None:
        """Stop the server, kill it if it does not end, and remove its folder."""
        self._stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.stop_signal)
            try:
                self._process.wait(TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def command(self) -> Sequence[str]:
        """Return the command that runs the server on `self.port`."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise an error while the server does not accept connections."""
        raise NotImplementedError

    def create(self, name: str) -> None:
        """Create a database."""
        raise NotImplementedError

    def location(self, name: str) -> str:
        """Return the location of a lake in a database."""
        raise NotImplementedError

    def _ensure_running(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        for _ in range(_START_ATTEMPTS):
            # Another process may take the free port before the server does: then try another one.
            self.port = _free_port()
            if self._start():
                return
        raise TimeoutError(f"{self.name} did not start: {self._log_tail()}")

    def _start(self) -> bool:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder
            )
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._process.poll() is None:
            try:
                self.check()
            except Exception:
                if time.monotonic() > deadline:
                    self._process.kill()
                    self._process.wait()
                    break
                time.sleep(0.1)
            else:
                return True
        return False

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    def _log_tail(self) -> str:
        with suppress(OSError):
            return self._log.read_text(errors="replace")[-2000:]
        return "no output"


class PostgreSQL(DatabaseServer):
    """A PostgreSQL server without durability."""

    name = "PostgreSQL"
    stop_signal = signal.SIGINT  # does not wait for connections

    @staticmethod
    def initdb() -> Path | None:
        """Return the program that creates a cluster, or None if PostgreSQL is not installed."""
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        program = shutil.which("initdb") or (installed[-1] if installed else None)
        return None if program is None else Path(program)

    def __init__(self, initdb: Path) -> None:
        super().__init__()
        self._binaries = initdb.parent
        self._user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(self.folder, "postgres")
            self._user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        made = [*self._user, str(initdb), "-D", str(self.folder / "data"), "-A", "trust"]
        made += ["-U", "postgres", "-E", "UTF8"]
        subprocess.run(made, check=True, capture_output=True, cwd=self.folder)

    def command(self) -> Sequence[str]:
        return [
            *self._user, str(self._binaries / "postgres"), "-D", str(self.folder / "data"),
            "-p", str(self.port), "-k", str(self.folder), "-c", "listen_addresses=127.0.0.1",
            "-c", "fsync=off", "-c", "full_page_writes=off",
        ]  # fmt: skip

    def address(self, database: str) -> str:
        """Return how libpq connects to a database."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname={database}"

    def check(self) -> None:
        psycopg.connect(self.address("postgres")).close()

    def create(self, name: str) -> None:
        with psycopg.connect(self.address("postgres"), autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {name}".encode())

    def location(self, name: str) -> str:
        return f"ducklake:postgres:{self.address(name)}"


class MariaDB(DatabaseServer):
    """A MariaDB server without durability, with a user `lake`."""

    name = "MariaDB"

    def __init__(self, install: str, daemon: str) -> None:
        super().__init__()
        self._daemon = daemon
        self._user = ["--user=root"] if os.geteuid() == 0 else []
        self._data = f"--datadir={self.folder / 'data'}"
        made = [install, self._data, "--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run([*made, *self._user], check=True, capture_output=True)

    def command(self) -> Sequence[str]:
        self._socket.unlink(missing_ok=True)  # of a server that was killed
        return [
            self._daemon, "--no-defaults", self._data, f"--port={self.port}",
            f"--socket={self._socket}", f"--pid-file={self.folder / 'pid'}",
            "--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0",
            "--innodb-flush-method=nosync", "--sync-frm=OFF", *self._user,
        ]  # fmt: skip

    def check(self) -> None:
        self._socket.lstat()  # PyMySQL 1.1 leaks a socket when nothing listens
        for host in ("%", "localhost"):
            self._execute(f"CREATE USER IF NOT EXISTS 'lake'@'{host}' IDENTIFIED BY 'secret'")
            self._execute(f"GRANT ALL ON *.* TO 'lake'@'{host}'")

    def create(self, name: str) -> None:
        self._execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")

    def location(self, name: str) -> str:
        server = f"host=127.0.0.1 port={self.port} user=lake password=secret"
        return f"ducklake:mysql:db={name} {server}"

    def _execute(self, statement: str) -> None:
        with closing(
            pymysql.connect(unix_socket=str(self._socket), user="root", autocommit=True)
        ) as connection:
            connection.cursor().execute(statement)

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Callable[[], str]]:
    """Create databases on a PostgreSQL server; each call returns the location of a lake."""
    initdb = PostgreSQL.initdb()
    if initdb is None:
        unavailable("PostgreSQL is not installed (Debian: postgresql)")
        return
    with closing(PostgreSQL(initdb)) as server:
        yield server.create_database


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Callable[[], str]]:
    """Create databases on a MariaDB server; each call returns the location of a lake."""
    install = shutil.which("mariadb-install-db")
    daemon = shutil.which("mariadbd", path="/usr/sbin:/usr/bin")
    if install is None or daemon is None:
        unavailable("MariaDB is not installed (Debian: mariadb-server)")
        return
    with closing(MariaDB(install, daemon)) as server:
        yield server.create_database


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
