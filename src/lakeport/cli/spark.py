"""Spark sessions for commands, without the output of the JVM on the terminal."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from lakeport.errors import LakeportError, UnavailableError, first_line
from lakeport.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_active", "silence_pyspark_loggers", "spark_session", "start_session"]

_log = logging.getLogger("lakeport.jvm")

_MAX_LINE: Final = 4000
_LINES_KEPT: Final = 100
_PY4J: Final = ("py4j.clientserver", "py4j.java_gateway")
_FAILURE: Final = re.compile(r"\b(Exception|Error)\b.*:")


@contextmanager
def spark_session(
    master: str | None = None, conf: Mapping[str, Any] | None = None
) -> Iterator[SparkSession]:
    """Yield the active session, or one that is started here and stopped at the end."""
    if is_active():
        with silence_pyspark_loggers():
            yield session(master, **(conf or {}))
        return
    spark = start_session(master, conf or {})
    try:
        with silence_pyspark_loggers():
            yield spark
    finally:
        spark.stop()


@contextmanager
def silence_pyspark_loggers() -> Iterator[None]:
    """Disable the loggers with which PySpark and Py4J print errors that they also raise."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger("SQLQueryContextLogger"), *map(logging.getLogger, _PY4J)]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    # py4j 0.10.9.9 logs a command that a lost connection ends with the root logger.
    root = logging.getLogger()
    root.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)
        for logger, was_disabled in zip(loggers, before, strict=True):
            logger.disabled = was_disabled


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def is_active() -> bool:
    """Return whether this process has a Spark session."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        return False
    return SparkSession.getActiveSession() is not None


def start_session(
    master: str | None, conf: Mapping[str, Any], *, is_shown: bool = True
) -> SparkSession:
    """Start a session; log the output of its JVM at DEBUG. On a terminal, show that it starts."""
    interrupt = signal.getsignal(signal.SIGINT)
    jvm_log = _JvmLog()
    with _capture_stderr(jvm_log) as console, _status(console, is_shown=is_shown):
        try:
            return session(master, **conf)
        except LakeportError:
            raise
        except Exception as error:  # noqa: BLE001
            reason = jvm_log.failure() or first_line(error)
            raise UnavailableError(f"Spark did not start: {reason}") from None
        finally:
            # PySpark replaces the handler of Ctrl-C.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupt)


def _status(console: Console, *, is_shown: bool) -> AbstractContextManager[object]:
    return console.status("Starting Spark …") if is_shown else nullcontext()


class _JvmLog:
    """The output of the JVM: buffered until `release`, then logged line by line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._buffer: deque[str] = deque(maxlen=_LINES_KEPT)
        self._released = False

    def read(self, descriptor: int) -> None:
        """Read lines until all writers have closed the pipe."""
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(_MAX_LINE):
                with self._lock:
                    if self._released:
                        _log.debug("%s", line.rstrip())
                    else:
                        self._buffer.append(line.rstrip())

    def failure(self) -> str | None:
        """Return the first line that looks like the reason of a failure, or None."""
        with self._lock:
            return next((line for line in self._buffer if _FAILURE.search(line)), None)

    def release(self) -> None:
        """Log the buffered lines, and from now on every line when it is read."""
        with self._lock:
            self._released = True
            while self._buffer:
                _log.debug("%s", self._buffer.popleft())


@contextmanager
def _capture_stderr(jvm_log: _JvmLog) -> Iterator[Console]:
    """Redirect standard error of processes that are started inside to the log at DEBUG.

    The JVM prints warnings that do not help users. It keeps the standard error of its start.
    """
    reading, writing = os.pipe()
    original = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    lines = threading.Thread(target=jvm_log.read, args=(reading,), name="lakeport-jvm", daemon=True)
    lines.start()
    is_terminal = os.isatty(original)
    with os.fdopen(os.dup(original), "w", encoding="utf-8") as terminal:
        # A server that starts Spark again continues to write its log.
        logs = _log_handlers()
        for handler in logs:
            handler.setStream(terminal)
        try:
            yield Console(file=terminal, force_terminal=is_terminal, quiet=not is_terminal)
        finally:
            for handler in logs:
                handler.setStream(sys.stderr)
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            # Only now: the log writes to standard error, which was the pipe that is read here.
            jvm_log.release()


def _log_handlers() -> list[logging.StreamHandler[Any]]:
    """Return the handlers of Lakeport's log that write to standard error."""
    handlers = logging.getLogger("lakeport").handlers
    return [
        handler
        for handler in handlers
        if isinstance(handler, logging.StreamHandler) and handler.stream is sys.stderr
    ]
