"""Evaluation of clients' SQL expressions in a child process with bounds on memory and time.

DuckDB's memory limit does not count the texts and lists that a function creates, and its interrupt
waits until the function returns (DuckDB 1.5). Expressions that call functions therefore run in a
child process. The child has a limit on its address space and a deadline, and it is killed when the
client disconnects. Idle children are used again.

This module contains both sides: `evaluate_apart` for the parent, and the child's program.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from lakeport.arrow import LOSSLESS_SETTINGS, arrow_query, sandbox
from lakeport.catalog import current_request
from lakeport.errors import CancelledError, InvalidInputError, UnavailableError, first_line

__all__ = ["evaluate_apart", "open_database"]

_DEADLINE_SECONDS: Final = 30.0
"""The time for one query in a child that is ready."""
_START_SECONDS: Final = 120.0
"""The time to wait for a free slot, and again for a new child to start."""

_MIB: Final = 1024 * 1024
_HEADROOM: Final = 1024 * _MIB
"""The bytes by which the address space of a child may grow once it is ready."""
_MAX_REPLY_BYTES: Final = 256 * _MIB
_MAX_CHILDREN: Final = 4
_POLL_SECONDS: Final = 0.05

_DONE, _FAILED, _OUT_OF_MEMORY, _READY = b"\x00", b"\x01", b"\x02", b"\x03"


def evaluate_apart(sql: str, rows: pa.Table, *, deadline: float = _DEADLINE_SECONDS) -> pa.Table:
    """Return the result of a query over the table `rows`, evaluated in a child process.

    Raises:
        InvalidInputError: DuckDB rejects the query, or it takes more time or memory than allowed.
        UnavailableError: No child process is free, or none can be started.
        CancelledError: The client disconnected.

    """
    busy = UnavailableError("too many expressions are being evaluated; try again")
    _wait_for(lambda seconds: bool(_SLOTS.acquire(timeout=seconds)), _START_SECONDS, busy)
    try:
        idle = _idle_child()
        try:
            reply = _evaluate_in(idle or _Child(), sql, rows, deadline)
        except _OutOfMemoryError:
            if idle is None:
                raise
            # A child keeps memory of its earlier queries. A new one has all of its headroom.
            reply = _evaluate_in(_Child(), sql, rows, deadline)
    finally:
        _SLOTS.release()
    if reply[:1] == _FAILED:
        raise InvalidInputError(reply[1:].decode(errors="replace"))
    return pa.ipc.open_stream(pa.py_buffer(reply)[1:]).read_all()


class _OutOfMemoryError(InvalidInputError):
    """The query takes more memory than its child process has."""

    def __init__(self) -> None:
        super().__init__("the expression takes more memory than an expression may take")


def _evaluate_in(child: _Child, sql: str, rows: pa.Table, deadline: float) -> bytes:
    """Return a child's reply to a query. The child is idle afterwards, or ended after an error."""
    try:
        child.wait_until_ready()
        reply = child.evaluate(sql, rows, deadline)
    except BaseException:
        child.end()
        raise
    with _LOCK:
        _IDLE.append(child)
    return reply


def open_database() -> Any:
    """Return a DuckDB that has no access to anything but its own memory."""
    import duckdb

    def prepare(database: Any) -> None:
        database.execute(LOSSLESS_SETTINGS)
        # Clients of DuckDB 1.5 send lambdas with an arrow, which DuckDB 2.0 rejects by default.
        with suppress(duckdb.CatalogException):
            database.execute("SET GLOBAL lambda_syntax = 'ENABLE_SINGLE_ARROW'")

    return sandbox(prepare, memory_limit="512MB")


class _Child:
    """A process that evaluates one query after the other."""

    def __init__(self) -> None:
        self._is_ready = False
        self._pipe, theirs = Pipe()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", __name__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Arrow's own allocator reserves more address space than it uses.
                env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},
            )

    def wait_until_ready(self) -> None:
        """Wait until the process accepts queries; starting it takes no time of the query."""
        if self._is_ready:
            return
        failed = UnavailableError("the process for SQL expressions did not start; try again")
        _wait_for(self._pipe.poll, _START_SECONDS, failed)
        try:
            self._is_ready = self._pipe.recv_bytes() == _READY
        except (EOFError, OSError):
            raise failed from None

    def evaluate(self, sql: str, rows: pa.Table, deadline: float) -> bytes:
        """Return the reply to a query."""
        too_long = InvalidInputError("the expression takes longer than an expression may take")
        try:
            self._pipe.send_bytes(f"{deadline}\n{sql}".encode())
            self._pipe.send_bytes(_packed(rows))
            _wait_for(self._pipe.poll, deadline, too_long)
            reply = self._pipe.recv_bytes(_MAX_REPLY_BYTES)
        except (EOFError, OSError):
            raise _OutOfMemoryError from None
        if reply == _OUT_OF_MEMORY:
            raise _OutOfMemoryError
        return reply

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


_LOCK = threading.Lock()
_SLOTS = threading.BoundedSemaphore(_MAX_CHILDREN)
_IDLE: list[_Child] = []


def _idle_child() -> _Child | None:
    with _LOCK:
        while _IDLE:
            child = _IDLE.pop()
            if child.is_alive():
                return child
            child.end()
    return None


def _wait_for(is_done: Callable[[float], bool], seconds: float, timeout: Exception) -> None:
    """Wait until `is_done`. Raise `timeout` after some seconds, CancelledError without a client."""
    end = time.monotonic() + seconds
    request = current_request()
    while not is_done(_POLL_SECONDS):
        if request.is_cancelled():
            raise CancelledError("the client disconnected while an expression was evaluated")
        if time.monotonic() > end:
            raise timeout


def _packed(rows: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return memoryview(sink.getvalue())


def _main() -> None:
    """Evaluate queries until the parent closes the pipe."""
    pipe = Connection(int(sys.argv[1]))
    database = open_database()
    # The first query imports modules and starts threads, which take 300 MiB of address space.
    _evaluated(database, "SELECT a FROM rows", bytes(_packed(pa.table({"a": [1]}))))
    _limit_memory()
    pipe.send_bytes(_READY)
    while True:
        try:
            seconds, _, sql = pipe.recv_bytes().decode().partition("\n")
            # The signal ends this process if the parent has gone before the query ends.
            signal.setitimer(signal.ITIMER_REAL, float(seconds) + 1)
            pipe.send_bytes(_evaluated(database, sql, pipe.recv_bytes()))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except EOFError:
            return


def _evaluated(database: Any, sql: str, packed: bytes) -> bytes:
    import duckdb

    try:
        rows = pa.ipc.open_stream(packed).read_all()
        with database.cursor() as cursor:
            cursor.register("rows", rows)
            return _DONE + bytes(_packed(arrow_query(cursor, sql).to_arrow_table()))
    except (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException):
        return _OUT_OF_MEMORY
    except (duckdb.Error, pa.ArrowException) as error:
        return _FAILED + first_line(error).encode()


def _limit_memory() -> None:
    """Limit the address space to its present size, or a guess without /proc, and the headroom."""
    used = _HEADROOM
    with suppress(OSError):
        pages = Path("/proc/self/statm").read_text().split()[0]
        used = int(pages) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _HEADROOM, used + _HEADROOM))


if __name__ == "__main__":
    _main()
