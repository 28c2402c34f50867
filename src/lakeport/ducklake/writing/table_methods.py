"""The methods of `LakeTable` that write. Each is a transaction of its own on the newest snapshot.

The table object stays at its snapshot; `lake.table(name)` returns the table after the change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakValueDictionary

from lakeport.errors import ConflictError

if TYPE_CHECKING:
    from lakeport.arrow import RowSource
    from lakeport.ducklake.table import LakeTable
    from lakeport.ducklake.writing.changes import Clause, Merge
    from lakeport.ducklake.writing.ddl.types import TypeLike
    from lakeport.ducklake.writing.results import WriteResult
    from lakeport.ducklake.writing.table_writer import ColumnPath, TableWriter
    from lakeport.ducklake.writing.tasks import Progress

__all__ = ["TableWriting"]


class TableWriting:
    """What a table can be asked to write."""

    def append(
        self, rows: RowSource, *, merge_schema: bool = False, progress: Progress | None = None
    ) -> WriteResult:
        """Add rows: an Arrow table, batch or reader, a data frame, a list of dicts.

        A DataFrame of Spark is written by Spark. Columns are matched by name.

        Args:
            rows: The rows.
            merge_schema: Add the columns that only the rows have, in the same snapshot, and widen
                types as `alter_column` does. Otherwise such a column is an error.
            progress: Called with a `WriteProgress` from time to time while Spark writes.
        """
        return self.change(
            lambda table: table.append(rows, merge_schema=merge_schema), progress=progress
        )

    def overwrite(
        self,
        rows: RowSource,
        where: str | None = None,
        *,
        dynamic: bool = False,
        merge_schema: bool = False,
        progress: Progress | None = None,
    ) -> WriteResult:
        """Replace the rows that pass a condition, or all rows, by others, in one snapshot.

        Args:
            rows: The new rows, of any kind that `append` accepts.
            where: A condition in DuckDB SQL; all rows are replaced when it is left out.
            dynamic: Replace the partitions of the table in which there are new rows, and no other.
            merge_schema: As in `append`.
            progress: As in `append`.
        """
        return self.change(
            lambda table: table.overwrite(rows, where, dynamic=dynamic, merge_schema=merge_schema),
            progress=progress,
        )

    def delete(self, where: str | None = None, *, progress: Progress | None = None) -> WriteResult:
        """Delete the rows that pass a condition in DuckDB SQL, or all rows."""
        return self._repeated(lambda table: table.delete(where), progress=progress)

    def update(
        self,
        assignments: Mapping[str, str],
        where: str | None = None,
        *,
        progress: Progress | None = None,
    ) -> WriteResult:
        """Set columns to the values of expressions, in the rows that pass a condition or in all.

        Expressions and condition are DuckDB SQL. Updated rows keep their row ids.
        """
        return self._repeated(lambda table: table.update(assignments, where), progress=progress)

    def merge(
        self,
        rows: RowSource,
        on: str,
        *,
        merge_schema: bool = False,
        progress: Progress | None = None,
    ) -> Merge[WriteResult]:
        """Describe a merge of rows into the table; its `execute()` runs it.

        The condition, such as `target.id = source.id`, is DuckDB SQL. The rows are of any kind that
        `append` accepts, and `merge_schema` and `progress` are as there.
        """
        from lakeport.ducklake.writing.changes import Merge

        def run(on: str, clauses: Sequence[Clause]) -> WriteResult:
            def merge(table: TableWriter) -> None:
                table.run_merge(rows, on, clauses, merge_schema=merge_schema)

            # A stream cannot be read again.
            if hasattr(rows, "read_next_batch") or hasattr(rows, "__next__"):
                return self.change(merge, progress=progress)
            return self._repeated(merge, progress=progress)

        return Merge(on, run)

    def add_files(
        self,
        paths: str | Sequence[str],
        *,
        hive: bool = True,
        allow_missing: bool = False,
        ignore_extra_columns: bool = False,
    ) -> WriteResult:
        """Add existing Parquet files, which the lake owns from then on.

        Args:
            paths: Paths of files, which may have the wildcards `*`, `?` and `**`.
            hive: Take values of columns from folders such as `region=eu`.
            allow_missing: Accept files that lack a column; its rows have the column's default.
            ignore_extra_columns: Accept files with columns that the table does not have.
        """
        return self.change(
            lambda table: table.add_files(
                paths,
                hive=hive,
                allow_missing=allow_missing,
                ignore_extra_columns=ignore_extra_columns,
            )
        )

    def rename(self, new_name: str) -> WriteResult:
        """Rename the table; its files stay where they are."""
        return self.change(lambda table: table.rename(new_name))

    def set_comment(self, comment: str | None, *, column: ColumnPath | None = None) -> WriteResult:
        """Set or remove the comment of the table or of a column."""
        return self.change(lambda table: table.set_comment(comment, column=column))

    def set_tag(self, key: str, value: str | None) -> WriteResult:
        """Set a tag of the table; None removes its value."""
        return self.change(lambda table: table.set_tag(key, value))

    def add_column(
        self, name: ColumnPath, type: TypeLike, *, default: Any = None, nullable: bool = True
    ) -> WriteResult:
        """Add a column at the end, or a field at the end of a struct.

        Rows that are there already have the default as their value. The path of a field is a
        sequence of names, such as `("address", "city")`.
        """
        return self.change(
            lambda table: table.add_column(name, type, default=default, nullable=nullable)
        )

    def drop_column(self, name: ColumnPath) -> WriteResult:
        """Drop a column, or a field of a struct."""
        return self.change(lambda table: table.drop_column(name))

    def rename_column(self, name: ColumnPath, new_name: str) -> WriteResult:
        """Rename a column, or a field of a struct."""
        return self.change(lambda table: table.rename_column(name, new_name))

    def alter_column(self, name: ColumnPath, type: TypeLike) -> WriteResult:
        """Change the type of a column to one that holds every value of the old type."""
        return self.change(lambda table: table.alter_column(name, type))

    def set_default(
        self, name: ColumnPath, default: Any = None, *, expression: str | None = None
    ) -> WriteResult:
        """Set the default of new rows: a value, or an SQL expression; None removes it."""
        return self.change(lambda table: table.set_default(name, default, expression=expression))

    def set_nullable(self, name: ColumnPath, *, nullable: bool) -> WriteResult:
        """Allow NULL in a column, or forbid it, which needs a column without NULL."""
        return self.change(lambda table: table.set_nullable(name, nullable=nullable))

    def set_partitioning(self, keys: Sequence[str]) -> WriteResult:
        """Partition new files by keys such as `month(day)`; an empty list ends partitioning."""
        return self.change(lambda table: table.set_partitioning(keys))

    def set_sorting(self, keys: Sequence[str]) -> WriteResult:
        """Sort rows within new files by keys such as `day DESC`; an empty list ends sorting."""
        return self.change(lambda table: table.set_sorting(keys))

    def _repeated(
        self, change: Callable[[TableWriter], None], *, progress: Progress | None = None
    ) -> WriteResult:
        """Run a change of rows again, on the newest rows, if others have changed them meanwhile."""
        from lakeport.ducklake.writing.commit import RetryPolicy

        table = cast("LakeTable", self)
        turns = _turns(str(table.lake.catalog.database.location), table.id)
        policy = RetryPolicy()
        with suppress(ConflictError), turns.taken(is_repeated=False):
            return self.change(change, progress=progress)
        with turns.taken(is_repeated=True):
            for attempt in range(policy.attempts - 2):
                with suppress(ConflictError):
                    return self.change(change, progress=progress)
                time.sleep(policy.pause(attempt))
            return self.change(change, progress=progress)

    def change(
        self, change: Callable[[TableWriter], None], *, progress: Progress | None = None
    ) -> WriteResult:
        """Run a change of the table as a transaction; for other parts of this package."""
        table = cast("LakeTable", self)
        with table.lake.transaction(progress=progress) as transaction:
            writer = transaction.table(table.name, table.schema_name)
            if writer.id != table.id:
                raise ConflictError(
                    f"{table.schema_name}.{table.name} is another table now: look it up again"
                )
            change(writer)
        return transaction.commit_result


class _Turns:
    """Lets the changes of one table in this process that are repeated run one after the other.

    A change that starts meanwhile waits, too: a long change would lose against short ones forever.
    """

    def __init__(self) -> None:
        self._count = 0
        # Guards the count.
        self._lock = threading.Lock()
        self._turn = threading.RLock()

    @contextmanager
    def taken(self, *, is_repeated: bool) -> Iterator[None]:
        """Wait for a turn if a change is repeated, or if another one is."""
        with self._lock:
            is_free = not is_repeated and not self._count
            self._count += not is_free
        if is_free:
            yield
            return
        try:
            with self._turn:
                yield
        finally:
            with self._lock:
                self._count -= 1


_all_turns: Final[WeakValueDictionary[tuple[str, int], _Turns]] = WeakValueDictionary()
# Guards the dictionary.
_all_turns_lock: Final = threading.Lock()


def _turns(location: str, table: int) -> _Turns:
    """Return the turns of a table of a lake in this process."""
    with _all_turns_lock:
        found = _all_turns.get((location, table))
        if found is None:
            found = _all_turns[location, table] = _Turns()
        return found
