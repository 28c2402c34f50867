"""Authentication by JSON Web Tokens: signed by an issuer, verified by its public keys."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import jwt

from lakeport.auth.identity import Identity
from lakeport.auth.key_sets import ALGORITHMS, KeySet
from lakeport.errors import DefinitionError, UnauthenticatedError

__all__ = ["ClaimMapping", "JwtAuth"]

_INVALID: Final = "the bearer token is not valid"
_TYPES: Final = frozenset({"jwt", "at+jwt", "application/at+jwt"})
# Headers that change how a token is read, or bring a key of their own.
_REFUSED_HEADERS: Final = frozenset({"crit", "b64", "zip", "cty"})
_MAX_GROUPS: Final = 1000


@dataclass(frozen=True, slots=True)
class ClaimMapping:
    """Which claims of a token become the user, the groups and the attributes of an identity.

    A claim inside another one is written with dots: `realm_access.roles`.
    """

    user: str = "sub"
    """The claim of the user's name."""
    groups: str | None = "groups"
    """The claim of the groups: a list of names, or one name."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The claim of each attribute, by the attribute's name."""
    prefix: str = ""
    """Is put before the user and the groups, so that two issuers cannot name the same ones."""

    def identity(self, claims: Mapping[str, Any]) -> Identity:
        """Return the identity of verified claims; raise `UnauthenticatedError` without a user."""
        user = _claim(claims, self.user)
        if not isinstance(user, str) or not user.strip():
            raise UnauthenticatedError(f"the bearer token has no user: claim {self.user!r}")
        found = {
            name: _text(value)
            for name, path in self.attributes.items()
            if (value := _claim(claims, path)) is not None
        }
        try:
            return Identity(
                self.prefix + user,
                groups=frozenset(self.prefix + group for group in self._groups(claims)),
                attributes={name: text for name, text in found.items() if text is not None},
                method="jwt",
            )
        except DefinitionError:
            raise UnauthenticatedError(_INVALID) from None

    def _groups(self, claims: Mapping[str, Any]) -> list[str]:
        value = None if self.groups is None else _claim(claims, self.groups)
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list):
            return []
        return [name for name in names[:_MAX_GROUPS] if isinstance(name, str) and name]


class JwtAuth:
    """Accepts the tokens of one issuer.

        JwtAuth("https://login.example", audience="lakeport", keys=KeySet.of_issuer(…))

    Args:
        issuer: The claim `iss` of the tokens.
        audience: The claim `aud` must be, or contain, one of these.
        keys: The public keys of the issuer; by default found by OpenID Connect discovery.
        algorithms: The signatures that are accepted.
        leeway: By how many seconds the clocks of issuer and server may differ.
        claims: Which claims become user, groups and attributes.
    """

    def __init__(
        self,
        issuer: str,
        *,
        audience: str | Sequence[str],
        keys: KeySet | None = None,
        algorithms: Sequence[str] = ("RS256", "ES256", "EdDSA"),
        leeway: float = 30.0,
        claims: ClaimMapping | None = None,
    ) -> None:
        refused = [name for name in algorithms if name not in ALGORITHMS]
        if refused or not algorithms:
            raise DefinitionError(
                f"tokens cannot be verified with the algorithm {(refused or ['none'])[0]!r}: "
                f"choose of {', '.join(ALGORITHMS)}"
            )
        audiences = [audience] if isinstance(audience, str) else list(audience)
        if not issuer or not audiences or not all(audiences):
            raise DefinitionError("tokens of an issuer need its name and an audience")
        if leeway < 0:
            raise DefinitionError("the leeway of tokens cannot be negative")
        self.issuer = issuer
        self._audiences = audiences
        self._keys = KeySet.of_issuer(issuer) if keys is None else keys
        self._algorithms = frozenset(algorithms)
        self._leeway = leeway
        self._claims = ClaimMapping() if claims is None else claims

    def authenticate(self, token: str) -> Identity:
        """Return the identity of a token."""
        return self._claims.identity(self.verify(token))

    def verify(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token; raise `UnauthenticatedError` if one check fails."""
        header, claims = _unverified(token)
        algorithm = header.get("alg")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise UnauthenticatedError(_INVALID)
        if claims.get("iss") != self.issuer or not _is_plain(header, claims):
            raise UnauthenticatedError(_INVALID)
        expired: UnauthenticatedError | None = None
        for key in self._keys.find(header.get("kid"), algorithm):
            try:
                return self._decode(token, key, algorithm)
            except jwt.ExpiredSignatureError:
                # The signature is verified first, so the token was a valid one.
                expired = UnauthenticatedError("the bearer token has expired; get a new one")
            # A wrong type deep inside a token raises what Python raises for it.
            except Exception:  # noqa: BLE001, S112
                continue
        raise expired or UnauthenticatedError(_INVALID)

    def _decode(self, token: str, key: Any, algorithm: str) -> Mapping[str, Any]:
        claims: Mapping[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._audiences,
            issuer=self.issuer,
            leeway=self._leeway,
            options={"require": ["exp", "iss", "aud"], "verify_signature": True},
        )
        return claims

    def __repr__(self) -> str:
        return f"JwtAuth({self.issuer!r})"


def _unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return header and claims, of which nothing is verified; raise if a name is there twice."""
    parts = token.split(".")
    if len(parts) != 3 or not all(parts):
        raise UnauthenticatedError(_INVALID)
    try:
        header, claims = (_json(part) for part in parts[:2])
    except (ValueError, binascii.Error, RecursionError):
        raise UnauthenticatedError(_INVALID) from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise UnauthenticatedError(_INVALID)
    return header, claims


def _json(part: str) -> Any:
    raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    return json.loads(raw.decode("utf-8"), object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Readers differ in which of two equal names they use.
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _is_plain(header: Mapping[str, Any], claims: Mapping[str, Any]) -> bool:
    """Return whether a token has only headers and times of the usual form."""
    if _REFUSED_HEADERS & header.keys():
        return False
    type, key_id = header.get("typ", "JWT"), header.get("kid")
    if not isinstance(type, str) or type.lower() not in _TYPES:
        return False
    if key_id is not None and not isinstance(key_id, str):
        return False
    return all(_is_time(claims[name]) for name in ("exp", "nbf", "iat") if name in claims)


def _is_time(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and abs(value) < 2**53
    )


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim by its name, or by the names on the way to it, with dots between."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return None
        value = value[name]
    return value


def _text(value: object) -> str | None:
    """Return a claim as the text of an attribute; None for lists and objects."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None
