"""Authentication: from a bearer token to an identity."""

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
"""Shorter tokens can be guessed, and may be part of a word in a log."""

MAX_TOKEN_BYTES = 16 * 1024


@runtime_checkable
class Authenticator(Protocol):
    """Turns a bearer token into an identity."""

    def authenticate(self, token: str) -> str:
        """Return the identity of a token; raise `UnauthenticatedError` if the token is not valid.

        An empty identity, or a result that is not a string, also rejects the token. Raise `OSError`
        if the token cannot be checked now; the client receives UNAVAILABLE.
        """
        ...


class BearerAuth:
    """Authentication by a callable that returns the identity; None or an error rejects a token."""

    def __init__(self, validate: Callable[[str], str | None]) -> None:
        self._validate = validate

    def authenticate(self, token: str) -> str:
        """Return the identity of a token."""
        return authenticate(self._validate, token)


class TokenTable:
    """Authentication by a fixed table from token to identity.

    Only digests of the tokens are kept. Every entry is compared in constant time.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        if not tokens or not all(tokens):
            raise DefinitionError("a token table needs at least one token, and none may be empty")
        self._identities = tuple((_digest(token), name) for token, name in tokens.items())

    def authenticate(self, token: str) -> str:
        """Return the identity of a token."""
        presented = _digest(token)
        match = ""
        for digest, identity in self._identities:
            if hmac.compare_digest(digest, presented):
                match = identity
        if not match:
            raise UnauthenticatedError("the bearer token is not valid")
        return match

    def __repr__(self) -> str:
        return f"TokenTable({counted(len(self._identities), 'token')})"


AuthSource: TypeAlias = Authenticator | Callable[[str], str | None] | Mapping[str, str]
"""An authenticator, a callable from token to identity, or a mapping from token to identity."""


def authenticator_of(source: AuthSource | None) -> Authenticator | None:
    """Return the authenticator for a server option."""
    if source is None or isinstance(source, Authenticator):
        return source
    if isinstance(source, Mapping):
        return TokenTable(source)
    return BearerAuth(source)


def authenticate(validate: Callable[[str], str | None], token: str) -> str:
    """Return the identity that a callable returns for a token.

    Every other result, and every error but `OSError`, raises `UnauthenticatedError`.
    """
    try:
        identity: object = validate(token)
    except LakeportError:
        raise
    except Exception as error:  # noqa: BLE001
        # The exception's message may contain the token, so it is not logged or sent.
        _log.warning("authentication failed with %s", type(error).__name__)
        if isinstance(error, OSError):
            raise UnavailableError("authentication is temporarily unavailable; try again") from None
        raise UnauthenticatedError("the bearer token is not valid") from None
    if identity and not isinstance(identity, str):
        _log.warning(
            "authentication returned %s, which is not an identity", type(identity).__name__
        )
    if not identity or not isinstance(identity, str):
        raise UnauthenticatedError("the bearer token is not valid")
    return identity


def bearer_token(header: str | None) -> str | None:
    """Return the token of an `authorization` header, or None."""
    scheme, _, token = (header or "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return None
    if len(token) > MAX_TOKEN_BYTES:
        raise UnauthenticatedError("the bearer token is too long")
    return token.strip()


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
