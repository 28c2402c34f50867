"""The configuration: where it comes from, what is wrong with it, what its reference says."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from lakeport.cli.config import load_settings
from lakeport.cli.config_reference import reference
from lakeport.errors import DefinitionError
from lakeport.observability.logs import log_to_stderr

ROOT = Path(__file__).parents[2]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "lakeport.toml"
    file.write_text("""
[[lake]]
name = "sales"
uri = "ducklake:postgres:dbname=lake password=hush-hush"
main_as = "base"
direct_reads = true
spark_sql = true

[server]
listen = "0.0.0.0:1"
drain = 1
batch_rows = 1

[spark]
master = "local[1]"
conf = { "spark.executor.memory" = "4g" }
""")
    return file


def test_flags_win_over_the_environment_and_the_environment_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEPORT_SERVER__DRAIN", "2")
    monkeypatch.setenv("LAKEPORT_SERVER__BATCH_ROWS", "2")

    settings = load_settings(config, server={"batch_rows": 3, "advertise": None})

    assert settings.server.listen == "0.0.0.0:1"
    assert settings.server.drain == 2
    assert settings.server.batch_rows == 3
    assert settings.server.max_message_size == 64 * 1024 * 1024
    assert settings.spark.master == "local[1]"
    assert settings.spark.conf == {"spark.executor.memory": "4g"}
    (lake,) = settings.lake
    assert (lake.name, lake.main_as, lake.direct_reads) == ("sales", "base", True)
    assert lake.spark_sql


def test_lakes_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_LAKE", '[{"name": "a", "uri": "memory:"}]')

    assert [lake.name for lake in load_settings().lake] == ["a"]


def test_a_location_is_not_shown(config: Path) -> None:
    assert "hush-hush" not in repr(load_settings(config))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[server]\nlisten_on = 'x'", "server.listen_on: there is no such key"),
        ("[sever]\nlisten = 'x'", "sever: there is no such key"),
        ("[[lake]]\nname = 'x'", "lake.1.uri: Field required"),
        ("[[lake]]\nuri = 'memory:'\n[[lake]]\nurl = 'x'", "lake.2.url: there is no such key"),
        ("[server]\ndrain = 'hush-hush'", "server.drain: Input should be a valid number"),
        ("[server]\ndrain = -1", "server.drain: Input should be greater than or equal to 0"),
        ("[server", "cannot be read: "),
    ],
)
def test_what_is_wrong_is_told_with_its_key_and_without_its_value(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "lakeport.toml"
    file.write_text(text)

    with pytest.raises(DefinitionError) as caught:
        load_settings(file)

    assert sentence in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_broken_variable_is_told_without_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_LAKE", '[{"uri": "hush-hush')

    with pytest.raises(DefinitionError, match='"lake"') as caught:
        load_settings()

    assert "hush" not in str(caught.value)


def test_the_reference_of_the_documentation_is_up_to_date() -> None:
    page = ROOT / "docs" / "reference" / "configuration.md"

    assert page.read_text() == reference(), "python -m lakeport.cli.config_reference writes it anew"


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_secret_reaches_the_log(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    log_to_stderr(as_json=format == "json", secrets=["s3cr3t-token"])
    log = logging.getLogger("lakeport.test")

    log.info("got s3cr3t-token and Bearer abc.def", extra={"uri": "postgresql://me:pw1@db/lake"})
    try:
        raise ValueError("password='pw2 pw2' host=db")
    except ValueError:
        log.exception("dbname=x password=pw3")

    told = written.getvalue()
    for secret in ("s3cr3t", "abc.def", "pw1", "pw2", "pw3"):
        assert secret not in told
    assert "postgresql://me:***@db/lake" in told
    assert "Traceback" in told
    if format == "json":
        first, second = (json.loads(line) for line in told.splitlines())
        assert (first["level"], first["logger"]) == ("INFO", "lakeport.test")
        assert second["message"] == "dbname=x password=***"


def test_a_short_password_is_redacted_as_a_word_and_never_inside_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    log_to_stderr(secrets=["lake", "a-token-of-16-chars"])

    logging.getLogger("lakeport.test").info(
        "lakeport read lakehouse with lake and %20a-token-of-16-chars%20"
    )

    assert "lakeport read lakehouse with *** and " in written.getvalue()
    assert "a-token" not in written.getvalue()
