"""The files in `deploy/`: they parse, and name commands, keys and paths that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

from lakeport.cli.config import Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def manifests() -> dict[str, Any]:
    documents = yaml.safe_load_all((DEPLOY / "kubernetes" / "lakeport.yaml").read_text())
    return {document["kind"]: document for document in documents}


def test_the_configuration_of_kubernetes_is_valid() -> None:
    configuration = tomllib.loads(manifests()["ConfigMap"]["data"]["lakeport.toml"])

    settings = Settings.model_validate(configuration)

    assert settings.server.metrics_listen == "0.0.0.0:9815"
    assert [lake.name for lake in settings.lake] == ["sales"]


def test_the_manifests_name_each_other() -> None:
    found = manifests()
    pod = found["Deployment"]["spec"]["template"]
    spec = pod["spec"]
    (container,) = spec["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}

    assert spec["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert found["RoleBinding"]["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    assert pod["metadata"]["labels"] == found["Service"]["spec"]["selector"]
    assert {port["targetPort"] for port in found["Service"]["spec"]["ports"]} == set(ports)
    assert container["readinessProbe"]["httpGet"]["port"] in ports
    volumes = {volume["name"] for volume in spec["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    drain = Settings.model_validate(
        tomllib.loads(found["ConfigMap"]["data"]["lakeport.toml"])
    ).server.drain
    assert spec["terminationGracePeriodSeconds"] > drain


def test_the_image_installs_extras_that_exist_and_copies_files_that_exist() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    (extras,) = re.findall(r'"\.\[([\w,]+)\]"', text)
    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    ]

    assert set(extras.split(",")) <= EXTRAS.keys()
    assert [name for name in copied if not (ROOT / name).exists()] == []


def test_the_unit_stops_after_the_longest_drain_by_default() -> None:
    unit = (DEPLOY / "systemd" / "lakeport.service").read_text()
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)

    assert int(seconds) > Settings().server.drain
    assert "lakeport serve --config" in unit
