"""The log and the metrics of calls: who read what, in both formats, without secrets."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import urllib.request
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

import lakeport
from lakeport.airport import CallEnded
from lakeport.errors import NotFoundError
from lakeport.filters import Filter, bind, col
from lakeport.observability.logs import CallLog, log_to_stderr
from lakeport.observability.metrics import Metrics
from tests.cli.processes import serving
from tests.wait import TIMEOUT_SECONDS

Form = Literal["text", "json"]
TOKEN = "good-token-123456789"
CALL = CallEnded(
    "DoGet",
    "OK",
    1.5,
    identity="ada",
    catalog="lake",
    table="s.t",
    snapshot="7",
    rows_sent=3,
    bytes_sent=24,
    peer="ipv4:127.0.0.1:5",
    trace_id="abc",
)


def _logged(capsys: pytest.CaptureFixture[str], call: CallEnded, form: Form) -> str:
    logger = logging.getLogger("lakeport")
    before = logger.handlers, logger.propagate, logger.level
    try:
        log_to_stderr(level="INFO", as_json=form == "json", secrets=[TOKEN])
        CallLog().call_ended(call)
    finally:
        logger.handlers, logger.propagate, level = before
        logger.setLevel(level)
    return capsys.readouterr().err


def test_a_call_is_one_line_of_fields(capsys: pytest.CaptureFixture[str]) -> None:
    line = _logged(capsys, CALL, "text")

    assert line.count("\n") == 1
    assert line.rstrip().endswith(
        "INFO    DoGet OK verb=DoGet status=OK seconds=1.5 identity=ada catalog=lake table=s.t "
        "snapshot=7 rows_sent=3 bytes_sent=24 rows_received=0 bytes_received=0 "
        "peer=ipv4:127.0.0.1:5 trace_id=abc"
    )


def test_a_call_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    entry = json.loads(_logged(capsys, CALL, "json"))

    assert entry["logger"] == "lakeport.calls"
    assert {k: entry[k] for k in ("identity", "catalog", "table", "snapshot", "rows_sent")} == {
        "identity": "ada",
        "catalog": "lake",
        "table": "s.t",
        "snapshot": "7",
        "rows_sent": 3,
    }


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_filter_is_logged_without_its_values(
    capsys: pytest.CaptureFixture[str], form: Form
) -> None:
    condition = Filter.of(col("name") == "private")
    filter = bind(condition, pa.schema([("name", pa.string())]))

    line = _logged(capsys, dataclasses.replace(CALL, filter=filter), form)

    assert "private" not in line
    assert "= ?" in line


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_name_can_forge_a_line_or_carry_a_secret(
    capsys: pytest.CaptureFixture[str], form: Form
) -> None:
    forged = f"s.t\n2026-01-01 INFO DoGet OK identity=root {TOKEN} password=hunter2"
    call = CallEnded("DoGet", "NOT_FOUND", 0.1, table=forged, reason=f"no table {forged}")

    line = _logged(capsys, call, form)

    assert line.count("\n") == 1
    assert TOKEN not in line
    assert "hunter2" not in line
    if form == "text":
        # Inside quotes it is a part of the name.
        assert re.search(r' table="s\.t\\n2026[^"]* identity=root [^"]*"', line)


def test_metrics_have_a_bounded_number_of_catalogs() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.call_started("DoGet")
        metrics.call_ended(CallEnded("DoGet", "OK", 1, catalog=f"c{number}", rows_sent=2))

    labels = {
        sample.labels["catalog"]: sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == "lakeport_catalog_rows_sent_total"
    }
    assert len(labels) == 201
    assert labels["c0"] == 2
    assert labels["other"] == 1600


@pytest.mark.process
def test_serve_logs_and_counts_who_read_what(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{TOKEN} ada\n")
    with serving(
        "lake=memory:",
        "--token-file",
        str(tokens),
        "--log-format",
        "json",
        "--metrics-listen",
        "127.0.0.1:0",
    ) as server:
        url = server.out.wait_for("/metrics").partition("/healthz")[0].strip()
        with lakeport.connect(server.location, catalog="lake", token=TOKEN) as client:
            client.create_schema("s")
            client.create_table_as("s", "t", pa.table({"x": [1, 2, 3]}))
            assert client.table("s.t").scan().to_arrow().num_rows == 3
            with pytest.raises(NotFoundError):
                client.take_flight(["s", "nothing"]).to_arrow()
        read = json.loads(server.log.wait_for('"verb": "DoGet"'))
        failed = json.loads(server.log.wait_for("NOT_FOUND"))
        with urllib.request.urlopen(f"{url}/metrics", timeout=TIMEOUT_SECONDS) as answer:
            told = answer.read().decode().splitlines()
        assert not [line for line in server.log.all if TOKEN in line]

    expected = {"identity": "ada", "catalog": "lake", "table": "s.t", "rows_sent": 3}
    assert {name: read[name] for name in expected} == expected
    assert read["trace_id"]
    assert read["peer"]
    assert failed["table"] == "s.nothing"
    assert failed["reason"] == "there is no table s.nothing"
    figures = dict(line.rsplit(" ", 1) for line in told if not line.startswith("#"))
    assert float(figures['lakeport_catalog_rows_sent_total{catalog="lake"}']) == 3
    assert float(figures['lakeport_catalog_rows_received_total{catalog="lake"}']) == 3
    assert float(figures['lakeport_catalog_calls_total{catalog="lake",status="NOT_FOUND"}']) == 1
