"""The Spark session of a server: started beside it, and replaced when it has ended."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from lakeport.catalog import current_request
from lakeport.cli.config import SparkSettings
from lakeport.cli.spark import is_active, silence_pyspark_loggers, start_session
from lakeport.errors import UnavailableError, first_line
from lakeport.observability import Metrics, child_memory
from lakeport.spark import is_connect, is_running, session, warm_up
from lakeport.spark.transport import stream_metrics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkSupervisor", "add_spark_gauges"]

_log = logging.getLogger("lakeport")

# Seconds between two checks of the Java process, and between two calls to it.
_CHECK_SECONDS: Final = 0.5
_CALL_SECONDS: Final = 5.0

# Seconds before another attempt to start Spark: the first pause, and the longest.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0

# Seconds that a call waits for a session that is being started: the first one, and a later one.
_FIRST_WAIT_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 10.0
_POLL: Final = 0.5

# Seconds to wait at the end for a session that is being started.
_CLOSE_SECONDS: Final = 2.0


class SparkSupervisor:
    """Returns the session to read with, and starts another one when it has ended.

    The first one is started in a thread, so that a server can answer everything that needs no Spark
    at once. A session ends when its Java process is killed, runs out of memory, or loses its
    cluster. Calls that need Spark get UNAVAILABLE until another session runs.
    """

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        # Guards the fields below, and is notified when the session changes.
        self._changed = threading.Condition()
        self._spark: SparkSession | None = None
        self._reason = ""
        self._has_run = False
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
    def has_run(self) -> bool:
        """Whether there was a session."""
        return self._has_run

    @property
    def is_starting(self) -> bool:
        """Whether a session is being started, the first or another one."""
        return self._thread is not None and not self._is_ready()

    @property
    def current(self) -> SparkSession | None:
        """The session that runs; None before the first, and while one is being started."""
        return self._spark

    def start(self) -> None:
        """Begin to start the first session, or use the one of this process, and monitor it."""
        if self._thread is not None:
            return
        settings = self._settings
        # Importing PySpark to find out would delay the start of the server.
        self._is_own = "pyspark" not in sys.modules or not is_active()
        if not self._is_own:
            self._spark = session(settings.master, **settings.conf)
            self._has_run = True
            self._quiet.enter_context(silence_pyspark_loggers())
        self._thread = threading.Thread(target=self._watch, name="lakeport-spark", daemon=True)
        self._thread.start()

    def session(self) -> SparkSession:
        """Return the session to read with; wait some seconds for one that is being started."""
        spark = self._spark
        if spark is not None and is_running(spark):
            return spark
        request = current_request()
        deadline = time.monotonic() + (_WAIT_SECONDS if self._has_run else _FIRST_WAIT_SECONDS)
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
        """Return why there is no session; None if one runs, or if the first one is starting."""
        if self._thread is None or self._is_ready():
            return None
        reason = f": {self._reason}" if self._reason else ""
        if self._has_run:
            return f"Spark has ended and is being started again{reason}; try again"
        return f"Spark does not start{reason}; try again" if reason else None

    def close(self) -> None:
        """Stop the session, unless this process had it before."""
        self._closing.set()
        if self._thread is not None:
            # Java ends with this process; a start cannot be interrupted.
            self._thread.join(_CLOSE_SECONDS if self._spark is None else None)
        if self._spark is not None and self._is_own:
            # Its Java process may have ended.
            with suppress(Exception):
                self._spark.stop()
        self._quiet.close()

    def _is_ready(self) -> bool:
        return self._spark is not None and is_running(self._spark)

    def _watch(self) -> None:
        if self._spark is None:
            began = time.monotonic()
            if self._begin():
                self._quiet.enter_context(silence_pyspark_loggers())
                _log.info("Spark runs after %.1f s", time.monotonic() - began)
        called = time.monotonic()
        while not self._closing.wait(_CHECK_SECONDS):
            lost = not self._is_ready()
            if not lost and time.monotonic() - called > _CALL_SECONDS:
                lost = self._has_stopped()
                called = time.monotonic()
            if lost:
                self._replace()

    def _has_stopped(self) -> bool:
        spark = self._spark
        try:
            return spark is not None and _is_stopped(spark)
        except Exception:  # noqa: BLE001
            # The next check finds a lost process; other errors may be temporary.
            return False

    def _replace(self) -> None:
        """Start another session in place of one that has ended."""
        began = time.monotonic()
        _log.error("Spark has ended: starting it again")
        lost, self._spark = self._spark, None
        if lost is not None and is_running(lost):
            with suppress(Exception):
                lost.stop()
        if self._begin():
            self._restarts += 1
            _log.info("Spark runs again after %.1f s", time.monotonic() - began)

    def _begin(self) -> bool:
        """Start a session; repeat until one runs. Return False if the server ends before."""
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            try:
                spark = start_session(self._settings.master, self._settings.conf, is_shown=False)
            except Exception as error:  # noqa: BLE001
                self._reason = first_line(error)
                _log.error("Spark does not start, next attempt in %g s: %s", pause, self._reason)
                self._closing.wait(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
                continue
            if self._closing.is_set():
                spark.stop()
                return False
            with self._changed:
                self._spark, self._reason, self._is_own = spark, "", True
                self._has_run = True
                self._changed.notify_all()
            if self._settings.warm_up:
                threading.Thread(
                    target=warm_up, args=[spark], name="lakeport-warm-up", daemon=True
                ).start()
            return True
        return False


def _is_stopped(spark: SparkSession) -> bool:
    """Return whether Java has stopped the session, which Python does not notice."""
    if is_connect(spark):
        return not is_running(spark)
    context: Any = spark.sparkContext
    return bool(context._jsc.sc().isStopped())  # noqa: SLF001


def _heap(spark: SparkSession | None) -> dict[str, float]:
    """Return the used and the largest heap of the driver; nothing if it is in another process."""
    if spark is None or is_connect(spark) or not is_running(spark):
        return {}
    try:
        java: Any = spark.sparkContext._jvm  # noqa: SLF001
        usage = java.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
        return {"used": usage.getUsed(), "max": usage.getMax()}
    except Exception:  # noqa: BLE001
        # The Java process has just ended.
        return {}


def add_spark_gauges(
    metrics: Metrics, supervisor: SparkSupervisor, catalogs: Callable[[], int]
) -> None:
    """Add gauges of catalogs, Spark jobs and scans, and of the batches that wait for clients."""

    def jobs() -> float:
        spark = supervisor.current
        if spark is None or is_connect(spark) or not is_running(spark):
            return 0
        try:
            return len(spark.sparkContext.statusTracker().getActiveJobsIds())
        except Exception:  # noqa: BLE001
            # The Java process has just ended.
            return 0

    metrics.add_gauge("catalogs", "Catalogs being served", catalogs)
    metrics.add_gauge("spark_jobs_active", "Spark jobs that are running", jobs)
    metrics.add_counter(
        "spark_restarts", "How often Spark was started again", lambda: supervisor.restarts
    )
    metrics.add_gauges(
        "spark_jvm_heap_bytes",
        "The heap of Spark's driver: used, and how large it may become",
        "state",
        lambda: _heap(supervisor.current),
    )
    metrics.add_gauges(
        "child_resident_memory_bytes",
        "Memory of the processes of Spark on this machine: the driver and the Python workers",
        "process",
        child_memory,
    )
    metrics.add_gauge(
        "spark_scans_running", "Scans that run on Spark", lambda: stream_metrics().scans
    )
    metrics.add_gauge(
        "spark_queued_bytes",
        "Bytes of Arrow that wait in the driver for their clients",
        lambda: stream_metrics().queued_bytes,
    )
