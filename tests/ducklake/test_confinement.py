"""A confined lake: files outside of its data path are not read, listed, written or deleted."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeport import connect
from lakeport.airport.server import Server
from lakeport.ducklake import Lake
from lakeport.ducklake.storage.filesystems import S3Secret, Storage
from lakeport.errors import (
    DefinitionError,
    InvalidArgumentError,
    LakeportError,
    PermissionDeniedError,
)
from lakeport.lakehouse import LakeCatalog
from tests.cli.processes import run
from tests.wait import TIMEOUT_SECONDS

REFUSED = "to which the lake is confined"
SECRET = "SECRET of another lake"


class Confined:
    """A lake, and a folder beside its data path with the files of others."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"ducklake:sqlite:{folder}/meta.sqlite"
        self.data, self.outside = folder / "data", folder / "data-of-others"
        self.outside.mkdir()
        with Lake.create(self.uri, data_path=f"{self.data}/", engine="local") as lake:
            lake.create_table("t", pa.schema([("id", pa.int64()), ("x", pa.string())]))
            lake.table("t").append(pa.table({"id": range(2000), "x": ["own"] * 2000}))
            lake.table("t").delete("id < 100")
            lake.table("t").append(pa.table({"id": range(2000), "x": ["own"] * 2000}))
        self.secret = self.outside / "secret.parquet"
        with self.open(confine=False) as lake:
            own = sorted(self.data.rglob("*.parquet"))
            # A copy of an own file has the ids of the columns.
            shutil.copy(next(file for file in own if "delete" not in file.name), self.secret)
            assert lake.table("t").scan().to_arrow().num_rows == 3900

    def open(self, *, confine: bool = True, **options: Any) -> Lake:
        return Lake.open(self.uri, engine="local", confine=confine, **options)

    def edit(self, statement: str, *values: object) -> None:
        """Change the catalog as a writer of its database could."""
        with closing(sqlite3.connect(self.uri.removeprefix("ducklake:sqlite:"))) as connection:
            changed = connection.execute(statement, values).rowcount
            assert changed > 0
            connection.commit()

    def name_file(self, path: str, *, relative: bool = False) -> None:
        """Let the first data file of the table be another."""
        self.edit(
            "UPDATE ducklake_data_file SET path = ?, path_is_relative = ? WHERE data_file_id = "
            "(SELECT min(data_file_id) FROM ducklake_data_file)",
            path,
            relative,
        )


@pytest.fixture
def confined(tmp_path: Path) -> Confined:
    return Confined(tmp_path)


def test_a_confined_lake_is_read_and_written_as_any_other(confined: Confined) -> None:
    with confined.open() as lake:
        table = lake.table("t")
        assert table.scan().to_arrow().num_rows == 3900
        table.append(pa.table({"id": range(2000), "x": ["new"] * 2000}))
        lake.table("t").delete("x = 'new'")
        assert lake.table("t").scan().to_arrow().num_rows == 3900
        assert lake.clean_up(everything=True).skipped == ()


@pytest.mark.parametrize("spelling", ["{}", "file://{}", "file:{}", "{data}/../{name}/{file}"])
def test_a_data_file_of_others_is_not_read(spelling: str, confined: Confined) -> None:
    secret = confined.secret
    confined.name_file(
        spelling.format(
            secret, data=confined.data, name=confined.outside.name, file=confined.secret.name
        )
    )

    with confined.open(confine=False) as lake:
        assert lake.table("t").scan().to_arrow().num_rows == 3900
    with confined.open() as lake:
        for read in reads(lake):
            with pytest.raises(PermissionDeniedError, match=REFUSED):
                read()


def reads(lake: Lake) -> list[Callable[[], object]]:
    """Every way to read a table."""
    return [
        lambda: lake.table("t").scan().to_arrow(),
        lambda: lake.table("t").scan(filter="id = 150").to_arrow(),
        lambda: list(lake.table("t").scan(["rowid"]).to_batches()),
        lambda: lake.table("t").changes(2).to_arrow(),
        lambda: lake.table("t").delete("id = 150"),
        lambda: lake.table("t").update({"x": "'y'"}, "id = 150"),
    ]


