"""The dashboard and the alert rules name metrics that a server has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from prometheus_client import generate_latest

from lakeport import Server, connect
from lakeport.airport.server import CallEnded
from lakeport.cli.config import SparkSettings
from lakeport.cli.supervisor import SparkSupervisor, add_spark_gauges
from lakeport.ducklake import Lake
from lakeport.lakehouse import LakeCatalog
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
    metrics.call_ended(CallEnded("DoGet", "OK", seconds=1.0, catalog="lake", table="public.t"))
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


def test_every_series_is_documented() -> None:
    metrics = Metrics()
    add_spark_gauges(metrics, SparkSupervisor(SparkSettings()), lambda: 1)
    text = (DEPLOY.parent / "docs" / "guides" / "monitoring.md").read_text()
    own = [family for family in metrics.registry.collect() if family.name.startswith("lakeport_")]
    names = {f"{each.name}_total" if each.type == "counter" else each.name for each in own}

    assert names - set(_NAME.findall(text)) == set()


def test_the_dashboard_shows_what_is_counted_by_a_label() -> None:
    dashboard = (DEPLOY / "grafana" / "lakeport.json").read_text()
    for name in ("table_scans", "table_bytes_sent", "cache_requests", "scan_bytes", "calls"):
        assert f"lakeport_{name}" in dashboard


def test_scans_are_counted_by_table_with_bounded_labels() -> None:
    metrics = Metrics()
    for number in range(600):
        scan = CallEnded(
            "DoGet", "OK", seconds=1.0, catalog="lake", table=f"public.t{number}", bytes_sent=2000
        )
        metrics.call_ended(scan)
    metrics.call_ended(CallEnded("DoGet", "NOT_FOUND", seconds=1.0, table="public.missing"))
    metrics.call_ended(CallEnded("DoAction", "OK", seconds=1.0, table="public.made"))
    value = metrics.registry.get_sample_value

    first = {"catalog": "lake", "table": "public.t0"}
    rest = {"catalog": "other", "table": "other"}
    assert value("lakeport_table_scans_total", first) == 1
    assert value("lakeport_table_bytes_sent_total", first) == 2000
    assert value("lakeport_table_scans_total", rest) == 100
    assert value("lakeport_scan_bytes_count") == 600
    assert value("lakeport_scan_bytes_bucket", {"le": "1024.0"}) == 0
    assert b"missing" not in generate_latest(metrics.registry)
    assert b"public.made" not in generate_latest(metrics.registry)


def test_lookups_of_caches_are_counted_as_hits_and_misses(tmp_path: Path) -> None:
    def counts() -> tuple[float, float]:
        value = Metrics().registry.get_sample_value
        hit, miss = (
            value("lakeport_cache_requests_total", {"cache": "tables", "result": result}) or 0.0
            for result in ("hit", "miss")
        )
        return hit, miss

    location = f"ducklake:{tmp_path}/shop.ducklake"
    with Lake.create(location, data_path=str(tmp_path / "data")) as lake:
        lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
    before = counts()
    with (
        LakeCatalog(location, engine="local") as catalog,
        Server(catalog) as server,
        connect(server.location) as client,
    ):
        client.table("public.t").scan().to_arrow()
        first = counts()
        client.table("public.t").scan().to_arrow()
        second = counts()

    assert first[1] > before[1]
    assert second[0] > first[0]
    assert second[1] == first[1]
