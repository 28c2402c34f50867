"""`TokenReader`: the text of a statement as tokens of sqlglot, read from left to right.

Names may be quoted with double quotes, as in DuckDB, or with backticks, as in Spark. Conditions,
expressions and queries are not parsed here: the reader returns their text as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeAlias

from sqlglot import TokenType, errors, tokenize
from sqlglot.dialects import DuckDB

from lakeport.errors import InvalidInputError, UnsupportedError, first_line

__all__ = ["Token", "TokenReader", "tokens_of"]

Kind: TypeAlias = Literal["word", "name", "string", "number", "other"]

_WORD: Final = re.compile(r"[^\W\d]\w*")
_NESTING: Final = {"(": 1, "[": 1, "{": 1, "CASE": 1, ")": -1, "]": -1, "}": -1, "END": -1}


class LakeStatements(DuckDB):  # type: ignore[misc]
    """DuckDB's SQL in which backticks quote names as well."""

    class Tokenizer(DuckDB.Tokenizer):  # type: ignore[misc]
        """The tokens of DuckDB, and names in backticks."""

        IDENTIFIERS = ['"', "`"]  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a quoted name, a text, a number or a sign, and where it is."""

    kind: Kind
    text: str
    """A word as it is written, a quoted name or a text without its quotes."""
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether it may be the name of something."""
        return self.kind in ("word", "name")

    @property
    def keyword(self) -> str:
        """The word or sign in capitals; nothing for names and texts in quotes."""
        return self.text.upper() if self.kind in ("word", "other") else ""


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text."""
    try:
        try:
            found = LakeStatements().tokenize(text)
        except errors.TokenError:
            # A text of Spark may have a quote after a backslash.
            found = tokenize(text, read="spark")
    except errors.SqlglotError as error:
        raise InvalidInputError(f"the statement cannot be parsed: {first_line(error)}") from None
    tokens: list[Token] = []
    for token in found:
        start, end = int(token.start), int(token.end) + 1
        if token.token_type == TokenType.IDENTIFIER:
            tokens.append(Token("name", token.text, start, end))
        elif token.token_type == TokenType.STRING:
            tokens.append(Token("string", token.text, start, end))
        elif token.token_type == TokenType.NUMBER:
            tokens.append(Token("number", token.text, start, end))
        else:
            tokens.extend(_words(text, start, end))
    return tokens


def _words(text: str, start: int, end: int) -> Iterator[Token]:
    """Yield the words of one token: sqlglot makes one of PRIMARY KEY."""
    written = text[start:end]
    if not _WORD.match(written):
        yield Token("other", written, start, end)
        return
    for word in _WORD.finditer(written):
        yield Token("word", word.group(), start + word.start(), start + word.end())


class TokenReader:
    """Reads one statement."""

    def __init__(self, text: str) -> None:
        tokens = tokens_of(text)
        while tokens and tokens[-1].text == ";" and tokens[-1].kind == "other":
            tokens.pop()
        if any(token.kind == "other" and token.text == ";" for token in tokens):
            raise InvalidInputError("the text has more than one statement: run one at a time")
        if not tokens:
            raise InvalidInputError("the text has no statement")
        self.text = text
        self._tokens = tokens
        self._position = 0
        self.what = tokens[0].keyword
        """The statement, as errors name it."""

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        return self._position >= len(self._tokens)

    @property
    def next(self) -> Token | None:
        """The next token; None at the end."""
        return None if self.is_at_end else self._tokens[self._position]

    def peek(self, *keywords: str, offset: int = 0) -> bool:
        """Return whether the next tokens are these keywords or signs."""
        at = self._position + offset
        found = self._tokens[at : at + len(keywords)]
        return [token.keyword for token in found] == list(keywords)

    def accept(self, *keywords: str) -> bool:
        """Read keywords if they come next; return whether they did."""
        if not self.peek(*keywords):
            return False
        self._position += len(keywords)
        return True

    def accept_any(self, *keywords: str) -> str | None:
        """Read one of several keywords if it comes next, and return it."""
        return next((keyword for keyword in keywords if self.accept(keyword)), None)

    def expect(self, *keywords: str) -> None:
        """Read keywords that must come next."""
        if not self.accept(*keywords):
            self.fail(f"expected {' '.join(keywords)}")

    def name(self) -> str:
        """Read the name of something."""
        token = self.next
        if token is None or not token.is_name:
            self.fail("expected a name")
        self._position += 1
        return token.text

    def path(self) -> tuple[str, ...]:
        """Read names with dots between them."""
        names = [self.name()]
        while self.accept("."):
            names.append(self.name())
        return tuple(names)

    def alias(self, *ends: str) -> str | None:
        """Read the alias of a table, unless one of the keywords comes next."""
        if self.accept("AS"):
            return self.name()
        token = self.next
        if token is None or not token.is_name or token.keyword in ends:
            return None
        return self.name()

    def string(self) -> str:
        """Read a text."""
        token = self.next
        if token is None or token.kind != "string":
            self.fail("expected a text in single quotes")
        self._position += 1
        return token.text

    def type(self, *ends: str) -> str:
        """Read a type, which may have other types between angle brackets; return its text."""
        return self._read_until(ends, {"<": 1, ">": -1, ">>": -2, **_NESTING})

    def until(self, *ends: str) -> str:
        """Read everything before a keyword outside parentheses and CASE; return its text."""
        return self._read_until(ends, _NESTING)

    def _read_until(self, ends: Sequence[str], nesting: Mapping[str, int]) -> str:
        first, depth = self._position, 0
        while not self.is_at_end:
            keyword = self._tokens[self._position].keyword
            if depth == 0 and keyword in ends:
                break
            depth += nesting.get(keyword, 0)
            if depth < 0:
                break
            self._position += 1
        if first == self._position:
            self.fail("expected an expression")
        return self.text[self._tokens[first].start : self._tokens[self._position - 1].end]

    def group(self) -> str:
        """Read what is in parentheses; return its text with them."""
        token = self.next
        self.expect("(")
        self.until(")")
        self.expect(")")
        start = token.start if token else 0
        return self.text[start : self._tokens[self._position - 1].end]

    def literal(self) -> str:
        """Read a number or a text; return it as it was written."""
        token = self.next
        if token is None or token.kind not in ("string", "number"):
            self.fail("expected a constant")
        self._position += 1
        return self.text[token.start : token.end]

    def rest(self) -> str:
        """Read everything that is left; return its text."""
        first = self.next
        if first is None:
            self.fail("expected a query")
        self._position = len(self._tokens)
        return self.text[first.start : self._tokens[-1].end]

    def list(self) -> list[str]:
        """Read a list in parentheses; return the texts between its commas."""
        self.expect("(")
        items = [self.until(",", ")")]
        while self.accept(","):
            items.append(self.until(",", ")"))
        self.expect(")")
        return items

    def names(self) -> tuple[str, ...]:
        """Read names in parentheses."""
        self.expect("(")
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        self.expect(")")
        return tuple(found)

    def refuse(self, *keywords: str, hint: str = "") -> None:
        """Raise UnsupportedError if keywords come next."""
        if self.peek(*keywords):
            self.unsupported(" ".join(keywords), hint)

    def unsupported(self, part: str, hint: str = "") -> NoReturn:
        """Raise UnsupportedError for a part of the statement."""
        raise UnsupportedError(f"{part} of {self.what} is not supported here{hint and ': ' + hint}")

    def unknown_part(self, known: str) -> UnsupportedError:
        """Return the error for a part of the statement that begins with an unknown word."""
        token = self.next
        if token is None:
            self.fail(f"expected {known}")
        part = self.text[token.start :].split("\n")[0][:60]
        return UnsupportedError(f"{part!r} of {self.what} is not supported here: write {known}")

    def finish(self) -> None:
        """Raise UnsupportedError if anything is left."""
        token = self.next
        if token is not None:
            left = self.text[token.start :].split("\n")[0][:60]
            raise UnsupportedError(f"{left!r} at the end of {self.what} is not supported here")

    def fail(self, reason: str) -> NoReturn:
        """Raise InvalidInputError for the place that was reached."""
        token = self.next
        place = "the end" if token is None else repr(self.text[token.start : token.end][:60])
        raise InvalidInputError(f"{self.what} cannot be parsed at {place}: {reason}")
