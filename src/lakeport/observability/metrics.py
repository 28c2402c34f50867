"""Metrics of a server for Prometheus, and an observer that joins several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from typing import Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lakeport._cache import cache_counts
from lakeport.airport.server import CallEnded, Observer

__all__ = ["CompositeObserver", "Metrics"]

T = TypeVar("T", bound=Hashable)

LATENCY_BUCKETS: Final = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 300.0)
SCAN_BUCKETS: Final = tuple(float(1 << power) for power in range(10, 37, 3))
"""From 1 KiB to 16 GiB, and a bucket for more."""

_MAX_CATALOGS: Final = 200
_MAX_TABLES: Final = 500
_MAX_COUNTERS: Final = 4096
_MOVED: Final = {
    "rows_sent": "Rows sent",
    "bytes_sent": "Bytes of Arrow sent",
    "rows_received": "Rows received",
    "bytes_received": "Bytes of Arrow received",
}


class CompositeObserver:
    """Passes every event to several observers."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def call_started(self, verb: str) -> None:
        """Report that a call has begun."""
        for observer in self._observers:
            observer.call_started(verb)

    def call_ended(self, call: CallEnded) -> None:
        """Report that a call has ended."""
        for observer in self._observers:
            observer.call_ended(call)

    def scan_started(self) -> None:
        """Report that a scan has begun."""
        for observer in self._observers:
            observer.scan_started()

    def batch_sent(self, rows: int, size: int) -> None:
        """Report that a batch was sent."""
        for observer in self._observers:
            observer.batch_sent(rows, size)

    def scan_ended(self, *, complete: bool) -> None:
        """Report that a scan has ended."""
        for observer in self._observers:
            observer.scan_ended(complete=complete)


