"""`lakeport token`: keys and tokens for a server without an identity provider."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import typer

from lakeport.auth import SIGNING_ALGORITHM, JwtAuth, KeySet, SigningKey
from lakeport.cli.arguments import read_token
from lakeport.cli.output import make_console, printable
from lakeport.errors import DefinitionError

__all__ = ["token"]

token = typer.Typer(
    name="token",
    help="Make and check keys and tokens for a server without an identity provider.",
    no_args_is_help=True,
)

ISSUER: Final = "lakeport"
AUDIENCE: Final = "lakeport"

# A server reads these, and of the others those that its configuration names.
_CLAIMS: Final = frozenset({"iss", "aud", "sub", "exp", "nbf", "iat", "groups"})

_DURATION: Final = re.compile(r"(\d{1,6})([smhd])")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@token.command()
def key(
    file: Annotated[Path, typer.Argument(help="The file for the private key (PEM).")],
) -> None:
    """Make a key: FILE for signing, FILE with the ending .jwks for servers.

    The private key stays with those who make tokens. A server needs only the other file:

      lakeport token key lakeport.pem
    """
    made = SigningKey.generate()
    public = file.with_suffix(".jwks")
    for path in (file, public):
        if path.exists():
            raise DefinitionError(f"there is a file {path} already; keys are never overwritten")
    _write(file, made.pem(), 0o600)
    _write(public, made.key_set().encode() + b"\n", 0o644)
    typer.echo(f"{file} signs tokens: keep it secret. For the server:", err=True)
    typer.echo(
        f'[[issuer]]\nissuer = "{ISSUER}"\naudience = ["{AUDIENCE}"]\njwks_file = "{public}"'
    )


@token.command()
def make(
    user: Annotated[str, typer.Argument(help="The user of the token.")],
    key: Annotated[Path, typer.Option(help="The private key of 'lakeport token key'.")],
    group: Annotated[list[str] | None, typer.Option(help="A group; may be repeated.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="An attribute, as name=text; may be repeated.")
    ] = None,
    valid: Annotated[str, typer.Option(help="For how long: 90s, 15m, 12h, 30d.")] = "12h",
    issuer: Annotated[str, typer.Option(help="The claim iss.")] = ISSUER,
    audience: Annotated[str, typer.Option(help="The claim aud.")] = AUDIENCE,
) -> None:
    """Print a token of USER, for the option AUTH_TOKEN of a secret in DuckDB.

    For example:

      lakeport token make ada --key lakeport.pem --group analysts --attribute region=eu
    """
    pairs = [text.partition("=") for text in attribute or []]
    if not all(name and separator for name, separator, _ in pairs):
        raise DefinitionError("an attribute is written as name=text")
    reserved = _CLAIMS & {pair[0] for pair in pairs}
    if reserved:
        raise DefinitionError(f"an attribute cannot be called {min(reserved)!r}")
    try:
        signing = SigningKey.load(key.read_bytes())
    except OSError as error:
        raise DefinitionError(f"the key {key} cannot be read: {error.strerror}") from None
    if pairs:
        mapping = ", ".join(f"{json.dumps(name)} = {json.dumps(name)}" for name, _, _ in pairs)
        typer.echo(f"the server's [[issuer]] needs: attributes = {{ {mapping} }}", err=True)
    typer.echo(
        signing.sign(
            user,
            issuer=issuer,
            audience=audience,
            seconds=_seconds(valid),
            groups=group or [],
            attributes={name: text for name, _, text in pairs},
        )
    )


@token.command()
def check(
    keys: Annotated[Path, typer.Option(help="The public keys: the .jwks file of a server.")],
    file: Annotated[
        Path | None, typer.Option(help="The file with the token; standard input by default.")
    ] = None,
    issuer: Annotated[str, typer.Option(help="The claim iss.")] = ISSUER,
    audience: Annotated[str, typer.Option(help="The claim aud.")] = AUDIENCE,
) -> None:
    """Check a token as a server does, and print whose it is and how long it is valid.

    For example:

      lakeport token check --keys lakeport.jwks --file token-of-ada
    """
    text = read_token(file) if file is not None else sys.stdin.read(64 * 1024).strip()
    auth = JwtAuth(
        issuer, audience=audience, keys=KeySet.of_file(keys), algorithms=(SIGNING_ALGORITHM,)
    )
    claims = auth.verify(text)
    identity = auth.authenticate(text)
    console = make_console()
    console.print(f"user    {printable(identity.user)}", highlight=False, markup=False)
    groups = ", ".join(sorted(identity.groups)) or "none"
    console.print(f"groups  {printable(groups)}", highlight=False, markup=False)
    for name in sorted(claims.keys() - _CLAIMS):
        text = printable(f"{name} = {claims[name]}")
        console.print(f"claim   {text}", highlight=False, markup=False)
    left = int(claims["exp"] - time.time())
    console.print(f"valid   for {left} more seconds", highlight=False, markup=False)


def _seconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise DefinitionError(f"{text[:20]!r} is no duration such as 90s, 15m, 12h or 30d")
    return int(match[1]) * _UNITS[match[2]]


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as out:
            out.write(content)
    except OSError as error:
        raise DefinitionError(f"cannot write {path}: {error.strerror}") from None
