"""Who is calling: from a bearer token to an identity."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias, runtime_checkable

from lakeport._wording import counted
from lakeport.errors import DefinitionError, LakeportError, UnauthenticatedError, UnavailableError

__all__ = [
    "MIN_TOKEN_LENGTH",
    "AuthSource",
    "Authenticator",
    "BearerAuth",
    "TokenTable",
    "authenticate",
    "authenticator_of",
    "bearer_token",
]

_log = logging.getLogger("lakeport.auth")

MIN_TOKEN_LENGTH: Final = 16
"""Shorter tokens can be guessed, and are parts of words that a log may contain."""

MAX_TOKEN_BYTES = 16 * 1024


@runtime_checkable
class Authenticator(Protocol):
    """Turns a bearer token into an identity."""

    def authenticate(self, token: str) -> str:
        """The identity behind a token; `UnauthenticatedError` when there is none.

        An empty identity, or something that is no text, refuses as well. An `OSError` says that
        nobody can tell now: the caller is asked to try again.
        """
        ...


class BearerAuth:
    """Authentication by a callable that returns the identity, or None (or raises) to refuse."""

    def __init__(self, validate: Callable[[str], str | None]) -> None:
        self._validate = validate

    def authenticate(self, token: str) -> str:
        """The identity behind a token."""
        return authenticate(self._validate, token)


class TokenTable:
    """Authentication by a fixed table of tokens and the identities they stand for.

    Only digests are kept, and every entry is compared in constant time.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens or not all(tokens):
            raise DefinitionError("a token table needs at least one token, and none may be empty")
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
        return f"TokenTable({counted(len(self._identities), 'token')})"


AuthSource: TypeAlias = Authenticator | Callable[[str], str | None] | Mapping[str, str]
"""An authenticator, a callable from token to identity, or a mapping from token to identity."""


def authenticator_of(source: AuthSource | None) -> Authenticator | None:
    """The authenticator that a server option describes."""
    if source is None or isinstance(source, Authenticator):
        return source
    if isinstance(source, Mapping):
        return TokenTable(source)
    return BearerAuth(source)


def authenticate(ask: Callable[[str], str | None], token: str) -> str:
    """The identity that a callable gives for a token; whatever else it does refuses the caller."""
    try:
        identity: object = ask(token)
    except LakeportError:
        raise
    except Exception as error:  # noqa: BLE001
        # The exception's own words may quote the token, so they go nowhere.
        _log.warning("authentication failed with %s", type(error).__name__)
        if isinstance(error, OSError):
            raise UnavailableError("nobody can be authenticated now; try again") from None
        raise UnauthenticatedError("the bearer token is not valid") from None
    if identity and not isinstance(identity, str):
        _log.warning("authentication gave %s, which is no identity", type(identity).__name__)
    if not identity or not isinstance(identity, str):
        raise UnauthenticatedError("the bearer token is not valid")
    return identity


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
