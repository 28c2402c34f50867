"""Parse CREATE, ALTER, DROP and COMMENT ON."""

from __future__ import annotations

from typing import Final, Literal

from lakeport.spark.sql.statements.dml import object_name
from lakeport.spark.sql.statements.model import (
    AddColumn,
    Alteration,
    Change,
    ColumnText,
    CommentOn,
    CommentOnColumn,
    CreateSchema,
    CreateTable,
    CreateView,
    Drop,
    DropColumn,
    ObjectName,
    Query,
    RenameColumn,
    RenameTo,
    SetDefault,
    SetKeys,
    SetNullable,
    SetType,
)
from lakeport.spark.sql.statements.tokens import TokenReader

__all__ = ["parse_alter", "parse_comment", "parse_create", "parse_drop"]

# What may follow the type of a column.
_AFTER_TYPE: Final = (
    ",", ")", "NOT", "NULL", "DEFAULT", "COMMENT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES",
    "GENERATED", "COLLATE", "CONSTRAINT", "FIRST", "AFTER", "AS",
)  # fmt: skip
_CONSTRAINTS: Final = (
    "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "GENERATED", "COLLATE", "CONSTRAINT", "AS",
    "FOREIGN",
)  # fmt: skip
_KEYS: Final[tuple[Literal["PARTITIONED", "SORTED"], ...]] = ("PARTITIONED", "SORTED")
_IN_LAKE: Final = "a lake has not null and defaults only"


def parse_create(reader: TokenReader) -> CreateSchema | CreateTable | CreateView:
    """Parse what follows CREATE."""
    or_replace = reader.accept("OR", "REPLACE")
    for word in ("TEMPORARY", "TEMP", "GLOBAL"):
        reader.refuse(word, hint="create it in the session with spark.sql")
    kind = reader.accept_any("SCHEMA", "TABLE", "VIEW")
    if kind is None:
        raise reader.unknown_part("SCHEMA, TABLE or VIEW")
    reader.what = f"CREATE {kind}"
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if or_replace and if_not_exists:
        reader.unsupported("OR REPLACE with IF NOT EXISTS", "write one of both")
    if kind == "SCHEMA":
        if or_replace:
            reader.unsupported("OR REPLACE")
        name = object_name(reader)
        if name.schema != "main":
            reader.unsupported(f"the name {name}", "a schema has no schema")
        reader.finish()
        return CreateSchema(name=name.name, if_not_exists=if_not_exists)
    if kind == "VIEW":
        return _view(reader, or_replace=or_replace, if_not_exists=if_not_exists)
    return _table(reader, or_replace=or_replace, if_not_exists=if_not_exists)


