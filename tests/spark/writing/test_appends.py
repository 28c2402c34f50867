"""DataFrames appended to a lake by Spark: the same rows, statistics and errors as the local writer.

DuckDB's own extension reads what Spark has written.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakeport import Lake
from lakeport.errors import ConstraintError, InvalidInputError, LakeportError
from tests.fixtures_lakes import LakeMaker

TYPED = """
    SELECT i::INTEGER AS id, i::UTINYINT AS u8, i::USMALLINT AS u16, i::UINTEGER AS u32,
           i::UBIGINT AS u64, i::HUGEINT AS huge, i::UHUGEINT AS uhuge, i::FLOAT AS f,
           CASE WHEN i = 3 THEN 'nan'::DOUBLE ELSE i / 7 END AS x,
           (i * 1.25)::DECIMAL(9,2) AS price, 'v' || i AS name, ('b' || i)::BLOB AS blob,
           DATE '2024-01-01' + i::INTEGER AS d,
           TIME '10:00:00' + to_minutes(i) AS t, TIMESTAMP '2024-01-01' + to_hours(i) AS ts,
           TIMESTAMPTZ '2024-01-01 00:00:00+00' + to_days(i::INTEGER) AS tz,
           (TIMESTAMP '2024-01-01' + to_hours(i))::TIMESTAMP_S AS ts_s,
           (TIMESTAMP '2024-01-01' + to_hours(i))::TIMESTAMP_NS AS ts_ns,
           to_days(i::INTEGER) + to_seconds(i) AS gap,
           ('00000000-0000-0000-0000-0000000000' || lpad(i::VARCHAR, 2, '0'))::UUID AS u,
           {'a': i, 'b': [i::UTINYINT]} AS st, [i, NULL] AS list, MAP {'k': i} AS m,
           ('{"n": ' || i || '}')::JSON AS j, i % 2 = 0 AS even
    FROM range(1, 41) r(i) UNION ALL BY NAME SELECT 0 AS id
"""


def new_lake(folder: Path, **options: Any) -> Lake:
    return Lake.create(
        f"ducklake:sqlite:{folder / 'meta.sqlite'}", data_path=f"{folder}/data/", **options
    )


def data_files(lake: Lake, table: str) -> set[str]:
    """The Parquet files in the folder of a table."""
    folder = Path(lake.table(table).path)
    return {str(path) for path in folder.rglob("*.parquet")}


def known_files(lake: Lake, table: str) -> set[str]:
    """The data files that the catalog lists, and their delete files."""
    files = lake.table(table).files()
    return {f.path for f in files} | {d.path for f in files for d in f.deletes}


def test_every_type_returns_through_spark_as_it_was(spark: Any, make_lake: LakeMaker) -> None:
    real = make_lake("sqlite")
    real.execute(
        f"CREATE TABLE source AS {TYPED}",
        "CREATE TABLE target AS FROM source LIMIT 0",
        "CREATE TABLE few AS FROM source LIMIT 0",
    )
    real.detach()
    lake = Lake.open(real.uri)
    frame = lake.table("source").to_spark(spark)

    result = lake.table("target").append(frame)
    lake.table("few").append(frame.where("id < 4"))

    assert result.rows_inserted == 41
    assert real.query("FROM target EXCEPT FROM source") == []
    assert real.query("FROM source EXCEPT FROM target") == []
    assert real.query("FROM few EXCEPT FROM source") == []
    assert real.query("SELECT count(*) FROM few") == [(4,)]
    real.detach()
    assert lake.table("few").files() == []


def test_the_statistics_are_those_of_the_local_writer(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    rows = pa.table(
        {"id": pa.array(range(3000)), "s": [f"n{i % 10}" if i % 7 else None for i in range(3000)]}
    )
    lake.create_table_as("here", rows)

    lake.create_table_as("there", spark.createDataFrame(rows).coalesce(1))

    def statistics(table: str) -> Any:
        stats = lake.table(table).stats
        assert stats is not None
        return stats.record_count, stats.columns

    assert statistics("there") == statistics("here")
    assert lake.table("there").scan().to_arrow().sort_by("id") == rows


@pytest.fixture(params=["true", "false"])
def adaptive(request: pytest.FixtureRequest, spark: Any) -> Any:
    """A session with and without plans that adapt."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", request.param)
    return session


def test_rows_of_a_partition_are_in_one_file(adaptive: Any, make_lake: LakeMaker) -> None:
    real = make_lake("sqlite")
    real.execute("CREATE SCHEMA s")
    real.detach()
    lake = Lake.open(real.uri)
    frame = adaptive.range(0, 20_000, 1, 5).selectExpr(
        "id",
        "CASE WHEN id % 5 < 4 THEN concat('k ', id % 5) END AS k",
        "timestamp_seconds(id * 20) AS at",
    )

    table = lake.create_table_as(
        "p", frame, "s", partition_by=["k", "day(at)", "bucket(3, id)"], sort_by=["id DESC"]
    )

    files = table.files()
    assert len({file.partition_values for file in files}) == len(files)
    assert real.query("SELECT count(*), sum(id), count(k) FROM s.p") == [
        (20_000, 199_990_000, 16_000)
    ]
    for file in files[:5]:
        ids = real.query(f"SELECT id FROM '{file.path}'")
        assert ids == sorted(ids, reverse=True)
    values = {row[0] for row in real.query('SELECT DISTINCT k FROM s.p WHERE day("at") = 3')}
    real.detach()
    assert values == {None, "k 0", "k 1", "k 2", "k 3"}


