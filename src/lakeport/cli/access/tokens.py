"""The tokens of a server: the identity of each, and the lakes that it may read.

Tokens of a token file may read every lake. A `[[token]]` of the configuration names its lakes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakeport.auth import Identity
from lakeport.cli.arguments import default_name, read_token, read_tokens
from lakeport.cli.config import LakeSettings, Settings, TokenSettings, check_token
from lakeport.errors import DefinitionError

__all__ = ["Tokens"]

_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Tokens:
    """All tokens of a server."""

    identities: Mapping[str, Identity] = field(default_factory=dict, repr=False)
    """The identity of each token."""
    lakes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The catalogs that a user may read; a user without an entry may read all."""

    @classmethod
    def of(cls, settings: Settings, served: Mapping[str, LakeSettings]) -> Tokens:
        """Read the tokens of the settings; `served` are the catalogs by name."""
        file = settings.server.token_file
        read = read_tokens(file) if file is not None else {}
        identities = {token: Identity(user, method="token") for token, user in read.items()}
        known = {identity.user: identity for identity in identities.values()}
        lakes: dict[str, frozenset[str]] = {}
        for number, entry in enumerate(settings.token, 1):
            where = f"token {number}, of {entry.identity!r}"
            token = _read(entry, where)
            if token in identities:
                raise DefinitionError(f"{where}: the same token is given twice")
            names = _names(entry, served, where)
            identity = Identity(
                entry.identity, frozenset(entry.groups), entry.attributes, method="token"
            )
            same = known.setdefault(entry.identity, identity) == identity
            if entry.identity in read.values() or lakes.get(entry.identity, names) != names:
                raise DefinitionError(
                    f"{where}: all tokens of an identity need the same lakes; those of the token "
                    "file read every lake"
                )
            if not same:
                raise DefinitionError(
                    f"{where}: all tokens of an identity need the same groups and attributes"
                )
            identities[token] = identity
            lakes[entry.identity] = names
        return cls(identities, lakes)

    def allows(self, user: str, catalog: str) -> bool:
        """Return whether the owner of a token may use a catalog."""
        if not any(identity.user == user for identity in self.identities.values()):
            return False
        lakes = self.lakes.get(user)
        return lakes is None or catalog in lakes


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
    """Return the served names of the lakes of a token."""
    # A single lake without a name is written by its default name.
    served_names = {name or default_name(lake.uri): name for name, lake in served.items()}
    if _ALL in entry.lakes:
        return frozenset(served)
    missing = [name for name in entry.lakes if name not in served_names]
    if missing:
        raise DefinitionError(f"{where}: there is no lake {missing[0]!r}")
    return frozenset(served_names[name] for name in entry.lakes)
