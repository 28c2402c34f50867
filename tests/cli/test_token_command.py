"""`lakeport token`: keys and tokens, and a server that accepts them."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import lakeport
from lakeport.cli.access.server_access import AccessRules
from lakeport.cli.app import app
from lakeport.cli.config import load_settings
from lakeport.errors import DefinitionError, UnauthenticatedError

runner = CliRunner()


def made(folder: Path, *options: str) -> str:
    """A token of a new key of the folder."""
    key = folder / "lakeport.pem"
    if not key.exists():
        shown = runner.invoke(app, ["token", "key", str(key)])
        assert shown.exit_code == 0, shown.output
        (folder / "lakeport.toml").write_text(shown.stdout)
    result = runner.invoke(app, ["token", "make", "ada", "--key", str(key), *options])
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


def test_a_server_accepts_the_tokens_of_a_key(tmp_path: Path) -> None:
    token = made(tmp_path, "--group", "analysts", "--attribute", "region=eu")
    file = tmp_path / "lakeport.toml"
    file.write_text(file.read_text() + 'attributes = { region = "region" }\n')

    rules = AccessRules.of(load_settings(file), {})

    assert rules.authenticator is not None
    assert rules.authenticator.authenticate(token) == lakeport.Identity(
        "ada", frozenset({"analysts"}), {"region": "eu"}
    )
    with pytest.raises(UnauthenticatedError):
        rules.authenticator.authenticate(made(tmp_path, "--audience", "elsewhere"))
    with pytest.raises(UnauthenticatedError):
        rules.authenticator.authenticate(made(tmp_path, "--issuer", "elsewhere"))


def test_a_key_is_private_and_never_overwritten(tmp_path: Path) -> None:
    made(tmp_path)
    key = tmp_path / "lakeport.pem"

    again = runner.invoke(app, ["token", "key", str(key)])

    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert again.exit_code == 1
    assert "never overwritten" in again.output
    assert "PRIVATE" not in (tmp_path / "lakeport.jwks").read_text()
    assert '"d"' not in (tmp_path / "lakeport.jwks").read_text()


def test_a_token_is_checked_as_a_server_does(tmp_path: Path) -> None:
    token = made(tmp_path, "--group", "analysts", "--valid", "90s")
    check = ["token", "check", "--keys", str(tmp_path / "lakeport.jwks")]

    shown = runner.invoke(app, check, input=token)
    wrong = runner.invoke(app, check, input=token[:-4] + "AAAA")

    assert shown.exit_code == 0, shown.output
    assert "ada" in shown.output
    assert "analysts" in shown.output
    assert wrong.exit_code == 1
    assert "the bearer token is not valid" in wrong.output
    assert token[:20] not in shown.output + wrong.output


def test_an_attribute_is_shown_with_what_the_server_needs_for_it(tmp_path: Path) -> None:
    made(tmp_path)
    arguments = ["token", "make", "ada", "--key", str(tmp_path / "lakeport.pem")]

    token = runner.invoke(app, [*arguments, "--attribute", "region=eu"])

    needed = token.stderr.partition("[[issuer]] needs: ")[2]
    assert tomllib.loads(needed) == {"attributes": {"region": "region"}}
    check = ["token", "check", "--keys", str(tmp_path / "lakeport.jwks")]
    assert "claim   region = eu" in runner.invoke(app, check, input=token.stdout).stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--valid", "soon"], "is no duration"),
        (["--valid", "0s"], "a time for which it is valid"),
        (["--attribute", "region"], "name=text"),
        (["--attribute", "sub=root"], "cannot be called 'sub'"),
        (["--group", "a\nb"], "without control characters"),
    ],
)
def test_a_wrong_option_is_one_sentence(tmp_path: Path, options: list[str], sentence: str) -> None:
    made(tmp_path)

    result = runner.invoke(
        app, ["token", "make", "ada", "--key", str(tmp_path / "lakeport.pem"), *options]
    )

    assert result.exit_code == 1
    assert sentence in result.output


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[issuer]]\nissuer = "x"\naudience = []\n', "issuer.1.audience"),
        (
            '[[issuer]]\nissuer = "x"\naudience = ["y"]\nalgorithms = ["HS256"]\n',
            "issuer.1.algorithms",
        ),
        ('[[issuer]]\nissuer = "http://login.example"\naudience = ["y"]\n', "https://"),
        (
            '[[issuer]]\nissuer = "x"\naudience = ["y"]\njwks_file = "/no/such"\n',
            "cannot be read, or has no key",
        ),
        (
            '[[issuer]]\nissuer = "x"\naudience = ["y"]\njwks_file = "a"\njwks_url = "b"\n',
            "give one of jwks_url and jwks_file",
        ),
        ('[[certificate]]\nsubject = "*"\nuser = "root"\n', "cannot have a user"),
        (
            '[[certificate]]\nsubject = "a"\n[[certificate]]\nsubject = "a"\n',
            "certificate 'a' is given twice",
        ),
    ],
)
def test_a_wrong_issuer_or_certificate_is_one_sentence(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "lakeport.toml"
    file.write_text(text)

    with pytest.raises(DefinitionError, match=sentence):
        AccessRules.of(load_settings(file), {})
