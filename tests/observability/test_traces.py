"""The spans of a server: below the client's, with the plan, the batches and the commit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# OpenTelemetry has one provider for each process, so the server runs in one of its own.
SERVER = """
import json, sys
import pyarrow as pa
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyarrow import flight

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from lakeport import Server, connect
from lakeport.ducklake import Lake
from lakeport.lakehouse import LakeCatalog

folder = sys.argv[1]
with Lake.create(f"ducklake:{folder}/meta.ducklake", data_path=f"{folder}/data") as lake:
    lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}, {"id": 2}])
with LakeCatalog(f"ducklake:{folder}/meta.ducklake", engine="local") as catalog:
    with Server(catalog) as server, flight.connect(server.location) as client:
        parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        options = flight.FlightCallOptions(headers=[(b"traceparent", parent.encode())])
        info = client.get_flight_info(flight.FlightDescriptor.for_path("public", "t"), options)
        with connect(server.location) as attached:
            attached.schemas()
        for endpoint in info.endpoints:
            client.do_get(endpoint.ticket, options).read_all()
spans = [
    {
        "name": span.name,
        "trace": f"{span.context.trace_id:032x}",
        "id": span.context.span_id,
        "parent": span.parent and span.parent.span_id,
        "events": [event.name for event in span.events],
        "attributes": dict(span.attributes),
        "status": span.status.status_code.name,
    }
    for span in exporter.get_finished_spans()
]
print(json.dumps(spans))
"""

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def test_a_scan_is_a_span_of_the_clients_trace_with_its_plan_and_batches(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SERVER, str(tmp_path)], check=True, capture_output=True, text=True
    )
    spans = json.loads(done.stdout.splitlines()[-1])

    scan = next(span for span in spans if span["name"] == "DoGet")
    assert (scan["trace"], scan["parent"]) == (TRACE, int("00f067aa0ba902b7", 16))
    assert scan["events"] == ["first batch", "last batch"]
    assert scan["attributes"]["lakeport.table"] == "public.t"
    assert scan["attributes"]["lakeport.rows_sent"] == 2
    calls = {span["id"] for span in spans if span["name"] in ("DoGet", "GetFlightInfo")}
    plans = [span for span in spans if span["name"] == "plan" and span["trace"] == TRACE]
    assert plans
    assert {plan["parent"] for plan in plans} <= calls
    commits = [span for span in spans if span["name"] == "commit"]
    assert [span["attributes"]["lakeport.snapshot"] for span in commits] == [1, 2]
    steps = ["state read", "conflicts checked", "catalog rows written"]
    assert [span["events"] for span in commits] == [steps, steps]
    prunes = [span for span in spans if span["name"] == "prune" and span["trace"] == TRACE]
    assert {span["parent"] for span in prunes} <= {span["id"] for span in plans}
    assert prunes[0]["attributes"] == {"lakeport.files": 0, "lakeport.files_read": 0}
    attach = next(span for span in spans if span["name"] == "DoAction")
    assert attach["attributes"]["lakeport.operation"] == "list_schemas"
    assert {span["status"] for span in spans} == {"UNSET"}
