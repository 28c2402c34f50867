"""Checks of statistics in the catalog: totals, row ids, bounds of tables against their files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import Action, Finding, RowChange, Severity

__all__ = ["bounds_of_tables", "totals_of_tables", "unreadable_bounds"]

_STATS: Final = "ducklake_table_column_stats"
# Types whose bounds DuckDB compares as text.
_AS_TEXT: Final = ("VARCHAR", "BLOB", "UUID", "JSON")
# Types without bounds, or with bounds of another form.
_WITHOUT_BOUNDS: Final = ("interval", "timetz", "geometry", "variant", "int128", "uint128")


def totals_of_tables(exam: Examination) -> Iterator[Finding]:
    """Find row ids that will be given twice, and totals that are too small."""
    rows = exam.copy.rows(
        "SELECT s.table_id, s.next_row_id, s.record_count, "
        " greatest(coalesce(f.next_id, 0), coalesce(i.next_id, 0)), "
        " coalesce(f.rows, 0) + coalesce(i.rows, 0) "
        "FROM ducklake_table_stats s SEMI JOIN live_table USING (table_id) "
        "LEFT JOIN (SELECT table_id, max(row_id_start + record_count) AS next_id, "
        "   sum(record_count) FILTER (end_snapshot IS NULL) AS rows "
        "   FROM ducklake_data_file GROUP BY ALL) f USING (table_id) "
        "LEFT JOIN (SELECT table_id, max(row_id) + 1 AS next_id, "
        "   count(*) FILTER (end_snapshot IS NULL) AS rows FROM inlined_row GROUP BY ALL) i "
        "   USING (table_id) ORDER BY 1"
    )
    ids, counts = [], []
    for table_id, next_id, recorded, needed, live in rows:
        changes = [f"altered_table:{table_id}"]
        where = {"table_id": table_id}
        if next_id is not None and next_id < needed and not _carries_ids(exam, table_id, next_id):
            change = RowChange("ducklake_table_stats", where, {"next_row_id": needed})
            example = f"next_row_id is {next_id}, but {needed - 1} is in use"
            ids.append(Flaw(table_id, example, [change], changes))
        if recorded is not None and live is not None and recorded < live - _deleted(exam, table_id):
            change = RowChange("ducklake_table_stats", where, {"record_count": int(live)})
            example = f"record_count is {recorded}, but the files have {live} rows"
            counts.append(Flaw(table_id, example, [change], changes))
    yield from report(
        exam,
        ids,
        check="next_row_id",
        severity=Severity.ERROR,
        what="the next row id of the table is in use",
        effect="row ids are given twice; change feeds and updates mix up rows",
        remedy="set the counter above every row id",
    )
    yield from report(
        exam,
        counts,
        check="record_count",
        severity=Severity.WARNING,
        what="the table has more rows than its statistics record",
        effect="DuckDB expects too few rows when it plans joins",
        remedy="set the number",
    )


def _carries_ids(exam: Examination, table_id: int, next_id: int) -> bool:
    """Return whether only files that contain their row ids are above the counter.

    The range of such a file begins at its smallest id, and may end above the counter.
    """
    found = exam.copy.rows(
        "SELECT count(*) FROM ducklake_data_file WHERE table_id = ? "
        "AND row_id_start + record_count > ? AND partial_max IS NULL",
        [table_id, next_id],
    )
    inlined = exam.copy.rows(
        "SELECT count(*) FROM inlined_row WHERE table_id = ? AND row_id >= ?", [table_id, next_id]
    )
    return not found[0][0] and not inlined[0][0]


def _deleted(exam: Examination, table_id: int) -> int:
    (row,) = exam.copy.rows(
        "SELECT coalesce((SELECT sum(delete_count) FROM live_delete WHERE table_id = $1), 0) + "
        "coalesce((SELECT count(*) FROM inlined_delete WHERE table_id = $1), 0)",
        [table_id],
    )
    return int(row[0])


def unreadable_bounds(exam: Examination) -> Iterator[Finding]:
    """Find bounds of tables that are no values of the column's type."""
    flaws = []
    for type, duckdb_type in _types(exam):
        rows = exam.copy.rows(
            "SELECT s.table_id, s.column_id, l.column_name, min_value, max_value "
            f"FROM {_STATS} s JOIN leaf l USING (table_id, column_id) WHERE l.type = ? AND ("
            f"(min_value IS NOT NULL AND TRY_CAST(min_value AS {duckdb_type}) IS NULL) OR "
            f"(max_value IS NOT NULL AND TRY_CAST(max_value AS {duckdb_type}) IS NULL)) "
            "ORDER BY ALL",
            [type],
        )
        flaws += [
            Flaw(
                table_id,
                f"column {name}, {type}: {low!r} to {high!r}",
                _recomputed(exam, table_id, column, duckdb_type),
                [f"altered_table:{table_id}"],
            )
            for table_id, column, name, low, high in rows
        ]
    yield from report(
        exam,
        flaws,
        check="unreadable_bounds",
        severity=Severity.ERROR,
        what="the bounds of a column are no values of its type",
        effect="DuckDB fails at the next insert, and at min() and max() of the column",
        remedy="compute the bounds from those of the files, or remove them",
    )


