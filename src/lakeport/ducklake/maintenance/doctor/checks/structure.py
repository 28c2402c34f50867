"""Checks of the catalog's rows against each other: what belongs to nothing, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import (
    NEW_SNAPSHOT,
    Finding,
    RowChange,
    RowInsert,
    Severity,
)
from lakeport.ducklake.storage.paths import hive_values

__all__ = [
    "dangling_rows",
    "impossible_lifetimes",
    "inlined_tables",
    "missing_schema_versions",
    "partition_values",
    "same_names",
    "tags_of_dropped_columns",
    "zombies",
]

# Rows that belong to an object: their table, their column, the object's table and its column.
_OWNERS: Final = (
    ("file_column_stats", "data_file_id", "data_file", "data_file_id"),
    ("file_variant_stats", "data_file_id", "data_file", "data_file_id"),
    ("file_partition_value", "data_file_id", "data_file", "data_file_id"),
    ("table_stats", "table_id", "table", "table_id"),
    ("table_column_stats", "table_id", "table", "table_id"),
    ("column", "table_id", "table", "table_id"),
    ("column_tag", "table_id", "table", "table_id"),
    ("column_mapping", "table_id", "table", "table_id"),
    ("name_mapping", "mapping_id", "column_mapping", "mapping_id"),
    ("partition_info", "table_id", "table", "table_id"),
    ("partition_column", "partition_id", "partition_info", "partition_id"),
    ("sort_info", "table_id", "table", "table_id"),
    ("sort_expression", "sort_id", "sort_info", "sort_id"),
    ("inlined_data_tables", "table_id", "table", "table_id"),
    ("macro_impl", "macro_id", "macro", "macro_id"),
    ("macro_parameters", "macro_id", "macro", "macro_id"),
    ("snapshot_changes", "snapshot_id", "snapshot", "snapshot_id"),
)
# Rows that describe files, tables or deletes: a person decides about them.
_REPORTED: Final = (
    ("data_file", "table_id", "table", "table_id"),
    ("delete_file", "data_file_id", "data_file", "data_file_id"),
    ("table", "schema_id", "schema", "schema_id"),
    ("view", "schema_id", "schema", "schema_id"),
    ("macro", "schema_id", "schema", "schema_id"),
    ("data_file", "mapping_id", "column_mapping", "mapping_id"),
    ("data_file", "partition_id", "partition_info", "partition_id"),
)
_VERSIONED: Final = (
    "schema", "table", "view", "column", "tag", "column_tag", "data_file", "delete_file",
    "partition_info", "sort_info", "macro",
)  # fmt: skip


def dangling_rows(exam: Examination) -> Iterator[Finding]:
    """Find rows whose table, file or other owner is in no snapshot."""
    removable, reported = [], []
    for child, column, parent, key in (*_OWNERS, *_REPORTED):
        rows = exam.copy.rows(
            f"SELECT c.{column}, count(*) FROM ducklake_{child} c "
            f"WHERE c.{column} IS NOT NULL AND NOT EXISTS ("
            f"SELECT 1 FROM ducklake_{parent} p WHERE p.{key} = c.{column}) GROUP BY ALL ORDER BY 1"
        )
        for id, count in rows:
            example = f"{count} in ducklake_{child} with {column} {id}"
            if (child, column, parent, key) in _REPORTED:
                reported.append(Flaw(None, example))
            else:
                change = RowChange(f"ducklake_{child}", {column: id})
                removable.append(Flaw(None, example, [change]))
    for scope in ("table", "schema"):
        for (id,) in exam.copy.rows(
            "SELECT DISTINCT scope_id FROM ducklake_metadata WHERE scope = ? AND scope_id NOT IN "
            f"(SELECT {scope}_id FROM ducklake_{scope}) ORDER BY 1",
            [scope],
        ):
            where = {"scope": scope, "scope_id": id}
            example = f"options of the {scope} with id {id}"
            removable.append(Flaw(None, example, [RowChange("ducklake_metadata", where)]))
    yield from report(
        exam,
        removable,
        check="dangling_rows",
        severity=Severity.NOTE,
        what="rows of the catalog belong to objects that no snapshot has",
        effect="none; they take space in the catalog database",
        remedy="remove them",
    )
    yield from report(
        exam,
        reported,
        check="lost_owners",
        severity=Severity.ERROR,
        what="files or objects belong to tables, schemas or mappings that do not exist",
        effect="readers fail or do not see them",
        remedy="restore the missing rows of the catalog from a backup",
    )


def impossible_lifetimes(exam: Examination) -> Iterator[Finding]:
    """Find rows that end before they begin, or begin after the newest snapshot."""
    flaws = []
    for name in _VERSIONED:
        rows = exam.copy.rows(
            f"SELECT begin_snapshot, end_snapshot, count(*) FROM ducklake_{name} "
            "WHERE end_snapshot < begin_snapshot OR begin_snapshot > ? OR end_snapshot > ? "
            "OR begin_snapshot IS NULL GROUP BY ALL ORDER BY ALL",
            [exam.copy.latest, exam.copy.latest],
        )
        flaws += [
            Flaw(None, f"{count} in ducklake_{name} from {begin} to {end}")
            for begin, end, count in rows
        ]
    yield from report(
        exam,
        flaws,
        check="impossible_lifetimes",
        severity=Severity.ERROR,
        what="rows end before they begin, or belong to snapshots that do not exist yet",
        effect="objects or files appear or disappear with one of the next commits",
        remedy="restore the catalog from a backup; no repair is safe",
    )


def zombies(exam: Examination) -> Iterator[Finding]:
    """Find what outlived the drop of its table or schema, and tables without columns."""
    flaws = []
    rows = exam.copy.rows(
        "SELECT table_id, table_name, bool_or(s.schema_id IS NULL), bool_or(c.table_id IS NULL) "
        "FROM ducklake_table t "
        "LEFT JOIN (SELECT DISTINCT schema_id FROM ducklake_schema WHERE end_snapshot IS NULL) s "
        "  USING (schema_id) "
        "LEFT JOIN (SELECT DISTINCT table_id FROM ducklake_column WHERE end_snapshot IS NULL) c "
        "  USING (table_id) "
        "WHERE t.end_snapshot IS NULL AND (s.schema_id IS NULL OR c.table_id IS NULL) "
        "GROUP BY ALL ORDER BY ALL"
    )
    for table_id, name, has_no_schema, _ in rows:
        reason = "its schema was dropped" if has_no_schema else "it has no columns"
        ends = [
            _end(branch, table_id)
            for branch in ("table", "column", "data_file", "delete_file", "partition_info")
        ]
        flaws.append(Flaw(None, f"table {name}: {reason}", ends, [f"dropped_table:{table_id}"]))
    for branch in ("column", "data_file", "delete_file", "partition_info", "sort_info"):
        rows = exam.copy.rows(
            f"SELECT table_id, count(*) FROM ducklake_{branch} c WHERE end_snapshot IS NULL "
            "AND EXISTS (SELECT 1 FROM ducklake_table t WHERE t.table_id = c.table_id) "
            "AND table_id NOT IN (SELECT table_id FROM live_table) GROUP BY ALL ORDER BY 1"
        )
        flaws += [
            Flaw(
                None,
                f"{count} in ducklake_{branch} of the dropped table with id {table_id}",
                [_end(branch, table_id)],
                [f"dropped_table:{table_id}"],
            )
            for table_id, count in rows
        ]
    yield from report(
        exam,
        flaws,
        check="zombies",
        severity=Severity.WARNING,
        what="tables or parts of them are valid although they were dropped",
        effect="the names stay in use, or DuckDB fails to list the lake; files are never removed",
        remedy="end the rows at a new snapshot",
    )


def tags_of_dropped_columns(exam: Examination) -> Iterator[Finding]:
    """Find valid comments of columns that the table does not have any more."""
    rows = exam.copy.rows(
        "SELECT table_id, column_id, key FROM ducklake_column_tag g "
        "SEMI JOIN live_table USING (table_id) WHERE end_snapshot IS NULL AND NOT EXISTS ("
        "  FROM ducklake_column c WHERE c.table_id = g.table_id AND c.column_id = g.column_id "
        "  AND c.end_snapshot IS NULL) ORDER BY ALL"
    )
    yield from report(
        exam,
        (
            Flaw(
                table_id,
                f"{key} of the column with id {column}",
                [
                    RowChange(
                        "ducklake_column_tag",
                        {"table_id": table_id, "column_id": column, "end_snapshot": None},
                        {"end_snapshot": NEW_SNAPSHOT},
                    )
                ],
                [f"altered_table:{table_id}"],
            )
            for table_id, column, key in rows
        ),
        check="tags_of_dropped_columns",
        severity=Severity.NOTE,
        what="comments are valid although their columns were dropped",
        effect="none; they take space in the catalog database",
        remedy="end the rows at a new snapshot",
    )


def _end(branch: str, table_id: int) -> RowChange:
    return RowChange(
        f"ducklake_{branch}",
        {"table_id": table_id, "end_snapshot": None},
        {"end_snapshot": NEW_SNAPSHOT},
    )


def same_names(exam: Examination) -> Iterator[Finding]:
    """Find two tables or views of one name, and files that a table has twice."""
    rows = exam.copy.rows(
        "SELECT schema_id, lower(name), list(id ORDER BY id) FROM ("
        " SELECT schema_id, table_name AS name, table_id AS id FROM ducklake_table "
        "  SEMI JOIN (FROM ducklake_column WHERE end_snapshot IS NULL) USING (table_id) "
        "  WHERE end_snapshot IS NULL "
        " UNION ALL SELECT schema_id, view_name, view_id FROM ducklake_view "
        "  WHERE end_snapshot IS NULL) GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL"
    )
    yield from report(
        exam,
        (Flaw(None, f"{name}: ids {', '.join(map(str, ids))}") for _, name, ids in rows),
        check="same_names",
        severity=Severity.ERROR,
        what="two tables or views have the same name",
        effect="readers find one of them, or neither",
        remedy="rename or drop one of them by its id",
    )
    rows = exam.copy.rows(
        "SELECT table_id, path, count(*) FROM live_file "
        "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1 ORDER BY ALL"
    )
    yield from report(
        exam,
        (Flaw(table_id, f"{path}, {count} times") for table_id, path, count in rows),
        check="same_file_twice",
        severity=Severity.WARNING,
        what="the table has the same file more than once",
        effect="its rows are returned as often",
        remedy="if that is not meant, delete the rows of one of the two",
    )


def missing_schema_versions(exam: Examination) -> Iterator[Finding]:
    """Find tables, and tables for inlined rows, without a row in `ducklake_schema_versions`."""
    if exam.version.startswith("0.") or exam.copy.value(
        "SELECT count(*) FROM ducklake_schema_versions WHERE table_id IS NULL"
    ):
        return
    rows = exam.copy.rows(
        "SELECT t.table_id, min(t.begin_snapshot), coalesce((SELECT arg_min(schema_version, "
        "  snapshot_id) FROM ducklake_snapshot s WHERE s.snapshot_id >= min(t.begin_snapshot)), 0) "
        "FROM ducklake_table t SEMI JOIN live_table USING (table_id) "
        "WHERE t.table_id NOT IN (SELECT table_id FROM ducklake_schema_versions) "
        "GROUP BY ALL ORDER BY 1"
    )
    yield from report(
        exam,
        (
            Flaw(
                table_id,
                f"from snapshot {begin} on",
                [_version(begin, version, table_id)],
                [f"altered_table:{table_id}"],
            )
            for table_id, begin, version in rows
        ),
        check="tables_without_schema_version",
        severity=Severity.ERROR,
        what="the table has no schema version",
        effect="DuckDB fails with an internal error when it merges or rewrites files",
        remedy="insert the row",
    )
    rows = exam.copy.rows(
        "SELECT i.table_id, i.table_name, i.schema_version, (SELECT min(snapshot_id) "
        "  FROM ducklake_snapshot s WHERE s.schema_version >= i.schema_version) AS begin "
        "FROM ducklake_inlined_data_tables i SEMI JOIN live_table USING (table_id) "
        "WHERE NOT EXISTS (SELECT 1 FROM ducklake_schema_versions v WHERE "
        "  v.table_id = i.table_id AND v.schema_version = i.schema_version) ORDER BY ALL"
    )
    yield from report(
        exam,
        (
            Flaw(
                table_id,
                name,
                [_version(begin, version, table_id)] if begin is not None else [],
                [f"altered_table:{table_id}"],
            )
            for table_id, name, version, begin in rows
        ),
        check="inlined_tables_without_schema_version",
        severity=Severity.NOTE,
        what="a table for inlined rows has no schema version",
        effect="none; a flush takes the columns of an older version",
        remedy="insert the row",
    )


def _version(begin: int, version: int, table_id: int) -> RowInsert:
    values = {"begin_snapshot": begin, "schema_version": version, "table_id": table_id}
    return RowInsert("ducklake_schema_versions", values)


def inlined_tables(exam: Examination) -> Iterator[Finding]:
    """Find tables for inlined rows that the catalog lists and the database does not have."""
    rows = exam.copy.rows(
        "SELECT table_id, table_name FROM inlined_table SEMI JOIN live_table USING (table_id) "
        "WHERE NOT is_there ORDER BY ALL"
    )
    yield from report(
        exam,
        (Flaw(table_id, name) for table_id, name in rows),
        check="missing_inlined_tables",
        severity=Severity.ERROR,
        what="a table for inlined rows does not exist in the catalog database",
        effect="readers fail; the inlined rows of the table are lost",
        remedy="restore it from a backup of the catalog database",
    )


def partition_values(exam: Examination) -> Iterator[Finding]:
    """Find files whose partition values are not one for each key of their partition spec."""
    rows = exam.copy.rows(
        "SELECT f.table_id, f.data_file_id, f.path, keys, coalesce(indexes, []) FROM live_file f "
        "JOIN (SELECT partition_id, list(partition_key_index ORDER BY partition_key_index) AS keys "
        "  FROM ducklake_partition_column GROUP BY ALL) p USING (partition_id) "
        "LEFT JOIN (SELECT data_file_id, list(partition_key_index ORDER BY partition_key_index) "
        "  AS indexes FROM ducklake_file_partition_value GROUP BY ALL) v USING (data_file_id) "
        "WHERE indexes IS DISTINCT FROM keys ORDER BY ALL"
    )
    flaws = []
    for table_id, file, path, keys, _ in rows:
        values = list(hive_values(path).values())
        actions: list[RowChange | RowInsert] = []
        if len(values) == len(keys):
            actions.append(RowChange("ducklake_file_partition_value", {"data_file_id": file}))
            actions += [
                RowInsert(
                    "ducklake_file_partition_value",
                    {
                        "data_file_id": file,
                        "table_id": table_id,
                        "partition_key_index": key,
                        "partition_value": value,
                    },
                )
                for key, value in zip(keys, values, strict=True)
            ]
        flaws.append(Flaw(table_id, path, actions, [f"altered_table:{table_id}"]))
    yield from report(
        exam,
        flaws,
        check="partition_values",
        severity=Severity.ERROR,
        what="files do not have one partition value for each key of their partition spec",
        effect="filters on the partition keys lose rows",
        remedy="take the values from the folders of the files, or add the files again",
    )
