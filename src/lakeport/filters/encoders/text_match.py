"""Predicates on text in one form: a pattern of pieces.

DuckDB turns LIKE into ``prefix``, ``suffix``, ``contains``, ``~~`` or ``like_escape``. Here all of
them become a sequence of literal text, ``ANY`` (any text) and ``ONE`` (any one character).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Literal

from lakeport.filters.expressions import Constant, Expression, FunctionCall, type_of

__all__ = ["Piece", "SimpleMatch", "TextMatch", "Wildcard", "text_match"]


class Wildcard(enum.Enum):
    """The two wildcards of LIKE."""

    ANY = "%"
    ONE = "_"


Piece = str | Wildcard


@dataclass(frozen=True, slots=True)
class SimpleMatch:
    """A pattern without wildcards: the text begins with, ends with, contains or equals another."""

    kind: Literal["equals", "prefix", "suffix", "contains"]
    text: str


@dataclass(frozen=True, slots=True)
class TextMatch:
    """Whether ``subject`` matches ``pieces``, or does not if ``negated``."""

    subject: Expression
    pieces: tuple[Piece, ...]
    negated: bool = False

    def simple(self) -> SimpleMatch | None:
        """Return the same match without wildcards, if there is one."""
        match self.pieces:
            case ():
                return SimpleMatch("equals", "")
            case (str(text),):
                return SimpleMatch("equals", text)
            case (Wildcard.ANY,):
                return SimpleMatch("prefix", "")
            case (str(text), Wildcard.ANY):
                return SimpleMatch("prefix", text)
            case (Wildcard.ANY, str(text)):
                return SimpleMatch("suffix", text)
            case (Wildcard.ANY, str(text), Wildcard.ANY):
                return SimpleMatch("contains", text)
            case _:
                return None

    def like(self, escape: str) -> str:
        """Return the pattern of LIKE, with this escape character."""
        special = {"%", "_", escape}
        return "".join(
            piece.value
            if isinstance(piece, Wildcard)
            else "".join(escape + c if c in special else c for c in piece)
            for piece in self.pieces
        )


def text_match(call: FunctionCall) -> TextMatch | None:
    """Return the match of a call, ``None`` if it is none or its pattern is not a constant."""
    name = call.name.lower()
    if not call.is_builtin or name not in _ARITY or len(call.arguments) != _ARITY[name]:
        return None
    subject, *rest = call.arguments
    patterns = [_text(argument) for argument in rest]
    if type_of(subject).id != "VARCHAR" or None in patterns:
        return None
    pieces = _pieces(name, [pattern or "" for pattern in patterns])
    return None if pieces is None else TextMatch(subject, pieces, negated=name in _NEGATED)


_ARITY: Final = {
    **dict.fromkeys(("prefix", "starts_with", "^@", "suffix", "ends_with", "contains"), 2),
    **dict.fromkeys(("~~", "!~~"), 2),
    **dict.fromkeys(("like_escape", "not_like_escape"), 3),
}
_NEGATED: Final = frozenset({"!~~", "not_like_escape"})


def _text(expression: Expression) -> str | None:
    if isinstance(expression, Constant) and expression.type.id == "VARCHAR":
        return expression.value if isinstance(expression.value, str) else None
    return None


def _pieces(name: str, patterns: list[str]) -> tuple[Piece, ...] | None:
    literal = (patterns[0],) if patterns[0] else ()
    match name:
        case "prefix" | "starts_with" | "^@":
            return (*literal, Wildcard.ANY)
        case "suffix" | "ends_with":
            return (Wildcard.ANY, *literal)
        case "contains":
            return (Wildcard.ANY, *literal, Wildcard.ANY) if literal else (Wildcard.ANY,)
        case "~~" | "!~~":
            return _parse(patterns[0], "")
        case _:
            return _parse(patterns[0], patterns[1]) if len(patterns[1]) <= 1 else None


def _parse(pattern: str, escape: str) -> tuple[Piece, ...] | None:
    pieces: list[Piece] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                return None
            _append(pieces, literal)
        elif character == "%":
            if pieces[-1:] != [Wildcard.ANY]:
                pieces.append(Wildcard.ANY)
        elif character == "_":
            pieces.append(Wildcard.ONE)
        else:
            _append(pieces, character)
    return tuple(pieces)


def _append(pieces: list[Piece], character: str) -> None:
    if pieces and isinstance(pieces[-1], str):
        pieces[-1] += character
    else:
        pieces.append(character)