def test_a_link_out_of_the_data_path_is_not_followed(confined: Confined) -> None:
    (confined.data / "link.parquet").symlink_to(confined.secret)
    (confined.data / "folder").symlink_to(confined.outside, target_is_directory=True)

    for path in (confined.data / "link.parquet", confined.data / "folder" / "secret.parquet"):
        confined.name_file(str(path))
        with confined.open() as lake, pytest.raises(PermissionDeniedError, match=REFUSED):
            lake.table("t").scan().to_arrow()


def test_a_link_is_checked_again_when_the_file_is_opened(confined: Confined) -> None:
    own = next(file for file in confined.data.rglob("*.parquet") if "delete" not in file.name)
    with confined.open() as lake:
        plan = lake.table("t").scan().plan
        own.unlink()
        own.symlink_to(confined.secret)

        with pytest.raises(PermissionDeniedError, match=REFUSED):
            for task in plan.tasks:
                list(task.read())


def test_links_inside_of_the_data_path_and_to_it_are_followed(
    confined: Confined, tmp_path: Path
) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(confined.data, target_is_directory=True)
    own = next(file for file in confined.data.rglob("*.parquet") if "delete" not in file.name)
    moved = own.with_name("moved.parquet")
    own.rename(moved)
    own.symlink_to(moved)

    with confined.open(data_path=str(alias)) as lake:
        assert lake.table("t").scan().to_arrow().num_rows == 3900


def test_a_delete_file_of_others_is_not_read(confined: Confined) -> None:
    deletes = next(confined.data.rglob("*delete*.parquet"))
    shutil.move(deletes, confined.outside / deletes.name)
    confined.edit(
        "UPDATE ducklake_delete_file SET path = ?, path_is_relative = 0",
        str(confined.outside / deletes.name),
    )

    with confined.open(confine=False) as lake:
        assert lake.table("t").scan().to_arrow().num_rows == 3900
    with confined.open() as lake, pytest.raises(PermissionDeniedError, match=REFUSED):
        lake.table("t").scan().to_arrow()


def test_a_file_that_was_added_from_elsewhere_is_not_read(confined: Confined) -> None:
    pq.write_table(pa.table({"id": [7], "x": [SECRET]}), confined.outside / "added.parquet")
    with confined.open(confine=False) as lake:
        lake.table("t").add_files(str(confined.outside / "added.parquet"))
        assert SECRET in repr(lake.table("t").scan().to_arrow().to_pylist())

    with confined.open() as lake, pytest.raises(PermissionDeniedError, match=REFUSED):
        lake.table("t").scan().to_arrow()


@pytest.mark.parametrize("name", ["secret.parquet", "*.parquet", "**", "../*/secret.parquet"])
def test_files_of_others_are_not_added(name: str, confined: Confined) -> None:
    for folder in (confined.outside, confined.data / ".." / confined.outside.name):
        with confined.open() as lake, pytest.raises(PermissionDeniedError, match=REFUSED):
            lake.table("t").add_files(f"{folder}/{name}")


@pytest.mark.parametrize("object", ["table", "schema"])
def test_nothing_is_written_to_a_folder_elsewhere(object: str, confined: Confined) -> None:
    elsewhere = confined.outside / "new"
    confined.edit(f"UPDATE ducklake_{object} SET path = ?, path_is_relative = 0", f"{elsewhere}/")
    confined.edit("DELETE FROM ducklake_data_file")

    with confined.open() as lake, pytest.raises(PermissionDeniedError, match=REFUSED):
        lake.table("t").append(pa.table({"id": range(2000), "x": ["new"] * 2000}))

    assert not elsewhere.exists()


