"""The tokens of a server: whom each stands for, and which lakes it may read.

A token file gives every lake to each of its tokens; a `[[token]]` of the configuration names lakes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakeport.auth import AccessRequest, TokenTable
from lakeport.cli.arguments import default_name, read_token, read_tokens
from lakeport.cli.config import LakeSettings, Settings, TokenSettings, check_token
from lakeport.errors import DefinitionError

__all__ = ["TokenPolicy", "Tokens"]

_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Tokens:
    """All tokens of a server."""

    identities: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Whom a token stands for."""
    lakes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The catalogs that an identity may reach; one that is not here may reach all of them."""

    @classmethod
    def of(cls, settings: Settings, served: Mapping[str, LakeSettings]) -> Tokens:
        """Read the tokens of the settings; `served` are the catalogs by name."""
        file = settings.server.token_file
        identities = read_tokens(file) if file is not None else {}
        in_file = set(identities.values())
        lakes: dict[str, frozenset[str]] = {}
        for number, entry in enumerate(settings.token, 1):
            where = f"token {number}, of {entry.identity!r}"
            token = _read(entry, where)
            if token in identities:
                raise DefinitionError(f"{where}: the same token is given twice")
            names = _names(entry, served, where)
            if entry.identity in in_file or lakes.get(entry.identity, names) != names:
                raise DefinitionError(
                    f"{where}: all tokens of an identity need the same lakes; those of the token "
                    "file read every lake"
                )
            identities[token] = entry.identity
            lakes[entry.identity] = names
        return cls(identities, lakes)


class TokenPolicy:
    """Authenticates and authorises by tokens, which may be replaced while the server runs."""

    def __init__(self, tokens: Tokens) -> None:
        # One reference, replaced as a whole: no call sees half of the old and half of the new.
        self._current = (tokens, TokenTable(tokens.identities))

    def replace(self, tokens: Tokens) -> None:
        """Let in the callers of these tokens only, from now on."""
        self._current = (tokens, TokenTable(tokens.identities))

    def authenticate(self, token: str) -> str:
        """Return the identity behind a token."""
        return self._current[1].authenticate(token)

    def authorize(self, access: AccessRequest) -> bool:
        """Return whether the caller may reach the catalog; within it, everything is allowed."""
        tokens = self._current[0]
        if access.identity not in tokens.identities.values():
            return False
        lakes = tokens.lakes.get(access.identity)
        return lakes is None or access.catalog in lakes


def _read(entry: TokenSettings, where: str) -> str:
    if entry.token is not None:
        return entry.token
    if entry.file is not None:
        token = read_token(entry.file)
    else:
        variable = entry.environment or ""
        token = os.environ.get(variable, "")
        if not token:
            raise DefinitionError(f"{where}: there is no variable {variable} in the environment")
    try:
        return check_token(token)
    except ValueError as error:
        raise DefinitionError(f"{where}: {error}") from None


def _names(entry: TokenSettings, served: Mapping[str, LakeSettings], where: str) -> frozenset[str]:
    """The names that the lakes of a token are served by."""
    # A lake that stands alone without a name is called by the name that it would have.
    known = {name or default_name(lake.uri): name for name, lake in served.items()}
    if _ALL in entry.lakes:
        return frozenset(served)
    missing = [name for name in entry.lakes if name not in known]
    if missing:
        raise DefinitionError(f"{where}: there is no lake {missing[0]!r}")
    return frozenset(known[name] for name in entry.lakes)
