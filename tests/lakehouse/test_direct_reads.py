"""Files that clients read by themselves: only where nothing has to be merged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lakeport import FunctionReference, Partition, ScanOptions, col
from lakeport.catalog import Endpoint, EndpointTable
from lakeport.filters import Filter
from tests.differential.scenarios import NO_INLINING, SCALAR_ROWS, SCALARS
from tests.lakehouse.conftest import Serve

MakeLake = Callable[..., Any]
EXACT = "COLUMNS(c -> c NOT IN ('tss', 'tsm', 'j'))"


def endpoints(served: Any, filter: Filter | None = None) -> list[Endpoint]:
    table = served.catalog.schema("public").table("t")
    assert isinstance(table, EndpointTable)
    return list(table.endpoints(ScanOptions(filter=filter or Filter())))


def test_plain_files_are_read_by_the_client_itself(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute(
        f"CREATE TABLE s({SCALARS})",
        f"INSERT INTO s VALUES {SCALAR_ROWS}",
        f"CREATE TABLE t AS SELECT {EXACT}, [i32] AS l, {{'a': s}} AS st FROM s",
        "INSERT INTO t FROM t",
    )
    expected = sorted(lake.query("SELECT COLUMNS(*)::VARCHAR FROM t"), key=repr)

    served = serve(lake, direct_reads=True)

    assert [type(endpoint) for endpoint in endpoints(served)] == [FunctionReference] * 2
    rows: pa.Table = served.client.table("public.t").scan().to_arrow()
    assert "rowid" not in rows.column_names
    lake.connection.register("ours", rows)
    assert sorted(lake.query("SELECT COLUMNS(*)::VARCHAR FROM ours"), key=repr) == expected
    lake.connection.unregister("ours")


def test_files_that_cannot_match_are_not_named(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute(
        "CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)",
        "INSERT INTO t SELECT i FROM range(100, 200) r(i)",
    )

    served = serve(lake, direct_reads=True)

    assert len(endpoints(served, Filter.of(col("id") > 150))) == 1
    assert served.client.table("public.t").scan(filter=col("id") > 150).count() == 49


def test_folders_of_partitions_are_not_taken_for_columns(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute(
        "CREATE TABLE t(id INTEGER, part VARCHAR)",
        "ALTER TABLE t SET PARTITIONED BY (part)",
        "INSERT INTO t VALUES (1, '007'), (2, '008')",
    )

    served = serve(lake, direct_reads=True)

    assert all(isinstance(endpoint, FunctionReference) for endpoint in endpoints(served))
    rows = served.client.table("public.t").scan().to_arrow().to_pylist()
    assert sorted(row["part"] for row in rows) == ["007", "008"]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE id = 5",
        "INSERT INTO t VALUES (1000, 'inlined')",
        "ALTER TABLE t ADD COLUMN w INTEGER",
        "ALTER TABLE t RENAME v TO w",
        "ALTER TABLE t DROP COLUMN v",
        "CREATE OR REPLACE TABLE t AS SELECT i AS id, INTERVAL (i) DAY AS v FROM range(50) r(i)",
        "CREATE OR REPLACE TABLE t AS SELECT i AS id, i::HUGEINT AS v FROM range(50) r(i)",
    ],
)
def test_whatever_has_to_be_merged_is_read_by_the_server(
    make_lake: MakeLake, serve: Serve, statement: str
) -> None:
    lake = make_lake()
    lake.execute("CREATE TABLE t AS SELECT i AS id, 'v' || i AS v FROM range(100) r(i)", statement)

    found = endpoints(serve(lake, direct_reads=True))

    assert found
    assert all(isinstance(endpoint, Partition) for endpoint in found)


def test_encrypted_files_are_read_by_the_server(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options=f"{NO_INLINING}, ENCRYPTED")
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)")

    served = serve(lake, direct_reads=True)

    assert all(isinstance(endpoint, Partition) for endpoint in endpoints(served))
    assert served.client.table("public.t").scan().count() == 100


def test_files_are_not_named_unless_that_is_allowed(make_lake: MakeLake, serve: Serve) -> None:
    lake = make_lake(options=NO_INLINING)
    lake.execute("CREATE TABLE t AS SELECT i AS id FROM range(100) r(i)")

    assert all(isinstance(endpoint, Partition) for endpoint in endpoints(serve(lake)))