def test_files_of_others_are_not_deleted(confined: Confined) -> None:
    confined.edit(
        "INSERT INTO ducklake_files_scheduled_for_deletion VALUES (99, ?, 0, '2020-01-01 00:00:00')",
        str(confined.secret),
    )

    with confined.open() as lake:
        skipped = lake.clean_up(everything=True).skipped

    assert len(skipped) == 1
    assert REFUSED in skipped[0]
    assert confined.secret.exists()


def test_a_data_path_that_the_catalog_changes_later_stays_outside(confined: Confined) -> None:
    with confined.open() as lake:
        confined.edit(
            "UPDATE ducklake_metadata SET value = ? WHERE key = 'data_path'",
            f"{confined.outside}/",
        )
        with pytest.raises(PermissionDeniedError, match=REFUSED):
            lake.table("t").scan().to_arrow()
    # A data path of the configuration is not the catalog's to change.
    with confined.open(data_path=str(confined.data)) as lake:
        assert lake.table("t").scan().to_arrow().num_rows == 3900


def test_a_lake_without_a_data_path_cannot_be_confined(confined: Confined) -> None:
    confined.edit("DELETE FROM ducklake_metadata WHERE key = 'data_path'")

    with pytest.raises(InvalidArgumentError, match="cannot be confined"):
        confined.open()


@pytest.fixture
def client(confined: Confined) -> Iterator[Any]:
    options: dict[str, Any] = {"engine": "local", "writable": True, "confine": True}
    with (
        LakeCatalog(confined.uri, **options) as catalog,
        Server(catalog) as server,
        connect(server.location, timeout=TIMEOUT_SECONDS) as client,
    ):
        yield client


def test_no_statement_of_a_client_leads_out(confined: Confined, client: Any) -> None:
    (confined.data / "link.parquet").symlink_to(confined.secret)
    for path in (
        confined.secret,
        confined.data / ".." / confined.outside.name / "secret.parquet",
        confined.data / "link.parquet",
        confined.data / "link*",
    ):
        with pytest.raises(PermissionDeniedError, match="outside of"):
            client.call_table("lakeport.add_files", "t", str(path)).to_arrow()
    confined.name_file(str(confined.secret))
    with pytest.raises(PermissionDeniedError, match=REFUSED):
        client.table("public.t").scan().to_arrow()


@pytest.mark.parametrize("source", ["read_parquet('{}')", "'{}'", "glob('{}')", "read_text('{}')"])
def test_a_view_reads_no_files(source: str, confined: Confined, client: Any) -> None:
    with confined.open() as lake:
        lake.create_view("v", f"SELECT * FROM {source.format(confined.secret)}")

    with pytest.raises(LakeportError) as caught:
        client.table("public.v").scan().to_arrow()
    assert "own" not in str(caught.value)


def test_spark_reads_and_writes_no_files_of_others(confined: Confined, spark: Any) -> None:
    own = {"uri": confined.uri, "confine": True, "spark": spark}
    with Lake.open(**own) as lake:
        assert lake.table("t").scan().to_spark().count() == 3900
    with (
        LakeCatalog(confined.uri, spark=spark, confine=True, spark_sql=True) as catalog,
        Server(catalog) as server,
        connect(server.location, timeout=TIMEOUT_SECONDS) as client,
    ):
        for relation in (f"parquet.`{confined.secret}`", f"binaryFile.`{confined.outside}`"):
            with pytest.raises(LakeportError, match="cannot be found"):
                client.call_table("lakeport.spark_sql", f"SELECT * FROM {relation}").to_arrow()
        confined.name_file(str(confined.secret))
        with pytest.raises(LakeportError, match=REFUSED):
            client.call_table("lakeport.spark_sql", "SELECT max(x) AS x FROM t").to_arrow()
    with Lake.open(**own) as lake:
        with pytest.raises(PermissionDeniedError, match=REFUSED):
            lake.table("t").scan().to_spark().count()
        confined.edit(
            "UPDATE ducklake_table SET path = ?, path_is_relative = 0", f"{confined.outside}/new/"
        )
        frame = spark.range(5000).selectExpr("id", "'new' AS x")
        with pytest.raises(PermissionDeniedError, match=REFUSED):
            lake.table("t").append(frame)
    assert not (confined.outside / "new").exists()


