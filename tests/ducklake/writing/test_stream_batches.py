"""Batches of streams: recorded in the commit's own transaction, so that each is written once."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.errors import ConflictError, InvalidArgumentError
from tests.fixtures_lakes import LakeMaker, RealLake

KINDS = ["duckdb", "sqlite", "postgresql", "mysql"]


@pytest.fixture
def real(make_lake: LakeMaker) -> RealLake:
    return make_lake("sqlite")


@pytest.fixture
def lake(real: RealLake) -> Iterator[Lake]:
    with Lake.create(real.uri, data_path=real.data_path) as made:
        made.create_table("t", {"id": "BIGINT"})
        yield made


def write(lake: Lake, application: str, batch: int, first: int, rows: int = 20) -> bool:
    with lake.transaction() as transaction:
        table = transaction.table("t")
        is_new = table.begin_batch(application, batch)
        if is_new and rows:
            table.append(pa.table({"id": list(range(first, first + rows))}))
    return is_new


def ids(lake: Lake) -> list[int]:
    return sorted(lake.table("t").scan().to_arrow(engine="local")["id"].to_pylist())


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_written_once(make_lake: LakeMaker, kind: str) -> None:
    real = make_lake(kind)
    with Lake.create(real.uri, data_path=real.data_path) as lake:
        lake.create_table("t", {"id": "BIGINT"})

        written = [write(lake, "loader", batch, 20 * batch) for batch in (0, 1, 1, 0, 2)]
        other = write(lake, "other", 0, 60)

        assert written == [True, True, False, False, True]
        assert other
        assert ids(lake) == list(range(80))
    # The reference ignores the entries. Its inserts fail on MySQL (DuckDB 1.5.5), with or without.
    if kind != "mysql":
        real.execute("INSERT INTO t VALUES (80)")
    assert real.query("SELECT count(*) FROM t") == [(80 + (kind != "mysql"),)]
    with real.open() as again:
        assert not write(again, "loader", 2, 0)
        assert write(again, "loader", 3, 81)


def test_of_two_processes_with_the_same_batch_one_gets_a_conflict(lake: Lake) -> None:
    with lake.transaction() as slow:
        table = slow.table("t")
        assert table.begin_batch("loader", 0)
        table.append(pa.table({"id": list(range(20))}))
        assert write(lake, "loader", 0, 0)
        with pytest.raises(ConflictError, match="lakeport_stream:loader"):
            slow.commit()

    assert ids(lake) == list(range(20))


def test_a_batch_without_rows_is_recorded_without_a_snapshot(lake: Lake) -> None:
    before = lake.snapshot().id

    assert write(lake, "loader", 4, 0, rows=0)

    assert lake.snapshot().id == before
    assert not write(lake, "loader", 4, 0)
    assert write(lake, "loader", 5, 0)


def test_a_batch_that_fails_is_not_recorded(lake: Lake) -> None:
    with pytest.raises(RuntimeError), lake.transaction() as transaction:
        table = transaction.table("t")
        table.begin_batch("loader", 0)
        table.append(pa.table({"id": [1]}))
        raise RuntimeError

    assert write(lake, "loader", 0, 0)


def test_a_table_can_be_created_with_its_first_batch(lake: Lake) -> None:
    with lake.transaction() as transaction:
        table = transaction.create_table("new", {"id": "BIGINT"})
        assert table.begin_batch("loader", 0)
        table.append(pa.table({"id": [1]}))

    with lake.transaction() as transaction:
        assert not transaction.table("new").begin_batch("loader", 0)
        assert transaction.table("new").begin_batch("loader", 1)
        assert transaction.table("t").begin_batch("loader", 0)


@pytest.mark.parametrize(("application", "batch"), [("", 0), ("loader", -1)])
def test_a_stream_needs_a_name_and_a_number(lake: Lake, application: str, batch: int) -> None:
    with lake.transaction() as transaction, pytest.raises(InvalidArgumentError, match="numbered"):
        transaction.table("t").begin_batch(application, batch)
