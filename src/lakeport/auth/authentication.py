"""Authentication: from a bearer token or a certificate to an identity."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, runtime_checkable

from lakeport._wording import counted
from lakeport.auth.identity import Identity, identity_of
from lakeport.errors import DefinitionError, LakeportError, UnauthenticatedError, UnavailableError

__all__ = [
    "MIN_TOKEN_LENGTH",
    "AuthSource",
    "Authenticator",
    "BearerAuth",
    "CertificateAuth",
    "SeveralAuth",
    "SubjectAuthenticator",
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

    def authenticate(self, token: str) -> str | Identity:
        """Return the identity of a token; raise `UnauthenticatedError` if the token is not valid.

        A text is the user of an identity without groups. An empty text, or another result, also
        rejects the token. Raise `OSError` if the token cannot be checked now; the client receives
        UNAVAILABLE.
        """
        ...


@runtime_checkable
class SubjectAuthenticator(Protocol):
    """Turns the subject of a client's certificate into an identity."""

    def authenticate_subject(self, subject: str) -> Identity:
        """Return the identity of a subject; raise `UnauthenticatedError` if it has none."""
        ...


class BearerAuth:
    """Authentication by a callable that returns the identity; None or an error rejects a token."""

    def __init__(self, validate: Callable[[str], str | Identity | None]) -> None:
        self._validate = validate

    def authenticate(self, token: str) -> str | Identity:
        """Return the identity of a token."""
        return authenticate(self._validate, token)


class TokenTable:
    """Authentication by a fixed table from token to identity.

    Only digests of the tokens are kept. Every entry is compared in constant time.
    """

    def __init__(self, tokens: Mapping[str, str] | Mapping[str, Identity]) -> None:
        if not tokens or not all(tokens):
            raise DefinitionError("a token table needs at least one token, and none may be empty")
        self._identities = tuple((_digest(token), name) for token, name in tokens.items())

    def authenticate(self, token: str) -> str | Identity:
        """Return the identity of a token."""
        presented = _digest(token)
        match: str | Identity = ""
        for digest, identity in self._identities:
            if hmac.compare_digest(digest, presented):
                match = identity
        if not match:
            raise UnauthenticatedError("the bearer token is not valid")
        return match

    def __repr__(self) -> str:
        return f"TokenTable({counted(len(self._identities), 'token')})"


class SeveralAuth:
    """Accepts what one of several authenticators accepts; the first that does decides."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        if not authenticators:
            raise DefinitionError("authentication needs at least one authenticator")
        self._authenticators = tuple(authenticators)

    def authenticate(self, token: str) -> str | Identity:
        """Return the identity of a token."""
        refusal: LakeportError | None = None
        for authenticator in self._authenticators:
            try:
                return authenticate(authenticator.authenticate, token)
            except UnavailableError as error:
                refusal = error
            except UnauthenticatedError as error:
                # The reason of an issuer that recognised its token is more useful than the others.
                if refusal is None or "expired" in str(error):
                    refusal = error
        raise refusal or UnauthenticatedError("the bearer token is not valid")


class CertificateAuth:
    """Authentication by the certificates of clients, with mutual TLS.

    A certificate's subject is its first subject alternative name; without one, its common name.

    Args:
        subjects: The identity of each subject. The subject `*` stands for all others: its groups
            and attributes, with the subject itself as the user.
    """

    def __init__(self, subjects: Mapping[str, Identity]) -> None:
        if not subjects or not all(subjects):
            raise DefinitionError("certificates need at least one subject, and none may be empty")
        self._subjects = dict(subjects)

    def authenticate_subject(self, subject: str) -> Identity:
        """Return the identity of a certificate's subject."""
        found = self._subjects.get(subject)
        if found is None and subject and subject != "*" and "*" in self._subjects:
            every = self._subjects["*"]
            found = Identity(subject, every.groups, every.attributes)
        if found is None or not found.user:
            raise UnauthenticatedError("the certificate of the client belongs to no user")
        return Identity(found.user, found.groups, found.attributes, method="certificate")


AuthSource: TypeAlias = (
    Authenticator
    | Callable[[str], str | Identity | None]
    | Mapping[str, str]
    | Mapping[str, Identity]
)
"""An authenticator, a callable from token to identity, or a mapping from token to identity."""


def authenticator_of(source: AuthSource | None) -> Authenticator | None:
    """Return the authenticator for a server option."""
    if source is None or isinstance(source, Authenticator):
        return source
    if isinstance(source, Mapping):
        return TokenTable(source)
    return BearerAuth(source)


def authenticate(validate: Callable[[str], str | Identity | None], token: str) -> str | Identity:
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
    if identity and not isinstance(identity, str | Identity):
        _log.warning(
            "authentication returned %s, which is not an identity", type(identity).__name__
        )
    if not identity or not isinstance(identity, str | Identity):
        raise UnauthenticatedError("the bearer token is not valid")
    identity_of(identity)
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