def _table(reader: TokenReader, *, or_replace: bool, if_not_exists: bool) -> CreateTable:
    table = object_name(reader)
    columns: list[ColumnText] = []
    if reader.accept("("):
        columns.append(_column(reader))
        while reader.accept(","):
            columns.append(_column(reader))
        reader.expect(")")
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    comment = None
    while not reader.is_at_end and not reader.peek("AS"):
        if reader.accept("USING"):
            if reader.name().lower() != "ducklake":
                reader.unsupported("USING of another format than ducklake")
        elif reader.accept("PARTITIONED", "BY"):
            partition_by = tuple(reader.list())
        elif reader.accept("SORTED", "BY"):
            sort_by = tuple(reader.list())
        elif reader.accept("COMMENT"):
            reader.accept("=")
            comment = reader.string()
        else:
            reader.finish()
    query = Query(reader.rest()) if reader.accept("AS") else None
    if query is not None and columns:
        reader.unsupported("a list of columns with AS", "name the columns in the query")
    if query is None and not columns:
        reader.fail("expected columns in parentheses, or AS and a query")
    return CreateTable(
        table=table,
        columns=tuple(columns),
        partition_by=partition_by,
        sort_by=sort_by,
        comment=comment,
        query=query,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def _column(reader: TokenReader) -> ColumnText:
    """Read a name, a type, and what follows it, up to a comma."""
    for word in ("PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "CONSTRAINT"):
        if reader.peek(word, "KEY") or reader.peek(word, "("):
            reader.unsupported(word, _IN_LAKE)
    reader.refuse("CONSTRAINT", hint=_IN_LAKE)
    path = reader.path()
    type = reader.type(*_AFTER_TYPE)
    default, nullable, comment = None, True, None
    while not reader.is_at_end and not (reader.peek(",") or reader.peek(")")):
        if reader.accept("NOT", "NULL"):
            nullable = False
        elif reader.accept("NULL"):
            pass
        elif reader.accept("DEFAULT"):
            default = reader.until(*_AFTER_TYPE)
        elif reader.accept("COMMENT"):
            comment = reader.string()
        else:
            for word in _CONSTRAINTS:
                reader.refuse(word, hint=_IN_LAKE)
            for word in ("FIRST", "AFTER"):
                reader.refuse(word, hint="a new column is the last one")
            reader.finish()
    return ColumnText(path=path, type=type, default=default, nullable=nullable, comment=comment)


def _view(reader: TokenReader, *, or_replace: bool, if_not_exists: bool) -> CreateView:
    view = object_name(reader)
    columns = reader.names() if reader.peek("(") else ()
    comment = reader.string() if reader.accept("COMMENT") else None
    reader.expect("AS")
    return CreateView(
        view=view,
        columns=columns,
        query=reader.rest(),
        comment=comment,
        or_replace=or_replace,
        if_not_exists=if_not_exists,
    )


def parse_drop(reader: TokenReader) -> Drop:
    """Parse what follows DROP."""
    kind: Literal["SCHEMA", "TABLE", "VIEW"]
    if reader.accept("SCHEMA"):
        kind = "SCHEMA"
    elif reader.accept("TABLE"):
        kind = "TABLE"
    elif reader.accept("VIEW"):
        kind = "VIEW"
    else:
        raise reader.unknown_part("SCHEMA, TABLE or VIEW")
    reader.what = f"DROP {kind}"
    if_exists = reader.accept("IF", "EXISTS")
    name = object_name(reader)
    cascade = kind == "SCHEMA" and reader.accept("CASCADE")
    reader.accept("RESTRICT")
    reader.refuse("PURGE", hint="files are deleted when snapshots are expired")
    reader.finish()
    return Drop(kind=kind, name=name, if_exists=if_exists, cascade=cascade)


def parse_comment(reader: TokenReader) -> CommentOn:
    """Parse what follows COMMENT."""
    reader.expect("ON")
    kind: Literal["TABLE", "VIEW", "COLUMN"]
    column: tuple[str, ...] = ()
    if reader.accept("COLUMN"):
        kind = "COLUMN"
        path = reader.path()
        if len(path) < 2:
            reader.fail("write table.column or schema.table.column")
        # `sales.orders.id`, or `orders.id`; a field of a struct is named with the schema.
        split = 1 if len(path) == 2 else 2
        name = ObjectName(*path[:2]) if split == 2 else ObjectName("main", path[0])
        column = path[split:]
    elif reader.accept("VIEW"):
        kind, name = "VIEW", object_name(reader)
    else:
        if not reader.accept("TABLE"):
            raise reader.unknown_part("TABLE, VIEW or COLUMN")
        kind, name = "TABLE", object_name(reader)
    reader.expect("IS")
    comment = None if reader.accept("NULL") else reader.string()
    reader.finish()
    return CommentOn(kind=kind, name=name, column=column, comment=comment)


def parse_alter(reader: TokenReader) -> Alteration:
    """Parse what follows ALTER."""
    kind: Literal["TABLE", "VIEW"] = "VIEW" if reader.accept("VIEW") else "TABLE"
    if kind == "TABLE" and not reader.accept("TABLE"):
        raise reader.unknown_part("TABLE or VIEW")
    reader.what = f"ALTER {kind}"
    if_exists = reader.accept("IF", "EXISTS")
    name = object_name(reader)
    changes: list[Change]
    if reader.accept("RENAME", "TO"):
        path = reader.path()
        if len(path) > 1 and path[:-1] != (name.schema,):
            reader.unsupported(f"RENAME TO {'.'.join(path)}", "a table stays in its schema")
        changes = [RenameTo(path[-1])]
    elif kind == "VIEW":
        reader.fail("expected RENAME TO")
    else:
        changes = _changes(reader)
    reader.finish()
    return Alteration(kind=kind, name=name, changes=tuple(changes), if_exists=if_exists)


def _changes(reader: TokenReader) -> list[Change]:
    if reader.accept("ADD"):
        return _added(reader)
    if reader.accept("DROP"):
        return _dropped(reader)
    if reader.accept("RENAME"):
        reader.accept("COLUMN")
        path = reader.path()
        reader.expect("TO")
        return [RenameColumn(path, reader.name())]
    if reader.accept_any("ALTER", "CHANGE"):
        reader.accept("COLUMN")
        return [_column_change(reader, reader.path())]
    for kind in _KEYS:
        if reader.accept("SET", kind, "BY"):
            return [SetKeys(kind, tuple(reader.list()))]
        if reader.accept("RESET", kind, "BY"):
            return [SetKeys(kind, ())]
    raise reader.unknown_part("ADD, DROP, RENAME, ALTER, SET or RESET")


def _added(reader: TokenReader) -> list[Change]:
    for word in _CONSTRAINTS:
        reader.refuse(word, hint=_IN_LAKE)
    reader.accept_any("COLUMN", "COLUMNS")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    is_list = reader.accept("(")
    found: list[Change] = [AddColumn(column=_column(reader), if_not_exists=if_not_exists)]
    while is_list and reader.accept(","):
        found.append(AddColumn(column=_column(reader), if_not_exists=if_not_exists))
    if is_list:
        reader.expect(")")
    return found


def _dropped(reader: TokenReader) -> list[Change]:
    reader.refuse("CONSTRAINT", hint=_IN_LAKE)
    reader.accept_any("COLUMN", "COLUMNS")
    if_exists = reader.accept("IF", "EXISTS")
    is_list = reader.accept("(")
    found: list[Change] = [DropColumn(path=reader.path(), if_exists=if_exists)]
    while is_list and reader.accept(","):
        found.append(DropColumn(path=reader.path(), if_exists=if_exists))
    if is_list:
        reader.expect(")")
    reader.accept_any("RESTRICT", "CASCADE")
    return found


def _column_change(reader: TokenReader, path: tuple[str, ...]) -> Change:
    if reader.accept("SET", "NOT", "NULL"):
        return SetNullable(path=path, nullable=False)
    if reader.accept("DROP", "NOT", "NULL"):
        return SetNullable(path=path, nullable=True)
    if reader.accept("DROP", "DEFAULT"):
        return SetDefault(path, None)
    if reader.accept("SET", "DEFAULT"):
        return SetDefault(path, reader.rest())
    if reader.accept("COMMENT"):
        return CommentOnColumn(path, reader.string())
    if reader.accept("TYPE") or reader.accept("SET", "DATA", "TYPE"):
        type = reader.type("USING")
        reader.refuse("USING", hint="a type can only be widened")
        return SetType(path, type)
    raise reader.unknown_part("TYPE, SET, DROP or COMMENT")
