"""Object stores in `lakeport.toml`: where their secrets come from, and where they never go."""

from __future__ import annotations

import base64
import io
import logging
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

import lakeport
from lakeport.airport import Server
from lakeport.cli.arguments import storage_of
from lakeport.cli.catalogs import ServedCatalogs
from lakeport.cli.config import LakeSettings, SparkSettings, load_settings
from lakeport.ducklake import S3Secret
from lakeport.errors import DefinitionError, LakeportError
from lakeport.observability.logs import log_to_stderr
from tests.fixtures_lakes import RealLake

SECRET = "hush-hush-hush-hush"


def settings_of(tmp_path: Path, storage: str) -> LakeSettings:
    file = tmp_path / "lakeport.toml"
    file.write_text(f'[[lake]]\nname = "sales"\nuri = "x.ducklake"\n[[lake.storage]]\n{storage}')
    (lake,) = load_settings(file).lake
    return lake


def test_a_secret_comes_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    lake = settings_of(
        tmp_path,
        f"endpoint = 'minio:9000'\nregion = 'eu'\nkey_id = 'me'\n"
        f"secret_file = '{tmp_path}/secret'\n"
        "url_style = 'path'\nuse_ssl = false\nscope = 's3://sales/'",
    )

    assert storage_of(lake).secrets == (
        S3Secret(
            endpoint="minio:9000",
            region="eu",
            key_id="me",
            secret=SECRET,
            url_style="path",
            use_ssl=False,
            scope="s3://sales/",
        ),
    )
    assert SECRET not in repr(lake) + repr(storage_of(lake))


def test_a_secret_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_SECRET", SECRET)
    monkeypatch.setenv("STORE_TOKEN", "session")
    lake = settings_of(
        tmp_path, "key_id = 'me'\nsecret_env = 'STORE_SECRET'\nsession_token_env = 'STORE_TOKEN'"
    )

    (store,) = storage_of(lake).secrets
    assert (store.secret, store.session_token) == (SECRET, "session")


@pytest.mark.parametrize(
    ("storage", "sentence"),
    [
        (f"key_id = 'me'\nsecret = '{SECRET}'", "lake.1.storage.1.secret: there is no such key"),
        ("key_id = 'me'", "needs both key_id and one of secret_file and secret_env"),
        ("secret_env = 'X'", "needs both key_id and one of secret_file and secret_env"),
        (
            "key_id = 'me'\nsecret_env = 'X'\nsecret_file = 'x'",
            "secret_file and secret_env, not both",
        ),
        ("url_style = 'odd'", "lake.1.storage.1.url_style"),
    ],
)
def test_half_a_key_and_a_secret_in_the_file_are_refused(
    tmp_path: Path, storage: str, sentence: str
) -> None:
    with pytest.raises(DefinitionError) as caught:
        settings_of(tmp_path, storage)

    assert sentence in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["secret_env = 'NOT_SET'", "secret_file = '/nowhere'"])
def test_a_secret_that_is_not_there_is_one_sentence(tmp_path: Path, key: str) -> None:
    with pytest.raises(DefinitionError, match=r"NOT_SET|/nowhere"):
        storage_of(settings_of(tmp_path, f"key_id = 'me'\n{key}"))


def test_a_served_lake_is_read_with_its_secret_which_appears_nowhere(
    spark: Any,
    s3_reference: S3Secret,
    make_lake: Callable[..., RealLake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0", data_path="s3://lake/served/")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)")
    lake.detach()
    (tmp_path / "secret").write_text(SECRET)
    file = tmp_path / "lakeport.toml"
    file.write_text(
        f'[[lake]]\nname = "sales"\nuri = "{lake.uri}"\n[[lake.storage]]\nkey_id = "key"\n'
        f'secret_file = "{tmp_path}/secret"\nregion = "us-east-1"\n'
        f'endpoint = "{s3_reference.endpoint}"\n'
        'url_style = "path"\nuse_ssl = false\n'
    )
    settings = load_settings(file)
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    log_to_stderr(level="DEBUG")

    with ServedCatalogs(SparkSettings()) as catalogs:
        opened = catalogs.open({"sales": settings.lake[0]})
        with Server(opened) as server, lakeport.connect(server.location, catalog="sales") as client:
            assert client.table("public.t").scan(filter="id >= 90").count() == 10
            table = opened["sales"].schema("public").table("t")  # type: ignore[union-attr]
            tickets = [part.token for part in table.endpoints(lakeport.ScanOptions())]  # type: ignore[union-attr]
            store = fs.S3FileSystem(
                access_key="key",
                secret_key="secret",
                region="us-east-1",
                scheme="http",
                endpoint_override=s3_reference.endpoint,
            )
            store.delete_dir_contents("lake/served")
            with pytest.raises(LakeportError) as caught:
                client.table("public.t").scan().to_arrow()

    assert tickets
    shown = b"".join(tickets) + pickle.dumps(spark.sparkContext.getConf().getAll())
    shown += (written.getvalue() + str(caught.value) + repr(opened) + repr(settings)).encode()
    assert SECRET.encode() not in shown
    assert base64.b64encode(SECRET.encode()).rstrip(b"=") not in shown
    assert logging.getLogger("lakeport").level == logging.DEBUG


def test_another_secret_in_the_same_file_is_read_by_the_next_reload(
    spark: Any, make_lake: Callable[..., RealLake], tmp_path: Path
) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t AS SELECT 1 AS id")
    lake.detach()
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    file = tmp_path / "lakeport.toml"
    file.write_text(
        f'[[lake]]\nname = "sales"\nuri = "{lake.uri}"\n[[lake.storage]]\nkey_id = "key"\n'
        f'secret_file = "{secret}"\n'
    )
    lakes = {"sales": load_settings(file).lake[0]}
    with ServedCatalogs(SparkSettings()) as catalogs:
        first = catalogs.open(lakes)["sales"]
        assert catalogs.open(lakes)["sales"] is first

        secret.write_text("another-secret-of-the-store")

        assert catalogs.open(lakes)["sales"] is not first
