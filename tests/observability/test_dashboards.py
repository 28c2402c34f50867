"""The dashboard and the alert rules name metrics that a server has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from prometheus_client import generate_latest

from lakeport.airport.server import CallEnded
from lakeport.cli.config import SparkSettings
from lakeport.cli.supervisor import SparkSupervisor, add_spark_gauges
from lakeport.observability import Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
_NAME = re.compile(r"\b((?:lakeport|process)_[a-z_]+)\b")


def exported() -> set[str]:
    """Return the names of all series of a server that has answered one call."""
    metrics = Metrics()
    add_spark_gauges(metrics, SparkSupervisor(SparkSettings()), lambda: 1)
    metrics.call_started("DoGet")
    metrics.scan_started()
    metrics.scan_ended(complete=False)
    metrics.call_ended(CallEnded("DoGet", "OK", seconds=1.0, catalog="lake"))
    names: set[str] = set()
    for family in metrics.registry.collect():
        names.update(sample.name for sample in family.samples)
        # Series with labels appear with their first value.
        names.add(f"{family.name}_total" if family.type == "counter" else family.name)
    assert generate_latest(metrics.registry)
    return names


def test_every_series_of_the_dashboard_is_exported() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "lakeport.json").read_text())
    expressions = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]

    assert len(expressions) > 8
    assert set(_NAME.findall(" ".join(expressions))) - exported() == set()


def test_every_series_of_the_alerts_is_exported() -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    alerts = rules["groups"][0]["rules"]

    assert all({"alert", "expr", "labels", "annotations"} <= alert.keys() for alert in alerts)
    assert set(_NAME.findall(" ".join(alert["expr"] for alert in alerts))) - exported() == set()


def test_names_of_series_follow_the_conventions() -> None:
    metrics = Metrics()
    add_spark_gauges(metrics, SparkSupervisor(SparkSettings()), lambda: 1)
    families = list(metrics.registry.collect())

    assert all(re.fullmatch(r"(lakeport|process)_[a-z_]+", family.name) for family in families)
    for family in families:
        is_counter = family.type == "counter"
        assert is_counter or not family.name.endswith("_total"), family.name
        # Bytes and seconds are base units; their names end with them.
        for unit in ("bytes", "seconds"):
            words = family.name.split("_")
            moved = words[-1] in ("sent", "received", "queued")
            assert unit not in words or words[-1] == unit or moved, family.name
