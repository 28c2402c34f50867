"""JSON Web Tokens: valid ones stand for an identity, forged ones of every kind are refused."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any, Self

import jwt
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

from lakeport.auth import ClaimMapping, Identity, JwtAuth, KeySet, SeveralAuth, TokenTable
from lakeport.catalog import CatalogBuilder, current_request
from lakeport.errors import DefinitionError, UnauthenticatedError, UnavailableError
from tests.airport.flight_client import Serving, path
from tests.auth.issuers import AUDIENCE, ISSUER, Issuer, b64, opened, unsigned

ALL = ("RS256", "PS256", "ES256", "EdDSA")


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(scope="module")
def auth(issuer: Issuer) -> JwtAuth:
    return JwtAuth(
        ISSUER,
        audience=AUDIENCE,
        keys=KeySet(issuer.key_set),
        algorithms=ALL,
        leeway=5,
        claims=ClaimMapping(attributes={"region": "office.region", "missing": "no.such"}),
    )


@pytest.mark.parametrize("algorithm", ALL)
@pytest.mark.parametrize("with_key_id", [True, False])
def test_a_signed_token_stands_for_user_groups_and_attributes(
    issuer: Issuer, auth: JwtAuth, algorithm: str, with_key_id: bool
) -> None:
    token = issuer.token(algorithm, kid="" if with_key_id else None)

    found = auth.authenticate(token)

    assert found == Identity("ada", frozenset({"analysts"}), {"region": "eu"})
    assert found.method == "jwt"


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["other", AUDIENCE]},
        {"exp": -1},  # seconds from now, within the leeway
        {"nbf": 3},
        {"groups": "analysts"},
        {"extra": {"deep": [1, 2]}},
    ],
)
def test_a_token_may_have_more_than_it_needs(
    issuer: Issuer, auth: JwtAuth, changes: dict[str, Any]
) -> None:
    now = time.time()
    times: dict[str, Any] = {
        name: now + changes[name] for name in ("exp", "nbf") if name in changes
    }

    assert auth.authenticate(issuer.token(**{**changes, **times})).user == "ada"


CLAIMS: dict[str, dict[str, Any]] = {
    "expired": {"exp": time.time() - 60},
    "without an expiry": {"exp": None},
    "with an expiry that is a text": {"exp": "never"},
    "with an infinite expiry": {"exp": 1e308},
    "with an expiry that is true": {"exp": True},
    "not valid yet": {"nbf": time.time() + 3600},
    "issued in the future": {"iat": time.time() + 3600},
    "for another audience": {"aud": "elsewhere"},
    "for a longer audience": {"aud": f"{AUDIENCE}-admin"},
    "without an audience": {"aud": None},
    "with an empty audience": {"aud": []},
    "with an audience that is a number": {"aud": 7},
    "of another issuer": {"iss": "https://login.example.evil.example"},
    "of an issuer with a slash": {"iss": f"{ISSUER}/"},
    "without an issuer": {"iss": None},
    "of a list of issuers": {"iss": [ISSUER]},
    "without a user": {"sub": None},
    "with an empty user": {"sub": ""},
    "with a user that is a number": {"sub": 7},
    "with a user of control characters": {"sub": "ada\nroot logged in"},
    "with a very long user": {"sub": "a" * 10_000},
}


@pytest.mark.parametrize("changes", CLAIMS.values(), ids=CLAIMS)
def test_a_signed_token_with_wrong_claims_is_refused(
    issuer: Issuer, auth: JwtAuth, changes: dict[str, Any]
) -> None:
    # PyJWT itself refuses to encode some of these.
    payload = json.dumps(issuer.claims(**changes)).encode()
    token = jwt.api_jws.PyJWS().encode(payload, issuer.rsa, "RS256", headers={"kid": "rsa"})

    with pytest.raises(UnauthenticatedError):
        auth.authenticate(token)


Forge = Callable[[Issuer], str]


def _with_header(changes: dict[str, Any]) -> Forge:
    """A token with other headers, signed by a key of the attacker."""

    def forge(issuer: Issuer) -> str:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        embedded = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), True)
        headers = {
            name: embedded if value == "own key" else value for name, value in changes.items()
        }
        return jwt.encode(issuer.claims(), key, algorithm="RS256", headers=headers)

    return forge


def _signed(header: dict[str, Any], payload: str | None = None) -> Forge:
    """A token that the issuer itself signed, with an unusual header or payload."""

    def forge(issuer: Issuer) -> str:
        text = f"{b64({'alg': 'RS256', **header})}.{b64(payload or issuer.claims())}"
        algorithm = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
        return f"{text}.{b64(algorithm.sign(text.encode(), issuer.rsa))}"

    return forge


def _twice(issuer: Issuer) -> str:
    text = json.dumps(issuer.claims())[:-1] + ', "sub": "root"}'
    return _signed({"kid": "rsa"}, text)(issuer)


def _header_twice(issuer: Issuer) -> str:
    header = '{"alg": "none", "alg": "RS256", "kid": "rsa"}'
    text = f"{b64(header)}.{b64(issuer.claims())}"
    algorithm = jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256)
    return f"{text}.{b64(algorithm.sign(text.encode(), issuer.rsa))}"


def _encrypted(issuer: Issuer) -> str:
    """A JWE, whose parts are header, key, initialization vector, ciphertext and tag."""
    header = {"alg": "RSA-OAEP", "enc": "A256GCM", "cty": "JWT", "kid": "rsa"}
    return ".".join(
        [b64(header), *(b64(text) for text in ("key", "vector", issuer.token(), "tag"))]
    )


def _stripped(issuer: Issuer) -> str:
    return ".".join(issuer.token().split(".")[:2]) + "."


def _changed_payload(issuer: Issuer) -> str:
    header, _, signature = issuer.token().split(".")
    return f"{header}.{b64(issuer.claims(sub='root'))}.{signature}"


def _changed_header(issuer: Issuer) -> str:
    _, payload, signature = issuer.token("PS256").split(".")
    return f"{b64({'alg': 'RS256', 'kid': 'rsa'})}.{payload}.{signature}"


def _none(name: str) -> Forge:
    return lambda issuer: unsigned({"alg": name, "typ": "JWT"}, issuer.claims(), "")


FORGED: dict[str, Forge] = {
    **{f"algorithm {name}": _none(name) for name in ("none", "None", "NONE", "nOnE", "")},
    "algorithm none with a signature": lambda issuer: unsigned(
        {"alg": "none"}, issuer.claims(), "eA"
    ),
    "without a signature": _stripped,
    "HMAC with the public key": lambda issuer: issuer.hmac_token(issuer.public_pem()),
    "HMAC with the key set": lambda issuer: issuer.hmac_token(issuer.key_set().encode()),
    "HMAC with an empty key": lambda issuer: issuer.hmac_token(b"", kid="../../../dev/null"),
    "another payload": _changed_payload,
    "another algorithm of the same key": _changed_header,
    "an own key in the header": _with_header({"jwk": "own key", "kid": "rsa"}),
    "an own key set": _with_header({"jku": "https://evil.example/keys", "kid": "rsa"}),
    "an own certificate": _with_header({"x5u": "https://evil.example/cert", "kid": "rsa"}),
    "a key id that is a path": _with_header({"kid": "../../etc/passwd"}),
    "a key id that is SQL": _with_header({"kid": "x' UNION SELECT 'key"}),
    "a key id that is a command": _with_header({"kid": "x|/bin/sh"}),
    "the key id of another algorithm": _with_header({"kid": "ec"}),
    "a key id that is a URL": _with_header({"kid": "https://evil.example/keys.json"}),
    "a key id of a megabyte": _with_header({"kid": "x" * 1_000_000}),
    "an algorithm in small letters": _signed({"alg": "rs256", "kid": "rsa"}),
    "an algorithm of mixed case": _signed({"alg": "Rs256", "kid": "rsa"}),
    "an algorithm with a space": _signed({"alg": "RS256 ", "kid": "rsa"}),
    "a list of algorithms": _signed({"alg": ["RS256"], "kid": "rsa"}),
    "a header twice": _header_twice,
    "an encrypted token": _encrypted,
    "a token inside of a token": lambda issuer: _signed(
        {"kid": "rsa", "cty": "JWT"}, issuer.token()
    )(issuer),
    "a critical header that it has": _signed({"kid": "rsa", "crit": ["kid"]}),
    "an unencoded payload that is critical": _signed({"kid": "rsa", "b64": False, "crit": ["b64"]}),
    "an unknown critical header": _signed({"kid": "rsa", "crit": ["exp2"], "exp2": 1}),
    "an unencoded payload": _signed({"kid": "rsa", "b64": False}),
    "a compressed payload": _signed({"kid": "rsa", "zip": "DEF"}),
    "a key id that is a number": _signed({"kid": 7}),
    "a key id that is a list": _signed({"kid": ["rsa"]}),
    "another type": _signed({"kid": "rsa", "typ": "logout+jwt"}),
    "a claim twice": _twice,
    "a payload that is a list": _signed({"kid": "rsa"}, "[1]"),
    "a payload that is no JSON": _signed({"kid": "rsa"}, "{"),
    "a payload of deep nesting": _signed({"kid": "rsa"}, '{"a":' * 3000 + "1" + "}" * 3000),
    "five parts": lambda issuer: issuer.token() + ".x.y",
    "one part": lambda issuer: issuer.token().replace(".", ""),
    "spaces": lambda issuer: issuer.token().replace(".", ". "),
    "the alphabet of plain base64": lambda issuer: issuer.token().replace(".", "+/."),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_token_is_refused_without_a_word_of_it(
    issuer: Issuer, auth: JwtAuth, forge: Forge, caplog: pytest.LogCaptureFixture
) -> None:
    token = forge(issuer)

    with pytest.raises(UnauthenticatedError) as refused:
        auth.authenticate(token)

    assert str(refused.value) == "the bearer token is not valid"
    assert refused.value.__cause__ is None
    assert not any(part and part in caplog.text for part in token.split("."))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_fuzzed_token_raises_one_kind_of_error(
    issuer: Issuer, auth: JwtAuth, data: st.DataObject
) -> None:
    token = issuer.token("EdDSA")
    kind = data.draw(st.sampled_from(["text", "cut", "flip", "json"]))
    if kind == "text":
        token = data.draw(st.text(max_size=200))
    elif kind == "cut":
        token = token[: data.draw(st.integers(0, len(token) - 2))]
    elif kind == "flip":
        place = data.draw(st.integers(0, len(token) - 3))
        character = data.draw(st.characters(min_codepoint=32, max_codepoint=126))
        if token[place] == character:
            return
        token = token[:place] + character + token[place + 1 :]
    else:
        values = st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3),
            max_leaves=5,
        )
        header = data.draw(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit"]), values))
        claims = data.draw(st.dictionaries(st.sampled_from(["iss", "exp", "aud", "sub"]), values))
        token = unsigned(header, claims, "eA")

    with pytest.raises(UnauthenticatedError):
        auth.authenticate(token)


@pytest.mark.parametrize("algorithms", [["HS256"], ["none"], ["RS256", "HS512"], [], ["rs256"]])
def test_an_algorithm_without_a_public_key_cannot_be_allowed(algorithms: list[str]) -> None:
    with pytest.raises(DefinitionError, match="cannot be verified"):
        JwtAuth(ISSUER, audience=AUDIENCE, keys=KeySet(lambda: "{}"), algorithms=algorithms)


def test_an_algorithm_that_is_not_allowed_is_refused(issuer: Issuer) -> None:
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=KeySet(issuer.key_set), algorithms=["ES256"])

    assert auth.authenticate(issuer.token("ES256")).user == "ada"
    with pytest.raises(UnauthenticatedError):
        auth.authenticate(issuer.token("RS256"))


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
def test_secrets_and_short_keys_of_a_key_set_verify_nothing(issuer: Issuer) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    keys = [
        {"kty": "oct", "k": b64("secret-secret-secret-secret-secret"), "kid": "oct"},
        {**jwt.algorithms.RSAAlgorithm.to_jwk(weak.public_key(), True), "kid": "weak"},
        {
            **jwt.algorithms.RSAAlgorithm.to_jwk(issuer.rsa.public_key(), True),
            "kid": "enc",
            "use": "enc",
        },
        {"kty": "RSA", "kid": "broken", "n": "?", "e": "AQAB"},
        7,
    ]
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=KeySet(lambda: json.dumps({"keys": keys})))

    for key, kid in ((weak, "weak"), (issuer.rsa, "enc"), (issuer.rsa, "broken")):
        token = jwt.encode(issuer.claims(), key, algorithm="RS256", headers={"kid": kid})
        with pytest.raises(UnauthenticatedError):
            auth.authenticate(token)
    with pytest.raises(UnauthenticatedError):
        auth.authenticate(issuer.hmac_token(b"secret-secret-secret-secret-secret", kid="oct"))


def test_rotated_keys_are_read_again_but_not_for_every_forged_token() -> None:
    old, new, now, reads = Issuer(), Issuer(), [0.0], []
    current = [old]

    def load() -> str:
        reads.append(now[0])
        return current[0].key_set().replace('"ed"', f'"ed-{current[0] is new}"')

    keys = KeySet(load, refresh=1000, min_interval=30, clock=lambda: now[0])
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=keys)
    assert auth.authenticate(old.token("EdDSA", kid="ed-False")).user == "ada"

    current[0] = new
    for _ in range(5):
        with pytest.raises(UnauthenticatedError):
            auth.authenticate(new.token("EdDSA", kid="ed-True"))
    assert reads == [0.0]

    now[0] = 31.0
    assert auth.authenticate(new.token("EdDSA", kid="ed-True")).user == "ada"
    assert reads == [0.0, 31.0]
    with pytest.raises(UnauthenticatedError):
        auth.authenticate(old.token("EdDSA", kid="ed-False"))


def test_keys_that_cannot_be_read_again_stay_in_use(issuer: Issuer) -> None:
    now, works = [0.0], [False]

    def load() -> str:
        if not works[0]:
            raise OSError("https://user:password@login.example is down")
        return issuer.key_set()

    keys = KeySet(load, refresh=100, min_interval=10, clock=lambda: now[0])
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=keys)
    with pytest.raises(UnavailableError) as refused:
        auth.authenticate(issuer.token())
    assert "password" not in str(refused.value)

    works[0], now[0] = True, 11.0
    assert auth.authenticate(issuer.token()).user == "ada"
    works[0], now[0] = False, 500.0
    assert auth.authenticate(issuer.token()).user == "ada"


def test_an_issuer_is_discovered_by_its_url() -> None:
    with opened() as provider:
        issuer = Issuer(provider.url)
        provider.publish(issuer)
        auth = JwtAuth(provider.url, audience=AUDIENCE)

        assert auth.authenticate(issuer.token("ES256")).user == "ada"
        assert auth.authenticate(issuer.token("RS256")).user == "ada"
        assert provider.requests == ["/.well-known/openid-configuration", "/keys"]


@pytest.mark.parametrize("trick", ["another issuer", "redirect", "plain http", "too large"])
def test_a_wrong_discovery_document_gives_no_keys(trick: str) -> None:
    with opened() as provider:
        issuer = Issuer(provider.url)
        provider.publish(issuer, named=ISSUER if trick == "another issuer" else None)
        document = "/.well-known/openid-configuration"
        if trick == "redirect":
            provider.documents["/keys2"] = provider.documents["/keys"]
            provider.documents["/keys"] = f"redirect:{provider.url}/keys2"
        if trick == "plain http":
            provider.documents[document] = json.dumps(
                {"issuer": provider.url, "jwks_uri": "http://login.example/keys"}
            )
        if trick == "too large":
            provider.documents["/keys"] = " " * 2_000_000 + provider.documents["/keys"]
        auth = JwtAuth(provider.url, audience=AUDIENCE)

        with pytest.raises(UnavailableError):
            auth.authenticate(issuer.token())


@pytest.mark.parametrize(
    "url", ["http://login.example/keys", "file:///etc/passwd", "keys", "ftp:x"]
)
def test_keys_are_read_by_https_only(url: str) -> None:
    with pytest.raises(DefinitionError, match="https"):
        KeySet.of_url(url)


def test_several_authenticators_accept_what_one_accepts(issuer: Issuer, auth: JwtAuth) -> None:
    several = SeveralAuth([auth, TokenTable({"token-of-grace-1234": "grace"})])

    assert several.authenticate(issuer.token()) == Identity(
        "ada", frozenset({"analysts"}), {"region": "eu"}
    )
    assert several.authenticate("token-of-grace-1234") == "grace"
    with pytest.raises(UnauthenticatedError, match="has expired"):
        several.authenticate(issuer.token(exp=time.time() - 100))
    with pytest.raises(UnauthenticatedError, match="not valid"):
        several.authenticate("token-of-eve-12345")


def test_two_issuers_cannot_name_the_same_user(issuer: Issuer) -> None:
    claims = ClaimMapping(prefix="corp/")
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=KeySet(issuer.key_set), claims=claims)

    found = auth.authenticate(issuer.token())

    assert (found.user, found.groups) == ("corp/ada", frozenset({"corp/analysts"}))


def test_keys_of_a_file_are_read_from_it(issuer: Issuer, tmp_path: Path) -> None:
    file = tmp_path / "keys.jwks"
    file.write_text(issuer.key_set())
    keys = KeySet.of_file(file)
    keys.check()
    assert JwtAuth(ISSUER, audience=AUDIENCE, keys=keys).authenticate(issuer.token()).user == "ada"

    file.write_text("{}")
    with pytest.raises(DefinitionError, match="no key"):
        KeySet.of_file(file).check()


def test_a_token_that_expires_during_a_scan_ends_no_scan_but_the_next_call(
    start_server: Serving, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = timedelta(0)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + passed

    # PyJWT compares `exp` with this clock.
    monkeypatch.setattr("jwt.api_jwt.datetime", Clock)

    def rows() -> pa.RecordBatchReader:
        def batches() -> Any:
            nonlocal passed
            yield pa.record_batch({"x": [1]})
            passed = timedelta(hours=2)
            yield pa.record_batch({"x": [2]})

        return pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())

    columns = pa.schema([("x", pa.int64())])
    catalog = CatalogBuilder().schema("s").table("slow", rows, schema=columns).build()
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=KeySet(issuer.key_set), leeway=0)
    client = start_server(catalog, auth=auth).with_headers(
        authorization=f"Bearer {issuer.token(exp=time.time() + 3600)}"
    )

    assert client.scan(path("s", "slow")).to_pydict() == {"x": [1, 2]}
    with pytest.raises(flight.FlightUnauthenticatedError, match="has expired; get a new one"):
        client.scan(path("s", "slow"))


def test_a_catalog_receives_the_groups_of_its_caller(start_server: Serving, issuer: Issuer) -> None:
    def whoami() -> pa.Table:
        caller = current_request().caller
        return pa.table({"me": [f"{caller.user} {sorted(caller.groups)} {caller.method}"]})

    columns = pa.schema([("me", pa.string())])
    catalog = CatalogBuilder().schema("s").table("whoami", whoami, schema=columns).build()
    auth = JwtAuth(ISSUER, audience=AUDIENCE, keys=KeySet(issuer.key_set))
    client = start_server(catalog, auth=auth).with_headers(authorization=f"Bearer {issuer.token()}")

    assert client.scan(path("s", "whoami")).to_pydict() == {"me": ["ada ['analysts'] jwt"]}