def test_few_rows_of_many_tasks_become_one_file(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.create_table("t", {"id": "BIGINT"})

    result = lake.table("t").append(spark.range(0, 80, 1, 8))

    assert (result.rows_inserted, result.files_added) == (80, 1)
    assert lake.table("t").append(spark.range(0)).snapshot is None


def test_a_frame_of_a_few_rows_is_inlined_as_by_the_reference(
    spark: Any, make_lake: LakeMaker
) -> None:
    real = make_lake("sqlite")
    real.execute("CREATE TABLE ours (id BIGINT)", "CREATE TABLE theirs (id BIGINT)")
    for rows in (5, 10):
        real.execute(f"INSERT INTO theirs FROM range({rows})")
        real.detach()
        with Lake.open(real.uri) as lake:
            result = lake.table("ours").append(spark.range(0, rows, 1, 4))
            assert result.rows_inserted == rows
            assert result.files_added == len(lake.table("ours").files())
            assert len(lake.table("ours").files()) == len(lake.table("theirs").files())

    assert real.query("FROM ours ORDER BY ALL") == real.query("FROM theirs ORDER BY ALL")
    real.detach()


def test_columns_are_matched_by_name_and_defaults_fill_the_rest(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.create_table(
        "t",
        {"a": "BIGINT", "b": "VARCHAR", "c": "DOUBLE"},
        defaults={"b": "none"},
    )

    lake.table("t").append(spark.sql("SELECT 2.5F AS C, CAST(1 AS SMALLINT) AS A"))

    assert lake.table("t").scan().to_arrow().to_pylist() == [{"a": 1, "b": "none", "c": 2.5}]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1 AS id, 2 AS nam", "the table has no column 'nam'; did you mean 'name'?"),
        ("SELECT 1 AS id, 2 AS ID", "the rows have two columns 'ID'"),
        ("SELECT 1 AS id, 2.5D AS name", "column 'name' is varchar, but the rows have double"),
        ("SELECT 300 AS small, 1 AS id", "column 'small' cannot take these values"),
        ("SELECT 'x' AS name", "the rows have no column 'id', which has no default"),
    ],
)
def test_rows_that_do_not_fit_are_an_error_that_names_the_column(
    spark: Any, tmp_path: Path, query: str, message: str
) -> None:
    lake = new_lake(tmp_path)
    columns = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("name", pa.string()), ("small", pa.uint8())]
    )
    lake.create_table("t", columns)
    frame = spark.sql(query.replace("300", "300S")).union(spark.sql(query.replace("300", "300S")))

    with pytest.raises((InvalidInputError, ConstraintError), match=message.replace("?", r"\?")):
        lake.table("t").append(frame)

    assert lake.table("t").scan().count() == 0
    assert data_files(lake, "t") == set()


def test_a_query_that_fails_leaves_no_file(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path)
    lake.create_table("t", {"id": "BIGINT"})
    frame = spark.range(0, 40_000, 1, 4).selectExpr(
        "CASE WHEN id = 39999 THEN raise_error('no more') ELSE id END AS id"
    )

    with pytest.raises(LakeportError, match="no more"):
        lake.table("t").append(frame)

    assert data_files(lake, "t") == set()


def test_a_transaction_with_dataframes_is_one_snapshot_or_nothing(
    spark: Any, tmp_path: Path
) -> None:
    lake = new_lake(tmp_path)
    frame = spark.range(0, 3000, 1, 2)
    with lake.transaction() as transaction:
        first = transaction.create_table("first", {"id": "BIGINT"})
        first.append(frame)
        first.append(frame)
        transaction.create_table("second", {"id": "BIGINT"}).append(frame)
    before = data_files(lake, "first")

    transaction = lake.transaction()
    transaction.table("first").append(frame)
    assert len(data_files(lake, "first")) > len(before)
    transaction.rollback()

    assert lake.snapshot().id == 1
    assert (lake.table("first").scan().count(), lake.table("second").scan().count()) == (6000, 3000)
    assert data_files(lake, "first") == before == known_files(lake, "first")


def test_the_files_of_an_encrypted_lake_are_encrypted(spark: Any, tmp_path: Path) -> None:
    lake = new_lake(tmp_path, encrypted=True)

    table = lake.create_table_as("t", spark.range(0, 5000, 1, 2), partition_by=["bucket(2, id)"])

    assert table.scan().to_arrow().sort_by("id").column("id").to_pylist() == list(range(5000))
    for file in table.files():
        assert Path(file.path).read_bytes()[:4] == b"PARE"


@pytest.mark.parametrize("type", ["DATE", "TIMESTAMP_NTZ", "TIMESTAMP"])
def test_a_partition_counted_from_1970_is_written_by_one_task(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, type: str
) -> None:
    packed = Path(__file__).parents[2] / "ducklake" / "lakes_1_1" / "sorted.tar.xz"
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path / "sorted")  # the data path of the lake is `data/`
    days = spark.range(0, 400, 1, 4).selectExpr(
        f"CAST(DATE '1969-12-30' + CAST(id % 4 AS INT) AS {type}) AS moment"
    )
    column = {"DATE": "DATE", "TIMESTAMP_NTZ": "TIMESTAMP", "TIMESTAMP": "TIMESTAMPTZ"}[type]
    with Lake.open("ducklake:meta.ducklake", spark=spark) as lake:
        lake.create_table("ours", {"moment": column}, partition_by=["epoch_day(moment)"])
        lake.table("ours").append(days)

        folders = [path.parent.name for path in Path("data/main/ours").glob("*/*.parquet")]
        assert sorted(folders) == sorted(f"epoch_day={day}" for day in (-2, -1, 0, 1))
        assert lake.table("ours").scan().count() == 400
