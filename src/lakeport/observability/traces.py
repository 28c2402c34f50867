"""Traces: send the spans of this process to a collector, by OpenTelemetry's SDK."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lakeport._version import __version__
from lakeport.errors import DefinitionError

__all__ = ["export_traces"]


@contextmanager
def export_traces(endpoint: str | None) -> Iterator[None]:
    """Send spans to a collector by OTLP over HTTP while the block runs; nothing without one.

    `endpoint` is the collector's address, such as `http://127.0.0.1:4318`. A program that has set
    up OpenTelemetry by itself needs no call of this function.
    """
    if endpoint is None:
        yield
        return
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise DefinitionError(
            "traces need OpenTelemetry's SDK: install it with pip install 'lakeport[traces]'"
        ) from None
    resource = Resource.create({"service.name": "lakeport", "service.version": __version__})
    provider = TracerProvider(resource=resource)
    address = f"{endpoint.rstrip('/')}/v1/traces"
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=address)))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        provider.shutdown()
