"""The health of a server, which `/readyz` and `/healthz` report: whether it can answer queries.

Spark and the catalog database of each lake are queried in threads of their own. So a database that
hangs delays neither the report nor the other checks. Results are valid for some seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lakeport.airport.server import Server
from lakeport.cli.catalogs import ServedCatalogs
from lakeport.errors import first_line
from lakeport.lakehouse import LakeCatalog

__all__ = ["Health", "Report", "StartingHealth"]

_log = logging.getLogger("lakeport")

# Seconds that a check may take, and for which its result is valid.
_TIMEOUT_SECONDS: Final = 4.0
_VALID_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Report:
    """The state of a server, and what is wrong with it."""

    state: str
    """`starting`, `ready`, `degraded`, `draining` or `stopped`."""
    reasons: tuple[str, ...] = ()
    waits_for: tuple[str, ...] = ()
    """What is being started."""


class StartingHealth:
    """Reports that a server is starting, until its own health is known."""

    def __init__(self) -> None:
        self.started: Health | None = None
        """The health of the server, once it runs."""

    def report(self) -> Report:
        """Return the state, and what the start waits for."""
        if self.started is None:
            return Report("starting", waits_for=("the catalog databases",))
        return self.started.report()


class Health:
    """Checks Spark and the catalog databases of a server."""

    def __init__(self, server: Server, catalogs: ServedCatalogs) -> None:
        self._server = server
        self._catalogs = catalogs
        self._spark = _Probe("Spark does not answer", catalogs.spark.check)
        # Guards the probes of lakes, which change when the configuration is reloaded.
        self._lock = threading.Lock()
        self._lakes: dict[str, tuple[LakeCatalog, _Probe]] = {}

    def report(self) -> Report:
        """Return the state, which may be some seconds old."""
        state = self._server.state
        if state != "ready":
            return Report(state)
        probes = [self._spark, *self._lake_probes()]
        for probe in probes:
            probe.start()
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        answers = [probe.answer(deadline) for probe in probes]
        # The supervisor notices the end of Spark at once; a check may be some seconds old.
        if self._catalogs.spark.trouble() is not None:
            started = self._catalogs.spark.has_run
            answers[0] = (
                "Spark has ended and is being started again" if started else "Spark does not start"
            )
        reasons = tuple(reason for reason in answers if reason)
        waits_for = ("Spark",) if self._catalogs.spark.is_starting else ()
        return Report("degraded" if reasons else "ready", reasons, waits_for)

    def _lake_probes(self) -> list[_Probe]:
        with self._lock:
            previous, self._lakes = self._lakes, {}
            for name, catalog in self._catalogs.opened.items():
                if isinstance(catalog, LakeCatalog):
                    before = previous.get(name)
                    if before is not None and before[0] is catalog:
                        self._lakes[name] = before
                    else:
                        self._lakes[name] = catalog, _lake_probe(name, catalog)
            return [probe for _, probe in self._lakes.values()]


def _lake_probe(name: str, catalog: LakeCatalog) -> _Probe:
    def read() -> None:
        catalog.lake.snapshot()

    return _Probe(f"the catalog database of {name or 'the lake'!r} cannot be read", read)


class _Probe:
    """One check, run by one thread at a time."""

    def __init__(self, trouble: str, check: Callable[[], object]) -> None:
        self._trouble = trouble
        self._check = check
        self._changed = threading.Condition()
        self._is_running = False
        self._answered: float | None = None
        self._failure: str | None = None

    def start(self) -> None:
        """Start the check, unless it is running or its last result is still valid."""
        with self._changed:
            is_fresh = (
                self._answered is not None and time.monotonic() - self._answered < _VALID_SECONDS
            )
            if is_fresh or self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._run, name="lakeport-health", daemon=True).start()

    def answer(self, deadline: float) -> str | None:
        """Wait for the result and return the problem, without names of machines, or None."""
        with self._changed:
            left = max(0.0, deadline - time.monotonic())
            if not self._changed.wait_for(lambda: not self._is_running, timeout=left):
                return f"{self._trouble}: no answer within {_TIMEOUT_SECONDS:g} seconds"
            return self._trouble if self._failure else None

    def _run(self) -> None:
        failure = None
        try:
            self._check()
        except Exception as error:  # noqa: BLE001
            failure = first_line(error)
        with self._changed:
            if failure and failure != self._failure:
                _log.warning("%s: %s", self._trouble, failure)
            self._failure, self._answered, self._is_running = failure, time.monotonic(), False
            self._changed.notify_all()
