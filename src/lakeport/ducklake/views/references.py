"""The tables and views that a view reads, and the functions that it may use in FROM.

A view's SQL is untrusted. DuckDB's own parser reads it, so that this module finds the same tables
as the database that runs the view.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Final

from lakeport.arrow import thread_connection
from lakeport.ducklake.model import Macro, View
from lakeport.errors import UnsupportedError
from lakeport.filters import SqlSyntaxError, parse_sql
from lakeport.types import fold_name

if TYPE_CHECKING:
    from lakeport.ducklake.metadata.contents import LakeContents, TableSummary

__all__ = [
    "CATALOG",
    "DEFAULT_SCHEMA",
    "TableKey",
    "check_view_text",
    "reads_of",
    "referenced_tables",
    "table_key",
    "used_macros",
]

TableKey = tuple[str, str]
"""Schema and name of a table or view, in lower case."""

DEFAULT_SCHEMA: Final = "main"

CATALOG: Final = "{lake}"
"""The catalog in qualified names of the lake itself; no real catalog has this name."""

MAX_LENGTH: Final = 100_000

# Others read files, settings or memory of the process, or run text as SQL.
_TABLE_FUNCTIONS: Final = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}
)
_SOURCES: Final = frozenset(
    {"BASE_TABLE", "TABLE_FUNCTION", "SHOW_REF", "COLUMN_DATA", "BOUND_TABLE_REF", "DELIM_GET"}
)


def table_key(schema: str, name: str) -> TableKey:
    """Return the key of a table or view: names are case-insensitive."""
    return fold_name(schema), fold_name(name)


def check_view_text(view: View) -> None:
    """Raise `UnsupportedError` for a view in another dialect, or with a text that is too long."""
    if view.dialect.lower() != "duckdb":
        raise UnsupportedError(f"the view is written in {view.dialect!r}, not in DuckDB's SQL")
    if len(view.sql) > MAX_LENGTH:
        raise UnsupportedError(f"the view's SQL is longer than {MAX_LENGTH} characters")


def referenced_tables(view: View, known: AbstractSet[TableKey]) -> set[TableKey]:
    """Return the tables and views that a view names.

    Raises:
        UnsupportedError: Its SQL cannot be parsed, names an unknown table, or uses a function in
            FROM that views must not use.
    """
    check_view_text(view)
    found: set[TableKey] = set()
    try:
        tree = _parse(view.select(CATALOG))
        for text in (tree, *map(_macro_trees, _used(view, tree))):
            for node, queries in _table_nodes(text, frozenset()):
                kind = node["type"]
                if kind == "TABLE_FUNCTION":
                    _check_function(view, node)
                elif kind != "BASE_TABLE":
                    raise UnsupportedError("the view reads something that is no table")
                elif node["schema_name"] or fold_name(node["table_name"]) not in queries:
                    found.add(_resolve(view, node, known))
    except RecursionError:
        raise UnsupportedError("the view's SQL is nested too deeply") from None
    return found


def used_macros(view: View) -> list[Macro]:
    """Return the macros of the lake that a view uses, also in other macros."""
    return _used(view, _parse(view.select(CATALOG))) if view.macros else []


def _used(view: View, tree: Any) -> list[Macro]:
    used: list[Macro] = []
    waiting = [tree] if view.macros else []
    while waiting:
        for node in _function_nodes(waiting.pop()):
            macro = _macro(view, node)
            if macro is not None and macro not in used:
                used.append(macro)
                waiting.append(_macro_trees(macro))
    return used


def _macro(view: View, node: dict[str, Any]) -> Macro | None:
    """Return the macro that a call names, if it is one: of the view's schema, then of `main`."""
    schema, name = node.get("schema") or "", fold_name(node["function_name"])
    named = [macro for macro in view.macros if fold_name(macro.name) == name]
    qualified = [fold_name(schema)] if schema and schema != CATALOG else None
    for wanted in qualified or [fold_name(view.schema), DEFAULT_SCHEMA]:
        for macro in named:
            if fold_name(macro.schema) == wanted:
                return macro
    return None


