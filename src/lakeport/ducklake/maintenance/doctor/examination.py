"""One examination of a lake: what the checks share, and how they report."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from lakeport.ducklake.maintenance.doctor.catalog_copy import CatalogCopy
from lakeport.ducklake.maintenance.doctor.findings import Action, Finding, Repair, Severity
from lakeport.ducklake.metadata.location import DatabaseKind
from lakeport.ducklake.model import DataFile, DeleteFile
from lakeport.ducklake.storage.filesystems import Storage
from lakeport.ducklake.storage.paths import as_directory, resolve
from lakeport.errors import CorruptLakeError

__all__ = ["Check", "Examination", "Flaw", "report"]

_EXAMPLES: Final = 5
# Most of the time goes to waiting for storage.
_THREADS: Final = 8
_DELETE_COLUMNS: Final = (
    "delete_file_id, table_id, path, path_is_relative, format, delete_count, file_size_bytes, "
    "footer_size, encryption_key, begin_snapshot, partial_max"
)
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(slots=True)
class Examination:
    """A lake under examination."""

    copy: CatalogCopy
    storage: Storage
    root: str
    """The directory of the lake's files."""
    version: str
    """The format version."""
    kind: DatabaseKind
    """The kind of the catalog database."""
    indexes: frozenset[tuple[str, tuple[str, ...]]] = frozenset()
    """Tables and columns of the indexes of the catalog database."""
    deep: bool = False
    """Read all data files, not only some of them."""
    sample: int = 20
    """How many data files are read without `deep`."""
    progress: Callable[[str], None] = lambda _: None
    """Is called with what is being examined."""
    files_read: int = field(default=0)
    _directories: dict[int, str] | None = None

    def table_name(self, table_id: int | None) -> str:
        """Return where a finding of a table is."""
        found = self.copy.rows("SELECT name FROM named WHERE table_id = ?", [table_id])
        return f"table {found[0][0]}" if found else f"the table with id {table_id}"

    def directory(self, table_id: int) -> str:
        """Return the directory of a table's files."""
        if self._directories is None:
            self._directories = self._find_directories()
        return self._directories.get(table_id, self.root)

    def _find_directories(self) -> dict[int, str]:
        rows = self.copy.rows(
            "SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative "
            "FROM (SELECT DISTINCT ON (table_id) * FROM ducklake_table "
            "      ORDER BY table_id, begin_snapshot DESC) t "
            "LEFT JOIN (SELECT DISTINCT ON (schema_id) * FROM ducklake_schema "
            "      ORDER BY schema_id, begin_snapshot DESC) s USING (schema_id)"
        )
        found = {}
        for table_id, schema_path, schema_relative, path, relative in rows:
            try:
                folder = as_directory(
                    resolve(self.root, schema_path or "", relative=schema_relative is not False)
                )
                found[table_id] = as_directory(
                    resolve(folder, path or "", relative=relative is not False)
                )
            except CorruptLakeError:
                continue
        return found

    def path(self, table_id: int, path: str, *, is_relative: bool | None) -> str:
        """Return the resolved path of a file of a table."""
        return resolve(self.directory(table_id), path, relative=is_relative is not False)

    def data_files(self) -> Iterator[tuple[int, DataFile]]:
        """Yield the data files of the newest snapshot with their delete files, by table."""
        deletes: dict[int, list[DeleteFile]] = defaultdict(list)
        for row in self.copy.rows(
            f"SELECT data_file_id, {_DELETE_COLUMNS} FROM live_delete ORDER BY delete_file_id"
        ):
            deletes[row[0]].append(self.delete_file(row[1:]))
        for table_id, _, file in self._files("live_file", "NULL"):
            yield table_id, replace(file, deletes=tuple(deletes.get(file.id, ())))

    def needed_files(self) -> Iterator[tuple[int, int, DataFile]]:
        """Yield the data files of all snapshots, without deletes: table, newest snapshot, file."""
        yield from self._files("needed_file", "seen_at")

    def _files(self, source: str, seen_at: str) -> Iterator[tuple[int, int, DataFile]]:
        for row in self.copy.stream(
            "SELECT table_id, data_file_id, path, path_is_relative, record_count, "
            "file_size_bytes, footer_size, begin_snapshot, row_id_start, mapping_id, "
            f"encryption_key, partial_max, {seen_at} FROM {source} ORDER BY table_id, data_file_id"
        ):
            try:
                path = self.path(row[0], row[2], is_relative=row[3])
            except CorruptLakeError:
                continue
            yield (
                row[0],
                row[12],
                DataFile(
                    id=row[1],
                    path=path,
                    record_count=row[4],
                    file_size_bytes=row[5],
                    footer_size=row[6],
                    begin_snapshot=row[7],
                    row_id_start=row[8],
                    mapping_id=row[9],
                    encryption_key=row[10],
                    partial_max=row[11],
                ),
            )

    def delete_files(self) -> Iterator[tuple[int, int | None, DeleteFile]]:
        """Yield the delete files of all snapshots: table, rows of the data file, delete file."""
        for row in self.copy.stream(
            f"SELECT record_count, {_DELETE_COLUMNS} FROM needed_delete ORDER BY delete_file_id"
        ):
            try:
                yield row[2], row[0], self.delete_file(row[1:])
            except CorruptLakeError:
                continue

    def delete_file(self, row: Sequence[Any]) -> DeleteFile:
        """Return the delete file of a row of the catalog."""
        return DeleteFile(
            id=row[0],
            path=self.path(row[1], row[2], is_relative=row[3]),
            format=row[4] or "parquet",
            delete_count=row[5],
            file_size_bytes=row[6],
            footer_size=row[7],
            encryption_key=row[8],
            begin_snapshot=row[9],
            partial_max=row[10],
        )

    def chosen(self, files: Iterable[_T], count: str) -> Iterator[_T]:
        """Yield the files to read: all of them, or some that are spread over all tables."""
        if not self.deep and not self.sample:
            return
        number = int(self.copy.value(count) or 0)
        step = 1.0 if self.deep else max(number / max(self.sample, 1), 1.0)
        following = 0.0
        for index, file in enumerate(files):
            if index >= following:
                yield file
                following += step

    def each(self, work: Callable[[_T], _R], items: Iterable[_T]) -> Iterator[_R]:
        """Yield the results of a function in the order of its arguments, from several threads."""
        waiting: deque[Future[_R]] = deque()
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakeport-doctor") as pool:
            try:
                for item in items:
                    waiting.append(pool.submit(work, item))
                    if len(waiting) >= _THREADS * 4:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


Check: TypeAlias = Callable[[Examination], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Flaw:
    """One row, file or value of a finding."""

    table_id: int | None
    example: str
    actions: Sequence[Action] = ()
    changes: Sequence[str] = ()


def report(
    exam: Examination,
    flaws: Iterable[Flaw],
    *,
    check: str,
    severity: Severity,
    what: str,
    effect: str,
    remedy: str,
) -> Iterator[Finding]:
    """Yield one finding for each table that has flaws; it is repairable if all of them are."""
    by_table: Mapping[int | None, list[Flaw]] = defaultdict(list)
    for flaw in flaws:
        by_table[flaw.table_id].append(flaw)
    for table_id, found in by_table.items():
        is_repairable = all(flaw.actions for flaw in found)
        actions = [action for flaw in found for action in flaw.actions]
        changes = dict.fromkeys(change for flaw in found for change in flaw.changes)
        yield Finding(
            check=check,
            severity=severity,
            where="the catalog" if table_id is None else exam.table_name(table_id),
            what=what,
            effect=effect,
            remedy=remedy,
            count=len(found),
            examples=tuple(flaw.example for flaw in found[:_EXAMPLES]),
            repair=Repair(actions, list(changes)) if is_repairable else None,
        )