def test_folders_for_added_files_are_inside_of_a_confined_lake(confined: Confined) -> None:
    folders = [str(confined.outside)]

    with pytest.raises(DefinitionError, match=f"add_files_from.*{REFUSED}"):
        LakeCatalog(confined.uri, engine="local", confine=True, add_files_from=folders)
    with (
        confined.open() as lake,
        pytest.raises(DefinitionError, match="cannot be confined"),
    ):
        LakeCatalog(lake, confine=True)


STORE = Storage().confined("s3://bucket/lake")


@pytest.mark.parametrize(
    "path",
    [
        "s3://bucket/other/x.parquet",
        "s3://bucket/lake2/x.parquet",
        "s3://bucket/lake/../other/x.parquet",
        "s3://bucket/lake/a/..\\..\\x.parquet",
        "s3://bucket/lake/./../x.parquet",
        "s3://other/lake/x.parquet",
        "s3a://bucket/lake/x.parquet",
        "gs://bucket/lake/x.parquet",
        "file:///etc/passwd",
        "/etc/passwd",
        "s3:/bucket/lake/x.parquet",
        "",
    ],
)
def test_other_buckets_and_folders_are_refused_before_a_store_is_asked(path: str) -> None:
    for call in (STORE.open, STORE.delete, STORE.filesystem, STORE.read):
        with pytest.raises(PermissionDeniedError, match=REFUSED):
            call(path)


def test_a_path_may_not_choose_another_endpoint() -> None:
    store = Storage().confined("gs://bucket/lake/")

    with pytest.raises(PermissionDeniedError, match=REFUSED):
        store.open("gs://bucket/lake/x.parquet?endpoint_override=evil.example")
    assert not store.admits("gs://bucket/lake/x#y")
    assert store.admits("gs://bucket/lake/x.parquet")
    assert store.admits("gs://bucket/lake")


def test_a_path_with_a_null_byte_is_outside(tmp_path: Path) -> None:
    assert not Storage().confined(str(tmp_path)).admits(f"{tmp_path}/x\x00.parquet")


def test_an_object_store_is_confined_with_its_credentials(s3: S3Secret, tmp_path: Path) -> None:
    uri = f"ducklake:sqlite:{tmp_path}/meta.sqlite"
    storage = Storage((s3,))
    with Lake.create(uri, data_path="s3://lake/own/", storage=storage, engine="local") as lake:
        lake.create_table("t", pa.schema([("id", pa.int64())]))
        lake.table("t").append(pa.table({"id": range(2000)}))
    with Lake.open(uri, storage=storage, engine="local", confine=True) as lake:
        assert lake.table("t").scan().to_arrow().num_rows == 2000
        assert lake.storage == replace(storage, confined_to="s3://lake/own/")
    other = "s3://lake/own/../else/x.parquet"
    with closing(sqlite3.connect(tmp_path / "meta.sqlite")) as connection:
        connection.execute("UPDATE ducklake_data_file SET path = ?, path_is_relative = 0", (other,))
        connection.commit()
    with (
        Lake.open(uri, storage=storage, engine="local", confine=True) as lake,
        pytest.raises(PermissionDeniedError, match=REFUSED),
    ):
        lake.table("t").scan().to_arrow()


@pytest.mark.process
def test_a_server_confines_its_lakes_by_flag_and_configuration(
    confined: Confined, tmp_path: Path
) -> None:
    confined.edit("DELETE FROM ducklake_metadata WHERE key = 'data_path'")
    file = tmp_path / "lakeport.toml"
    file.write_text(f'[[lake]]\nuri = "{confined.uri}"\nconfine = true\n')

    for arguments in (["--config", str(file)], [confined.uri, "--confine"]):
        ended = run("serve", "--listen", "127.0.0.1:0", *arguments)
        assert ended.returncode != 0
        assert "a lake without a data path cannot be confined to it" in ended.stderr
