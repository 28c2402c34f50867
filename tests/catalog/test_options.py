"""Options, results and names: immutable values with harmless defaults."""

from __future__ import annotations

import dataclasses
import inspect

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport import catalog as model
from lakeport.catalog import (
    Action,
    ColumnStats,
    DMLOptions,
    OnConflict,
    ScanOptions,
    TimePoint,
    TimeUnit,
    TransactionState,
    check_name,
)
from lakeport.errors import InvalidArgumentError

OPTION_CLASSES = [
    value for name, value in inspect.getmembers(model, inspect.isclass) if name.endswith("Options")
]


@pytest.mark.parametrize("kind", OPTION_CLASSES, ids=lambda kind: kind.__name__)
def test_options_are_immutable_and_need_no_argument(kind: type) -> None:
    options = kind()
    first = dataclasses.fields(options)[0].name

    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options, first, None)


@pytest.mark.parametrize("kind", OPTION_CLASSES, ids=lambda kind: kind.__name__)
def test_every_flag_is_off_by_default(kind: type) -> None:
    options = kind()

    flags = [getattr(options, f.name) for f in dataclasses.fields(options) if f.type == "bool"]
    assert not any(flags)


def test_there_are_options_for_every_ddl_call() -> None:
    named = {kind.__name__ for kind in OPTION_CLASSES}

    assert named >= {
        "CreateSchemaOptions",
        "DropSchemaOptions",
        "CreateTableOptions",
        "DropTableOptions",
        "RenameTableOptions",
        "AddColumnOptions",
        "RemoveColumnOptions",
        "RenameColumnOptions",
        "ChangeColumnTypeOptions",
        "SetNotNullOptions",
        "DropNotNullOptions",
        "SetDefaultOptions",
        "AddFieldOptions",
        "RenameFieldOptions",
        "RemoveFieldOptions",
    }


@pytest.mark.parametrize("text", ["VERSION", "version", "Version"])
def test_the_unit_of_a_time_point_is_read_whatever_its_case(text: str) -> None:
    assert TimePoint.parse(text, "3") == TimePoint(TimeUnit.VERSION, "3")


@pytest.mark.parametrize("unit", list(TimeUnit))
def test_a_time_point_reads_and_writes_every_unit(unit: TimeUnit) -> None:
    point = TimePoint.parse(unit.name, "x")

    assert point == TimePoint(unit, "x")
    assert str(point) == f"{unit.name} => x"


def test_no_unit_and_no_value_mean_now() -> None:
    assert TimePoint.parse("", "") is None


@pytest.mark.parametrize("unit", ["", "epoch", "x" * 100])
def test_an_unknown_unit_is_refused_with_the_known_ones(unit: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match="use one of VERSION, TIMESTAMP, SNAPSHOT"
    ) as told:
        TimePoint.parse(unit, "1")

    assert len(str(told.value)) < 150


@given(st.text(), st.text())
def test_any_time_point_is_parsed_or_refused(unit: str, value: str) -> None:
    try:
        point = TimePoint.parse(unit, value)
    except InvalidArgumentError:
        return
    assert point is None or (point.unit.name == unit.upper() and point.value == value)


def test_a_scan_reads_everything_unless_told_otherwise() -> None:
    options = ScanOptions()

    assert (options.columns, options.limit, options.time_point, options.partition) == (None,) * 4
    assert not options.filter


def test_rows_that_nobody_asked_for_can_be_emitted() -> None:
    options = DMLOptions()

    options.emit(pa.record_batch({"x": [1]}))

    assert not options.returning


def test_unknown_statistics_are_none() -> None:
    assert set(dataclasses.asdict(ColumnStats()).values()) == {None}


def test_the_words_of_the_wire_are_the_values_of_the_enums() -> None:
    assert [c.value for c in OnConflict] == ["error", "ignore", "replace"]
    assert [s.value for s in TransactionState] == ["active", "committed", "aborted"]


def test_an_action_has_a_name_a_handler_and_a_line() -> None:
    action = Action("ping", lambda body: body)

    assert (action.name, action.description) == ("ping", "")


@pytest.mark.parametrize("name", ["a", "Ünïcödé 名前", 'a"b', "a b", "x" * 1024, "é" * 512, "."])
def test_a_name_is_nearly_any_text(name: str) -> None:
    assert check_name(name, "table") == name


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "must not be empty"),
        ("x" * 1025, "1025 bytes long; at most 1024"),
        ("é" * 513, "1026 bytes long; at most 1024"),
        ("a\x00b", "control characters"),
        ("a\x7f", "control characters"),
        ("a\x85", "control characters"),
        ("\udc80", "not valid Unicode"),
    ],
)
def test_a_name_that_no_client_could_write_is_refused(name: str, fault: str) -> None:
    with pytest.raises(InvalidArgumentError, match=fault):
        check_name(name, "table")
