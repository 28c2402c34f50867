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
    SetProperties,
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
_COLUMN_PARTS: Final = ("TYPE", "SET", "DROP", "COMMENT")
_IN_LAKE: Final = "a lake has not null and defaults only"


def parse_create(reader: TokenReader) -> CreateSchema | CreateTable | CreateView:
    """Parse what follows CREATE."""
    or_replace = reader.accept("OR", "REPLACE")
    for word in ("TEMPORARY", "TEMP", "GLOBAL"):
        reader.refuse(word, hint="create it in the session with spark.sql")
    reader.refuse("EXTERNAL", hint="write CREATE TABLE: a lake has its own files")
    kind = _kind(reader)
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


def _kind(reader: TokenReader) -> Literal["SCHEMA", "TABLE", "VIEW"] | None:
    """Read what a statement defines or drops; Spark calls a schema namespace or database."""
    if reader.accept_any("SCHEMA", "NAMESPACE", "DATABASE"):
        return "SCHEMA"
    if reader.accept("TABLE"):
        return "TABLE"
    return "VIEW" if reader.accept("VIEW") else None


def _table(reader: TokenReader, *, or_replace: bool, if_not_exists: bool) -> CreateTable:
    table = object_name(reader)
    columns: list[ColumnText] = []
    like = object_name(reader) if reader.accept("LIKE") else None
    if like is None and reader.accept("("):
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
                reader.unsupported("USING of another format", "write USING ducklake")
        elif reader.accept("PARTITIONED", "BY"):
            partition_by = tuple(reader.list())
        elif reader.accept("SORTED", "BY"):
            sort_by = tuple(reader.list())
        elif reader.accept("COMMENT"):
            reader.accept("=")
            comment = reader.string()
        else:
            reader.refuse("TBLPROPERTIES", hint="write ALTER TABLE … SET TBLPROPERTIES afterwards")
            reader.finish()
    query = Query(reader.rest()) if reader.accept("AS") else None
    if query is not None and like is not None:
        reader.unsupported("LIKE with AS", "write one of both")
    if query is not None and columns:
        reader.unsupported("a list of columns with AS", "name the columns in the query")
    if query is None and like is None and not columns:
        reader.fail("expected columns in parentheses, LIKE and a table, or AS and a query")
    return CreateTable(
        table=table,
        columns=tuple(columns),
        like=like,
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
            default = None if reader.accept("NULL") else reader.until(*_AFTER_TYPE)
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
    kind = _kind(reader)
    if kind is None:
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


def parse_alter(reader: TokenReader) -> Alteration | CreateView:
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
    elif kind == "VIEW" and reader.accept("AS"):
        return CreateView(
            view=name,
            columns=(),
            query=reader.rest(),
            comment=None,
            or_replace=True,
            if_not_exists=False,
            must_exist=not if_exists,
        )
    elif kind == "VIEW":
        reader.fail("expected RENAME TO, or AS and a query")
    else:
        changes = _changes(reader)
    reader.finish()
    return Alteration(kind=kind, name=name, changes=tuple(changes), if_exists=if_exists)


def _changes(reader: TokenReader) -> list[Change]:
    word = reader.accept_any("ADD", "DROP")
    if word is not None:
        for more in ("(", "FIELD"):
            if reader.peek("PARTITION", more):
                reader.unsupported(f"{word} PARTITION", "write SET PARTITIONED BY (keys)")
        return _added(reader) if word == "ADD" else _dropped(reader)
    if reader.accept("RENAME"):
        reader.accept("COLUMN")
        path = reader.path()
        reader.expect("TO")
        return [RenameColumn(path, reader.name())]
    word = reader.accept_any("ALTER", "CHANGE")
    if word is not None:
        reader.accept("COLUMN")
        path = reader.path()
        if word == "CHANGE" and not any(reader.peek(part) for part in _COLUMN_PARTS):
            return _redefined(reader, path)
        return [_column_change(reader, path)]
    if reader.accept("SET", "TBLPROPERTIES"):
        return [_properties(reader)]
    reader.refuse("UNSET", hint="set the option to another value with SET TBLPROPERTIES")
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


def _redefined(reader: TokenReader, path: tuple[str, ...]) -> list[Change]:
    """Read the new name, type and comment of a column, as Hive writes them."""
    column = _column(reader)
    if len(column.path) > 1 or column.default is not None or not column.nullable:
        reader.unsupported("CHANGE COLUMN with this definition", "write ALTER COLUMN")
    renamed = (*path[:-1], column.path[0])
    found: list[Change] = []
    if renamed != path:
        found.append(RenameColumn(path, column.path[0]))
    found.append(SetType(renamed, column.type))
    if column.comment is not None:
        found.append(CommentOnColumn(renamed, column.comment))
    return found


def _properties(reader: TokenReader) -> SetProperties:
    """Read `('parquet_compression' = 'zstd', …)`."""
    reader.expect("(")
    found: list[tuple[str, str]] = []
    while not found or reader.accept(","):
        token = reader.next
        name = reader.string() if token is not None and token.kind == "string" else reader.name()
        reader.expect("=")
        token = reader.next
        is_string = token is not None and token.kind == "string"
        found.append((name, reader.string() if is_string else reader.until(",", ")")))
    reader.expect(")")
    return SetProperties(tuple(found))


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
