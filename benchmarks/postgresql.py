"""A PostgreSQL server of our own, for one benchmark."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import psycopg

__all__ = ["initdb", "postgresql"]

_TIMEOUT: Final = 60.0


def initdb() -> Path | None:
    """The program that makes a cluster, where PostgreSQL is installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found)
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1] if installed else None


@contextmanager
def postgresql(program: Path) -> Iterator[str]:
    """The address of an empty database, in the words of libpq; gone afterwards."""
    with tempfile.TemporaryDirectory() as name, closing(socket.socket()) as probe:
        folder = Path(name)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(folder, "postgres")
            user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        data = ["-D", str(folder / "data")]
        made = [*user, str(program), *data, "-A", "trust", "-U", "postgres", "-E", "UTF8"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder)
        listen = ["-p", str(port), "-k", name, "-c", "listen_addresses=127.0.0.1"]
        server = subprocess.Popen(
            [*user, str(program.with_name("postgres")), *data, *listen, "-c", "fsync=off"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            address = f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
            _wait(address)
            yield address
        finally:
            server.send_signal(signal.SIGINT)  # does not wait for connections
            server.wait(_TIMEOUT)


def _wait(address: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        try:
            psycopg.connect(address).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
