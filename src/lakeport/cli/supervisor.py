"""The Spark session of a server: started once, and replaced when it has ended by itself."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from lakeport.catalog import current_request
from lakeport.cli.config import SparkSettings
from lakeport.cli.spark import is_active, quiet_errors, start_session
from lakeport.errors import UnavailableError
from lakeport.observability import Metrics
from lakeport.spark import is_connect, is_running, session
from lakeport.spark.transport import stream_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeport.cli.catalogs import ServedCatalogs

__all__ = ["SparkSupervisor", "add_spark_gauges"]

_log = logging.getLogger("lakeport")

# Seconds between two looks at the Java process, and between two calls to it.
_LOOK: Final = 0.5
_CALL: Final = 5.0

# Seconds before another attempt to start Spark: the first one, and the longest.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0

# Seconds that a call waits for a session that is being started.
_PATIENCE: Final = 10.0
_POLL: Final = 0.5


class SparkSupervisor:
    """Returns the session to read with, and starts another when it has ended.

    The session ends by itself when its Java process is killed, runs out of memory, or loses its
    cluster. Calls get UNAVAILABLE until another one runs.
    """

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        # Guards what follows, and is notified when the session changes.
        self._changed = threading.Condition()
        self._spark: SparkSession | None = None
        self._reason = ""
        self._restarts = 0
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_own = True
        self._quiet = ExitStack()

    @property
    def restarts(self) -> int:
        """How often the session was replaced."""
        return self._restarts

    @property
    def current(self) -> SparkSession | None:
        """The session that runs; None before the first, and while one is being started."""
        return self._spark

    def start(self) -> None:
        """Start the first session, or take the one of this process, and watch it from now on."""
        if self._thread is not None:
            return
        settings = self._settings
        self._is_own = not is_active()
        begin = start_session if self._is_own else _reuse
        self._spark = begin(settings.master, settings.conf)
        self._quiet.enter_context(quiet_errors())
        self._thread = threading.Thread(target=self._watch, name="lakeport-spark", daemon=True)
        self._thread.start()

    def session(self) -> SparkSession:
        """The session to read with; waits some seconds for one that is being started."""
        spark = self._spark
        if spark is not None and is_running(spark):
            return spark
        request = current_request()
        deadline = time.monotonic() + _PATIENCE
        with self._changed:
            while not self._is_ready():
                if request.is_cancelled() or time.monotonic() > deadline or self._closing.is_set():
                    raise UnavailableError(self.trouble() or "Spark is starting; try again")
                self._changed.wait(_POLL)
            assert self._spark is not None  # noqa: S101
            return self._spark

    def check(self) -> None:
        """Raise UnavailableError if the session does not answer."""
        trouble = self.trouble()
        if trouble is not None:
            raise UnavailableError(trouble)
        if self._spark is not None and _is_stopped(self._spark):
            raise UnavailableError("the Spark session has ended")

    def trouble(self) -> str | None:
        """Why there is no session now; None if one runs, or none was needed yet."""
        if self._thread is None or self._is_ready():
            return None
        reason = f": {self._reason}" if self._reason else ""
        return f"Spark has ended and is being started again{reason}; try again"

    def close(self) -> None:
        """Stop the session, unless it was there before."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
        if self._spark is not None and self._is_own:
            # Its Java may be gone.
            with suppress(Exception):
                self._spark.stop()
        self._quiet.close()

    def _is_ready(self) -> bool:
        return self._spark is not None and is_running(self._spark)

    def _watch(self) -> None:
        called = time.monotonic()
        while not self._closing.wait(_LOOK):
            lost = not self._is_ready()
            if not lost and time.monotonic() - called > _CALL:
                lost = self._has_stopped()
                called = time.monotonic()
            if lost:
                self._replace()

    def _has_stopped(self) -> bool:
        spark = self._spark
        try:
            return spark is not None and _is_stopped(spark)
        except Exception:  # noqa: BLE001
            # Seen as a lost process by the next look, or else it may pass.
            return False

    def _replace(self) -> None:
        """Start another session, again and again until one runs or the server ends."""
        began = time.monotonic()
        _log.error("Spark has ended: starting it again")
        lost, self._spark = self._spark, None
        if lost is not None and is_running(lost):
            with suppress(Exception):
                lost.stop()
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            try:
                spark = start_session(self._settings.master, self._settings.conf)
            except Exception as error:  # noqa: BLE001
                self._reason = str(error).strip().partition("\n")[0]
                _log.error("Spark does not start, next attempt in %g s: %s", pause, self._reason)
                self._closing.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            with self._changed:
                self._spark, self._reason, self._is_own = spark, "", True
                self._restarts += 1
                self._changed.notify_all()
            _log.info("Spark runs again after %.1f s", time.monotonic() - began)
            return


def _reuse(master: str | None, conf: Any) -> SparkSession:
    return session(master, **conf)


def _is_stopped(spark: SparkSession) -> bool:
    """Ask Java whether it has stopped the session, which Python does not notice."""
    if is_connect(spark):
        return not is_running(spark)
    context: Any = spark.sparkContext
    return bool(context._jsc.sc().isStopped())  # noqa: SLF001


def add_spark_gauges(metrics: Metrics, catalogs: ServedCatalogs) -> None:
    """Show the scans and jobs that run on Spark, and the batches that wait for clients."""

    def jobs() -> float:
        spark = catalogs.spark.current
        if spark is None or is_connect(spark) or not is_running(spark):
            return 0
        try:
            return len(spark.sparkContext.statusTracker().getActiveJobsIds())
        except Exception:  # noqa: BLE001
            # Java ended a moment ago.
            return 0

    metrics.watch("catalogs", "Catalogs being served", lambda: len(catalogs.lakes))
    metrics.watch("spark_jobs_active", "Spark jobs that are running", jobs)
    metrics.watch(
        "spark_restarts", "How often Spark was started again", lambda: catalogs.spark.restarts
    )
    metrics.watch("spark_scans", "Scans that run on Spark", lambda: stream_metrics().scans)
    metrics.watch(
        "spark_queued_bytes",
        "Bytes of Arrow that wait in the driver for their clients",
        lambda: stream_metrics().queued_bytes,
    )
