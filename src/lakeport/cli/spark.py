"""Spark for commands: started while somebody watches, without the noise of its JVM."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from lakeport.errors import LakeportError, UnavailableError, first_line
from lakeport.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_active", "quiet_errors", "spark_session", "start_session"]

_log = logging.getLogger("lakeport.jvm")

_MAX_LINE: Final = 4000
_LINES_KEPT: Final = 100
_PY4J: Final = ("py4j.clientserver", "py4j.java_gateway")
_FAILURE: Final = re.compile(r"\b(Exception|Error)\b.*:")


@contextmanager
def spark_session(
    master: str | None = None, conf: Mapping[str, Any] | None = None
) -> Iterator[SparkSession]:
    """The session that is active, or one that is started here and stopped at the end."""
    if is_active():
        with quiet_errors():
            yield session(master, **(conf or {}))
        return
    spark = start_session(master, conf or {})
    try:
        with quiet_errors():
            yield spark
    finally:
        spark.stop()


@contextmanager
def quiet_errors() -> Iterator[None]:
    """Keep PySpark from printing what is raised, too: failed queries, calls to a lost Java."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger("SQLQueryContextLogger"), *map(logging.getLogger, _PY4J)]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def is_active() -> bool:
    """Whether this process has a Spark session."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return False
    return SparkSession.getActiveSession() is not None


def start_session(master: str | None, conf: Mapping[str, Any]) -> SparkSession:
    """Start a session; what its JVM prints goes to the log at DEBUG."""
    interrupt = signal.getsignal(signal.SIGINT)
    said = _JvmLines()
    with _own_stderr(said) as console, console.status("Starting Spark …"):
        try:
            return session(master, **conf)
        except LakeportError:
            raise
        except Exception as error:  # noqa: BLE001
            reason = said.failure() or first_line(error)
            raise UnavailableError(f"Spark did not start: {reason}") from None
        finally:
            # PySpark takes Ctrl-C for itself.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupt)


class _JvmLines:
    """What the JVM prints: the last lines are kept until they can be logged, later ones are not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[str] = deque(maxlen=_LINES_KEPT)
        self._released = False

    def read(self, descriptor: int) -> None:
        """Take lines until everybody who writes them has gone."""
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(_MAX_LINE):
                with self._lock:
                    if self._released:
                        _log.debug("%s", line.rstrip())
                    else:
                        self._kept.append(line.rstrip())

    def failure(self) -> str | None:
        """The first line that looks like the reason of a failure."""
        with self._lock:
            return next((line for line in self._kept if _FAILURE.search(line)), None)

    def release(self) -> None:
        """Log what was kept, and from now on every line as it comes."""
        with self._lock:
            self._released = True
            while self._kept:
                _log.debug("%s", self._kept.popleft())


@contextmanager
def _own_stderr(said: _JvmLines) -> Iterator[Console]:
    """Let children that are started inside write to the log at DEBUG instead of standard error.

    The JVM prints warnings that nobody can act upon, and keeps the standard error it began with.
    """
    reading, writing = os.pipe()
    kept = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    lines = threading.Thread(target=said.read, args=(reading,), name="lakeport-jvm", daemon=True)
    lines.start()
    is_terminal = os.isatty(kept)
    with os.fdopen(os.dup(kept), "w", encoding="utf-8") as terminal:
        # A server that starts Spark again goes on to write its log.
        logs = _log_handlers()
        for handler in logs:
            handler.setStream(terminal)
        try:
            yield Console(file=terminal, force_terminal=is_terminal, quiet=not is_terminal)
        finally:
            for handler in logs:
                handler.setStream(sys.stderr)
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            # The log goes to standard error: before, every line of it would have come back.
            said.release()


def _log_handlers() -> list[logging.StreamHandler[Any]]:
    """The handlers of Lakeport's log that write to standard error."""
    handlers = logging.getLogger("lakeport").handlers
    return [
        handler
        for handler in handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]
