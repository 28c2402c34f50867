"""Find schemas, tables, views and macros of the base snapshot by name, in one query."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from lakeport.ducklake.metadata.queries import CatalogReader
from lakeport.ducklake.metadata.rows import (
    MacroImplRow,
    MacroRow,
    SchemaRow,
    TableRow,
    TagRow,
    ViewRow,
)
from lakeport.ducklake.metadata.statements import SNAPSHOT_PARAMETER, name_parameters, same_name
from lakeport.ducklake.metadata.union_query import QueryResult, UnionQuery
from lakeport.ducklake.writing.ddl.definitions import (
    MacroDefinition,
    SchemaDefinition,
    ViewDefinition,
    schema_definition,
)
from lakeport.types import fold_name

__all__ = ["SchemaContents", "find_names", "find_schema_contents"]


@dataclass(frozen=True, slots=True)
class SchemaContents:
    """A schema, and objects in it."""

    schema: SchemaDefinition | None
    tables: tuple[TableRow, ...] = ()
    views: tuple[ViewDefinition, ...] = ()
    macros: tuple[MacroDefinition, ...] = ()


def find_names(
    connection: sa.Connection, catalog: CatalogReader, at: int, schema: str, name: str
) -> SchemaContents:
    """Return a schema with the objects in it that have a name."""
    rows = catalog.run(
        connection,
        "ddl_names",
        lambda: _query(catalog, with_name=True),
        at=at,
        **name_parameters(schema, name),
    )
    return _contents(rows, schema, name)


def find_schema_contents(
    connection: sa.Connection, catalog: CatalogReader, at: int, schema: str
) -> SchemaContents:
    """Return a schema with everything in it."""
    parameters = {"schema": schema, "schema_lower": fold_name(schema)}
    rows = catalog.run(
        connection, "ddl_schema", lambda: _query(catalog, with_name=False), at=at, **parameters
    )
    return _contents(rows, schema, None)


def _query(catalog: CatalogReader, *, with_name: bool) -> UnionQuery:
    t, at = catalog.tables, SNAPSHOT_PARAMETER
    query = UnionQuery()
    schema = t[SchemaRow]
    wanted = sa.and_(same_name(t, schema.c.schema_name, "schema"), t.visible(schema, at))
    query.add(SchemaRow, schema, wanted)
    ids = sa.select(schema.c.schema_id).where(wanted)
    for row in (TableRow, ViewRow, MacroRow):
        source = t[row]
        conditions = [source.c.schema_id.in_(ids), t.visible(source, at)]
        if with_name:
            conditions.append(same_name(t, source.c[f"{row.branch}_name"], "name"))
        query.add(row, source, *conditions)
    view, tag, macro, impl = t[ViewRow], t[TagRow], t[MacroRow], t[MacroImplRow]
    views = sa.select(view.c.view_id).where(view.c.schema_id.in_(ids), t.visible(view, at))
    query.add(TagRow, tag, tag.c.object_id.in_(views), t.visible(tag, at))
    macros = sa.select(macro.c.macro_id).where(macro.c.schema_id.in_(ids), t.visible(macro, at))
    query.add(MacroImplRow, impl, impl.c.macro_id.in_(macros))
    return query


def _contents(rows: QueryResult, schema: str, name: str | None) -> SchemaContents:
    """Return what has exactly these names: a database may fold more than the ASCII case."""
    schemas = [r for r in rows[SchemaRow] if fold_name(r.schema_name) == fold_name(schema)]
    if not schemas:
        return SchemaContents(None)
    own = schema_definition(min(schemas, key=lambda row: row.schema_id))

    def is_meant(schema_id: int, found: str) -> bool:
        return schema_id == own.id and (name is None or fold_name(found) == fold_name(name))

    types = {row.macro_id: row.type for row in rows[MacroImplRow]}
    return SchemaContents(
        own,
        tuple(r for r in rows[TableRow] if is_meant(r.schema_id, r.table_name)),
        tuple(
            ViewDefinition(
                id=row.view_id,
                uuid=row.view_uuid or "",
                schema=own,
                name=row.view_name,
                sql=row.sql,
                dialect=row.dialect or "duckdb",
                column_aliases=row.column_aliases or "",
                tags={t.key: t.value for t in rows[TagRow] if t.object_id == row.view_id},
            )
            for row in rows[ViewRow]
            if is_meant(row.schema_id, row.view_name)
        ),
        tuple(
            MacroDefinition(
                id=row.macro_id,
                schema=own,
                name=row.macro_name,
                type=types.get(row.macro_id, "scalar"),
            )
            for row in rows[MacroRow]
            if is_meant(row.schema_id, row.macro_name)
        ),
    )
