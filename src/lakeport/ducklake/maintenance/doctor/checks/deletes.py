"""Checks of deletes: delete files, inlined deletes, and files of which nothing is left."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lakeport.ducklake.maintenance.doctor.examination import Examination, Flaw, report
from lakeport.ducklake.maintenance.doctor.findings import (
    NEW_SNAPSHOT,
    Finding,
    MergeDeletes,
    RowChange,
    Severity,
)
from lakeport.ducklake.model import DeleteFile
from lakeport.ducklake.reading.delete_files import read_delete_file
from lakeport.errors import LakeportError

__all__ = [
    "deletes_in_two_places",
    "deletes_of_missing_files",
    "files_without_rows",
    "several_delete_files",
    "wrong_delete_files",
]


def several_delete_files(exam: Examination) -> Iterator[Finding]:
    """Find data files with more than one valid delete file."""
    rows = exam.copy.rows(
        "SELECT table_id, data_file_id, list(delete_file_id ORDER BY delete_file_id) "
        "FROM live_delete SEMI JOIN live_file USING (data_file_id) "
        "GROUP BY ALL HAVING count(*) > 1 ORDER BY ALL"
    )
    yield from report(
        exam,
        (
            Flaw(
                table_id,
                f"data file {file} has the delete files {', '.join(map(str, deletes))}",
                [MergeDeletes(table_id, file)],
                [f"deleted_from_table:{table_id}"],
            )
            for table_id, file, deletes in rows
        ),
        check="several_delete_files",
        severity=Severity.ERROR,
        what="data files have more than one valid delete file",
        effect="DuckDB returns deleted rows again and counts others twice",
        remedy="merge the delete files of each data file into one",
    )


def deletes_in_two_places(exam: Examination) -> Iterator[Finding]:
    """Find positions that are in a delete file and in the table of inlined deletes."""
    inlined: dict[int, list[int]] = {}
    for file, position in exam.copy.rows(
        "SELECT file_id, row_id FROM inlined_delete "
        "WHERE file_id IN (SELECT data_file_id FROM live_delete) ORDER BY ALL"
    ):
        inlined.setdefault(file, []).append(position)
    if not inlined:
        return
    flaws = []
    for table_id, file in exam.data_files():
        positions = inlined.get(file.id)
        if positions is None or not file.deletes:
            continue
        try:
            in_files = [read_delete_file(exam.storage, delete)[0] for delete in file.deletes]
        except LakeportError:
            continue
        both = np.intersect1d(np.concatenate(in_files), np.asarray(positions, np.int64))
        table = f"ducklake_inlined_delete_{table_id}"
        flaws += [
            Flaw(
                table_id,
                f"row {position} of data file {file.id}",
                [RowChange(table, {"file_id": file.id, "row_id": position})],
                [f"deleted_from_table:{table_id}"],
            )
            for position in both.tolist()
        ]
    yield from report(
        exam,
        flaws,
        check="deletes_in_two_places",
        severity=Severity.ERROR,
        what="rows are deleted in a delete file and in the catalog database",
        effect="DuckDB returns some of the rows again, and counts too few",
        remedy="remove the deletes from the catalog database that the delete file has",
    )


def deletes_of_missing_files(exam: Examination) -> Iterator[Finding]:
    """Find inlined deletes of files that no snapshot has."""
    rows = exam.copy.rows(
        "SELECT table_id, file_id, count(*) FROM inlined_delete "
        "WHERE file_id NOT IN (SELECT data_file_id FROM ducklake_data_file) "
        "GROUP BY ALL ORDER BY ALL"
    )
    yield from report(
        exam,
        (
            Flaw(
                table_id,
                f"{count} of data file {file}",
                [RowChange(f"ducklake_inlined_delete_{table_id}", {"file_id": file})],
            )
            for table_id, file, count in rows
        ),
        check="deletes_of_missing_files",
        severity=Severity.NOTE,
        what="the catalog database has deletes of data files that no snapshot has",
        effect="none; they take space in the catalog database",
        remedy="remove them",
    )


def files_without_rows(exam: Examination) -> Iterator[Finding]:
    """Find data files all of whose rows are deleted."""
    rows = exam.copy.rows(
        "SELECT f.table_id, f.data_file_id, f.path FROM live_file f "
        "LEFT JOIN (SELECT data_file_id, sum(delete_count) AS deleted FROM live_delete "
        "  GROUP BY ALL HAVING count(*) = 1) d USING (data_file_id) "
        "LEFT JOIN (SELECT file_id AS data_file_id, count(DISTINCT row_id) AS inlined "
        "  FROM inlined_delete GROUP BY ALL) i USING (data_file_id) "
        "WHERE f.record_count > 0 "
        "  AND coalesce(deleted, 0) + coalesce(inlined, 0) = f.record_count ORDER BY ALL"
    )
    yield from report(
        exam,
        (
            Flaw(
                table_id,
                path,
                [
                    RowChange(
                        name,
                        {"data_file_id": file, "end_snapshot": None},
                        {"end_snapshot": NEW_SNAPSHOT},
                    )
                    for name in ("ducklake_data_file", "ducklake_delete_file")
                ],
                [f"deleted_from_table:{table_id}"],
            )
            for table_id, file, path in rows
        ),
        check="files_without_rows",
        severity=Severity.NOTE,
        what="all rows of data files are deleted, but the files are still part of the table",
        effect="none; each scan opens files that have no rows",
        remedy="end the files, as a delete of all their rows would have done",
    )


def wrong_delete_files(exam: Examination) -> Iterator[Finding]:
    """Read delete files: their positions must be in the data file, and as many as recorded."""
    files = exam.chosen(exam.delete_files(), "SELECT count(*) FROM needed_delete")
    flaws = [
        Flaw(table_id, problem)
        for table_id, problem in exam.each(lambda file: _delete_problem(exam, *file), files)
        if problem is not None
    ]
    yield from report(
        exam,
        flaws,
        check="wrong_delete_files",
        severity=Severity.ERROR,
        what="delete files are not as the catalog records them",
        effect="readers fail, or return rows that were deleted",
        remedy="restore the files from a backup, or restore the table to an older snapshot",
    )


def _delete_problem(
    exam: Examination, table_id: int, rows: int | None, delete: DeleteFile
) -> tuple[int, str | None]:
    """Return how a delete file differs from what the catalog records."""
    try:
        positions, _ = read_delete_file(exam.storage, delete)
    except (LakeportError, OSError) as error:
        return table_id, str(error)
    if delete.delete_count is not None and len(positions) != delete.delete_count:
        recorded = f"but the catalog records {delete.delete_count}"
        return table_id, f"{delete.path} has {len(positions)} positions, {recorded}"
    if rows is not None and len(positions) and positions[-1] >= rows:
        return table_id, f"{delete.path} deletes row {positions[-1]} of {rows}"
    return table_id, None
