"""ALTER TABLE: columns, their types, defaults and nullability, and the fields of structs."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeport.catalog import (
    AddColumnOptions,
    AddFieldOptions,
    ChangeColumnTypeOptions,
    DropNotNullOptions,
    DropTableOptions,
    RemoveColumnOptions,
    RemoveFieldOptions,
    RenameColumnOptions,
    RenameFieldOptions,
    SetDefaultOptions,
    SetNotNullOptions,
    check_constraints,
    column,
)
from lakeport.errors import (
    AlreadyExistsError,
    ConstraintError,
    InvalidArgumentError,
    InvalidInputError,
    NotFoundError,
    UnsupportedError,
)
from lakeport.memory import MemoryTable
from tests.memory.fixtures_catalog import Workbench, at_version, delete, insert, read, update

AGE = pa.schema([("age", pa.int32())])
POINT = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])
POINTS = [{"x": 1, "y": {"z": "a"}}, None, {"x": None, "y": None}]


def change_type(table: MemoryTable, name: str, type: pa.DataType, expression: str) -> None:
    table.change_column_type(pa.schema([(name, type)]), expression, ChangeColumnTypeOptions())


@pytest.fixture
def points(memory_catalog: Workbench) -> MemoryTable:
    table = memory_catalog.create(pa.schema([("id", pa.int64()), ("p", POINT)]))
    insert(table, pa.table({"id": [1, 2, 3], "p": pa.array(POINTS, POINT)}))
    return table


def test_an_added_column_is_null_in_the_rows_that_are_there(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(2)
    table.add_column(pa.schema([column("age", pa.int32(), comment="years")]), AddColumnOptions())
    insert(table, [{"id": 3, "name": "c", "age": 30}])
    assert [row["age"] for row in read(table)] == [None, None, 30]
    assert table.arrow_schema().names == ["id", "name", "age", "rowid"]
    assert table.arrow_schema().field("age").metadata == {b"comment": b"years"}


def test_a_column_that_exists_is_an_error_unless_that_is_allowed(memory_catalog: Workbench) -> None:
    table = memory_catalog.people()
    names = pa.schema([("NAME", pa.int32())])
    with pytest.raises(AlreadyExistsError, match="'NAME'"):
        table.add_column(names, AddColumnOptions())
    table.add_column(names, AddColumnOptions(if_column_not_exists=True))
    assert table.arrow_schema().names == ["id", "name", "rowid"]
    assert len(table.versions()) == 2


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([]),
        pa.schema([("a", pa.int8()), ("b", pa.int8())]),
        pa.schema([("", pa.int8())]),
        pa.schema([("rowid", pa.int8())]),
        pa.schema([("h", pa.float16())]),
    ],
)
def test_columns_that_make_no_sense_are_not_added(
    memory_catalog: Workbench, schema: pa.Schema
) -> None:
    with pytest.raises(InvalidArgumentError):
        memory_catalog.people().add_column(schema, AddColumnOptions())


def test_a_column_that_rejects_nulls_needs_an_empty_table(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(1)
    required = pa.schema([pa.field("age", pa.int32(), nullable=False)])
    with pytest.raises(ConstraintError, match="'age'"):
        table.add_column(required, AddColumnOptions())
    delete(table, 0)
    table.add_column(required, AddColumnOptions())
    assert not table.arrow_schema().field("age").nullable


def test_a_removed_column_is_gone(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(2)
    table.remove_column("ID", RemoveColumnOptions())
    assert read(table) == [{"name": "p1"}, {"name": "p2"}]
    with pytest.raises(NotFoundError, match="'id'"):
        table.remove_column("id", RemoveColumnOptions())
    table.remove_column("id", RemoveColumnOptions(if_column_exists=True))
    with pytest.raises(InvalidArgumentError, match="only column"):
        table.remove_column("name", RemoveColumnOptions())


def test_a_column_with_constraints_is_removed_only_with_cascade(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(
        2, unique_constraints=(("id",),), check_constraints=("id < 100", "length(name) < 9")
    )
    with pytest.raises(ConstraintError, match=r"UNIQUE \(id\)"):
        table.remove_column("id", RemoveColumnOptions())
    with pytest.raises(ConstraintError, match=r"CHECK \(length"):
        table.remove_column("name", RemoveColumnOptions())
    table.remove_column("id", RemoveColumnOptions(cascade=True))
    assert check_constraints(table.arrow_schema()) == ("length(name) < 9",)
    assert insert(table, [{"name": "p1"}]) == 1


def test_a_renamed_column_keeps_its_values_and_its_keys(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(2, unique_constraints=(("id",),))
    table.rename_column("ID", "number", RenameColumnOptions())
    assert read(table)[0] == {"number": 1, "name": "p1"}
    with pytest.raises(ConstraintError, match=r"UNIQUE \(number\)"):
        insert(table, [{"number": 1}])
    table.rename_column("number", "Number", RenameColumnOptions())
    assert table.arrow_schema().names == ["Number", "name", "rowid"]


def test_names_that_are_taken_or_wrong_are_refused(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(1)
    with pytest.raises(AlreadyExistsError, match="'NAME'"):
        table.rename_column("id", "NAME", RenameColumnOptions())
    with pytest.raises(NotFoundError, match="'x'"):
        table.rename_column("x", "y", RenameColumnOptions())
    for name in ("", "rowid"):
        with pytest.raises(InvalidArgumentError):
            table.rename_column("id", name, RenameColumnOptions())


def test_a_column_in_a_check_cannot_be_renamed(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(1, check_constraints=("id > 0",))
    with pytest.raises(ConstraintError, match="id > 0"):
        table.rename_column("id", "number", RenameColumnOptions())
    table.rename_column("id", "ID", RenameColumnOptions())
    insert(table, [{"ID": 2, "name": "b"}])


def test_a_type_is_changed_by_an_expression_over_the_row(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(2)
    change_type(table, "id", pa.string(), "CAST(id AS VARCHAR)")
    assert read(table)[0] == {"id": "1", "name": "p1"}
    change_type(table, "id", pa.int32(), "CAST(id AS INTEGER) * 10 + length(name)")
    assert [row["id"] for row in read(table)] == [12, 22]
    assert table.arrow_schema().field("id").type == pa.int32()
    change_type(table, "id", pa.int64(), "")
    assert table.arrow_schema().field("id").type == pa.int64()


def test_a_type_is_changed_for_the_rows_that_are_there_only(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("v", pa.string())]))
    insert(table, pa.table({"v": ["1", "x", "3"]}))
    with pytest.raises(InvalidInputError, match="'v'"):
        change_type(table, "v", pa.int32(), "CAST(v AS INTEGER)")
    assert [row["v"] for row in read(table)] == ["1", "x", "3"]
    delete(table, 1)
    change_type(table, "v", pa.int32(), "CAST(v AS INTEGER)")
    assert [row["v"] for row in read(table)] == [1, 3]
    assert [row["v"] for row in read(table, time_point=at_version(2))] == ["1", "x", "3"]
    assert update(table, [2], v=[7]) == 1


def test_a_change_of_type_keeps_to_the_constraints(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(2, primary_key=("id",), check_constraints=("id < 100",))
    for expression in ("1", "NULL", "id + 99"):
        with pytest.raises(ConstraintError):
            change_type(table, "id", pa.int32(), expression)
    with pytest.raises(UnsupportedError, match="key"):
        change_type(table, "id", pa.list_(pa.int32()), "[id]")
    assert table.arrow_schema().field("id").type == pa.int64()


@pytest.mark.parametrize(
    "expression", ["(SELECT 1)", "read_text('/etc/passwd')", "id; DROP TABLE t", "getenv('HOME')"]
)
def test_a_conversion_cannot_reach_beyond_the_row(
    memory_catalog: Workbench, expression: str
) -> None:
    with pytest.raises(InvalidArgumentError):
        change_type(memory_catalog.people(1), "id", pa.string(), expression)


def test_nulls_are_rejected_and_accepted_again(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(1)
    insert(table, [{"id": None, "name": "x"}])
    with pytest.raises(ConstraintError, match="'id'"):
        table.set_not_null("id", SetNotNullOptions())
    table.set_not_null("NAME", SetNotNullOptions())
    assert not table.arrow_schema().field("name").nullable
    with pytest.raises(ConstraintError):
        insert(table, [{"id": 3}])
    table.drop_not_null("name", DropNotNullOptions())
    assert insert(table, [{"id": 3}]) == 1


def test_a_primary_key_never_accepts_nulls(memory_catalog: Workbench) -> None:
    table = memory_catalog.people(1, primary_key=("id",))
    with pytest.raises(ConstraintError, match="PRIMARY KEY"):
        table.drop_not_null("id", DropNotNullOptions())


def test_a_default_is_published_for_clients_to_evaluate(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([column("a", pa.int32(), comment="c")]))
    table.set_default("A", "1 + 1", SetDefaultOptions())
    assert table.arrow_schema().field("a").metadata == {b"comment": b"c", b"default": b"1 + 1"}
    table.set_default("a", "", SetDefaultOptions())
    assert table.arrow_schema().field("a").metadata == {b"comment": b"c"}


@pytest.mark.parametrize("text", ["1 + (", "1, 2", "1; DROP TABLE t", "1 FROM t", ")", "'open"])
def test_a_default_that_no_client_could_evaluate_is_refused(
    memory_catalog: Workbench, text: str
) -> None:
    table = memory_catalog.create()
    with pytest.raises(InvalidArgumentError, match="is not a"):
        table.set_default("id", text, SetDefaultOptions())
    assert table.arrow_schema().field("id").metadata is None


@pytest.mark.parametrize("text", ["nextval('ids')", "random()", "now()", "NULL", "'it''s'", "-1"])
def test_a_default_may_call_any_function(memory_catalog: Workbench, text: str) -> None:
    table = memory_catalog.create()
    table.set_default("id", text, SetDefaultOptions())
    assert table.arrow_schema().field("id").metadata == {b"default": text.encode()}


def test_altering_a_dropped_table_is_an_error_unless_that_is_allowed(
    memory_catalog: Workbench,
) -> None:
    table = memory_catalog.people()
    memory_catalog.schema.drop_table("t", DropTableOptions())
    with pytest.raises(NotFoundError):
        table.add_column(AGE, AddColumnOptions())
    table.add_column(AGE, AddColumnOptions(ignore_not_found=True))
    table.remove_column("id", RemoveColumnOptions(ignore_not_found=True))
    table.rename_column("id", "x", RenameColumnOptions(ignore_not_found=True))
    table.set_default("id", "1", SetDefaultOptions(ignore_not_found=True))


def test_a_struct_gets_a_field_of_nulls(points: MemoryTable) -> None:
    points.add_field(["p"], pa.schema([("w", pa.int8())]), AddFieldOptions())
    points.add_field(["P", "y"], pa.schema([("v", pa.int8())]), AddFieldOptions())
    assert [row["p"] for row in read(points)] == [
        {"x": 1, "y": {"z": "a", "v": None}, "w": None},
        None,
        {"x": None, "y": None, "w": None},
    ]
    with pytest.raises(AlreadyExistsError, match=r"p\.X"):
        points.add_field(["p"], pa.schema([("X", pa.int8())]), AddFieldOptions())
    points.add_field(
        ["p"], pa.schema([("x", pa.int8())]), AddFieldOptions(if_field_not_exists=True)
    )


def test_a_field_gets_another_name(points: MemoryTable) -> None:
    points.rename_field(["p", "y", "z"], "name", RenameFieldOptions())
    assert read(points)[0]["p"] == {"x": 1, "y": {"name": "a"}}
    with pytest.raises(AlreadyExistsError, match=r"p\.Y"):
        points.rename_field(["p", "x"], "Y", RenameFieldOptions())
    with pytest.raises(NotFoundError, match=r"p\.q"):
        points.rename_field(["p", "q"], "r", RenameFieldOptions())
    points.rename_field(["p", "x"], "X", RenameFieldOptions())
    assert read(points)[0]["p"] == {"X": 1, "y": {"name": "a"}}


def test_a_field_is_removed(points: MemoryTable) -> None:
    points.remove_field(["p", "x"], RemoveFieldOptions())
    assert [row["p"] for row in read(points)] == [{"y": {"z": "a"}}, None, {"y": None}]
    with pytest.raises(InvalidArgumentError, match="only field"):
        points.remove_field(["p", "y"], RemoveFieldOptions())
    with pytest.raises(NotFoundError, match=r"p\.x"):
        points.remove_field(["p", "x"], RemoveFieldOptions())
    for path in (["p", "x"], ["q", "x"], ["p", "y", "z", "a"]):
        points.remove_field(path, RemoveFieldOptions(if_field_exists=True))


def test_paths_that_lead_to_no_struct_are_refused(points: MemoryTable) -> None:
    with pytest.raises(InvalidArgumentError, match="not a struct"):
        points.add_field(["id"], AGE, AddFieldOptions())
    with pytest.raises(InvalidArgumentError, match="not a struct"):
        points.remove_field(["p", "x", "q"], RemoveFieldOptions())
    with pytest.raises(NotFoundError):
        points.add_field(["q"], AGE, AddFieldOptions())
    for path in ([], ["p"]):
        with pytest.raises(InvalidArgumentError):
            points.remove_field(path, RemoveFieldOptions())
    with pytest.raises(InvalidArgumentError):
        points.add_field([], AGE, AddFieldOptions())


def test_a_field_in_a_check_stays(memory_catalog: Workbench) -> None:
    table = memory_catalog.create(pa.schema([("p", POINT)]), check_constraints=("p.x > 0",))
    with pytest.raises(InvalidArgumentError, match=r"p\.x > 0"):
        table.remove_field(["p", "x"], RemoveFieldOptions())
    with pytest.raises(InvalidArgumentError, match=r"p\.x > 0"):
        table.rename_field(["p", "x"], "w", RenameFieldOptions())
