"""Spans of OpenTelemetry. Without a configured SDK they cost little and record nothing.

Imports no other module of Lakeport, so that every package may use it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = [
    "Span",
    "annotate",
    "detached_span",
    "end_span",
    "inside",
    "is_tracing",
    "note_event",
    "span",
    "start_span",
]

Value = str | int | float | bool

_TRACER: Final = trace.get_tracer("lakeport")
_PROPAGATOR: Final = TraceContextTextMapPropagator()


def is_tracing() -> bool:
    """Return whether the process has an SDK that records spans."""
    return not isinstance(
        trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider
    )


@contextmanager
def span(name: str, **attributes: Value) -> Generator[Span]:
    """Record the block as a span, below the current one. An error of the block is its status."""
    if not is_tracing():
        yield trace.INVALID_SPAN
        return
    with _TRACER.start_as_current_span(name, attributes=_named(attributes)) as current:
        yield current


@contextmanager
def detached_span(name: str, **attributes: Value) -> Generator[Span]:
    """Record the block as a span that is not the current one, as a generator needs it."""
    if not is_tracing():
        yield trace.INVALID_SPAN
        return
    current = _TRACER.start_span(name, attributes=_named(attributes))
    with _ending(current):
        yield current


def start_span(name: str, traceparent: str | None) -> Span | None:
    """Return a new span, below that of a header `traceparent`; None without an SDK."""
    if not is_tracing():
        return None
    carrier = {} if traceparent is None else {"traceparent": traceparent}
    parent = _PROPAGATOR.extract(carrier)
    return _TRACER.start_span(name, context=parent, kind=trace.SpanKind.SERVER)


def end_span(current: Span | None, error: str, attributes: Mapping[str, Value]) -> None:
    """End a span with its attributes; with an error if there was one."""
    if current is None:
        return
    current.set_attributes(_named(attributes))
    if error:
        current.set_status(Status(StatusCode.ERROR, error))
    current.end()


@contextmanager
def inside(current: Span | None) -> Generator[None]:
    """Make spans of the block, and of contexts that are copied in it, children of a span."""
    if current is None:
        yield
        return
    with trace.use_span(current, record_exception=False, set_status_on_exception=False):
        yield


def note_event(name: str, **attributes: Value) -> None:
    """Record an event of the current span."""
    current = trace.get_current_span()
    if current.is_recording():
        current.add_event(name, _named(attributes))


def annotate(**attributes: Value) -> None:
    """Set attributes of the current span."""
    current = trace.get_current_span()
    if current.is_recording():
        current.set_attributes(_named(attributes))


@contextmanager
def _ending(current: Span) -> Generator[None]:
    try:
        yield
    except Exception as error:
        current.record_exception(error)
        current.set_status(Status(StatusCode.ERROR, str(error)))
        raise
    finally:
        current.end()


def _named(attributes: Mapping[str, Value]) -> dict[str, Value]:
    """Return the attributes with Lakeport's prefix; empty texts are left out."""
    return {f"lakeport.{key}": value for key, value in attributes.items() if value != ""}
