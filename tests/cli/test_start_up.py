"""A server that is starting answers probes: it lives, and reports what it waits for."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.cli.processes import COMMAND, environment
from tests.wait import TIMEOUT_SECONDS, wait_until


def get(url: str) -> tuple[int, dict[str, object]]:
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_server_that_waits_for_its_catalog_database_reports_it(tmp_path: Path) -> None:
    log, starting = tmp_path / "log", re.compile(r"the server is starting: (http://[\d.:]+)/")
    # A database server that accepts connections and never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent, log.open("wb") as output:
        port = silent.getsockname()[1]
        command = [
            *COMMAND, "serve", f"ducklake:postgres:host=127.0.0.1 port={port} dbname=lake",
            "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=output, stderr=output, env=environment()) as process:
            try:
                wait_until(
                    lambda: bool(starting.search(log.read_text())) or process.poll() is not None
                )
                found = starting.search(log.read_text())
                assert found, log.read_text()

                assert get(f"{found[1]}/livez") == (200, {"state": "live"})
                assert get(f"{found[1]}/readyz") == (
                    503,
                    {"state": "starting", "waits_for": ["the catalog databases"]},
                )
            finally:
                process.kill()
                process.wait()
