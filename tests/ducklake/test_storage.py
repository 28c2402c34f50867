"""Where files are: paths of every kind, and object stores."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeport.ducklake import Lake
from lakeport.ducklake.storage.filesystems import S3Secret, Storage
from lakeport.ducklake.storage.paths import hive_value, local_path, resolve
from lakeport.errors import (
    CorruptLakeError,
    InvalidArgumentError,
    MissingFileError,
    PermissionDeniedError,
    UnsupportedError,
)

LakeMaker = Callable[..., Any]
ROWS = "CREATE TABLE t AS SELECT i AS id, ['a b', 'c/d', 'ü%', NULL][1 + i % 4] AS p FROM range(40) r(i)"


def edit(lake: Any, *statements: str) -> None:
    """Change the catalog of a SQLite lake by hand."""
    lake.detach()
    connection = sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))
    with connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    "name", ["plain", "with space", "ünï", "100%", "a%20b", "x=y", "q'uote", "br[a]c*k?t"]
)
def test_data_paths_of_every_spelling(name: str, make_lake: LakeMaker, tmp_path: Path) -> None:
    quoted = str(tmp_path / name).replace("'", "''")
    lake = make_lake("sqlite", data_path=f"{quoted}/")
    lake.execute(ROWS, "DELETE FROM t WHERE id % 2 = 0")
    lake.detach()
    with Lake.open(lake.uri) as ours:
        assert ours.table("t").scan().to_arrow().num_rows == 20


def test_hive_folders_are_not_decoded(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite")
    lake.execute("CREATE TABLE t(id BIGINT, p VARCHAR)", "ALTER TABLE t SET PARTITIONED BY (p)")
    lake.execute(
        "INSERT INTO t SELECT i, ['a b', 'c/d', 'ü%', NULL][1 + i % 4] FROM range(40) r(i)"
    )
    lake.check()
    with lake.open() as ours:
        assert any("%20" in file.path for file in ours.table("t").files())


def test_a_relative_data_path_is_relative_to_the_working_directory(
    make_lake: LakeMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = make_lake("sqlite", data_path="rel/data/")
    lake.execute(ROWS)
    with lake.open() as ours:
        assert ours.table("t").path == "rel/data/main/t/"
        assert ours.table("t").scan().to_arrow().num_rows == 40


def test_absolute_and_file_paths_at_every_level(make_lake: LakeMaker, tmp_path: Path) -> None:
    lake = make_lake("sqlite")
    lake.execute(ROWS)
    with lake.open() as ours:
        root, path = ours.table("t").path, ours.table("t").files()[0].path
    data = root.removesuffix("main/t/")
    name = Path(path).name
    for edits in (
        [f"UPDATE ducklake_schema SET path = '{data}main', path_is_relative = 0"],
        [f"UPDATE ducklake_table SET path = 'file://{root}', path_is_relative = 0"],
        [f"UPDATE ducklake_data_file SET path = '{path}', path_is_relative = 0"],
        [f"UPDATE ducklake_data_file SET path = 'file://{path}', path_is_relative = 0"],
        [
            f"UPDATE ducklake_data_file SET path = '{name}', path_is_relative = 1",
            "UPDATE ducklake_table SET path = 't', path_is_relative = 1",
            "UPDATE ducklake_schema SET path = 'main', path_is_relative = 1",
            f"UPDATE ducklake_metadata SET value = '{data.rstrip('/')}' WHERE key = 'data_path'",
        ],
        [
            f"UPDATE ducklake_data_file SET path = 'main/t/{name}'",
            "UPDATE ducklake_table SET path = ''",
            "UPDATE ducklake_schema SET path = ''",
        ],
    ):
        edit(lake, *edits)
        with Lake.open(lake.uri) as ours:
            assert ours.table("t").scan().to_arrow().num_rows == 40, edits


def test_the_data_path_can_be_overridden(make_lake: LakeMaker, tmp_path: Path) -> None:
    lake = make_lake("sqlite")
    lake.execute(ROWS)
    lake.detach()
    Path(lake.data_path).rename(tmp_path / "moved")
    with Lake.open(lake.uri) as ours, pytest.raises(MissingFileError):
        ours.table("t").scan().to_arrow()
    with Lake.open(lake.uri, data_path=str(tmp_path / "moved")) as ours:
        assert ours.table("t").scan().to_arrow().num_rows == 40


@pytest.mark.parametrize(
    "path", ["../x.parquet", "a/../../x.parquet", "/etc/passwd", "..\\x", "a\x00b"]
)
def test_relative_paths_do_not_leave_their_root(path: str, make_lake: LakeMaker) -> None:
    with pytest.raises(CorruptLakeError, match="leads out"):
        resolve("/data/", path, relative=True)
    if "\x00" not in path:
        lake = make_lake("sqlite")
        lake.execute(ROWS)
        edit(lake, f"UPDATE ducklake_data_file SET path = '{path}'")
        with Lake.open(lake.uri) as ours, pytest.raises(CorruptLakeError):
            ours.table("t").scan()


def test_paths_are_taken_as_they_are() -> None:
    assert resolve("/d", "a%20b/x", relative=True) == "/d/a%20b/x"
    assert resolve("s3://b/p/", "t/x..y", relative=True) == "s3://b/p/t/x..y"
    assert local_path("file:///a/b%20c") == "/a/b%20c"
    assert local_path("file://localhost/a") == "/a"
    path = "/x/K=a%2Fb/y=__HIVE_DEFAULT_PARTITION__/f=1.parquet"
    assert hive_value(path, "k", is_text=True) == "a/b"
    assert hive_value(path, "Y", is_text=True) is None
    with pytest.raises(CorruptLakeError, match="no folder f="):
        hive_value(path, "f", is_text=True)
    with pytest.raises(UnsupportedError, match="ftp"):
        Storage().open("ftp://host/file")


def test_secrets_in_duckdbs_own_words() -> None:
    secret = S3Secret.from_sql(
        "CREATE OR REPLACE SECRET s (TYPE s3, KEY_ID 'k', SECRET 'it''s', REGION 'eu', USE_SSL false, SCOPE 's3://b')"
    )
    assert secret == S3Secret(key_id="k", secret="it's", region="eu", use_ssl=False, scope="s3://b")
    assert "it's" not in repr(secret) + repr(Storage((secret,)))
    assert S3Secret.from_mapping({"KEY_ID": "k", "use_ssl": "true"}).use_ssl is True
    with pytest.raises(InvalidArgumentError):
        S3Secret.from_mapping({"nope": 1})
    with pytest.raises(InvalidArgumentError):
        S3Secret.from_sql("SELECT 1")


@pytest.mark.parametrize("options", ["", "ENCRYPTED, DATA_INLINING_ROW_LIMIT 0"])
def test_a_lake_on_s3(options: str, s3_reference: S3Secret, make_lake: LakeMaker) -> None:
    prefix = "encrypted" if options else "plain"
    lake = make_lake("sqlite", options, data_path=f"s3://lake/{prefix} ü/")
    lake.execute(
        "CREATE TABLE t(id BIGINT, p VARCHAR)",
        "ALTER TABLE t SET PARTITIONED BY (p)",
        "INSERT INTO t SELECT i, ['a b', 'c/d', 'ü%'][1 + i % 3] FROM range(40) r(i)",
        "DELETE FROM t WHERE id % 3 = 0",
        "UPDATE t SET p = 'new' WHERE id = 4",
    )
    assert lake.check(storage=s3_reference) > 3


def test_s3_credentials_come_from_options_secrets_or_the_environment(
    s3_reference: S3Secret, make_lake: LakeMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = make_lake("sqlite", data_path="s3://lake/env/")
    lake.execute(ROWS)
    lake.detach()
    options = {
        "KEY_ID": "key",
        "SECRET": "secret",
        "ENDPOINT": s3_reference.endpoint,
        "USE_SSL": False,
        "REGION": "us-east-1",
    }
    with Lake.open(lake.uri, storage=options) as ours:
        scan = ours.table("t").scan()
        tasks = pickle.loads(pickle.dumps(scan.plan)).tasks
        assert scan.with_tasks(tasks).to_arrow().num_rows == 40
        assert "secret" not in repr(scan)
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", f"http://{s3_reference.endpoint}"),
    ):
        monkeypatch.setenv(name, value)
    assert os.environ["AWS_ENDPOINT_URL"]
    from lakeport.ducklake.storage import filesystems

    filesystems._s3.cache_clear()
    with Lake.open(lake.uri) as ours:
        assert ours.table("t").scan().to_arrow().num_rows == 40
    filesystems._s3.cache_clear()


def test_a_file_that_s3_does_not_have_is_missing(s3: S3Secret) -> None:
    with pytest.raises((MissingFileError, PermissionDeniedError)):
        Storage((s3,)).read("s3://lake/nothing.parquet")
