"""Bearer tokens: who they stand for, and what happens without a right one."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport.airport import Server
from lakeport.auth import Authenticator, BearerAuth, TokenTable, authenticator_of, bearer_token
from lakeport.catalog import CatalogBuilder, StaticCatalog, current_request
from lakeport.errors import DefinitionError, PermissionDeniedError, UnauthenticatedError
from tests.airport.flight_client import RawFlightClient, Serving, path

TOKENS = {"token-of-ada": "ada", "token-of-grace": "grace"}


def bearing(flight_client: RawFlightClient, token: str) -> RawFlightClient:
    return flight_client.with_headers(authorization=f"Bearer {token}")


@pytest.mark.parametrize("source", [TOKENS, TokenTable(TOKENS), BearerAuth(TOKENS.get), TOKENS.get])
def test_a_token_stands_for_an_identity(start_server: Serving, source: Any) -> None:
    def whoami() -> pa.Table:
        return pa.table({"me": [current_request().identity]})

    columns = pa.schema([("me", pa.string())])
    catalog = CatalogBuilder().schema("s").table("whoami", whoami, schema=columns).build()
    flight_client = start_server(catalog, auth=source)

    for token, identity in TOKENS.items():
        assert bearing(flight_client, token).scan(path("s", "whoami")).to_pydict() == {
            "me": [identity]
        }


CALLS: dict[str, Callable[[RawFlightClient], Any]] = {
    "DoAction": lambda flight_client: flight_client.list_schemas(),
    "GetFlightInfo": lambda flight_client: flight_client.info(path("s", "t")),
    "GetSchema": lambda flight_client: flight_client.client.get_schema(
        path("s", "t"), flight_client.options()
    ),
    "ListFlights": lambda flight_client: list(
        flight_client.client.list_flights(b"", flight_client.options())
    ),
    "ListActions": lambda flight_client: flight_client.client.list_actions(flight_client.options()),
    "DoGet": lambda flight_client: flight_client.read(b'{"schema_name": "s", "table_name": "t"}'),
    "DoExchange": lambda flight_client: flight_client.change(
        "insert", path("s", "t"), pa.table({"x": [1]})
    ),
    "DoPut": lambda flight_client: flight_client.client.do_put(
        path("s", "t"), pa.schema([("x", pa.int64())]), flight_client.options()
    )[1].read(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_needs_a_token(
    start_server: Serving, catalog: StaticCatalog, call: Callable[[RawFlightClient], Any]
) -> None:
    flight_client = start_server(catalog, auth=TOKENS)

    # pyarrow's get_schema raises an OSError whatever the status.
    expected = (flight.FlightUnauthenticatedError, OSError)
    with pytest.raises(expected, match=r"this server needs a bearer token.*Unauthenticated"):
        call(flight_client)


def test_a_caller_without_a_token_is_told_about_the_secret(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    flight_client = start_server(catalog, auth=TOKENS)

    with pytest.raises(flight.FlightUnauthenticatedError, match="CREATE SECRET") as told:
        flight_client.list_schemas()

    assert "TYPE airport" in str(told.value)
    assert "SCOPE" in str(told.value)


@pytest.mark.parametrize(
    "header",
    ["Bearer wrong", "Bearer token-of-ada2", "Bearer token-of-ad", "bearer TOKEN-OF-ADA"],
)
def test_a_wrong_token_is_refused(
    start_server: Serving, catalog: StaticCatalog, header: str
) -> None:
    flight_client = start_server(catalog, auth=TOKENS, headers={"authorization": header})

    with pytest.raises(flight.FlightUnauthenticatedError, match="the bearer token is not valid"):
        flight_client.list_schemas()


@pytest.mark.parametrize("header", ["Basic YWRhOng=", "token-of-ada", "Bearer", "Bearer  "])
def test_a_header_without_a_bearer_token_is_no_token(
    start_server: Serving, catalog: StaticCatalog, header: str
) -> None:
    flight_client = start_server(catalog, auth=TOKENS, headers={"authorization": header})

    with pytest.raises(flight.FlightUnauthenticatedError, match="needs a bearer token"):
        flight_client.list_schemas()


def test_without_authentication_everybody_is_nobody(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    flight_client = start_server(catalog, headers={"authorization": "Bearer anything"})

    assert flight_client.scan(path("s", "t")).num_rows == 3


def test_the_first_of_several_tokens_counts(start_server: Serving, catalog: StaticCatalog) -> None:
    flight_client = start_server(catalog, auth=TOKENS)
    headers = [(b"authorization", b"Bearer wrong"), (b"authorization", b"Bearer token-of-ada")]
    options = flight.FlightCallOptions(headers=headers)

    with pytest.raises(flight.FlightUnauthenticatedError):
        flight_client.client.list_actions(options)


def test_every_entry_of_a_table_is_compared_in_constant_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = TokenTable({**TOKENS, "token-of-joan": "joan"})
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return real(a, b)

    real = hmac.compare_digest
    monkeypatch.setattr("lakeport.auth.authentication.hmac.compare_digest", compare)

    assert table.authenticate("token-of-ada") == "ada"
    assert len(compared) == 3
    with pytest.raises(UnauthenticatedError):
        table.authenticate("x")
    assert len(compared) == 6
    assert len({len(digest) for pair in compared for digest in pair}) == 1


def test_a_token_table_keeps_no_token() -> None:
    table = TokenTable(TOKENS)

    assert repr(table) == "TokenTable(2 tokens)"
    assert not any(token in repr(vars(table)) for token in TOKENS)


@pytest.mark.parametrize("tokens", [{}, {"": "ada"}, {"a": "ada", "": "x"}])
def test_a_table_of_no_or_empty_tokens_is_refused(tokens: dict[str, str]) -> None:
    with pytest.raises(DefinitionError, match="at least one token, and none may be empty"):
        Server(CatalogBuilder().build(), auth=tokens)


def test_a_token_for_nobody_is_not_valid() -> None:
    with pytest.raises(UnauthenticatedError):
        TokenTable({"t": ""}).authenticate("t")


@pytest.mark.parametrize("answer", [None, ""])
def test_a_callable_refuses_by_returning_nothing(answer: str | None) -> None:
    with pytest.raises(UnauthenticatedError, match="the bearer token is not valid"):
        BearerAuth(lambda token: answer).authenticate("t")


@pytest.mark.parametrize("answer", [None, "", True, 7, b"ada"])
def test_an_authenticator_that_gives_no_identity_lets_nobody_in(
    start_server: Serving, catalog: StaticCatalog, answer: Any
) -> None:
    class Lenient:
        def authenticate(self, token: str) -> Any:
            return answer

    flight_client = bearing(start_server(catalog, auth=Lenient()), "t")

    with pytest.raises(flight.FlightUnauthenticatedError, match="the bearer token is not valid"):
        flight_client.scan(path("s", "t"))


@pytest.mark.parametrize("error", [ConnectionError, TimeoutError])
def test_an_identity_provider_that_is_down_is_no_wrong_token(
    start_server: Serving,
    catalog: StaticCatalog,
    caplog: pytest.LogCaptureFixture,
    error: type[Exception],
) -> None:
    def validate(token: str) -> str:
        raise error(f"cannot ask about {token}")

    flight_client = bearing(start_server(catalog, auth=validate), "secret-token")

    with pytest.raises(flight.FlightUnavailableError, match="nobody can be authenticated now"):
        flight_client.list_schemas()
    assert f"authentication failed with {error.__name__}" in caplog.text
    assert "secret-token" not in caplog.text


def test_a_callable_that_fails_refuses_without_its_own_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def validate(token: str) -> str:
        raise RuntimeError(f"cannot look up {token}")

    with pytest.raises(UnauthenticatedError) as refused:
        BearerAuth(validate).authenticate("secret-token")

    assert str(refused.value) == "the bearer token is not valid"
    assert caplog.messages == ["authentication failed with RuntimeError"]


def test_a_callable_may_refuse_in_its_own_words() -> None:
    def validate(token: str) -> str:
        raise PermissionDeniedError("your account is closed")

    with pytest.raises(PermissionDeniedError, match="your account is closed"):
        BearerAuth(validate).authenticate("t")


def test_a_refusal_of_a_callable_reaches_the_client(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    def validate(token: str) -> str:
        raise PermissionDeniedError("your account is closed")

    flight_client = start_server(catalog, auth=validate, headers={"authorization": "Bearer t"})

    with pytest.raises(flight.FlightUnauthorizedError, match="your account is closed"):
        flight_client.list_schemas()


def test_sources_of_authentication_become_authenticators() -> None:
    table = TokenTable(TOKENS)

    assert authenticator_of(None) is None
    assert authenticator_of(table) is table
    assert isinstance(table, Authenticator)
    assert isinstance(authenticator_of(TOKENS), TokenTable)
    assert isinstance(authenticator_of(TOKENS.get), BearerAuth)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (None, None),
        ("", None),
        ("Bearer", None),
        ("Bearer  ", None),
        ("Basic abc", None),
        ("Bearer abc", "abc"),
        ("bearer abc ", "abc"),
        ("BEARER a b", "a b"),
    ],
)
def test_the_token_of_a_header(header: str | None, token: str | None) -> None:
    assert bearer_token(header) == token


def test_an_oversized_token_is_refused() -> None:
    with pytest.raises(UnauthenticatedError, match="the bearer token is too long") as refused:
        bearer_token("Bearer " + "x" * 16385)

    assert "xx" not in str(refused.value)


def test_an_oversized_token_never_reaches_the_authenticator(
    start_server: Serving, catalog: StaticCatalog
) -> None:
    seen: list[str] = []
    flight_client = start_server(catalog, auth=seen.append)

    with pytest.raises(pa.ArrowException):
        bearing(flight_client, "x" * 100_000).list_schemas()

    assert seen == []
