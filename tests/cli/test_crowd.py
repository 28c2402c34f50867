"""`lakeport serve` with few file descriptors, and more idle connections than it has."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from urllib.parse import urlsplit

import lakeport
from lakeport.errors import UnavailableError
from tests.cli.processes import COMMAND, running
from tests.cli.test_serve import LARGE, get
from tests.wait import wait_until

FEW = 'ulimit -Sn 128; ulimit -Hn 256; exec "$@"'
# Each second the server closes some forty of them, so more would only take longer.
CONNECTIONS = 400


def test_more_idle_connections_than_descriptors_lock_out_neither_clients_nor_health() -> None:
    arguments = ["serve", LARGE, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    with running(["bash", "-c", FEW, "bash", *COMMAND, *arguments]) as server:
        url = server.out.wait_for("/healthz").partition("/healthz")[0].strip()
        address = urlsplit(server.location)
        with ExitStack() as crowd:
            for _ in range(CONNECTIONS):
                connection = crowd.enter_context(socket.socket())
                connection.setblocking(False)
                connection.connect_ex((address.hostname, address.port))

            assert get(f"{url}/healthz") == (200, '{"state": "ready"}')

            server.log.wait_for("too many connections")

            def answers() -> bool:
                with lakeport.connect(server.location) as client:
                    try:
                        return [schema.name for schema in client.schemas()] == ["s"]
                    except UnavailableError:
                        return False

            assert wait_until(answers)
            assert get(f"{url}/healthz") == (200, '{"state": "ready"}')