def _macro_trees(macro: Macro) -> list[Any]:
    return [
        _parse(each.sql if each.is_table else f"SELECT {each.sql}") for each in macro.definitions
    ]


def _function_nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the calls of functions, in expressions and in FROM."""
    if isinstance(tree, list):
        for item in tree:
            yield from _function_nodes(item)
    elif isinstance(tree, dict):
        if tree.get("function_name"):
            yield tree
        for value in tree.values():
            yield from _function_nodes(value)


def reads_of(view: View, contents: LakeContents) -> dict[TableKey, TableSummary | View]:
    """Return the view and all that it reads, also through other views, in order of dependency."""
    everything: list[TableSummary | View] = [*contents.tables, *contents.views]
    objects = {table_key(found.schema, found.name): found for found in everything}
    ordered: dict[TableKey, TableSummary | View] = {}
    waiting: list[TableKey] = []

    def add(found: TableSummary | View) -> None:
        key = table_key(found.schema, found.name)
        if key in ordered:
            return
        if key in waiting:
            raise UnsupportedError("views that read each other have no columns")
        waiting.append(key)
        if isinstance(found, View):
            for read in sorted(referenced_tables(found, objects.keys())):
                add(objects[read])
        ordered[waiting.pop()] = found

    add(view)
    return ordered


def _parse(text: str) -> Any:
    try:
        statements = parse_sql(thread_connection(), text)
    except SqlSyntaxError as error:
        raise UnsupportedError(f"the view's SQL cannot be parsed: {error}") from None
    except RecursionError:
        raise UnsupportedError("the view's SQL is nested too deeply") from None
    if len(statements) != 1:
        raise UnsupportedError("the view is not one SELECT")
    return statements[0]


def _table_nodes(
    tree: Any, queries: frozenset[str]
) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield what a query reads, each with the names of the WITH queries that are visible there."""
    if isinstance(tree, list):
        for item in tree:
            yield from _table_nodes(item, queries)
    if not isinstance(tree, dict):
        return
    # Types of values are objects; types of nodes are names.
    if isinstance(tree.get("type"), str) and tree["type"] in _SOURCES:
        yield tree, queries
    if tree.get("cte_name"):
        # A recursive query reads itself by its name.
        queries |= {fold_name(tree["cte_name"])}
    for entry in (tree.get("cte_map") or {}).get("map", ()):
        yield from _table_nodes(entry["value"], queries)
        queries |= {fold_name(entry["key"])}
    for key, value in tree.items():
        if key != "cte_map":
            yield from _table_nodes(value, queries)


def _check_function(view: View, node: dict[str, Any]) -> None:
    name = str(node["function"].get("function_name", "")).lower()
    if name not in _TABLE_FUNCTIONS and (not name or _macro(view, node["function"]) is None):
        raise UnsupportedError(f"the function {name} cannot be used in FROM of a view")


def _resolve(view: View, node: dict[str, Any], known: AbstractSet[TableKey]) -> TableKey:
    """Resolve a name: in the schema of the view, then in the default schema."""
    if node.get("at_clause"):
        raise UnsupportedError(
            "AT in a view is not supported: a view reads every table at the query's snapshot"
        )
    catalog, schema, name = node["catalog_name"], node["schema_name"], node["table_name"]
    if not catalog and schema == CATALOG:
        catalog, schema = CATALOG, DEFAULT_SCHEMA
    if catalog in ("", CATALOG):
        for candidate in [schema] if schema else [view.schema, DEFAULT_SCHEMA]:
            if table_key(candidate, name) in known:
                return table_key(candidate, name)
    shown = ".".join(part for part in (catalog, schema, name) if part and part != CATALOG)
    raise UnsupportedError(f"the view reads {shown}, which is not there")
