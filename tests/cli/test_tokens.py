"""`[[token]]` of the configuration: who may read which lakes, also after a reload."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import lakeport
from lakeport.cli.access.server_access import AccessRules, ServerAccess
from lakeport.cli.access.tokens import Tokens
from lakeport.cli.config import LakeSettings, TokenSettings, load_settings
from lakeport.errors import (
    DefinitionError,
    LakeportError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from tests.cli.processes import COMMAND, running, serving

ADA = "token-of-ada-0123456789"
BOB = "token-of-bob-0123456789"
EVE = "token-of-eve-0123456789"

LAKES = '[[lake]]\nname = "red"\nuri = "memory:"\n[[lake]]\nname = "blue"\nuri = "memory:"\n'
CATALOGS = {name: LakeSettings(uri="memory:", name=name) for name in ("red", "blue")}


@pytest.fixture
def configured(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        file = tmp_path / "lakeport.toml"
        file.write_text(text)
        return file

    return write


def token(identity: str, source: str, *lakes: str) -> str:
    return f'[[token]]\nidentity = "{identity}"\n{source}\nlakes = {json.dumps(lakes)}\n'


def seen(location: str, secret: str) -> list[str]:
    with lakeport.connect(location, token=secret) as client:
        return [row["name"] for row in client.databases()]


def refusal(location: str, secret: str, catalog: str) -> LakeportError:
    """The error of a caller who lists the schemas of a catalog."""
    with (
        lakeport.connect(location, token=secret, catalog=catalog) as client,
        pytest.raises(LakeportError) as told,
    ):
        client.schemas()
    return told.value


@pytest.mark.process
def test_a_token_reads_the_lakes_that_are_named_for_it(
    configured: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "bob").write_text(f"{BOB}\n")
    (tmp_path / "tokens").write_text(f"{EVE} eve\n")
    config = configured(
        LAKES
        + token("ada", f'token = "{ADA}"', "red")
        + token("bob", f'file = "{tmp_path / "bob"}"', "*")
        + token("carl", 'environment = "TOKEN_OF_CARL"')
        + f'[server]\ntoken_file = "{tmp_path / "tokens"}"\n'
    )
    carl = "token-of-carl-0123456789"

    with serving("--config", str(config), TOKEN_OF_CARL=carl) as server:
        location = server.location
        catalogs = {secret: seen(location, secret) for secret in (ADA, BOB, EVE, carl)}
        with lakeport.connect(location, token=ADA, catalog="red") as client:
            client.create_schema("s")
            schemas = [schema.name for schema in client.schemas()]
        denied, missing = refusal(location, ADA, "blue"), refusal(location, ADA, "nowhere")
        stranger = refusal(location, "token-of-nobody-0123456789", "red")
        log = "\n".join(server.log.all)

    assert catalogs == {ADA: ["red"], BOB: ["red", "blue"], EVE: ["red", "blue"], carl: []}
    assert schemas == ["s"]
    assert isinstance(denied, PermissionDeniedError)
    assert str(denied) == "you may not list blue"
    # What a token may not read is not told from what does not exist.
    assert type(missing) is type(denied)
    assert str(missing) == "you may not list nowhere"
    assert isinstance(stranger, UnauthenticatedError)
    assert not any(secret in log for secret in (ADA, BOB, EVE, carl))


@pytest.mark.process
def test_sighup_reads_the_tokens_again_and_a_wrong_one_changes_nothing(
    configured: Callable[[str], Path],
) -> None:
    config = configured(LAKES + token("ada", f'token = "{ADA}"', "red"))

    with serving("--config", str(config)) as server:
        location = server.location
        assert seen(location, ADA) == ["red"]

        configured(
            LAKES + token("ada", f'token = "{ADA}"', "blue") + token("bob", f'token = "{BOB}"', "*")
        )
        server.send(signal.SIGHUP)
        server.log.wait_for("reloaded the catalogs")
        assert seen(location, ADA) == ["blue"]
        assert seen(location, BOB) == ["red", "blue"]
        assert isinstance(refusal(location, ADA, "red"), PermissionDeniedError)

        configured(LAKES + token("eve", f'token = "{EVE}"', "green"))
        server.send(signal.SIGHUP)
        server.log.wait_for("there is no lake 'green'")
        assert seen(location, ADA) == ["blue"]
        assert isinstance(refusal(location, EVE, "red"), UnauthenticatedError)

        configured(LAKES)
        server.send(signal.SIGHUP)
        server.log.wait_for("restart the server to go without tokens")
        assert isinstance(refusal(location, EVE, "red"), UnauthenticatedError)

        configured(LAKES + token("bob", f'token = "{BOB}"', "red"))
        server.send(signal.SIGHUP)
        server.log.wait_for(
            lambda _: sum("reloaded the catalogs" in line for line in server.log.all) == 2
        )
        assert isinstance(refusal(location, ADA, "blue"), UnauthenticatedError)
        assert seen(location, BOB) == ["red"]
        log = "\n".join(server.log.all)

    assert not any(secret in log for secret in (ADA, BOB, EVE))


@pytest.mark.process
def test_a_server_without_tokens_does_not_become_half_closed(
    configured: Callable[[str], Path],
) -> None:
    config = configured(LAKES)

    with serving("--config", str(config)) as server:
        configured(LAKES + token("ada", f'token = "{ADA}"', "red"))
        server.send(signal.SIGHUP)
        server.log.wait_for("the server runs without tokens: restart it")
        with lakeport.connect(server.location) as client:
            assert [row["name"] for row in client.databases()] == ["red", "blue"]


def test_a_lake_that_stands_alone_is_named_by_its_default_name() -> None:
    served = {"": LakeSettings(uri="memory:")}
    entry = TokenSettings(identity="ada", token=ADA, lakes=["lake"])
    settings = load_settings().model_copy(update={"token": [entry]})

    policy = ServerAccess(AccessRules.of(settings, served))

    assert policy.authenticate(ADA) == lakeport.Identity("ada")
    assert policy(lakeport.AccessRequest("ada", lakeport.Operation.LIST, ""))
    assert not policy(lakeport.AccessRequest("eve", lakeport.Operation.LIST, ""))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (token("ada", 'token = "short"', "red"), "token.1.token: Value error, a token needs at"),
        ('[[token]]\nidentity = "ada"\nlakes = ["red"]\n', "give one of token, file and environ"),
        (
            token("ada", f'token = "{ADA}"\nfile = "x"', "red"),
            "give one of token, file and environ",
        ),
        (f'[[token]]\nidentity = "ada"\ntoken = "{ADA}"\n', "token.1.lakes: Field required"),
        (f'[[token]]\ntoken = "{ADA}"\nlakes = []\n', "token.1.identity: Field required"),
        (token("", f'token = "{ADA}"'), "token.1.identity: String should have at least 1"),
        (token("ada", 'environment = "NO_SUCH_VARIABLE"', "red"), "no variable NO_SUCH_VARIABLE"),
        (token("ada", 'environment = "SHORT"', "red"), "a token needs at least 16 characters"),
        (token("ada", 'file = "/no/such/file"', "red"), "cannot be read from /no/such/file"),
        (token("ada", f'token = "{ADA}"', "green"), "there is no lake 'green'"),
        (
            token("ada", f'token = "{ADA}"', "red") + token("bob", f'token = "{ADA}"', "red"),
            "token 2, of 'bob': the same token is given twice",
        ),
        (
            token("ada", f'token = "{ADA}"', "red") + token("ada", f'token = "{BOB}"', "blue"),
            "token 2, of 'ada': all tokens of an identity need the same lakes",
        ),
    ],
)
def test_a_wrong_token_is_one_sentence_without_the_token(
    configured: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    sentence: str,
) -> None:
    monkeypatch.setenv("SHORT", "hunter2")

    with pytest.raises(DefinitionError) as told:
        Tokens.of(load_settings(configured(text)), CATALOGS)

    assert sentence in str(told.value)
    assert not any(secret in str(told.value) for secret in (ADA, BOB, 'short"', "hunter2"))


def test_an_identity_of_the_token_file_cannot_be_restricted_by_the_way(
    configured: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text(f"{BOB} ada\n")
    config = configured(
        token("ada", f'token = "{ADA}"', "red")
        + f'[server]\ntoken_file = "{tmp_path / "tokens"}"\n'
    )

    with pytest.raises(DefinitionError, match="those of the token file read every lake"):
        Tokens.of(load_settings(config), CATALOGS)


def test_the_variable_of_clients_is_no_setting_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LAKEPORT_TOKEN", ADA)

    assert load_settings().token == []


def test_tokens_are_not_shown(configured: Callable[[str], Path]) -> None:
    settings = load_settings(configured(token("ada", f'token = "{ADA}"', "red")))

    assert ADA not in repr(settings)
    assert ADA not in repr(Tokens.of(settings, CATALOGS))


@pytest.mark.process
@pytest.mark.parametrize("prefix", [[], ["nohup"]])
def test_a_sighup_while_the_server_starts_is_a_reload_when_it_has_started(
    configured: Callable[[str], Path], prefix: list[str]
) -> None:
    lakes = '[[lake]]\nname = "red"\nuri = "hangs_up:catalog"\n'
    config = configured(lakes + token("ada", f'token = "{ADA}"', "red"))
    command = [*prefix, *COMMAND, "serve", "--config", str(config), "--listen", "127.0.0.1:0"]
    added = token("bob", f'token = "{BOB}"', "red")

    with running(command, CONFIGURATION=str(config), ADDED=added) as server:
        server.log.wait_for("reloaded the catalogs")
        assert seen(server.location, ADA) == ["red"]
        assert seen(server.location, BOB) == ["red"]
