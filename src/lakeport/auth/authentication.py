"""Who is calling: from a bearer token to an identity."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from lakeport.errors import LakeportError, UnauthenticatedError

__all__ = ["AuthSource", "Authenticator", "BearerAuth", "TokenTable", "authenticator_of"]

MAX_TOKEN_BYTES = 16 * 1024


@runtime_checkable
class Authenticator(Protocol):
    """Turns a bearer token into an identity."""

    def authenticate(self, token: str) -> str:
        """The identity behind a token; `UnauthenticatedError` when there is none."""
        ...


class BearerAuth:
    """Authentication by a callable that returns the identity, or None (or raises) to refuse."""

    def __init__(self, validate: Callable[[str], str | None]) -> None:
        self._validate = validate

    def authenticate(self, token: str) -> str:
        """The identity behind a token."""
        try:
            identity = self._validate(token)
        except LakeportError:
            raise
        except Exception as error:
            # The callable's own message may quote the token, so it goes nowhere.
            raise UnauthenticatedError("the bearer token is not valid") from error
        if not identity:
            raise UnauthenticatedError("the bearer token is not valid")
        return identity


class TokenTable:
    """Authentication by a fixed table of tokens and the identities they stand for.

    Only digests are kept, and every entry is compared in constant time.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens or not all(tokens):
            raise ValueError("a token table needs at least one token, and none may be empty")
        self._identities = tuple((_digest(token), name) for token, name in tokens.items())

    def authenticate(self, token: str) -> str:
        """The identity behind a token."""
        presented = _digest(token)
        found = ""
        for digest, identity in self._identities:
            if hmac.compare_digest(digest, presented):
                found = identity
        if not found:
            raise UnauthenticatedError("the bearer token is not valid")
        return found

    def __repr__(self) -> str:
        return f"TokenTable({len(self._identities)} tokens)"


AuthSource: TypeAlias = Authenticator | Callable[[str], str | None] | Mapping[str, str]
"""An authenticator, a callable from token to identity, or a mapping from token to identity."""


def authenticator_of(source: AuthSource | None) -> Authenticator | None:
    """The authenticator that a server option describes."""
    if source is None or isinstance(source, Authenticator):
        return source
    if isinstance(source, Mapping):
        return TokenTable(source)
    return BearerAuth(source)


def bearer_token(header: str | None) -> str | None:
    """The token of an `authorization` header, or None when there is none."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return None
    if len(token) > MAX_TOKEN_BYTES:
        raise UnauthenticatedError("the bearer token is too long")
    return token.strip()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
