"""The functions of a writable lake for what DuckDB's client has no statements for.

Each is called as `CALL lake.lakeport.commit('message')`. To add a function, write a method of
`_Changes` and list it in `functions`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeport.auth import Operation
from lakeport.catalog import (
    CallableTableFunction,
    DropSchemaOptions,
    Parameter,
    ParameterKind,
    TableFunction,
    current_request,
)
from lakeport.ducklake import View
from lakeport.ducklake.maintenance import are_free_files
from lakeport.ducklake.metadata import LakeContents
from lakeport.ducklake.writing import CommitInfo, TableWriter
from lakeport.ducklake.writing.changes import roll_back
from lakeport.errors import InvalidInputError, LakeportError, PermissionDeniedError
from lakeport.lakehouse.names import PublishedNames, parse_table_name
from lakeport.lakehouse.permissions import Permissions
from lakeport.lakehouse.policies.visible import visible_columns
from lakeport.lakehouse.resources import LakeResources
from lakeport.lakehouse.views import view_schema
from lakeport.lakehouse.writing.schema_methods import drop_schema
from lakeport.lakehouse.writing.staged import staged_contents
from lakeport.lakehouse.writing.transactions import LakeWrites

__all__ = ["changing_functions"]

_RESULT: Final = pa.schema([("result", pa.string())])
_COMMITTED: Final = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        ("rows_inserted", pa.int64()),
        ("rows_updated", pa.int64()),
        ("rows_deleted", pa.int64()),
    ]
)
_TIMES: Final = (pa.int64(), pa.timestamp("us", "UTC"))
_TABLE: Final = Parameter("table_name", pa.string())
_KEYS: Final = Parameter("keys", pa.list_(pa.string()))

Version: TypeAlias = int | datetime | None


class _ChangingFunction(CallableTableFunction):
    """A function that the server runs as a statement."""

    changes_catalog = True


def changing_functions(access: LakeResources, names: PublishedNames) -> Iterator[TableFunction]:
    """Yield the functions that change a lake; none if it is served read-only."""
    if access.writes.writable:
        yield from _Changes(access, names).functions()


class _Changes:
    """The functions of one request."""

    def __init__(self, access: LakeResources, names: PublishedNames) -> None:
        self._access = access
        self._names = names

    def functions(self) -> Iterator[TableFunction]:
        text, flag = _named_text, _named_flag
        yield CallableTableFunction(
            "commit",
            self._commit,
            (Parameter("message", pa.string()),),
            _COMMITTED,
            comment="Make the staged writes of this session one snapshot, with a message",
        )
        yield CallableTableFunction(
            "rollback", self._rollback, (), _RESULT, comment="Discard the staged writes"
        )
        yield CallableTableFunction(
            "set_commit_message",
            self._set_commit_message,
            (Parameter("author", pa.string()), Parameter("message", pa.string()), text("extra")),
            _RESULT,
            comment="Record author and message with the next snapshot of this session",
        )
        yield CallableTableFunction(
            "set_option",
            self._set_option,
            (
                Parameter("key", pa.string()),
                Parameter("value", pa.string()),
                text("table_name"),
                text("schema_name"),
            ),
            _RESULT,
            comment="Set an option of the lake, of a schema or of a table, at once",
        )
        for type in _TIMES:
            when = Parameter("version", type)
            yield self._function(
                "rollback_to",
                self._rollback_to,
                (when, text("message")),
                "Give the whole lake the contents of an earlier snapshot, as a new snapshot",
            )
            yield self._function(
                "restore",
                self._restore,
                (_TABLE, when, text("message")),
                "Give a table the columns and rows of an earlier snapshot, as a new snapshot",
            )
        yield self._function(
            "set_partitioning",
            self._set_partitioning,
            (_TABLE, _KEYS),
            "Partition new files by keys such as month(day); an empty list ends it",
        )
        yield self._function(
            "set_sorting",
            self._set_sorting,
            (_TABLE, _KEYS),
            "Sort the rows of new files by keys such as day DESC; an empty list ends it",
        )
        yield self._function(
            "comment_on",
            self._comment_on,
            (_TABLE, Parameter("comment", pa.string()), text("column_name")),
            "Set or remove the comment of a table or of a column",
        )
        yield self._function(
            "add_files",
            self._add_files,
            (
                _TABLE,
                Parameter("path", pa.string()),
                flag("allow_missing"),
                flag("ignore_extra_columns"),
            ),
            "Add existing Parquet files, which the lake owns from then on",
        )
        yield self._function(
            "create_view",
            self._create_view,
            (Parameter("view_name", pa.string()), Parameter("sql", pa.string()), flag("replace")),
            "Create a view from a SELECT with the names of the lake",
        )
        yield self._function(
            "drop_view",
            self._drop_view,
            (Parameter("view_name", pa.string()), flag("if_exists")),
            "Drop a view",
        )
        yield self._function(
            "drop_schema",
            self._drop_schema,
            (Parameter("schema_name", pa.string()), flag("cascade"), flag("if_exists")),
            "Drop a schema; with cascade its tables and views, too",
        )

    def _function(
        self,
        name: str,
        change: Callable[..., str],
        parameters: Sequence[Parameter],
        comment: str,
    ) -> TableFunction:
        def call(**arguments: Any) -> pa.Table:
            self._writes.require()
            return _done(change(**arguments))

        return _ChangingFunction(name, call, parameters, _RESULT, comment=comment)

    @property
    def _writes(self) -> LakeWrites:
        return self._access.writes

    def _commit(self, message: str | None) -> pa.Table:
        identifier = current_request().transaction_id
        info = CommitInfo(message=message)
        result = None if identifier is None else self._writes.commit_and_end(identifier, info)
        if result is None:
            raise InvalidInputError("there is nothing to commit: this session has no staged writes")
        rows = [[result.snapshot], [result.rows_inserted]]
        rows += [[result.rows_updated], [result.rows_deleted]]
        return pa.table([pa.array(column, pa.int64()) for column in rows], schema=_COMMITTED)

    def _rollback(self) -> pa.Table:
        identifier = current_request().transaction_id
        if identifier is None:
            return _done("there was nothing to roll back")
        self._writes.roll_back(identifier)
        self._writes.end(identifier)
        return _done("rolled back")

    def _set_commit_message(
        self, author: str | None, message: str | None, extra: str | None
    ) -> pa.Table:
        self._writes.set_info(CommitInfo(author=author, message=message, extra_info=extra))
        return _done("recorded with the next snapshot of this session")

    def _set_option(
        self, key: str | None, value: str | None, table_name: str | None, schema_name: str | None
    ) -> pa.Table:
        if key is None or value is None:
            raise InvalidInputError("set_option needs the name of an option and its value")
        lake = self._access.lake
        if table_name is not None:
            schema, table = self._named(table_name, Operation.ALTER)
            lake.set_option(key, value, schema=schema, table=table)
        elif schema_name is not None:
            self._require(Operation.ALTER, schema_name)
            lake.set_option(key, value, schema=self._names.in_lake(schema_name))
        else:
            self._require(Operation.ALTER)
            lake.set_option(key, value)
        return _done(f"the option {key} is {value}")

    def _rollback_to(self, version: Version, message: str | None) -> str:
        self._require(Operation.ALTER)
        then = self._snapshot(version)
        if message is not None:
            self._writes.set_info(CommitInfo(message=message))
        with self._writes.statement() as transaction:
            roll_back(transaction, then)
        return f"the lake has the contents of snapshot {then}"

    def _restore(self, table_name: str | None, version: Version, message: str | None) -> str:
        then = self._snapshot(version)
        if message is not None:
            self._writes.set_info(CommitInfo(message=message))
        self._change(table_name, lambda writer: writer.restore(then))
        return f"the table {table_name} has the rows of snapshot {then}"

    def _set_partitioning(self, table_name: str | None, keys: list[str] | None) -> str:
        self._change(table_name, lambda writer: writer.set_partitioning(keys or []))
        return f"new files of {table_name} are partitioned by {', '.join(keys or ['nothing'])}"

    def _set_sorting(self, table_name: str | None, keys: list[str] | None) -> str:
        self._change(table_name, lambda writer: writer.set_sorting(keys or []))
        return f"new files of {table_name} are sorted by {', '.join(keys or ['nothing'])}"

    def _comment_on(
        self, table_name: str | None, comment: str | None, column_name: str | None
    ) -> str:
        self._change(table_name, lambda writer: writer.set_comment(comment, column=column_name))
        return f"the comment of {table_name} is set"

    def _add_files(
        self,
        table_name: str | None,
        path: str | None,
        allow_missing: bool | None,  # noqa: FBT001
        ignore_extra_columns: bool | None,  # noqa: FBT001
    ) -> str:
        if path is None:
            raise InvalidInputError("the path of the files is NULL")
        self._writes.check_added_path(path)

        def add(writer: TableWriter) -> None:
            # Otherwise a caller could read the files of other tables in a table of its own.
            if not are_free_files(self._access.lake, path, writer.id):
                raise PermissionDeniedError(
                    f"the files {path[:200]!r} cannot be added: they belong to the lake already, "
                    "or are in the folder of another table"
                )
            writer.add_files(
                path,
                allow_missing=bool(allow_missing),
                ignore_extra_columns=bool(ignore_extra_columns),
            )

        self._change(table_name, add)
        return f"the files {path} belong to {table_name}"

    def _create_view(self, view_name: str | None, sql: str | None, replace: bool | None) -> str:  # noqa: FBT001
        if sql is None:
            raise InvalidInputError("the SELECT of the view is NULL")
        schema, name = self._named(view_name, Operation.CREATE)
        with self._writes.statement() as transaction:
            transaction.create_view(name, sql, schema, or_replace=bool(replace))
            created = next(id for id in reversed(transaction.views) if id < 0)
            base = self._access.contents(self._access.snapshot(transaction.base))
            contents = staged_contents(base, transaction)
            view = next(each for each in contents.views if each.id == created)
            try:
                view_schema(view, self._readable(contents, view))
            except LakeportError as error:
                raise InvalidInputError(
                    f"the view {view_name} cannot be read: {error}; name tables as in the lake, "
                    "where the schema of unqualified names is main"
                ) from None
        return f"the view {view_name} is created"

    def _readable(self, contents: LakeContents, view: View) -> LakeContents:
        """Return a view and what its creator may read, so that errors show no other names."""
        permissions = Permissions.of_request(self._access, self._names)
        if permissions.are_all_given:
            return contents
        tables = []
        for table in contents.tables:
            if permissions.reads(table):
                with suppress(PermissionDeniedError):  # policies that do not fit its columns
                    tables.append(replace(table, columns=visible_columns(table, permissions)[0]))
        views = (each for each in contents.views if each is view or permissions.reads(each))
        return replace(contents, tables=tuple(tables), views=tuple(views))

    def _drop_view(self, view_name: str | None, if_exists: bool | None) -> str:  # noqa: FBT001
        schema, name = self._named(view_name, Operation.DROP)
        with self._writes.statement() as transaction:
            transaction.drop_view(name, schema, if_exists=bool(if_exists))
        return f"the view {view_name} is dropped"

    def _drop_schema(
        self,
        schema_name: str | None,
        cascade: bool | None,  # noqa: FBT001
        if_exists: bool | None,  # noqa: FBT001
    ) -> str:
        if schema_name is None:
            raise InvalidInputError("the name of the schema is NULL")
        self._require(Operation.DROP, schema_name)
        options = DropSchemaOptions(ignore_not_found=bool(if_exists), cascade=bool(cascade))
        drop_schema(self._writes, self._names, schema_name, options)
        return f"the schema {schema_name} is dropped"

    def _change(self, table_name: str | None, change: Callable[[TableWriter], None]) -> None:
        schema, name = self._named(table_name, Operation.ALTER)
        with self._writes.statement() as transaction:
            change(transaction.table(name, schema))

    def _named(self, name: str | None, operation: Operation) -> tuple[str, str]:
        """Return schema and name in the lake of an object that the caller may change."""
        if name is None:
            raise InvalidInputError("the name of the table is NULL")
        schema, found = parse_table_name(self._names, name)
        self._require(operation, self._names.published(schema), found)
        return schema, found

    def _require(self, operation: Operation, *names: str) -> None:
        self._writes.require()
        if not current_request().may(operation, *names):
            shown = ".".join(names) or "this lake"
            raise PermissionDeniedError(f"you may not {operation.kind.value} {shown}")

    def _snapshot(self, version: Version) -> int:
        if version is None:
            raise InvalidInputError("the snapshot is NULL: give its number or a time")
        if isinstance(version, int):
            return self._access.snapshot(version).id
        return self._access.lake.snapshot(timestamp=version).id


def _done(text: str) -> pa.Table:
    return pa.table([pa.array([text])], schema=_RESULT)


def _named_text(name: str) -> Parameter:
    return Parameter(name, pa.string(), ParameterKind.NAMED, None)


def _named_flag(name: str) -> Parameter:
    return Parameter(name, pa.bool_(), ParameterKind.NAMED, default=False)
