"""Tables of every kind of source, declared fluently or by decorator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakeport.catalog import (
    CatalogBuilder,
    Endpoint,
    FileFormat,
    FileReference,
    FunctionReference,
    Partition,
    ReferenceTable,
    ScanOptions,
    SchemaBuilder,
    StatisticsTable,
    Table,
    project_schema,
)
from lakeport.errors import InternalError, InvalidArgumentError, NotFoundError
from tests.catalog.reading import rows_of, table_of

ROWS = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}, {"id": 3, "name": "Grace"}]


def test_an_arrow_table_is_served_as_it_is(schema: SchemaBuilder, people_table: pa.Table) -> None:
    table = table_of(schema.table("t", people_table, comment="Everybody").build())

    assert (table.name, table.comment) == ("t", "Everybody")
    assert table.arrow_schema().equals(people_table.schema)
    assert rows_of(table) == ROWS


def test_a_record_batch_is_a_table(schema: SchemaBuilder, people_table: pa.Table) -> None:
    table = table_of(schema.table("t", people_table.to_batches()[0]).build())

    assert rows_of(table) == ROWS


def test_a_pandas_frame_is_a_table_without_its_index(schema: SchemaBuilder) -> None:
    frame = pd.DataFrame({"id": [1, 2, 3], "name": ["Ada", None, "Grace"]}, index=[7, 8, 9])

    table = table_of(schema.table("t", frame).build())

    assert table.arrow_schema().names == ["id", "name"]
    assert table.arrow_schema().metadata is None
    assert rows_of(table) == ROWS


@pytest.mark.parametrize("lazy", [False, True])
def test_a_polars_frame_is_a_table_with_plain_strings(schema: SchemaBuilder, lazy: bool) -> None:
    frame = pl.DataFrame({"id": [1, 2, 3], "name": ["Ada", None, "Grace"]})

    table = table_of(schema.table("t", frame.lazy() if lazy else frame).build())

    assert table.arrow_schema().field("name").type == pa.string()
    assert rows_of(table) == ROWS


class Streamed:
    """Rows in the Arrow C stream interface, and nothing else."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def test_anything_with_an_arrow_stream_is_a_table(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    assert rows_of(table_of(schema.table("t", Streamed(people_table)).build())) == ROWS


