"""Public keys of token issuers: JWKS from a file, a URL, or the discovery document of an issuer.

A key set is read when it is first needed, and again when it is old or when a token names a key that
it does not have. Both are rate-limited, so forged tokens cannot make the server send requests.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import urlsplit

import jwt

from lakeport.errors import DefinitionError, UnavailableError

__all__ = ["ALGORITHMS", "KeySet", "check_key_url"]

_log = logging.getLogger("lakeport.auth")

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""The signatures that can be allowed. All have public keys: `none` and HMAC are never allowed."""

_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_CURVES: Final = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}

_MAX_BYTES: Final = 1024 * 1024
_MAX_KEYS: Final = 100
_MIN_RSA_BITS: Final = 2048
_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Key:
    """A public key, and what its owner allows it for."""

    id: str | None
    algorithm: str | None
    """The only algorithm of the key; None if the key set does not name one."""
    type: str
    curve: str | None
    key: Any = field(repr=False)

    def fits(self, algorithm: str) -> bool:
        """Return whether the key can verify signatures of an algorithm."""
        if self.algorithm is not None and self.algorithm != algorithm:
            return False
        if self.type != _KEY_TYPES.get(algorithm[:2]):
            return False
        return self.type != "EC" or self.curve == _CURVES.get(algorithm)


class KeySet:
    """The public keys of an issuer, read again when they are rotated.

    Args:
        load: Returns the text of a JWKS document; raises OSError if it cannot be read.
        refresh: After how many seconds the keys are read again.
        min_interval: The fewest seconds between two reads for unknown keys.
        clock: Returns seconds that only increase.
    """

    def __init__(
        self,
        load: Callable[[], str],
        *,
        refresh: float = 3600.0,
        min_interval: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._refresh = refresh
        self._min_interval = min_interval
        self._clock = clock
        # Guards the two below: one thread reads, the others wait for its result.
        self._lock = threading.Lock()
        self._keys: tuple[_Key, ...] | None = None
        self._tried: float | None = None

    @classmethod
    def of_file(cls, path: Path, **options: Any) -> KeySet:
        """Return the keys of a JWKS file."""
        return cls(lambda: path.read_text("utf-8"), **options)

    @classmethod
    def of_url(cls, url: str, **options: Any) -> KeySet:
        """Return the keys of a JWKS document at a URL."""
        check_key_url(url)
        return cls(lambda: _fetch(url), **options)

    @classmethod
    def of_issuer(cls, issuer: str, **options: Any) -> KeySet:
        """Return the keys of an OpenID Connect issuer, found by its discovery document."""
        check_key_url(issuer)
        return cls(lambda: _discover(issuer), **options)

    def find(self, key_id: str | None, algorithm: str) -> Sequence[Any]:
        """Return the keys that may have signed a token; none if there is no such key.

        Raises:
            UnavailableError: The keys have not been read yet, and cannot be read now.
        """
        with self._lock:
            age = None if self._tried is None else self._clock() - self._tried
            if age is None or age >= (self._refresh if self._keys else self._min_interval):
                self._read()
            found = self._matching(key_id, algorithm)
            if not found and self._clock() - (self._tried or 0.0) >= self._min_interval:
                self._read()
                found = self._matching(key_id, algorithm)
            if self._keys is None:
                raise UnavailableError(
                    "authentication is temporarily unavailable: the keys of the token's issuer "
                    "cannot be read; try again"
                )
            return found

    def check(self) -> None:
        """Read the keys now; raise DefinitionError if they cannot be used."""
        with self._lock:
            self._read()
            if not self._keys:
                raise DefinitionError(
                    "the key set cannot be read, or has no key that tokens can be verified with"
                )

    def _matching(self, key_id: str | None, algorithm: str) -> list[Any]:
        return [
            key.key for key in self._keys or () if key.fits(algorithm) and key_id in (None, key.id)
        ]

    def _read(self) -> None:
        """Read the keys; keep the previous ones if that fails."""
        self._tried = self._clock()
        try:
            self._keys = _parse(self._load())
        except (OSError, ValueError, RecursionError, DefinitionError) as error:
            # The message may hold a URL with credentials, so only the kind is logged.
            _log.warning("the keys of an issuer cannot be read: %s", type(error).__name__)


def check_key_url(url: str) -> str:
    """Return a URL of keys; raise DefinitionError unless it is HTTPS, or HTTP on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return url
    if parts.scheme == "http" and _is_loopback(parts.hostname or ""):
        return url
    raise DefinitionError("keys of tokens are read by https:// (http:// only from this machine)")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they may lead to another host, or from HTTPS to HTTP."""

    def redirect_request(self, req: Any, fp: Any, code: int, *_: Any) -> NoReturn:
        raise urllib.error.HTTPError(req.full_url, code, "redirects are refused", None, fp)  # type: ignore[arg-type]


def _fetch(url: str) -> str:
    opener = urllib.request.build_opener(_NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
    with opener.open(request, timeout=_TIMEOUT) as reply:
        body: bytes = reply.read(_MAX_BYTES + 1)
    if len(body) > _MAX_BYTES:
        raise ValueError("the document is too large")
    return body.decode("utf-8")


def _discover(issuer: str) -> str:
    document = json.loads(_fetch(issuer.rstrip("/") + "/.well-known/openid-configuration"))
    # Otherwise one issuer could present the keys of another (OpenID Connect Discovery, 4.3).
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise ValueError("the discovery document is of another issuer")
    url = document.get("jwks_uri")
    if not isinstance(url, str):
        raise ValueError("the discovery document has no jwks_uri")  # noqa: TRY004
    return _fetch(check_key_url(url))


def _parse(text: str) -> tuple[_Key, ...]:
    document = json.loads(text)
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError("the document is not a JWKS")  # noqa: TRY004
    keys = (_key(entry) for entry in entries[:_MAX_KEYS] if isinstance(entry, dict))
    return tuple(key for key in keys if key is not None)


def _key(entry: dict[str, Any]) -> _Key | None:
    """Return a key that can verify signatures; None for others, such as secrets and small keys."""
    if entry.get("use", "sig") != "sig" or entry.get("kty") not in {"RSA", "EC", "OKP"}:
        return None
    if "verify" not in entry.get("key_ops", ["verify"]):
        return None
    try:
        # The algorithm is checked for each token; PyJWT needs one to build the key.
        key = jwt.PyJWK(entry, algorithm=entry.get("alg")).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if getattr(key, "key_size", _MIN_RSA_BITS) < _MIN_RSA_BITS and entry["kty"] == "RSA":
        return None
    id, algorithm = entry.get("kid"), entry.get("alg")
    return _Key(
        id if isinstance(id, str) else None,
        algorithm if isinstance(algorithm, str) else None,
        entry["kty"],
        entry.get("crv"),
        _public(key),
    )


def _public(key: Any) -> Any:
    """Return the public half of a key; a file that holds the private one is used, too."""
    return key.public_key() if hasattr(key, "public_key") else key
