"""Expressions of clients, evaluated in a process that can be bounded and ended.

DuckDB's memory limit does not count the texts and lists that a function makes (DuckDB 1.5), and its
interrupt waits for the function to return. So expressions that call functions run in a process of
their own, with a limit of its address space, a deadline, and an end when the client goes away. Idle
processes are used again.

This module is both sides: the parent's `evaluate_apart`, and the child's program.
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

from lakeport.catalog import current_request
from lakeport.errors import CancelledError, InvalidInputError

__all__ = ["evaluate_apart", "open_database"]

_CONFIG: Final = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
    "threads": "1",
    "memory_limit": "512MB",
}
"""A DuckDB that reaches neither files nor the network."""

_DEADLINE: Final = 30.0
"""The seconds that one expression may take for the rows of one statement or batch."""

_MIB: Final = 1024 * 1024
_HEADROOM: Final = 1024 * _MIB
"""The address space of the child beyond what it has after its start."""
_MOST_REPLY: Final = 256 * _MIB
_PROCESSES: Final = 4
_LOOK: Final = 0.05

_DONE, _FAILED, _OUT_OF_MEMORY = b"\x00", b"\x01", b"\x02"


def evaluate_apart(sql: str, rows: pa.Table, *, deadline: float = _DEADLINE) -> pa.Table:
    """Return the result of a query over the table `rows`, or raise why there is none.

    Raises:
        InvalidInputError: DuckDB refuses it, or it takes more time or memory than allowed.
        CancelledError: The client went away.

    """
    end = time.monotonic() + deadline
    _wait_for(lambda seconds: bool(_SLOTS.acquire(timeout=seconds)), end)
    try:
        idle = _idle_child()
        try:
            reply = _asked(idle or _Child(), sql, rows, end)
        except _OutOfMemoryError:
            if idle is None:
                raise
            # A process keeps some of the memory of its earlier queries; a new one has all of it.
            reply = _asked(_Child(), sql, rows, end)
    finally:
        _SLOTS.release()
    if reply[:1] == _FAILED:
        raise InvalidInputError(reply[1:].decode(errors="replace"))
    return pa.ipc.open_stream(pa.py_buffer(reply)[1:]).read_all()


class _OutOfMemoryError(InvalidInputError):
    """A query takes more memory than its process has."""

    def __init__(self) -> None:
        super().__init__("the expression takes more memory than an expression may take")


def _asked(child: _Child, sql: str, rows: pa.Table, end: float) -> bytes:
    try:
        reply = child.ask(sql, rows, end)
    except BaseException:
        child.end()
        raise
    with _LOCK:
        _IDLE.append(child)
    return reply


def open_database() -> Any:
    """Return a DuckDB that computes and does nothing else."""
    import duckdb

    database = duckdb.connect(":memory:", config=dict(_CONFIG))
    database.execute("SET arrow_lossless_conversion = true")
    database.execute("SET TimeZone = 'UTC'")
    # Clients of DuckDB 1.5 send lambdas with an arrow, which DuckDB 2.0 refuses by default.
    with suppress(duckdb.CatalogException):
        database.execute("SET GLOBAL lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    database.execute("SET lock_configuration = true")
    return database


class _Child:
    """A process that evaluates one query after the other."""

    def __init__(self) -> None:
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

    def ask(self, sql: str, rows: pa.Table, end: float) -> bytes:
        """Return the reply to a query."""
        try:
            self._pipe.send_bytes(f"{max(1.0, end - time.monotonic())}\n{sql}".encode())
            self._pipe.send_bytes(_packed(rows))
            _wait_for(self._pipe.poll, end)
            reply = self._pipe.recv_bytes(_MOST_REPLY)
        except (EOFError, OSError):
            raise _OutOfMemoryError from None
        if reply == _OUT_OF_MEMORY:
            raise _OutOfMemoryError
        return reply

    def is_alive(self) -> bool:
        """Whether the process still waits for queries."""
        return self._process.poll() is None

    def end(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


_LOCK = threading.Lock()
_SLOTS = threading.BoundedSemaphore(_PROCESSES)
_IDLE: list[_Child] = []


def _idle_child() -> _Child | None:
    with _LOCK:
        while _IDLE:
            child = _IDLE.pop()
            if child.is_alive():
                return child
            child.end()
    return None


def _wait_for(is_done: Callable[[float], bool], end: float) -> None:
    """Wait until it is done, the client goes away, or the time is over."""
    request = current_request()
    while not is_done(_LOOK):
        if request.is_cancelled():
            raise CancelledError("the client went away while an expression was evaluated")
        if time.monotonic() > end:
            raise InvalidInputError("the expression takes longer than an expression may take")


def _packed(rows: pa.Table) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return memoryview(sink.getvalue())


def _main() -> None:
    """Evaluate queries until the parent goes away."""
    pipe = Connection(int(sys.argv[1]))
    database = open_database()
    _limit_memory()
    while True:
        try:
            seconds, _, sql = pipe.recv_bytes().decode().partition("\n")
            # The parent may be gone before the query ends: the signal ends this process.
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
            return _DONE + bytes(_packed(cursor.execute(sql).to_arrow_table()))
    except (MemoryError, pa.ArrowMemoryError, duckdb.OutOfMemoryException):
        return _OUT_OF_MEMORY
    except (duckdb.Error, pa.ArrowException) as error:
        return _FAILED + str(error).partition("\n")[0].encode()


def _limit_memory() -> None:
    """Let the process grow by so much only; where its size is unknown, from a generous one."""
    used = _HEADROOM
    with suppress(OSError):
        pages = Path("/proc/self/statm").read_text().split()[0]
        used = int(pages) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _HEADROOM, used + _HEADROOM))


if __name__ == "__main__":
    _main()
