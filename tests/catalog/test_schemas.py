"""Arrow schemas as DuckDB reads them: row ids, comments, defaults, constraints, geometry."""

from __future__ import annotations

import json

import msgpack
import pyarrow as pa
import pytest

from lakeport.catalog import (
    check_constraints,
    column,
    find_rowid_column,
    geometry_column,
    geometry_crs,
    is_geometry,
    project_schema,
    rowid_field,
    with_check_constraints,
    without_rowid,
)
from lakeport.errors import InvalidArgumentError, NotFoundError

INT = pa.int64()


@pytest.mark.parametrize(
    ("fields", "position"),
    [
        ([("a", INT), ("b", INT)], None),
        ([("a", INT), ("rowid", INT)], 1),
        ([rowid_field("key"), ("a", INT)], 0),
        ([("rowid", INT), rowid_field("key")], 1),
        ([("a", INT), rowid_field()], 1),
        ([], None),
    ],
    ids=["none", "by name", "by mark", "mark wins over name", "both", "empty"],
)
def test_the_rowid_is_the_marked_field_or_the_one_of_that_name(
    fields: list[pa.Field], position: int | None
) -> None:
    assert find_rowid_column(pa.schema(fields)) == position


@pytest.mark.parametrize("value", [b"", None])
def test_an_empty_mark_is_no_mark(value: bytes | None) -> None:
    metadata = None if value is None else {b"is_rowid": value}
    schema = pa.schema([pa.field("key", INT, metadata=metadata)])

    assert find_rowid_column(schema) is None


def test_a_rowid_field_has_any_name_and_type() -> None:
    assert rowid_field() == pa.field("rowid", INT)
    assert rowid_field("key", pa.string()).metadata == {b"is_rowid": b"1"}
    assert rowid_field("key", pa.string()).type == pa.string()


def test_the_visible_columns_leave_out_the_marked_rowid_only() -> None:
    schema = pa.schema([("rowid", INT), ("a", INT), rowid_field("key")], metadata={"k": "v"})

    visible = without_rowid(schema)

    assert visible.names == ["rowid", "a"]
    assert visible.metadata == {b"k": b"v"}


def test_a_projection_keeps_order_metadata_and_field_details() -> None:
    schema = pa.schema([column("a", INT, nullable=False), ("b", pa.string())], metadata={"k": "v"})

    projected = project_schema(schema, ["b", "a"])

    assert projected.names == ["b", "a"]
    assert not projected.field("a").nullable
    assert projected.metadata == schema.metadata
    assert project_schema(schema, None) is schema
    assert project_schema(schema, []).names == []


def test_a_projection_to_an_unknown_column_is_refused() -> None:
    with pytest.raises(NotFoundError, match="there is no column 'c'"):
        project_schema(pa.schema([("a", INT)]), ["a", "c"])


def test_a_column_carries_what_duckdb_reads() -> None:
    field = column("a", INT, nullable=False, comment="An a", default="1 + 1")

    assert not field.nullable
    assert field.metadata == {b"comment": b"An a", b"default": b"1 + 1"}
    assert column("a", INT).metadata is None
    assert column("a", pa.string(), default="").metadata == {b"default": b""}


def test_check_constraints_are_a_msgpack_map_in_the_schema_metadata() -> None:
    schema = with_check_constraints(
        pa.schema([("a", INT)], metadata={"k": "v"}), ["a > 0", "a < 9"]
    )

    assert msgpack.unpackb(schema.metadata[b"check_constraints"]) == {
        "constraints": ["a > 0", "a < 9"]
    }
    assert schema.metadata[b"k"] == b"v"
    assert check_constraints(schema) == ("a > 0", "a < 9")


def test_a_schema_without_constraints_has_none() -> None:
    assert check_constraints(pa.schema([("a", INT)])) == ()


@pytest.mark.parametrize("packed", [b"\xc1", b"\x80", b"\x01", msgpack.packb(["a > 0"])])
def test_damaged_constraints_are_refused(packed: bytes) -> None:
    schema = pa.schema([("a", INT)], metadata={b"check_constraints": packed})

    with pytest.raises(InvalidArgumentError, match="check constraints cannot be decoded"):
        check_constraints(schema)


@pytest.mark.parametrize("crs", [None, "EPSG:4326", {"type": "GeographicCRS", "name": "WGS 84"}])
def test_a_geometry_column_is_geoarrow_wkb(crs: str | dict[str, str] | None) -> None:
    field = geometry_column("g", crs=crs, nullable=False, comment="Where")

    assert (field.name, field.type, field.nullable) == ("g", pa.binary(), False)
    assert field.metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"
    extension = json.loads(field.metadata[b"ARROW:extension:metadata"])
    assert extension == ({} if crs is None else {"crs": crs})
    assert field.metadata[b"comment"] == b"Where"
    assert is_geometry(field)
    assert geometry_crs(field) == crs


def test_a_binary_column_is_no_geometry() -> None:
    field = pa.field("g", pa.binary())

    assert not is_geometry(field)
    assert geometry_crs(field) is None
