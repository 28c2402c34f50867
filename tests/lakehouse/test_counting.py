"""`count(*)` through a server reads no file of a lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeport
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.lakehouse import LakeCatalog
from tests.airport.flight_client import ROWID_COLUMN, path, started
from tests.fixtures_lakes import LakeMaker

NO_COLUMNS = '{"filters":[],"column_binding_names_by_index":[]}'
ROWID = '{"filters":[],"column_binding_names_by_index":["rowid"]}'


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are opened."""
    names: list[str] = []
    original = Storage.open

    def record(self: Storage, path: str) -> pa.NativeFile:
        names.append(Path(path).name)
        return original(self, path)

    monkeypatch.setattr(Storage, "open", record)
    return names


def test_a_count_of_duckdb_or_of_our_client_opens_no_file(
    make_lake: LakeMaker, opened: list[str]
) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 10")
    lake.execute("CREATE TABLE t AS SELECT i FROM range(100000) r(i)", "INSERT INTO t VALUES (-1)")
    lake.execute("DELETE FROM t WHERE i BETWEEN 100 AND 1099")
    lake.detach()
    with LakeCatalog(lake.uri, engine="local") as catalog, started() as start:
        client = start(catalog, headers={"airport-user-agent": "airport/20250723"})

        counted = client.scan(path("public", "t"), column_ids=[ROWID_COLUMN], filters=NO_COLUMNS)
        with lakeport.connect(client.server.location) as own:
            count = own.table("public.t").scan().count()

        assert counted.num_rows == count == 99_001
        assert counted.schema.field("rowid").type == pa.int64()
        assert opened == []
        read = client.scan(path("public", "t"), column_ids=[ROWID_COLUMN], filters=ROWID)
        assert read["rowid"].null_count == 0
        assert len(set(read["rowid"].to_pylist())) == 99_001
        assert opened


def test_the_count_of_many_files_is_one_request_and_one_batch(make_lake: LakeMaker) -> None:
    lake = make_lake("sqlite", "DATA_INLINING_ROW_LIMIT 0")
    lake.execute("CREATE TABLE t AS SELECT i FROM range(1000) r(i)")
    lake.execute(*[f"INSERT INTO t VALUES ({n}), ({n + 1})" for n in range(5)])
    lake.detach()
    with LakeCatalog(lake.uri, engine="local", endpoints=4) as catalog, started() as start:
        client = start(catalog, headers={"airport-user-agent": "airport/20250723"})

        (counted,) = client.endpoints(
            path("public", "t"), column_ids=[ROWID_COLUMN], filters=NO_COLUMNS
        )
        read = client.endpoints(path("public", "t"), column_ids=[0])
        batches = [chunk.data.num_rows for chunk in client.get(counted.ticket)]

    assert batches == [1010]
    assert len(read) == 4