def test_a_reader_factory_is_called_for_every_scan(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    calls: list[int] = []

    def factory() -> pa.RecordBatchReader:
        calls.append(1)
        return people_table.to_reader()

    table = table_of(schema.table("t", factory).build())
    learned_schema = len(calls)

    assert table.arrow_schema().equals(people_table.schema)
    assert rows_of(table) == ROWS
    assert rows_of(table) == ROWS
    assert len(calls) == learned_schema + 2


def test_a_factory_may_make_data_frames(schema: SchemaBuilder, people_table: pa.Table) -> None:
    table = table_of(schema.table("t", lambda: pl.from_arrow(people_table)).build())

    assert table.arrow_schema().equals(people_table.schema)
    assert rows_of(table) == ROWS


def test_a_factory_with_a_declared_schema_is_not_called_at_build(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    def factory() -> pa.RecordBatchReader:
        raise AssertionError("called too early")

    table = table_of(schema.table("t", factory, schema=people_table.schema).build())

    assert table.arrow_schema().equals(people_table.schema)


def test_a_scan_callable_gets_the_scan_options(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    seen: list[ScanOptions] = []

    def scan(options: ScanOptions) -> pa.Table:
        seen.append(options)
        return people_table

    table = table_of(schema.table("t", scan, schema=people_table.schema).build())
    asked = ScanOptions(columns=("id",), limit=2, batch_size=10, partition=b"p")

    assert rows_of(table, asked) == ROWS
    assert seen == [asked]


def test_a_decorated_scan_is_a_table_of_its_own_name(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    @schema.table(schema=people_table.schema, comment="By hand")
    def everybody(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        yield from people_table.to_batches(max_chunksize=1)

    table = table_of(schema.build(), "everybody")

    assert table.comment == "By hand"
    assert rows_of(table) == ROWS
    assert next(iter(everybody(ScanOptions()))).num_rows == 1


def test_a_decorated_scan_can_be_given_another_name(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    @schema.table("renamed", schema=people_table.schema)
    def everybody() -> pa.Table:
        return people_table

    assert rows_of(table_of(schema.build(), "renamed")) == ROWS


@pytest.mark.parametrize(
    "returned",
    [
        lambda people_table: people_table,
        lambda people_table: people_table.to_reader(),
        lambda people_table: people_table.to_batches()[0],
        lambda people_table: people_table.to_batches(max_chunksize=1),
        lambda people_table: iter(people_table.to_batches()),
        lambda people_table: people_table.to_pandas(),
        pl.from_arrow,
        lambda people_table: pl.from_arrow(people_table).lazy(),
        Streamed,
    ],
    ids=["table", "reader", "batch", "list", "iterator", "pandas", "polars", "lazy", "stream"],
)
def test_a_scan_may_return_rows_in_any_form(
    schema: SchemaBuilder, people_table: pa.Table, returned: object
) -> None:
    assert callable(returned)
    table = table_of(
        schema.table("t", lambda: returned(people_table), schema=people_table.schema).build()
    )

    assert rows_of(table) == ROWS


def test_a_scan_without_batches_has_no_rows(schema: SchemaBuilder, people_table: pa.Table) -> None:
    table = table_of(schema.table("t", lambda: iter(()), schema=people_table.schema).build())

    assert table.scan(ScanOptions()).schema.equals(people_table.schema)
    assert rows_of(table) == []


@pytest.mark.parametrize(
    ("returned", "kind"),
    [
        (42, "int"),
        ([{"id": 1, "name": "Ada"}], "list of dict"),
        (["row"], "list of str"),
        (object(), "object"),
    ],
)
def test_a_scan_that_returns_something_else_is_named_in_the_error(
    schema: SchemaBuilder, people_table: pa.Table, returned: object, kind: str
) -> None:
    table = table_of(schema.table("t", lambda: returned, schema=people_table.schema).build())

    with pytest.raises(InternalError, match=f"table 't' returned a {kind}, expected a reader"):
        table.scan(ScanOptions())


def test_something_else_among_batches_is_named_in_the_error(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    mixed = [*people_table.to_batches(), {"id": 1}]
    table = table_of(schema.table("t", lambda: mixed, schema=people_table.schema).build())

    with pytest.raises(InternalError, match="table 't' returned a list of dict"):
        rows_of(table)


def test_batches_are_read_by_the_names_of_their_columns(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    def scan() -> Iterator[pa.RecordBatch]:
        first, *others = people_table.to_batches(max_chunksize=1)
        yield first
        for batch in others:
            yield batch.select(["name", "id"]).append_column("more", pa.array([0]))

    table = table_of(schema.table("t", scan, schema=people_table.schema).build())

    assert rows_of(table) == ROWS


def test_batches_of_other_types_are_cast_to_the_declared_one(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    def scan() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"id": None, "name": None}])
        yield pa.RecordBatch.from_pylist([{"id": 1, "name": "Ada"}])

    table = table_of(schema.table("t", scan, schema=people_table.schema).build())

    assert table.scan(ScanOptions()).read_all().schema.equals(people_table.schema)
    assert rows_of(table) == [{"id": None, "name": None}, {"id": 1, "name": "Ada"}]


def test_batches_without_columns_still_count_their_rows(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    def scan() -> Iterator[pa.RecordBatch]:
        yield people_table.to_batches()[0].select([])
        yield people_table.to_batches()[0]

    table = table_of(schema.table("t", scan, schema=people_table.schema).build())

    assert [batch.num_rows for batch in table.scan(ScanOptions(columns=()))] == [3, 3]


def test_a_batch_that_lacks_a_column_of_the_first_is_named_in_the_error(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    def scan() -> Iterator[pa.RecordBatch]:
        yield people_table.to_batches()[0]
        yield people_table.to_batches()[0].select(["name"])

    table = table_of(schema.table("t", scan, schema=people_table.schema).build())

    with pytest.raises(InternalError, match="table 't' yielded a batch without the column 'id'"):
        rows_of(table)


def test_a_batch_that_does_not_fit_is_named_in_the_error(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    def scan() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": ["x"]})

    table = table_of(schema.table("t", scan, schema=people_table.schema).build())

    with pytest.raises(InternalError, match="table 't' gives string for column 'id', which is"):
        rows_of(table)


def test_data_is_cast_to_a_declared_schema(schema: SchemaBuilder, people_table: pa.Table) -> None:
    declared = pa.schema([("name", pa.large_string()), ("id", pa.int64())])

    table = table_of(schema.table("t", people_table, schema=declared).build())

    assert table.arrow_schema().equals(declared)
    assert rows_of(table)[0] == {"name": "Ada", "id": 1}


class HandMade:
    """The least that a table needs."""

    name = "made"
    comment = "By hand"

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return project_schema(pa.schema([("x", pa.int64())]), columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return pa.table({"x": [1]}).to_reader()


def test_an_object_with_the_table_protocol_is_used_as_it_is(schema: SchemaBuilder) -> None:
    made = HandMade()

    assert table_of(schema.table(made).build(), "made") is made


def test_statistics_are_offered_only_where_asked_for(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    catalog = (
        schema.table("plain", people_table).table("counted", people_table, statistics=True).build()
    )

    assert not isinstance(table_of(catalog, "plain"), StatisticsTable)
    assert isinstance(table_of(catalog, "counted"), StatisticsTable)


def test_a_reference_table_hands_out_its_references(schema: SchemaBuilder) -> None:
    columns = pa.schema([("x", pa.int64())])
    one = FunctionReference("read_parquet", ("a.parquet",))
    several: list[Endpoint] = [one, FileReference("b.arrow", FileFormat.IPC_FILE)]

    def choose(options: ScanOptions) -> Sequence[FunctionReference]:
        return [one] if options.columns else []

    catalog = (
        schema.reference_table("one", one, schema=columns, comment="A file")
        .reference_table("several", several, schema=columns)
        .reference_table("chosen", choose, schema=columns)
        .build()
    )

    tables = {name: table_of(catalog, name) for name in ("one", "several", "chosen")}
    assert all(isinstance(table, ReferenceTable) for table in tables.values())
    assert [t.endpoints(ScanOptions()) for t in tables.values()] == [[one], several, []]  # type: ignore[attr-defined]
    assert tables["one"].comment == "A file"
    assert tables["one"].arrow_schema(["x"]).equals(columns)


def test_a_reference_table_is_not_scanned_by_the_server(schema: SchemaBuilder) -> None:
    reference = FunctionReference("read_csv", ("a.csv",), {"header": True})
    columns = pa.schema([("x", pa.int64())])
    table = table_of(schema.reference_table("t", reference, schema=columns).build())

    with pytest.raises(InvalidArgumentError, match="table 't' is read by the client"):
        table.scan(ScanOptions())


def test_a_catalog_is_built_in_one_chain_of_calls(people_table: pa.Table) -> None:
    catalog = (
        CatalogBuilder("shop", comment="A shop")
        .schema("a", comment="First", tags={"team": "red"})
        .table("t", people_table)
        .schema("b")
        .table("u", people_table)
        .build()
    )

    assert (catalog.name, catalog.comment) == ("shop", "A shop")
    assert [(s.name, s.comment, s.tags) for s in catalog.schemas()] == [
        ("a", "First", {"team": "red"}),
        ("b", "", {}),
    ]
    assert [[t.name for t in s.tables()] for s in catalog.schemas()] == [["t"], ["u"]]


def test_names_are_found_whatever_their_case(schema: SchemaBuilder, people_table: pa.Table) -> None:
    catalog = schema.table("Orders", people_table).build()

    found = catalog.schema("S")
    assert found is not None
    assert found.table("oRDERS") is found.tables()[0]
    assert found.table("other") is None
    assert catalog.schema("other") is None


def test_a_built_catalog_never_changes(schema: SchemaBuilder, people_table: pa.Table) -> None:
    catalog = schema.table("t", people_table).build()

    schema.table("late", people_table)

    version = catalog.catalog_version()
    assert version.is_fixed
    assert catalog.schemas()[0].table("late") is None


def test_two_builds_of_one_builder_are_independent(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    first = schema.table("t", people_table).build()
    second = schema.table("u", people_table).build()

    assert [t.name for t in first.schemas()[0].tables()] == ["t"]
    assert [t.name for t in second.schemas()[0].tables()] == ["t", "u"]


def test_a_schema_called_main_is_built_with_a_warning(people_table: pa.Table) -> None:
    builder = CatalogBuilder()
    builder.schema("Main").table("t", people_table)

    with pytest.warns(UserWarning, match="cannot address a schema named 'main'"):
        builder.build()


def test_the_parts_of_a_table_need_a_known_partition(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    table = table_of(schema.table("t", people_table).build())

    for token in (b"0:99", b"2:1", b"-1:2", b"x", b"0:1:2", b""):
        with pytest.raises(InvalidArgumentError, match="not a partition of table 't'"):
            table.scan(ScanOptions(partition=token))


def test_a_missing_column_is_named(schema: SchemaBuilder, people_table: pa.Table) -> None:
    table = table_of(schema.table("t", people_table).build())

    with pytest.raises(NotFoundError, match="there is no column 'nope'"):
        table.arrow_schema(["id", "nope"])


def test_a_partition_can_be_elsewhere() -> None:
    assert Partition(b"1").location is None
    assert Partition(b"1", "grpc://other:1").location == "grpc://other:1"


def test_every_made_table_has_the_table_protocol(
    schema: SchemaBuilder, people_table: pa.Table
) -> None:
    catalog = (
        schema.table("a", people_table)
        .table("b", lambda: people_table, schema=people_table.schema)
        .build()
    )

    assert all(isinstance(table, Table) for table in catalog.schemas()[0].tables())
