"""Translate the SQL of a lake's view from DuckDB's dialect to Spark's, or refuse it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from sqlglot import ErrorLevel, errors, exp
from sqlglot.optimizer.scope import Scope, traverse_scope

from lakeport.ducklake import View
from lakeport.ducklake.views import CATALOG, DEFAULT_SCHEMA, TableKey, table_key, used_macros
from lakeport.errors import UnsupportedError, first_line
from lakeport.spark.sql.views.rules import check_supported, rewrite_for_spark
from lakeport.spark.sql.views.syntax import parse_view
from lakeport.types import TYPES, Column, find_type, fold_name

__all__ = ["translate"]

# In Spark they are text, numbers or structs that compare and compute differently.
_OPAQUE: Final = frozenset(row.name for row in TYPES if not row.computable_in_spark)


def translate(
    view: View,
    names: Mapping[TableKey, str],
    *,
    columns: Sequence[str] = (),
    inputs: Sequence[Column] = (),
) -> str:
    """Return the view as a SELECT of Spark; raise `UnsupportedError` if there is none.

    Args:
        view: The view.
        names: The names of the lake's tables and views in Spark, by `table_key`.
        columns: The names of the view's columns in DuckDB.
        inputs: The columns of everything that the view reads. Some have no type of their own in
            Spark: a view may select them, but not compute with them.
    """
    if macros := used_macros(view):
        raise UnsupportedError(f"the view uses the macro {macros[0].name}")
    tree = parse_view(view)
    check_supported(tree)
    _use_types(tree, inputs)
    tree = _with_names(tree, view.column_aliases or columns)
    _rename_conflicting_ctes(tree, {fold_name(name) for name in names.values()})
    _rename_tables(view, tree, names)
    try:
        return rewrite_for_spark(tree).sql(
            "spark", identify=True, unsupported_level=ErrorLevel.RAISE
        )
    except errors.SqlglotError as error:
        reason = first_line(error).rstrip(".")
        raise UnsupportedError(f"the view has no translation: {reason}") from None
    except RecursionError:
        raise UnsupportedError("the view's SQL is nested too deeply") from None


def _tables(tree: exp.Query) -> Iterator[tuple[Scope, exp.Table]]:
    """Yield the tables of every FROM that are not queries of a WITH."""
    for scope, node, source in _sources(tree):
        if isinstance(source, exp.Table) and isinstance(node, exp.Table):
            yield scope, node


def _sources(tree: exp.Query) -> list[tuple[Scope, exp.Expr, exp.Table | Scope]]:
    try:
        return [
            (scope, node, source)
            for scope in traverse_scope(tree)
            for node, source in scope.selected_sources.values()
        ]
    except errors.SqlglotError as error:
        reason = first_line(error).rstrip(".")
        raise UnsupportedError(f"the view's tables are ambiguous: {reason}") from None


def _resolve(view: View, table: exp.Table, known: AbstractSet[TableKey]) -> TableKey:
    """Resolve a name: in the schema of the view, then in the default schema."""
    if not isinstance(table.this, exp.Identifier):
        raise UnsupportedError("a function in FROM has no translation")
    catalog, schema, name = table.catalog, table.db, table.name
    if not catalog and schema == CATALOG:
        catalog, schema = CATALOG, DEFAULT_SCHEMA
    if catalog in ("", CATALOG):
        schemas = [schema] if schema else [view.schema, DEFAULT_SCHEMA]
        for candidate in schemas:
            if table_key(candidate, name) in known:
                return table_key(candidate, name)
    shown = ".".join(part for part in (catalog, schema, name) if part and part != CATALOG)
    raise UnsupportedError(f"the view reads {shown}, which is not there")


def _rename_tables(view: View, tree: exp.Query, names: Mapping[TableKey, str]) -> None:
    """Give tables their names in Spark; their old names stay the qualifiers of columns."""
    for scope, table in list(_tables(tree)):
        name = names[_resolve(view, table, names.keys())]
        _drop_qualifiers(scope, table)
        alias = table.alias or table.name
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", None)
        table.set("catalog", None)
        if not table.args.get("alias"):
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _drop_qualifiers(scope: Scope, table: exp.Table) -> None:
    """Write `schema.table.column` and `catalog.schema.table.column` as `table.column`."""
    for column in scope.expression.find_all(exp.Column):
        same_table = _same(column.text("table"), table.name)
        if (
            same_table
            and column.text("db")
            and _same(column.text("db"), table.db or DEFAULT_SCHEMA)
        ):
            column.set("db", None)
            column.set("catalog", None)


def _rename_conflicting_ctes(tree: exp.Query, taken: AbstractSet[str]) -> None:
    """Rename queries of a WITH that have the name of a table in Spark."""
    renamed: dict[int, str] = {}
    for _, node, source in _sources(tree):
        if not (isinstance(source, Scope) and source.is_cte and isinstance(node, exp.Table)):
            continue
        query = source.expression.parent
        if not isinstance(query, exp.CTE):
            continue
        if id(query) not in renamed and fold_name(query.alias) not in taken:
            continue
        fresh = renamed.setdefault(id(query), f"{query.alias}__{len(renamed)}")
        alias = node.alias or node.name
        node.set("this", exp.to_identifier(fresh, quoted=True))
        if not node.args.get("alias"):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    for query in list(tree.find_all(exp.CTE)):
        if id(query) in renamed:
            query.args["alias"].set("this", exp.to_identifier(renamed[id(query)], quoted=True))


def _with_names(tree: exp.Query, columns: Sequence[str]) -> exp.Query:
    """Give every column of the result its name in DuckDB."""
    first: exp.Expr = tree
    while not isinstance(first, exp.Select):
        first = first.this
    projections = first.expressions
    # The columns behind a star may be in another order in Spark; their names are the same.
    if len(projections) != len(columns) or any(node.is_star for node in projections):
        return tree
    for node, name in zip(projections, columns, strict=True):
        if not isinstance(node, exp.Alias | exp.Column):
            node.replace(exp.Alias(this=node.copy(), alias=exp.to_identifier(name, quoted=True)))
    written = [fold_name(node.alias_or_name) for node in first.expressions]
    if written == [fold_name(name) for name in columns]:
        return tree
    # Other clauses of the query may use its aliases, so the names are set outside.
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    alias = exp.TableAlias(this=exp.to_identifier("named", quoted=True), columns=names)
    return exp.select("*").from_(exp.Subquery(this=tree, alias=alias))


def _use_types(tree: exp.Query, inputs: Sequence[Column]) -> None:
    """Refuse to compute with opaque columns; set the types of columns with an unambiguous name."""
    opaque = {fold_name(column.name) for column in inputs if _is_opaque(column)}
    types: dict[str, set[str]] = {}
    for column in inputs:
        types.setdefault(fold_name(column.name), set()).add(column.type)
    sources = {fold_name(node.alias_or_name) for node in tree.find_all(exp.Table, exp.Subquery)}
    for node in tree.find_all(exp.Column):
        *qualifiers, last = (fold_name(part.name) for part in node.parts)
        fields_of = [name for name in qualifiers if name not in sources]
        if opaque & {last, *fields_of} and not _is_plain_projection(node):
            raise UnsupportedError(
                f"Spark has no type for the column {node.name!r} to compute with"
            )
        known = {_sql_type(type) for type in types.get(last, ())}
        if len(known) == 1 and None not in known and not fields_of:
            node.type = exp.DataType.build(str(known.pop()))


_SAME_TEXT: Final = {"DATE": "date", "TIMESTAMP": "timestamp_ntz", "VARCHAR": "text"}


def _sql_type(type_text: str) -> str | None:
    """Return the type of a scalar column for SQLGlot; integers are as wide as sums."""
    row = find_type(type_text)
    if row is None:
        return None
    if row.spark_suffix is not None:
        return "bigint"
    if row.is_floating or row.family == "boolean":
        return row.spark.lower()
    return "decimal" if row.id == "DECIMAL" else _SAME_TEXT.get(row.id)


def _is_opaque(column: Column) -> bool:
    return any(node.type in _OPAQUE for node in column.walk())


def _is_plain_projection(column: exp.Column) -> bool:
    projection = column.parent if isinstance(column.parent, exp.Alias) else column
    return isinstance(projection.parent, exp.Select) and projection.arg_key == "expressions"


def _same(left: str, right: str) -> bool:
    return fold_name(left) == fold_name(right)
