"""Check policies against the lakes that they are about, before a server starts with them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Self

from lakeport.arrow import sandbox
from lakeport.auth import Identity, Policies, Policy, PolicyExpression
from lakeport.catalog import Catalog
from lakeport.ducklake.metadata import TableSummary
from lakeport.errors import DefinitionError, UnsupportedError, first_line
from lakeport.lakehouse.catalog import LakeCatalog
from lakeport.types import Column, duckdb_identifier, duckdb_type, fold_name

__all__ = ["check_policies"]

_log = logging.getLogger("lakeport.lakehouse")

_ANY_CALLER = Identity("")


def check_policies(policies: Policies, catalogs: Mapping[str, Catalog]) -> None:
    """Raise DefinitionError for the first policy that does not fit the catalogs."""
    for policy in policies.policies:
        about = [name for name in catalogs if policy in policies.about(name)]
        if not about and not _is_glob(policy.parts[0]):
            raise DefinitionError(f"{policy.where}: there is no lake {policy.parts[0]!r}")
        for name in about:
            catalog = catalogs[name]
            if isinstance(catalog, LakeCatalog):
                _check_lake(policies, policy, name, catalog)
            elif policy.is_restricted and not _is_glob(policy.parts[0]):
                raise DefinitionError(
                    f"{policy.where}: {policy.parts[0]!r} is not a lake, and only tables of lakes "
                    "can have rows, hidden columns and masks"
                )


def _check_lake(policies: Policies, policy: Policy, name: str, catalog: LakeCatalog) -> None:
    lake = catalog.lake
    contents = lake.contents()
    published = catalog.published_name

    def matches(schema: str, table: str) -> bool:
        return policy in policies.matching(name, published(schema), table)

    tables = [table for table in contents.tables if matches(table.schema, table.name)]
    views = [view for view in contents.views if matches(view.schema, view.name)]
    if not tables and not views and not any(map(_is_glob, policy.parts)):
        _log.warning("%s: there is no table %s now", policy.where, policy.on)
    if not policy.is_restricted:
        return
    if views and not tables:
        raise DefinitionError(
            f"{policy.where}: {policy.on} is a view, which has the rows and columns that callers "
            "see of its tables: write the policy for those"
        )
    known: set[str] = set()
    for table in tables:
        known |= {fold_name(column.name) for column in table.columns}
        shown = f"{published(table.schema)}.{table.name}"
        _check_table(policy, table, shown)
    if tables:
        earlier = {fold_name(name) for table in tables for name in _earlier_names(catalog, table)}
        _check_names(policy, known | earlier)


def _check_names(policy: Policy, known: set[str]) -> None:
    for column in sorted([*policy.hide, *policy.mask]):
        if fold_name(column) not in known:
            raise DefinitionError(f"{policy.where}: {policy.on} has no column {column!r}")


def _check_table(policy: Policy, table: TableSummary, shown: str) -> None:
    columns = {fold_name(column.name): column for column in table.columns}
    with _Binder(table.columns) as binder:
        if policy.rows is not None:
            binder.check(policy, policy.rows, shown, None)
        for name, mask in policy.mask.items():
            column = columns.get(fold_name(name))
            if column is not None:
                binder.check(policy, mask, shown, column)


def _earlier_names(catalog: LakeCatalog, table: TableSummary) -> Iterable[str]:
    """Return the names of all columns that a table ever had."""
    planner = catalog.lake.table(table.name, table.schema).planner
    rows = planner.catalog.database.read(
        lambda connection: planner.catalog.columns_ever_named(connection, table.schema, table.name)
    )
    return [row.column_name for row in rows if row.table_id == table.id]


class _Binder:
    """A DuckDB with a table of one row of nulls, over which expressions of policies are tried."""

    def __init__(self, columns: Iterable[Column]) -> None:
        self._names: set[str] = set()
        fields: list[str] = []
        for column in columns:
            try:
                fields.append(f"{duckdb_identifier(column.name)} {duckdb_type(column)}")
                self._names.add(fold_name(column.name))
            except UnsupportedError:  # the table cannot be read anyway
                continue
        self._database: Any = sandbox()
        self._database.execute(f"CREATE TABLE t ({', '.join(fields)})")
        # A text such as 'x' is bound as a number, and fails only for a row.
        self._database.execute("INSERT INTO t DEFAULT VALUES")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def check(
        self, policy: Policy, expression: PolicyExpression, shown: str, column: Column | None
    ) -> None:
        """Raise DefinitionError unless an expression is a condition, or a mask of a column."""
        import duckdb

        if "user" in expression.columns - self._names:
            raise DefinitionError(
                f"{policy.where}: {shown} has no column 'user': write user() for the caller"
            )
        sql = expression.sql(_ANY_CALLER)
        try:
            # WHERE takes no aggregates, which would make one row of a table.
            self._database.execute(f"SELECT 1 FROM t WHERE {sql} IS NULL")  # noqa: S608
            (found,) = self._database.sql(f"SELECT {sql} FROM t").types  # noqa: S608
            if column is None:
                wanted = "BOOLEAN"
            else:
                name = duckdb_identifier(column.name)
                masked = self._database.sql(
                    f"SELECT CASE WHEN random() > 2 THEN {name} ELSE {sql} END, {name} FROM t"  # noqa: S608
                )
                found, wanted = masked.types
                masked.fetchall()
        except duckdb.Error as error:
            reason = first_line(error)
            raise DefinitionError(
                f"{policy.where}: {expression.text[:200]!r} is wrong for {shown}: {reason}"
            ) from None
        if str(found) != str(wanted):
            role = "rows" if column is None else f"the mask of {column.name!r}"
            raise DefinitionError(
                f"{policy.where}: {role} of {shown} must be of type {wanted}, not {found}"
            )


def _is_glob(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")
