"""`/metrics` and `/healthz`: what a server does, for Prometheus, and whether it can answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

import pyarrow as pa
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from lakeport.airport import EndedCall, Observer
from lakeport.ducklake.descriptors import reserve
from lakeport.errors import DefinitionError, UnavailableError

__all__ = ["Metrics", "Observers", "side_port"]

_SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
_REQUEST_TIMEOUT: Final = 10.0
_MOST_CATALOGS: Final = 200
_MOVED: Final = {
    "rows_sent": "Rows sent",
    "bytes_sent": "Bytes of Arrow sent",
    "rows_received": "Rows received",
    "bytes_received": "Bytes of Arrow received",
}
_MAX_REQUESTS: Final = 32


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def call_started(self, verb: str) -> None:
        """A call came in."""
        for observer in self._observers:
            observer.call_started(verb)

    def call_ended(self, call: EndedCall) -> None:
        """A call is over."""
        for observer in self._observers:
            observer.call_ended(call)

    def scan_started(self) -> None:
        """Rows are about to be read."""
        for observer in self._observers:
            observer.scan_started()

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """Rows were sent."""
        for observer in self._observers:
            observer.batch_sent(batch)

    def scan_ended(self, *, complete: bool) -> None:
        """A scan is over."""
        for observer in self._observers:
            observer.scan_ended(complete=complete)


class Metrics:
    """An observer that counts for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._calls = self._counter("calls", "Calls that ended", "verb", "status")
        self._seconds = Histogram(
            "lakeport_call_seconds",
            "Seconds from the headers of a call to its last byte",
            ["verb"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._running = Gauge(
            "lakeport_calls_running", "Calls that are running", ["verb"], registry=self.registry
        )
        self._scans = self._counter("scans", "Scans that ended", "result")
        self._streams = Gauge(
            "lakeport_streams_active", "Scans that are sending rows", registry=self.registry
        )
        self._rows = self._counter("rows_sent", "Rows sent by scans")
        self._bytes = self._counter("bytes_sent", "Bytes of Arrow sent by scans")
        self._catalogs = _Names(_MOST_CATALOGS)
        self._catalog_calls = self._counter(
            "catalog_calls", "Calls that ended, by catalog", "catalog", "status"
        )
        self._catalog_seconds = self._counter(
            "catalog_call_seconds", "Seconds of calls that ended, by catalog", "catalog"
        )
        self._catalog_moved = {
            what: self._counter(f"catalog_{what}", f"{title}, by catalog", "catalog")
            for what, title in _MOVED.items()
        }

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Show a number that is asked for whenever somebody looks."""
        gauge = Gauge(f"lakeport_{name}", description, registry=self.registry)
        gauge.set_function(value)

    def call_started(self, verb: str) -> None:
        """A call came in."""
        self._running.labels(verb).inc()

    def call_ended(self, call: EndedCall) -> None:
        """A call is over."""
        self._running.labels(call.verb).dec()
        self._calls.labels(call.verb, call.status).inc()
        self._seconds.labels(call.verb).observe(call.seconds)
        catalog = self._catalogs.label(call.catalog)
        self._catalog_calls.labels(catalog, call.status).inc()
        self._catalog_seconds.labels(catalog).inc(call.seconds)
        for what, counter in self._catalog_moved.items():
            counter.labels(catalog).inc(getattr(call, what))

    def scan_started(self) -> None:
        """Rows are about to be read."""
        self._streams.inc()

    def batch_sent(self, batch: pa.RecordBatch) -> None:
        """Rows were sent."""
        self._rows.inc(batch.num_rows)
        self._bytes.inc(batch.nbytes)

    def scan_ended(self, *, complete: bool) -> None:
        """A scan is over."""
        self._streams.dec()
        self._scans.labels("complete" if complete else "incomplete").inc()

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"lakeport_{name}", description, labels, registry=self.registry)


class _Names:
    """The names that a label may have: so many, and one for all others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def label(self, name: str) -> str:
        """The label of a name; the catalogs of a server may change while it runs."""
        with self._lock:
            if name in self._known or len(self._known) < self._most:
                self._known.add(name)
                return name
        return "other"


class HealthReport(Protocol):
    """The state of a server, and what is wrong with it."""

    @property
    def state(self) -> str:
        """`ready`, or what the server is instead."""
        ...

    @property
    def reasons(self) -> Sequence[str]:
        """Why it is degraded."""
        ...


class Health(Protocol):
    """Reports the state of a server."""

    def report(self) -> HealthReport:
        """Return the state now."""
        ...


@contextmanager
def side_port(listen: str, health: Health, metrics: Metrics) -> Iterator[str]:
    """Answer `/healthz` and `/metrics` on a port of its own; gives its URL."""
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
    """Host and port of `host:port`."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise DefinitionError(f"{listen!r} is not host:port, such as 127.0.0.1:9815")
    return host.strip("[]"), int(port)


class _SideServer(ThreadingHTTPServer):
    """Answers also when the process has no descriptors left, and a few requests at a time."""

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(_MAX_REQUESTS)
        super().__init__(*arguments)

    def get_request(self) -> Any:
        with reserve():
            return super().get_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()


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
        elif path == "/healthz":
            report = self.health.report()
            told: dict[str, Any] = {"state": report.state}
            if report.reasons:
                told["reasons"] = report.reasons
            status = 200 if report.state == "ready" else 503
            self._answer(status, "application/json", json.dumps(told).encode())
        else:
            self._answer(404, "text/plain", b"there are /healthz and /metrics\n")

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
