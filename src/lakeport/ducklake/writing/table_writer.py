"""`TableWriter`: a table inside a transaction, and what the transaction changes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from lakeport.ducklake.engine import LocalEngine
from lakeport.ducklake.scan import Scan
from lakeport.ducklake.writing.change_set import DataChanges, MetadataEntry, TableEntry
from lakeport.ducklake.writing.changes import RowStatements, TableRows, run_statement
from lakeport.ducklake.writing.changes.target import file_target
from lakeport.ducklake.writing.ddl import columns as changes_of
from lakeport.ducklake.writing.ddl.definitions import TableDefinition
from lakeport.ducklake.writing.ddl.expressions import literal_text
from lakeport.ducklake.writing.ddl.names import check_name
from lakeport.ducklake.writing.ddl.specs import partition_keys, sort_keys
from lakeport.ducklake.writing.ddl.types import TypeLike, column_of
from lakeport.ducklake.writing.files import read_added_files
from lakeport.errors import ConstraintError, InvalidArgumentError, NotFoundError, UnsupportedError
from lakeport.types import Column, duckdb_identifier, fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.table import LakeTable
    from lakeport.ducklake.writing.transaction import Transaction

__all__ = ["ColumnPath", "TableWriter"]

TASK_BYTES: Final = 64 * 1024 * 1024

STREAM_KEY: Final = "lakeport_stream:"
"""Before the name of an application, the key of the last batch that it has written."""

ColumnPath: TypeAlias = str | Sequence[str]
"""The name of a column, or the names down to a field inside it: `("address", "city")`."""


class TableWriter(RowStatements):
    """A table of a transaction: its definition and its rows can be changed."""

    def __init__(self, transaction: Transaction, table_id: int) -> None:
        self.transaction = transaction
        self.id = table_id

    def __repr__(self) -> str:
        definition = self._entry.after or self._entry.before
        return f"TableWriter({definition.name if definition else self.id!r})"

    @property
    def definition(self) -> TableDefinition:
        """The table as the transaction leaves it."""
        after = self._entry.after
        if after is None:
            raise NotFoundError("the transaction has dropped the table")
        return after

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns as the transaction leaves them."""
        return self.definition.tree

    @property
    def table(self) -> LakeTable | None:
        """The table at the base snapshot, to be read; None if the transaction creates it."""
        entry, transaction = self._entry, self.transaction
        if entry.table is not None and entry.table.snapshot.id != transaction.base:
            entry.table = transaction.lake.table_by_id(self.id, transaction.base)
        return entry.table

    @property
    def layout(self) -> LakeTable | None:
        """The table at the base, or at an earlier snapshot with the same columns and path."""
        return self._entry.table

    @property
    def data(self) -> DataChanges:
        """The rows and files that the transaction has added and removed so far."""
        return self._entry.data

    @property
    def inlining_limit(self) -> int:
        """The number of rows of a statement up to which they are inlined; 0 for never."""
        return self.transaction.inlining_limit(self.definition)

    @property
    def inlined_deletes_limit(self) -> int:
        """The number of deletes of a file up to which they go to the catalog database."""
        return self.transaction.inlined_deletes_limit(self.definition)

    def add(self, changes: DataChanges) -> None:
        """Add rows and files, or deletes, that tasks have written."""
        self.transaction.check_open()
        _ = self.definition
        entry = self._entry
        if entry.rows is None:
            entry.data = entry.data.merged(changes)
        else:
            entry.rows.take(changes)
            entry.data = entry.rows.finish()

    def add_files(
        self,
        paths: str | Sequence[str],
        *,
        hive: bool = True,
        allow_missing: bool = False,
        ignore_extra_columns: bool = False,
    ) -> None:
        """Add existing Parquet files, which the lake owns from then on.

        Args:
            paths: Paths of files, which may have the wildcards `*`, `?` and `**`.
            hive: Take values of columns from folders such as `region=eu`.
            allow_missing: Accept files that lack a column; its rows have the column's default.
            ignore_extra_columns: Accept files with columns that the table does not have.
        """
        self.transaction.check_open()
        target = file_target(self)
        found: list[str] = []
        for path in [paths] if isinstance(paths, str) else paths:
            matching = target.storage.glob(path)
            if not matching:
                raise NotFoundError(f"no file matches {path!r}")
            found += matching
        files = read_added_files(
            target,
            found,
            hive=hive,
            allow_missing=allow_missing,
            ignore_extra_columns=ignore_extra_columns,
        )
        self.add(DataChanges(files=tuple(files)))

    def begin_batch(self, application: str, batch: int) -> bool:
        """Return whether a batch of a stream is new, and record it with the commit.

        The commit stores the number under the name of the application, in one transaction with the
        rows. A batch with this number or a smaller one is never written again. If another process
        commits a batch of the application first, the commit raises ConflictError.
        """
        if not application or batch < 0:
            raise InvalidArgumentError(
                f"batch {batch} of application {application!r}: a stream needs a name, and its "
                "batches are numbered from 0"
            )
        key = f"{STREAM_KEY}{application}"
        found = self.transaction.options.get(key, table_id=self.id)
        if found is not None and int(found) >= batch:
            return False
        self.transaction.metadata[(self.id, key)] = MetadataEntry(
            table_id=self.id, key=key, value=str(batch), expected=found
        )
        return True

    def change_rows(self, statement: Callable[[TableRows], None]) -> None:
        """Run a statement on the rows of the table as the transaction sees them."""
        run_statement(self, statement)

    @property
    def rows(self) -> TableRows:
        """The rows of the table as the transaction leaves them, to be read."""
        entry = self._entry
        if entry.rows is not None:
            return entry.rows
        rows = TableRows(self)
        rows.take(entry.data)
        return rows

    @property
    def entry(self) -> TableEntry:
        """What the transaction has recorded about the table; raises if it has been dropped."""
        _ = self.definition
        return self._entry

    def rename(self, new_name: str) -> None:
        """Rename the table; its files stay where they are."""
        check_name(new_name, "table")
        definition = self.definition
        if fold_name(definition.name) != fold_name(new_name):
            self.transaction.check_free(definition.schema, new_name)
        self._define(lambda table: replace(table, name=new_name))

    def set_comment(self, comment: str | None, *, column: ColumnPath | None = None) -> None:
        """Set or remove the comment of the table or of a column."""
        if column is None:
            self.set_tag("comment", comment)
            return
        row = changes_of.find_column(self.definition, _path(column))
        tags = dict(self.definition.column_tags)
        tags[row.column_id] = {**tags.get(row.column_id, {}), "comment": comment}
        self._define(lambda table: replace(table, column_tags=tags))

    def set_tag(self, key: str, value: str | None) -> None:
        """Set a tag of the table; None removes its value."""
        self._define(lambda table: replace(table, tags={**table.tags, key: value}))

    def add_column(
        self,
        name: ColumnPath,
        type: TypeLike,
        *,
        default: Any = None,
        nullable: bool = True,
    ) -> None:
        """Add a column at the end, or a field at the end of a struct.

        Rows that are there already have the default as their value.
        """
        path = _path(name)
        column = replace(column_of(path[-1], type), nullable=nullable)
        self._define(
            lambda table: changes_of.add_column(table, column, inside=path[:-1], default=default)
        )
        self.transaction.check_columns(self.definition)

    def drop_column(self, name: ColumnPath) -> None:
        """Drop a column, or a field of a struct."""
        self._define(lambda table: changes_of.drop_column(table, _path(name)))

    def rename_column(self, name: ColumnPath, new_name: str) -> None:
        """Rename a column, or a field of a struct."""
        # Only a table with a sort order needs the id.
        sort_id = self.transaction.allocate()
        self._define(lambda table: changes_of.rename_column(table, _path(name), new_name, sort_id))
        self.transaction.check_columns(self.definition)

    def alter_column(self, name: ColumnPath, type: TypeLike) -> None:
        """Change the type of a column to one that holds every value of the old type."""
        path = _path(name)
        column = column_of(path[-1], type)
        self._define(lambda table: changes_of.retype_column(table, path, column))

    def set_default(
        self, name: ColumnPath, default: Any = None, *, expression: str | None = None
    ) -> None:
        """Set the default of new rows: a value, or an SQL expression; None removes it."""
        path = _path(name)
        node = self._node(path)
        self._define(lambda table: changes_of.set_default(table, path, node, default, expression))

    def set_default_sql(self, name: ColumnPath, sql: str) -> None:
        """Set the default of new rows to the value of an SQL expression, as SET DEFAULT does."""
        literal = literal_text(sql)
        if literal is None:
            self.set_default(name, expression=sql)
        else:
            self.set_default(name, literal)

    def set_nullable(self, name: ColumnPath, *, nullable: bool) -> None:
        """Allow NULL in a column, or forbid it, which needs a column without NULL."""
        path = _path(name)
        if not nullable:
            self._check_no_nulls(changes_of.find_column(self.definition, path).column_name)
        self._define(lambda table: changes_of.set_nullable(table, path, nullable=nullable))

    def set_partitioning(self, keys: Sequence[str]) -> None:
        """Partition new files by keys such as `month(day)`; an empty list ends partitioning."""
        definition = self.definition
        version = self.transaction.lake.version
        parsed = partition_keys(keys, definition.tree, version=version)
        if parsed == definition.partition_keys:
            return
        id = self.transaction.allocate()
        self._define(lambda table: replace(table, partition_id=id, partition_keys=parsed))

    def set_sorting(self, keys: Sequence[str]) -> None:
        """Sort rows within new files by keys such as `day DESC`; an empty list ends sorting."""
        definition = self.definition
        parsed = sort_keys(keys, definition.tree)
        if parsed == definition.sort_keys:
            return
        id = self.transaction.allocate() if parsed else None
        self._define(lambda table: replace(table, sort_id=id, sort_keys=parsed))

    def _check_no_nulls(self, column: str) -> None:
        """Raise ConstraintError if a row of the table has NULL in a column."""
        table = self.table
        if table is None:
            return
        condition = f"{duckdb_identifier(column)} IS NULL"
        plan = table.planner.scan([column], condition, task_bytes=TASK_BYTES, exact=True)
        scan = Scan(plan, LocalEngine())
        if any(batch.num_rows for batch in scan.to_batches()):
            name = f"{self.definition.schema.name}.{self.definition.name}"
            raise ConstraintError(
                f"the column {column!r} of {name} cannot be declared not null: some rows have NULL"
            )

    def _node(self, path: Sequence[str]) -> Column:
        id = changes_of.find_column(self.definition, path).column_id
        return next(n for c in self.definition.tree for n in c.walk() if n.id == id)

    def _define(self, change: Callable[[TableDefinition], TableDefinition]) -> None:
        self.transaction.check_open()
        before, after = self.definition, change(self.definition)
        entry = self._entry
        if entry.data.inlined_inserts and before.columns != after.columns:
            # Files have the ids of their columns; rows of the catalog database have only names.
            if entry.rows is None:
                raise UnsupportedError("columns cannot change after rows have been inlined")
            entry.rows.write_inlined()
            entry.data = entry.rows.finish()
        entry.after = after

    @property
    def _entry(self) -> TableEntry:
        return self.transaction.tables[self.id]


def _path(name: ColumnPath) -> Sequence[str]:
    """Return the names of a path. A single text is one name, which may contain a dot."""
    return (name,) if isinstance(name, str) else tuple(name)
