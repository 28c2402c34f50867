"""Checks of snapshots and options: order, counters, paths, secrets, and missing indexes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import Finding, RowInsert, Severity
from lakeport.ducklake.snapshots import parse_catalog_timestamp
from lakeport.ducklake.storage.paths import is_local
from lakeport.errors import LakeportError

__all__ = [
    "counters_too_low",
    "data_path_problems",
    "expired_snapshots",
    "scopes_of_options",
    "secrets_in_options",
    "snapshots_out_of_order",
    "unknown_options",
]

_KNOWN_OPTIONS: Final = frozenset(
    {
        "auto_compact", "created_by", "data_inlining_row_limit", "data_path", "delete_older_than",
        "encrypted", "expire_older_than", "hive_file_pattern", "parquet_compression",
        "parquet_compression_level", "parquet_row_group_size", "parquet_row_group_size_bytes",
        "parquet_version", "per_thread_output", "require_commit_message",
        "rewrite_delete_threshold", "sort_on_insert", "target_file_size", "version",
        "write_deletion_vectors",
    }
)  # fmt: skip
# Texts that every reader of the lake sees, each with what identifies it.
_TEXTS: Final = {
    "option": "SELECT key, value FROM ducklake_metadata WHERE value IS NOT NULL",
    "data file": "SELECT data_file_id, path FROM ducklake_data_file WHERE NOT path_is_relative",
    "delete file": "SELECT delete_file_id, path FROM ducklake_delete_file "
    "WHERE NOT path_is_relative",
    "view": "SELECT view_name, sql FROM ducklake_view WHERE sql IS NOT NULL",
    "macro": "SELECT macro_id, sql FROM ducklake_macro_impl WHERE sql IS NOT NULL",
}
_SECRETS: Final = re.compile(
    r"://[^/\s:@]+:[^/\s@]+@|AKIA[0-9A-Z]{16}|[?&]X-Amz-Signature=", re.IGNORECASE
)
# In SQL, this may be the comparison of a column.
_SETTINGS: Final = re.compile(r"(secret|password|passwd|token|access_key)\s*=\s*\S", re.IGNORECASE)


def snapshots_out_of_order(exam: Examination) -> Iterator[Finding]:
    """Find snapshots whose time or counters are smaller than those of the one before."""
    rows = exam.copy.rows(
        "SELECT snapshot_id, snapshot_time, schema_version, next_catalog_id, next_file_id "
        "FROM ducklake_snapshot ORDER BY snapshot_id"
    )
    times, counters = [], []
    before: tuple[Any, ...] | None = None
    for row in rows:
        try:
            moment = parse_catalog_timestamp(row[1])
        except LakeportError:
            times.append(Flaw(None, f"snapshot {row[0]} has the time {row[1]!r}"))
            continue
        if before is not None:
            if moment < before[1]:
                times.append(Flaw(None, f"snapshot {row[0]} is older than snapshot {before[0]}"))
            if any(new < old for new, old in zip(row[2:], before[2:], strict=True)):
                counters.append(Flaw(None, f"snapshot {row[0]}"))
        before = (row[0], moment, *row[2:])
    yield from report(
        exam,
        times,
        check="time_goes_backwards",
        severity=Severity.NOTE,
        what="snapshots have an earlier time than the one before",
        effect="a read as of a time may get another snapshot than the one that was newest then",
        remedy="read by snapshot id; set the clocks of the writers",
    )
    yield from report(
        exam,
        counters,
        check="counters_go_backwards",
        severity=Severity.WARNING,
        what="the counters of snapshots are smaller than those of the one before",
        effect="ids of tables or files may be given twice",
        remedy="find the writer that made these snapshots",
    )


def expired_snapshots(exam: Examination) -> Iterator[Finding]:
    """Find snapshots without changes and numbers without a snapshot."""
    missing = exam.copy.value(
        "SELECT max(snapshot_id) - min(snapshot_id) + 1 - count(*) FROM ducklake_snapshot"
    )
    if missing:
        yield from report(
            exam,
            [Flaw(None, f"{missing} between the oldest and the newest snapshot")],
            check="missing_snapshots",
            severity=Severity.NOTE,
            what="snapshots were expired",
            effect="their versions cannot be read; writers that began before them start again",
            remedy="nothing needs to be done",
        )
    rows = exam.copy.rows(
        "SELECT s.snapshot_id FROM ducklake_snapshot s "
        "LEFT JOIN ducklake_snapshot_changes c USING (snapshot_id) "
        "WHERE c.snapshot_id IS NULL OR (c.changes_made IS NULL AND s.snapshot_id > 0 "
        "  AND c.author IS DISTINCT FROM 'lakeport doctor') ORDER BY 1"
    )
    yield from report(
        exam,
        (Flaw(None, f"snapshot {id}") for (id,) in rows),
        check="snapshots_without_changes",
        severity=Severity.NOTE,
        what="snapshots have no record of what they changed",
        effect="other writers cannot detect conflicts with them",
        remedy="nothing needs to be done if no writer is at work",
    )


def counters_too_low(exam: Examination) -> Iterator[Finding]:
    """Find counters of the newest snapshot that are not above every id in use."""
    (row,) = exam.copy.rows(
        "SELECT next_catalog_id, next_file_id, "
        " (SELECT max(id) FROM (SELECT max(table_id) AS id FROM ducklake_table UNION ALL "
        "   SELECT max(schema_id) FROM ducklake_schema UNION ALL "
        "   SELECT max(view_id) FROM ducklake_view UNION ALL "
        "   SELECT max(macro_id) FROM ducklake_macro UNION ALL "
        "   SELECT max(partition_id) FROM ducklake_partition_info)), "
        " (SELECT max(id) FROM (SELECT max(data_file_id) AS id FROM ducklake_data_file UNION ALL "
        "   SELECT max(delete_file_id) FROM ducklake_delete_file)) "
        "FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1"
    ) or [(1, 1, 0, 0)]
    next_catalog_id, next_file_id, used_ids, used_files = row
    flaws = []
    for name, following, used in (
        ("next_catalog_id", next_catalog_id, used_ids),
        ("next_file_id", next_file_id, used_files),
    ):
        if used is not None and following is not None and following <= used:
            counter = RowInsert("ducklake_snapshot", {name: used + 1})
            flaws.append(Flaw(None, f"{name} is {following}, but {used} is in use", [counter]))
    yield from report(
        exam,
        flaws,
        check="counters_too_low",
        severity=Severity.ERROR,
        what="the counters of the newest snapshot are not above every id in use",
        effect="the next commit gives an id twice, and rows of two objects are mixed up",
        remedy="make a snapshot with the right counters",
    )


def unknown_options(exam: Examination) -> Iterator[Finding]:
    """Find options that DuckLake does not have."""
    rows = exam.copy.rows("SELECT DISTINCT key FROM ducklake_metadata ORDER BY 1")
    yield from report(
        exam,
        (
            Flaw(None, key)
            for (key,) in rows
            if key not in _KNOWN_OPTIONS and not key.startswith("lakeport_")
        ),
        check="unknown_options",
        severity=Severity.NOTE,
        what="options are set that DuckLake does not have",
        effect="none; DuckLake ignores them",
        remedy="check their spelling",
    )


def scopes_of_options(exam: Examination) -> Iterator[Finding]:
    """Find options with a scope that makes DuckDB refuse the lake."""
    rows = exam.copy.rows(
        "SELECT key, scope FROM ducklake_metadata "
        "WHERE scope IS NOT NULL AND scope NOT IN ('schema', 'table') ORDER BY ALL"
    )
    yield from report(
        exam,
        (Flaw(None, f"{key} has the scope {scope!r}") for key, scope in rows),
        check="scopes_of_options",
        severity=Severity.ERROR,
        what="options have a scope other than the lake, a schema or a table",
        effect="DuckDB cannot attach the lake",
        remedy="correct the rows in ducklake_metadata",
    )


def secrets_in_options(exam: Examination) -> Iterator[Finding]:
    """Find texts in options, paths and views that look like credentials; they are not shown."""
    found = [
        (name, key)
        for name, sql in _TEXTS.items()
        for key, text in exam.copy.stream(sql)
        if _SECRETS.search(text) or (name not in ("view", "macro") and _SETTINGS.search(text))
    ]
    yield from report(
        exam,
        (Flaw(None, f"{name} {key}") for name, key in found),
        check="secrets_in_options",
        severity=Severity.WARNING,
        what="options, paths or views contain what looks like a password or a key",
        effect="everyone who may read the lake sees it",
        remedy="replace the credentials, and give them to each client as a secret",
    )


def data_path_problems(exam: Examination) -> Iterator[Finding]:
    """Find a relative data path, and files outside of the data path."""
    if not exam.root or (is_local(exam.root) and not exam.root.startswith(("/", "\\", "file:"))):
        is_server = exam.kind in ("postgresql", "mysql")
        yield from report(
            exam,
            [Flaw(None, exam.root or "(empty)")],
            check="relative_data_path",
            severity=Severity.WARNING if is_server else Severity.NOTE,
            what="the data path is relative",
            effect="files are found only from the directory in which the lake was made",
            remedy="attach with an absolute DATA_PATH and OVERRIDE_DATA_PATH",
        )
    rows = exam.copy.rows(
        "SELECT table_id, path FROM live_file WHERE path_is_relative = false "
        "AND NOT starts_with(path, ?) AND mapping_id IS NULL ORDER BY ALL",
        [exam.root],
    )
    yield from report(
        exam,
        (Flaw(table_id, path) for table_id, path in rows),
        check="files_outside",
        severity=Severity.NOTE,
        what="files have absolute paths outside of the data path",
        effect="they stay behind when the lake is moved",
        remedy="rewrite the table if the lake is to be moved",
    )
    rows = exam.copy.rows(
        "SELECT table_id, path FROM live_file WHERE path_is_relative = false AND "
        "starts_with(path, $1) UNION ALL SELECT table_id, path FROM ducklake_table "
        "WHERE end_snapshot IS NULL AND path_is_relative = false AND starts_with(path, $1) "
        "ORDER BY ALL",
        [exam.root or "/"],
    )
    yield from report(
        exam,
        (Flaw(table_id, path) for table_id, path in rows),
        check="absolute_paths",
        severity=Severity.NOTE,
        what="files or folders below the data path are recorded with absolute paths",
        effect="readers do not find them after the lake was moved",
        remedy="rewrite the files of the table before the lake is moved",
    )
