"""Decode inlined values that a database stores as text or bytes, nested values among them.

DuckDB writes nested values in two grammars. A struct at the top is SQL: quotes are doubled,
backslashes are plain, dates are `CAST('...' AS DATE)`. Inside a list or a map values are display
text: quotes and backslashes are escaped by a backslash, and unambiguous text is not quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import sqlalchemy as sa

from lakeport.arrow import relabel
from lakeport.errors import CorruptLakeError
from lakeport.types import Column, duckdb_cast, with_field_ids

__all__ = ["as_text", "decode", "is_binary", "parse_nested"]

_SQL_STRING: Final = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_TEXT_STRING: Final = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_CAST: Final = re.compile(r"CAST\('((?:[^']|'')*)' AS [A-Z_ ]+\)", re.DOTALL)
_CONCAT_PART: Final = re.compile(r"\s*(?:'((?:[^']|'')*)'|chr\((\d+)\))\s*(,|\))", re.DOTALL)


def parse_nested(values: Iterable[str | None], column: Column) -> pa.Array:
    """Return an array of a nested column, parsed from the text of its values."""
    parsed = [
        None if value is None else _Parser(value, column.name).parse(column) for value in values
    ]
    return duckdb_cast(pa.array(parsed, _text_type(column)), column)


def _text_type(column: Column) -> pa.DataType:
    """Return the type of a column with text at every leaf."""
    if column.type == "struct":
        return pa.struct([pa.field(child.name, _text_type(child)) for child in column.children])
    if column.type == "list":
        return pa.list_(_text_type(column.children[0]))
    if column.type == "map":
        return pa.map_(_text_type(column.children[0]), _text_type(column.children[1]))
    return pa.string()


class _Parser:
    """Parses one value; `self._at` is the position of the next character."""

    def __init__(self, text: str, name: str) -> None:
        self._text, self._name, self._at = text, name, 0

    def parse(self, column: Column) -> Any:
        """Return the value as a tree of lists and dictionaries with text at its leaves."""
        value = self._value(column, sql=column.type == "struct", stops="")
        if self._at != len(self._text):
            raise self._error()
        return value

    def _value(self, column: Column, *, sql: bool, stops: str) -> Any:
        if column.type in ("struct", "list", "map"):
            if self._text.startswith("NULL", self._at):
                self._at += 4
                return None
            if column.type == "struct":
                return self._struct(column, sql=sql)
            return self._list(column) if column.type == "list" else self._map(column)
        return self._sql_leaf(stops) if sql else self._text_leaf(stops)

    def _struct(self, column: Column, *, sql: bool) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._take("{")
        for index, child in enumerate(column.children):
            if index:
                self._take(", ")
            match = (_SQL_STRING if sql else _TEXT_STRING).match(self._text, self._at)
            if match is None:
                raise self._error()
            self._at = match.end()
            self._take(": ")
            members[child.name] = self._value(child, sql=sql, stops=",}")
        self._take("}")
        return members

    def _list(self, column: Column) -> list[Any]:
        elements: list[Any] = []
        self._take("[")
        while not self._taken("]"):
            if elements:
                self._take(", ")
            elements.append(self._value(column.children[0], sql=False, stops=",]"))
        return elements

    def _map(self, column: Column) -> list[tuple[Any, Any]]:
        entries: list[tuple[Any, Any]] = []
        self._take("{")
        while not self._taken("}"):
            if entries:
                self._take(", ")
            key = self._value(column.children[0], sql=False, stops="=")
            self._take("=")
            entries.append((key, self._value(column.children[1], sql=False, stops=",}")))
        return entries

    def _sql_leaf(self, stops: str) -> str | None:
        for pattern in (_SQL_STRING, _CAST):
            match = pattern.match(self._text, self._at)
            if match:
                self._at = match.end()
                return match.group(1).replace("''", "'")
        if self._text.startswith("CONCAT(", self._at):
            return self._concat()
        return self._bare(stops)

    def _concat(self) -> str:
        """Parse text with NUL bytes: `CONCAT('a', chr(0), 'b')`."""
        self._take("CONCAT(")
        parts = []
        while True:
            match = _CONCAT_PART.match(self._text, self._at)
            if match is None:
                raise self._error()
            self._at = match.end()
            quoted, code, closing = match.groups()
            parts.append(chr(int(code)) if code is not None else quoted.replace("''", "'"))
            if closing == ")":
                return "".join(parts)

    def _text_leaf(self, stops: str) -> str | None:
        match = _TEXT_STRING.match(self._text, self._at)
        if match:
            self._at = match.end()
            return re.sub(r"\\(.)", r"\1", match.group(1), flags=re.DOTALL)
        return self._bare(stops)

    def _bare(self, stops: str) -> str | None:
        start = self._at
        while self._at < len(self._text) and self._text[self._at] not in stops:
            self._at += 1
        word = self._text[start : self._at]
        return None if word == "NULL" else word

    def _take(self, expected: str) -> None:
        if not self._taken(expected):
            raise self._error()

    def _taken(self, expected: str) -> bool:
        if self._text.startswith(expected, self._at):
            self._at += len(expected)
            return True
        return False

    def _error(self) -> CorruptLakeError:
        return CorruptLakeError(f"an inlined value of column {self._name!r} cannot be parsed")


_BINARY_TYPES: Final = ("bytea", "blob", "binary")


def as_text(kind: str, column: Any, type: str) -> Any:
    """Return an expression for the text of a column, or for the hexadecimal text of bytes."""
    if is_binary(type):
        hexed = sa.func.encode(column, "hex") if kind == "postgresql" else sa.func.hex(column)
        # SQLite's hex() returns an empty text for NULL.
        return sa.type_coerce(sa.case((column.is_(None), sa.null()), else_=hexed), sa.String())
    if kind == "mysql" and type == "float":
        column = sa.cast(column, sa.Double)  # MySQL would print a float with six digits
    return sa.cast(column, sa.String())


def is_binary(type: str) -> bool:
    """Return whether a database type holds bytes."""
    return any(name in type for name in _BINARY_TYPES)


def decode(values: list[str | None], column: Column, *, is_hex: bool) -> pa.Array:
    """Return an array of a column from the texts of its values."""
    if is_hex:
        raw = pa.array([None if v is None else bytes.fromhex(v) for v in values], pa.binary())
        if column.type in ("blob", "geometry"):
            return raw
        texts = raw.cast(pa.string())
    elif column.type in ("struct", "list", "map"):
        typed = parse_nested(values, column)
        return relabel(typed, with_field_ids(column).type)
    elif column.type == "interval":
        # PostgreSQL writes a plus sign where the sign changes, which DuckDB cannot parse.
        texts = pa.array([None if v is None else v.replace("+", "") for v in values], pa.string())
    else:
        texts = pa.array(values, pa.string())
    if column.type == "varchar":
        return texts
    return duckdb_cast(texts, column)
