"""Issuers of JSON Web Tokens for tests: keys, tokens, and an OpenID provider on loopback."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

__all__ = ["AUDIENCE", "ISSUER", "Issuer", "OpenIdProvider", "b64", "opened", "unsigned"]

ISSUER = "https://login.example"
AUDIENCE = "lakeport"


def b64(raw: bytes | dict[str, Any] | str) -> str:
    """The base64url text of bytes, of a text, or of a JSON object."""
    if isinstance(raw, dict):
        raw = json.dumps(raw)
    if isinstance(raw, str):
        raw = raw.encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def unsigned(header: dict[str, Any] | str, claims: dict[str, Any] | str, signature: str) -> str:
    """A token of any header, claims and signature."""
    return f"{b64(header)}.{b64(claims)}.{signature}"


class Issuer:
    """An issuer with a key of each kind."""

    def __init__(self, name: str = ISSUER) -> None:
        self.name = name
        self.rsa = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.ec = ec.generate_private_key(ec.SECP256R1())
        self.ed = ed25519.Ed25519PrivateKey.generate()

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Claims of a valid token; None removes one."""
        now = time.time()
        claims = {
            "iss": self.name,
            "aud": AUDIENCE,
            "sub": "ada",
            "groups": ["analysts"],
            "office": {"region": "eu"},
            "iat": int(now),
            "exp": int(now) + 300,
        }
        return {key: value for key, value in {**claims, **changes}.items() if value is not None}

    def token(self, algorithm: str = "RS256", kid: Any = "", **changes: Any) -> str:
        """A token that is signed with the key of an algorithm."""
        key: Any = {"RS256": self.rsa, "PS256": self.rsa, "ES256": self.ec, "EdDSA": self.ed}
        headers = {"kid": kid or self.kid(algorithm)} if kid is not None else {}
        return jwt.encode(
            self.claims(**changes), key[algorithm], algorithm=algorithm, headers=headers
        )

    def kid(self, algorithm: str) -> str:
        """The name of the key of an algorithm."""
        return {"RS256": "rsa", "PS256": "rsa", "ES256": "ec", "EdDSA": "ed"}[algorithm]

    def hmac_token(self, secret: bytes, *, kid: str = "rsa") -> str:
        """A token that is signed with HMAC, as in an attack by key confusion."""
        text = unsigned({"alg": "HS256", "typ": "JWT", "kid": kid}, self.claims(), "")[:-1]
        signature = hmac.new(secret, text.encode(), hashlib.sha256).digest()
        return f"{text}.{b64(signature)}"

    def public_pem(self) -> bytes:
        """The public RSA key as PEM."""
        return self.rsa.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def key_set(self) -> str:
        """The public keys as JWKS."""
        keys = [
            {**jwt.algorithms.RSAAlgorithm.to_jwk(self.rsa.public_key(), True), "kid": "rsa"},
            {**jwt.algorithms.ECAlgorithm.to_jwk(self.ec.public_key(), True), "kid": "ec"},
            {**jwt.algorithms.OKPAlgorithm.to_jwk(self.ed.public_key(), True), "kid": "ed"},
        ]
        return json.dumps({"keys": keys})


@dataclass
class OpenIdProvider:
    """An OpenID Connect provider on loopback: its discovery document and its keys."""

    url: str = ""
    documents: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def publish(self, issuer: Issuer, *, named: str | None = None) -> None:
        """Serve the keys of an issuer."""
        self.documents["/.well-known/openid-configuration"] = json.dumps(
            {"issuer": named or self.url, "jwks_uri": f"{self.url}/keys"}
        )
        self.documents["/keys"] = issuer.key_set()


@contextmanager
def opened() -> Iterator[OpenIdProvider]:
    """A provider that answers until the end of the block."""
    provider = OpenIdProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.requests.append(self.path)
            text = provider.documents.get(self.path)
            if text is not None and text.startswith("redirect:"):
                self.send_response(302)
                self.send_header("Location", text.removeprefix("redirect:"))
                self.end_headers()
                return
            self.send_response(200 if text is not None else 404)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
