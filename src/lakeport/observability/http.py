"""The HTTP port: `/metrics` for Prometheus; `/livez`, `/readyz` and `/healthz` for probes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from lakeport._files import reserve
from lakeport.errors import DefinitionError, UnavailableError
from lakeport.observability.metrics import Metrics

__all__ = ["serve_http", "split_address"]

_REQUEST_TIMEOUT: Final = 10.0
_MAX_REQUESTS: Final = 32


class HealthReport(Protocol):
    """The state of a server, and the reasons if it is degraded."""

    @property
    def state(self) -> str:
        """`starting`, `ready`, `degraded`, `draining` or `stopped`."""
        ...

    @property
    def reasons(self) -> Sequence[str]:
        """Why it is degraded."""
        ...

    @property
    def waits_for(self) -> Sequence[str]:
        """What is being started: the catalogs, or Spark, without which small scans run."""
        ...


class Health(Protocol):
    """Reports the state of a server."""

    def report(self) -> HealthReport:
        """Return the state now."""
        ...


@contextmanager
def serve_http(listen: str, health: Health, metrics: Metrics) -> Iterator[str]:
    """Answer probes and `/metrics` on a port of its own; yield its URL."""
    host, port = split_address(listen)
    handler = type("_BoundHandler", (_Handler,), {"health": health, "metrics": metrics})
    try:
        web = _SideServer((host, port), handler)
    except OSError as error:
        raise UnavailableError(f"cannot listen on {listen}: {error.strerror}") from None
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, name="lakeport-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{web.server_port}"
    finally:
        web.shutdown()
        web.server_close()


def split_address(listen: str) -> tuple[str, int]:
    """Return the host and the port of `host:port`."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise DefinitionError(f"{listen!r} is not host:port, such as 127.0.0.1:9815")
    return host.strip("[]"), int(port)


class _SideServer(ThreadingHTTPServer):
    """An HTTP server with a limit of requests, and a reserve of file descriptors."""

    def __init__(self, *arguments: Any) -> None:
        self._slots = threading.BoundedSemaphore(_MAX_REQUESTS)
        super().__init__(*arguments)

    def get_request(self) -> Any:
        with reserve():
            return super().get_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()


class _Handler(BaseHTTPRequestHandler):
    health: Health
    metrics: Metrics
    timeout = _REQUEST_TIMEOUT
    server_version = "lakeport"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.metrics.registry))
        elif path == "/livez":
            # The answer itself shows that the process lives; nothing else is checked.
            self._answer_json(200, {"state": "live"})
        elif path in ("/healthz", "/readyz"):
            report = self.health.report()
            body: dict[str, Any] = {"state": report.state}
            if report.reasons:
                body["reasons"] = report.reasons
            if path == "/readyz" and report.waits_for:
                body["waits_for"] = report.waits_for
            self._answer_json(200 if report.state == "ready" else 503, body)
        else:
            paths = b"there are /livez, /readyz, /healthz and /metrics\n"
            self._answer(404, "text/plain", paths)

    def log_message(self, *_: Any) -> None:
        pass

    def _answer_json(self, status: int, body: dict[str, Any]) -> None:
        self._answer(status, "application/json", json.dumps(body).encode())

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
