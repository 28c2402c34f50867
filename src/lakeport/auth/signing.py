"""Keys and tokens of a server without an identity provider: what `lakeport token` makes."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from lakeport.auth.identity import check_name
from lakeport.errors import DefinitionError

__all__ = ["SIGNING_ALGORITHM", "SigningKey"]

SIGNING_ALGORITHM: Final = "EdDSA"


class SigningKey:
    """A private key that signs tokens, and its public half as a JWKS document."""

    def __init__(self, key: ed25519.Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def generate(cls) -> SigningKey:
        """Return a new key."""
        return cls(ed25519.Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, pem: bytes) -> SigningKey:
        """Return the key of a PEM text without a password."""
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError):
            key = None
        if not isinstance(key, ed25519.Ed25519PrivateKey):
            raise DefinitionError("the file is no Ed25519 key without a password, as PEM")
        return cls(key)

    def pem(self) -> bytes:
        """Return the private key as PEM."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def key_set(self) -> str:
        """Return the public key as a JWKS document, for servers."""
        entry = jwt.algorithms.OKPAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        described = {**entry, "kid": self.id, "alg": SIGNING_ALGORITHM, "use": "sig"}
        return json.dumps({"keys": [described]}, indent=2)

    @property
    def id(self) -> str:
        """The `kid` of the key: the beginning of its public half."""
        entry = jwt.algorithms.OKPAlgorithm.to_jwk(self._key.public_key(), as_dict=True)
        return str(entry["x"])[:16]

    def sign(
        self,
        user: str,
        *,
        issuer: str,
        audience: str,
        seconds: float,
        groups: Sequence[str] = (),
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """Return a token of a user that is valid for some seconds from now.

        Attributes become claims of their names.
        """
        if not user or seconds <= 0:
            raise DefinitionError("a token needs a user, and a time for which it is valid")
        for name in (user, *groups, *(attributes or {})):
            check_name(name)
        now = int(time.time())
        claims: dict[str, Any] = {
            **(attributes or {}),
            "iss": issuer,
            "aud": audience,
            "sub": user,
            "iat": now,
            "exp": now + int(seconds),
        }
        if groups:
            claims["groups"] = list(groups)
        return jwt.encode(claims, self._key, algorithm=SIGNING_ALGORITHM, headers={"kid": self.id})

    def __repr__(self) -> str:
        return f"SigningKey({self.id!r})"