def bounds_of_tables(exam: Examination) -> Iterator[Finding]:
    """Find bounds and flags of tables that do not contain those of their files."""
    flaws = []
    for type, duckdb_type in _types(exam):
        low, high = (
            f"TRY_CAST({{}}.min_value AS {duckdb_type})",
            f"TRY_CAST({{}}.max_value AS {duckdb_type})",
        )
        rows = exam.copy.rows(
            "SELECT s.table_id, s.column_id, l.column_name "
            f"FROM {_STATS} s JOIN leaf l USING (table_id, column_id) "
            "JOIN ducklake_file_column_stats f USING (table_id, column_id) "
            "SEMI JOIN live_file USING (data_file_id) WHERE l.type = ? AND ("
            f" {low.format('f')} < {low.format('s')} OR {high.format('f')} > {high.format('s')} "
            " OR (f.value_count > 0 AND f.min_value IS NULL AND s.min_value IS NOT NULL) "
            " OR (f.value_count > 0 AND f.max_value IS NULL AND s.max_value IS NOT NULL) "
            # Files count each NULL or empty list as a NULL of its elements.
            " OR (f.null_count > 0 AND s.contains_null = false AND NOT l.is_repeated) "
            " OR (f.contains_nan AND s.contains_nan = false)) GROUP BY ALL ORDER BY ALL",
            [type],
        )
        flaws += [
            Flaw(
                table_id,
                f"column {name}",
                _recomputed(exam, table_id, column, duckdb_type),
                [f"altered_table:{table_id}"],
            )
            for table_id, column, name in rows
        ]
    yield from report(
        exam,
        flaws,
        check="bounds_of_tables",
        severity=Severity.ERROR,
        what="the statistics of the table do not contain those of its files",
        effect="DuckDB answers min(), max() and filters without some of the rows",
        remedy="compute them from the statistics of the files, or remove them",
    )


def _types(exam: Examination) -> Iterator[tuple[str, str]]:
    """Yield the types of columns that have bounds, and the type in which they are compared."""
    for type, duckdb_type in exam.copy.rows(
        "SELECT DISTINCT type, duckdb_type FROM leaf WHERE duckdb_type IS NOT NULL ORDER BY 1"
    ):
        if type not in _WITHOUT_BOUNDS:
            yield type, "VARCHAR" if duckdb_type.startswith(_AS_TEXT) else duckdb_type


def _recomputed(exam: Examination, table_id: int, column: int, type: str) -> list[Action]:
    """Return the change that sets statistics to those of all files, or removes them.

    They are removed if the files do not have all of them, or if rows are inlined: those are not
    counted here. A removed row stays away; a row without bounds would take those of the next file.
    """
    where: dict[str, Any] = {"table_id": table_id, "column_id": column}
    (row,) = exam.copy.rows(
        f"SELECT min(TRY_CAST(f.min_value AS {type}))::VARCHAR, "
        f" max(TRY_CAST(f.max_value AS {type}))::VARCHAR, "
        " bool_or(f.null_count > 0), bool_or(f.contains_nan), "
        " bool_or(f.value_count IS NULL OR (f.value_count > 0 AND "
        f"   (TRY_CAST(f.min_value AS {type}) IS NULL "
        f"    OR TRY_CAST(f.max_value AS {type}) IS NULL))) "
        "FROM live_file d LEFT JOIN ducklake_file_column_stats f "
        "  ON f.data_file_id = d.data_file_id AND f.column_id = $2 WHERE d.table_id = $1",
        [table_id, column],
    )
    low, high, has_nulls, has_nan, is_unknown = row
    inlined = exam.copy.rows(
        "SELECT count(*) FROM inlined_row WHERE table_id = ? AND end_snapshot IS NULL", [table_id]
    )
    if is_unknown is not False or low is None or inlined[0][0] or type == "BOOLEAN":
        return [RowChange(_STATS, where)]
    values = {
        "min_value": low,
        "max_value": high,
        "contains_null": has_nulls,
        "contains_nan": has_nan,
    }
    return [RowChange(_STATS, where, values)]