class Metrics:
    """An observer that counts events for Prometheus."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._calls = self._counter("calls", "Calls that ended", "verb", "status")
        self._seconds = Histogram(
            "lakeport_call_seconds",
            "Seconds from the headers of a call to its last byte",
            ["verb"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self._running = Gauge(
            "lakeport_calls_running", "Calls that are running", ["verb"], registry=self.registry
        )
        self._scans = self._counter("scans", "Scans that ended", "result")
        self._streams = Gauge(
            "lakeport_scans_running", "Scans that are sending rows", registry=self.registry
        )
        self._rows = self._counter("rows_sent", "Rows sent by scans")
        self._bytes = self._counter("bytes_sent", "Bytes of Arrow sent by scans")
        self._scan_bytes = Histogram(
            "lakeport_scan_bytes",
            "Bytes of Arrow that a scan has sent, of scans that ended without an error",
            buckets=SCAN_BUCKETS,
            registry=self.registry,
        )
        self._tables = _Names(_MAX_TABLES, other=("other", "other"))
        self._table_scans = self._counter(
            "table_scans", "Scans that ended without an error, by table", "catalog", "table"
        )
        self._table_bytes = self._counter(
            "table_bytes_sent", "Bytes of Arrow sent by these scans", "catalog", "table"
        )
        self.registry.register(_Collector(_cache_requests))
        self._catalogs = _Names(_MAX_CATALOGS, other="other")
        self._catalog_calls = self._counter(
            "catalog_calls", "Calls that ended, by catalog", "catalog", "status"
        )
        self._catalog_seconds = self._counter(
            "catalog_call_seconds", "Seconds of calls that ended, by catalog", "catalog"
        )
        self._moved_by: set[str] = set()
        # Finding the counters of labels takes longer than counting.
        self._of_verb = lru_cache(_MAX_COUNTERS)(self._find_of_verb)
        self._of_result = lru_cache(_MAX_COUNTERS)(self._find_of_result)
        self._of_table = lru_cache(_MAX_COUNTERS)(self._find_of_table)
        self._catalog_moved = {
            what: self._counter(f"catalog_{what}", f"{title}, by catalog", "catalog")
            for what, title in _MOVED.items()
        }

        self._maintenance = self._counter(
            "maintenance", "Operations of maintenance", "catalog", "operation", "result"
        )
        self._maintained_files = self._counter(
            "maintenance_files", "Files that maintenance has replaced", "catalog", "operation"
        )
        self._maintained_bytes = self._counter(
            "maintenance_bytes", "Bytes of the replaced files", "catalog", "operation"
        )

    def maintained(
        self, catalog: str, operation: str, *, files: int, size: int, failed: bool
    ) -> None:
        """Count an operation of maintenance that had something to do."""
        label = self._catalogs.label(catalog)
        self._maintenance.labels(label, operation, "failed" if failed else "done").inc()
        self._maintained_files.labels(label, operation).inc(files)
        self._maintained_bytes.labels(label, operation).inc(size)

    def add_gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is computed when the metrics are read."""
        gauge = Gauge(f"lakeport_{name}", description, registry=self.registry)
        gauge.set_function(value)

    def add_counter(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a counter whose value is computed when the metrics are read."""

        def collect() -> Iterator[Metric]:
            yield CounterMetricFamily(f"lakeport_{name}", description, value=value())

        self.registry.register(_Collector(collect))

    def add_gauges(
        self, name: str, description: str, label: str, values: Callable[[], Mapping[str, float]]
    ) -> None:
        """Add a gauge for each of a few values of a label, computed when the metrics are read."""

        def collect() -> Iterator[Metric]:
            family = GaugeMetricFamily(f"lakeport_{name}", description, labels=[label])
            for kind, value in values().items():
                family.add_metric([kind], value)
            yield family

        self.registry.register(_Collector(collect))

    def call_started(self, verb: str) -> None:
        """Count a running call."""
        self._of_verb(verb)[0].inc()

    def call_ended(self, call: CallEnded) -> None:
        """Count a call with its seconds, rows and bytes."""
        running, seconds = self._of_verb(call.verb)
        running.dec()
        seconds.observe(call.seconds)
        catalog = self._catalogs.label(call.catalog)
        calls, catalog_calls, catalog_seconds = self._of_result(call.verb, call.status, catalog)
        calls.inc()
        catalog_calls.inc()
        catalog_seconds.inc(call.seconds)
        # Names of other calls may be those of tables that are not there.
        if call.verb == "DoGet" and call.status == "OK" and call.table:
            self._scan_bytes.observe(call.bytes_sent)
            scans, size = self._of_table(*self._tables.label((call.catalog, call.table)))
            scans.inc()
            size.inc(call.bytes_sent)
        if call.rows_sent or call.rows_received or catalog not in self._moved_by:
            # A label of its own makes a counter visible, and few calls move rows.
            for what, counter in self._catalog_moved.items():
                counter.labels(catalog).inc(getattr(call, what))
            self._moved_by.add(catalog)

    def scan_started(self) -> None:
        """Count a running scan."""
        self._streams.inc()

    def batch_sent(self, rows: int, size: int) -> None:
        """Count the rows and bytes of a batch."""
        self._rows.inc(rows)
        self._bytes.inc(size)

    def scan_ended(self, *, complete: bool) -> None:
        """Count a scan that has ended."""
        self._streams.dec()
        self._scans.labels("complete" if complete else "incomplete").inc()

    def _find_of_verb(self, verb: str) -> tuple[Gauge, Histogram]:
        return self._running.labels(verb), self._seconds.labels(verb)

    def _find_of_table(self, catalog: str, table: str) -> tuple[Counter, Counter]:
        return self._table_scans.labels(catalog, table), self._table_bytes.labels(catalog, table)

    def _find_of_result(
        self, verb: str, status: str, catalog: str
    ) -> tuple[Counter, Counter, Counter]:
        return (
            self._calls.labels(verb, status),
            self._catalog_calls.labels(catalog, status),
            self._catalog_seconds.labels(catalog),
        )

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"lakeport_{name}", description, labels, registry=self.registry)


def _cache_requests() -> Iterator[Metric]:
    family = CounterMetricFamily(
        "lakeport_cache_requests",
        "Lookups in the caches of this process, by whether the entry was there",
        labels=["cache", "result"],
    )
    for name, counts in sorted(cache_counts().items()):
        family.add_metric([name, "hit"], counts.hits)
        family.add_metric([name, "miss"], counts.misses)
    yield family


class _Collector(Collector):
    """Metrics that are computed when they are read."""

    def __init__(self, read: Callable[[], Iterator[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        return self._read()


class _Names(Generic[T]):
    """The values of a label: at most `max_names` names, and `other` for the rest."""

    def __init__(self, max_names: int, *, other: T) -> None:
        self._max_names = max_names
        self._other = other
        self._names: set[T] = set()
        self._lock = threading.Lock()

    def label(self, name: T) -> T:
        """Return the label of a name; new ones may appear while the server runs."""
        if name in self._names:
            return name
        with self._lock:
            if name in self._names or len(self._names) < self._max_names:
                self._names.add(name)
                return name
        return self._other
