"""Coverage of the threads that gRPC starts: Python's tracers do not see them by themselves."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from lakeport.airport.server import headers
from lakeport.airport.server.flight_service import FlightService
from lakeport.airport.server.verbs import do_get

__all__ = ["trace_handlers"]

_VERBS = (
    "list_flights",
    "get_flight_info",
    "get_schema",
    "do_get",
    "do_put",
    "do_exchange",
    "list_actions",
    "do_action",
)


def trace_handlers() -> None:
    """Hand the tracer of this process, if there is one, to every call of a server."""
    if threading.gettrace() is None:
        return
    for verb in _VERBS:
        setattr(FlightService, verb, _traced(getattr(FlightService, verb)))
    factory = headers.HeaderMiddlewareFactory
    factory.start_call = _traced(factory.start_call)  # type: ignore[method-assign]
    batches = do_get._in_context

    def traced_batches(*args: Any) -> Iterator[Any]:
        advance = _traced(batches(*args).__next__)
        while True:
            try:
                item = advance()
            except StopIteration:
                return
            yield item

    do_get._in_context = traced_batches  # type: ignore[assignment]


def _traced(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def traced(*args: Any, **options: Any) -> Any:
        sys.settrace(threading.gettrace())
        return call(*args, **options)

    return traced
