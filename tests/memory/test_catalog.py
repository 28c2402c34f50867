"""Schemas and tables: creating, finding, renaming and dropping them, and filling a catalog."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from lakeport.catalog import (
    Catalog,
    CreateSchemaOptions,
    CreateTableOptions,
    DeletableBatchTable,
    DropSchemaOptions,
    DropTableOptions,
    DynamicCatalog,
    DynamicSchema,
    DynamicTable,
    EndpointTable,
    InsertableTable,
    OnConflict,
    RenameTableOptions,
    SizedTable,
    StatisticsTable,
    TimeTravelTable,
    TransactionManager,
    UpdatableBatchTable,
    VersionedCatalog,
    check_constraints,
    column,
    find_rowid_column,
    rowid_field,
)
from lakeport.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    SchemaNotEmptyError,
    UnsupportedError,
)
from lakeport.memory import MemoryCatalog
from lakeport.memory.state import CatalogState, TableState
from tests.memory.fixtures_catalog import PEOPLE, Workbench, ids, insert, read


def test_it_has_every_capability_of_a_catalog(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    for protocol in (Catalog, DynamicCatalog, VersionedCatalog, TransactionManager):
        assert isinstance(memory_catalog.catalog, protocol)
    assert isinstance(memory_catalog.schema, DynamicSchema)
    for capability in (
        InsertableTable,
        UpdatableBatchTable,
        DeletableBatchTable,
        DynamicTable,
        StatisticsTable,
        SizedTable,
        TimeTravelTable,
        EndpointTable,
    ):
        assert isinstance(table, capability)


def test_a_new_catalog_is_empty() -> None:
    catalog = MemoryCatalog("lake", comment="All of it")
    assert (catalog.name, catalog.comment) == ("lake", "All of it")
    assert catalog.schemas() == []
    assert catalog.schema("public") is None


def test_a_catalog_is_filled_from_arrow_tables() -> None:
    data = pa.table({"a": [1, 2], "b": ["x", None]})
    catalog = MemoryCatalog.from_tables({"s": {"t": data}, "empty": {}})
    assert [schema.name for schema in catalog.schemas()] == ["s", "empty"]
    schema = catalog.schema("s")
    assert schema is not None
    table = schema.table("t")
    assert table is not None
    assert read(table) == data.to_pylist()
    assert [version.version for version in table.versions()] == [1]


def test_a_filled_table_may_have_constraints_and_a_comment() -> None:
    catalog = MemoryCatalog()
    options = CreateTableOptions(primary_key=("a",))
    table = catalog.add_table("s", "t", pa.table({"a": [1]}), comment="Ones", options=options)
    assert table.comment == "Ones"
    assert not table.arrow_schema().field("a").nullable
    with pytest.raises(AlreadyExistsError, match=r"s\.t"):
        catalog.add_table("s", "T", pa.table({"a": [1]}))


def test_names_are_found_whatever_their_case_and_kept_as_written(memory_catalog: Workbench) -> None:
    memory_catalog.catalog.create_schema("Sales", CreateSchemaOptions(comment="c", tags={"k": "v"}))
    schema = memory_catalog.catalog.schema("SALES")
    assert schema is not None
    assert (schema.name, schema.comment, schema.tags) == ("Sales", "c", {"k": "v"})
    schema.create_table("Orders", PEOPLE, CreateTableOptions(comment="all"))
    table = schema.table("orders")
    assert table is not None
    assert (table.name, table.comment) == ("Orders", "all")
    assert schema.table("missing") is None


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 2000])
def test_names_that_nobody_could_write_are_refused(memory_catalog: Workbench, name: str) -> None:
    with pytest.raises(InvalidArgumentError):
        memory_catalog.catalog.create_schema(name, CreateSchemaOptions())
    with pytest.raises(InvalidArgumentError):
        memory_catalog.create(name=name)
    with pytest.raises(InvalidArgumentError):
        memory_catalog.create(pa.schema([(name, pa.int32())]))
    memory_catalog.create(name="fine")
    with pytest.raises(InvalidArgumentError):
        memory_catalog.schema.rename_table("fine", name, RenameTableOptions())


def test_a_schema_that_exists_is_an_error_unless_that_is_allowed(memory_catalog: Workbench) -> None:
    with pytest.raises(AlreadyExistsError, match="'s'"):
        memory_catalog.catalog.create_schema("S", CreateSchemaOptions())
    assert (
        memory_catalog.catalog.create_schema("S", CreateSchemaOptions(if_not_exists=True)).name
        == "s"
    )


def test_a_schema_with_tables_is_dropped_only_with_cascade(memory_catalog: Workbench) -> None:
    table = memory_catalog.create()
    with pytest.raises(SchemaNotEmptyError, match="has 1 table; drop it first"):
        memory_catalog.catalog.drop_schema("s", DropSchemaOptions())
    memory_catalog.catalog.drop_schema("s", DropSchemaOptions(cascade=True))
    assert memory_catalog.catalog.schema("s") is None
    with pytest.raises(NotFoundError, match="dropped"):
        read(table)


def test_dropping_a_missing_schema_is_an_error_unless_that_is_allowed(
    memory_catalog: Workbench,
) -> None:
    with pytest.raises(NotFoundError, match="'x'"):
        memory_catalog.catalog.drop_schema("x", DropSchemaOptions())
    memory_catalog.catalog.drop_schema("x", DropSchemaOptions(ignore_not_found=True))


def test_a_table_that_exists_is_refused_kept_or_replaced(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    with pytest.raises(AlreadyExistsError, match=r"s\.t"):
        memory_catalog.create()
    assert ids(memory_catalog.create(on_conflict=OnConflict.IGNORE)) == [1, 2, 3]
    other = memory_catalog.create(pa.schema([("x", pa.int8())]), on_conflict=OnConflict.REPLACE)
    assert read(other) == []
    assert other.arrow_schema().names == ["x", "rowid"]
    with pytest.raises(NotFoundError):
        read(table)


def test_the_rowid_is_the_last_column_of_every_table(memory_catalog: Workbench) -> None:
    schema = memory_catalog.create().arrow_schema()
    assert find_rowid_column(schema) == len(schema) - 1
    assert schema.field("rowid").type == pa.int64()


def test_a_rowid_in_the_schema_of_a_new_table_is_left_out(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([pa.field("a", pa.int32()), rowid_field("id")]))
    assert table.arrow_schema().names == ["a", "rowid"]


def test_an_ordinary_column_cannot_be_called_rowid(memory_catalog: Workbench) -> None:
    with pytest.raises(InvalidArgumentError, match="row identifier"):
        memory_catalog.create(pa.schema([("ROWID", pa.int32())]))


def test_the_published_schema_carries_what_clients_read(memory_catalog: Workbench) -> None:
    columns = pa.schema(
        [
            column("a", pa.int32(), comment="first", default="7"),
            column("b", pa.string(), nullable=False),
            column("c", pa.string()),
        ]
    )
    schema = memory_catalog.create(
        columns, not_null_columns=("C",), check_constraints=("(a > 1)",)
    ).arrow_schema()
    assert schema.field("a").metadata == {b"comment": b"first", b"default": b"7"}
    assert [field.nullable for field in schema] == [True, False, False, True]
    assert check_constraints(schema) == ("(a > 1)",)


def test_columns_that_differ_in_case_only_are_refused(memory_catalog: Workbench) -> None:
    with pytest.raises(InvalidArgumentError, match="case"):
        memory_catalog.create(pa.schema([("a", pa.int32()), ("A", pa.int32())]))


@pytest.mark.parametrize(
    "type", [pa.float16(), pa.decimal256(40, 1), pa.struct([])], ids=["half", "wide", "empty"]
)
def test_types_that_duckdb_cannot_read_are_refused(
    memory_catalog: Workbench, type: pa.DataType
) -> None:
    with pytest.raises(InvalidArgumentError):
        memory_catalog.create(pa.schema([("a", type)]))


def test_constraints_on_missing_columns_are_refused(memory_catalog: Workbench) -> None:
    for options in (
        {"not_null_columns": ("x",)},
        {"primary_key": ("x",)},
        {"unique_constraints": (("x",),)},
    ):
        with pytest.raises(NotFoundError, match="'x'"):
            memory_catalog.create(**options)
    with pytest.raises(InvalidArgumentError):
        memory_catalog.create(unique_constraints=((),))
    with pytest.raises(InvalidArgumentError, match="x > 1"):
        memory_catalog.create(check_constraints=("x > 1",))


def test_lists_cannot_be_keys(memory_catalog: Workbench) -> None:
    columns = pa.schema([("a", pa.list_(pa.int32()))])
    with pytest.raises(UnsupportedError, match="'a'"):
        memory_catalog.create(columns, unique_constraints=(("a",),))


def test_a_renamed_table_is_the_same_table(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    memory_catalog.schema.rename_table("T", "Folk", RenameTableOptions())
    assert table.name == "Folk"
    assert memory_catalog.schema.table("t") is None
    assert insert(memory_catalog.table("folk"), [{"id": 4}]) == 1
    assert ids(table) == [1, 2, 3, 4]
    memory_catalog.schema.rename_table("folk", "FOLK", RenameTableOptions())
    assert table.name == "FOLK"


def test_renaming_to_a_name_that_is_taken_is_refused(memory_catalog: Workbench) -> None:
    memory_catalog.create(name="a")
    memory_catalog.create(name="b")
    with pytest.raises(AlreadyExistsError, match=r"s\.b"):
        memory_catalog.schema.rename_table("a", "b", RenameTableOptions())
    with pytest.raises(NotFoundError, match=r"s\.c"):
        memory_catalog.schema.rename_table("c", "d", RenameTableOptions())
    memory_catalog.schema.rename_table("c", "d", RenameTableOptions(ignore_not_found=True))


def test_a_dropped_table_is_gone(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    memory_catalog.schema.drop_table("T", DropTableOptions())
    assert memory_catalog.schema.tables() == []
    assert table.name == "t"
    assert table.comment == ""
    with pytest.raises(NotFoundError):
        table.arrow_schema()
    with pytest.raises(NotFoundError):
        memory_catalog.schema.drop_table("t", DropTableOptions())
    memory_catalog.schema.drop_table("t", DropTableOptions(ignore_not_found=True))


def test_the_catalog_version_grows_with_ddl_and_not_with_rows(memory_catalog: Workbench) -> None:
    seen = [memory_catalog.catalog.catalog_version().version]
    table = memory_catalog.create()
    seen.append(memory_catalog.catalog.catalog_version().version)
    memory_catalog.schema.rename_table("t", "u", RenameTableOptions())
    seen.append(memory_catalog.catalog.catalog_version().version)
    memory_catalog.schema.drop_table("u", DropTableOptions())
    seen.append(memory_catalog.catalog.catalog_version().version)
    assert seen == sorted(set(seen))
    table = memory_catalog.create()
    version = memory_catalog.catalog.catalog_version()
    insert(table, [{"id": 1}])
    assert memory_catalog.catalog.catalog_version() == version
    memory_catalog.create(on_conflict=OnConflict.IGNORE)
    assert memory_catalog.catalog.catalog_version() == version
    assert not version.is_fixed


def test_there_are_no_functions(memory_catalog: Workbench) -> None:
    schema = memory_catalog.schema
    assert not [
        *schema.scalar_functions(),
        *schema.table_functions(),
        *schema.table_functions_in_out(),
    ]


def test_at_least_one_version_is_kept() -> None:
    with pytest.raises(InvalidArgumentError):
        MemoryCatalog(keep_versions=0)


def test_a_listing_does_not_search_for_each_table(
    memory_catalog: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        memory_catalog.create(name=f"t{number}")
    searches: list[CatalogState] = []
    tables = CatalogState.tables

    def counted(state: CatalogState) -> Iterator[TableState]:
        searches.append(state)
        return tables(state)

    monkeypatch.setattr(CatalogState, "tables", counted)
    listed = [
        (table.name, table.comment, table.arrow_schema())
        for table in memory_catalog.schema.tables()
    ]

    assert len(listed) == 20
    assert len(searches) <= 1
