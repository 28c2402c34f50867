"""Connections to PostgreSQL with a time limit for every answer.

PostgreSQL's `statement_timeout` is measured by the server, which has no effect if the server hangs.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

__all__ = ["connect"]


class AnswerTimeoutError(psycopg.OperationalError, TimeoutError):
    """The server did not answer in time."""


class _Connection(psycopg.Connection[Any]):
    answer_seconds = 60.0

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        """Run a step of the protocol, and close the connection if it takes too long."""
        try:
            return super().wait(_bounded(gen, self.answer_seconds), *arguments, **options)
        except AnswerTimeoutError:
            self.close()
            raise


def connect(answer_seconds: float, **parameters: Any) -> psycopg.Connection[Any]:
    """Open a connection on which every answer must come within some seconds."""
    connection = _Connection.connect(**parameters)
    connection.answer_seconds = answer_seconds
    return connection


def _bounded(gen: Generator[Any, Any, Any], seconds: float) -> Generator[Any, Any, Any]:
    """Wrap psycopg's generator with a time limit; it is resumed several times a second."""
    deadline = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > deadline:
                raise AnswerTimeoutError(f"no answer within {seconds:g} seconds")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value
