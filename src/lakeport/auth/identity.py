"""`Identity`: the caller of a request, as an authenticator has recognised it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from lakeport.errors import DefinitionError, UnauthenticatedError

__all__ = ["ANONYMOUS", "Identity", "identity_of"]

_MAX_NAME: Final = 256
# Control characters would let a name of a token forge lines of a log.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True, slots=True, eq=True)
class Identity:
    """A caller: a user with groups and attributes.

        Identity("ada", groups={"analysts"}, attributes={"region": "eu"})

    Two identities are equal if user, groups and attributes are.
    """

    user: str
    """The name of the user; empty for an anonymous caller."""
    groups: frozenset[str] = frozenset()
    """The groups of the user, for policies."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """Texts about the user, for policies and for `user_attribute('…')` in them."""
    method: str = field(default="", compare=False)
    """How the caller was authenticated: `token`, `jwt`, `certificate`; empty without."""

    def __post_init__(self) -> None:
        """Freeze groups and attributes; raise DefinitionError for names that are not texts."""
        groups: Iterable[str] = self.groups
        if isinstance(groups, str):
            raise DefinitionError("the groups of an identity are a set of names, not one text")
        object.__setattr__(self, "groups", frozenset(groups))
        object.__setattr__(self, "attributes", MappingProxyType(dict(self.attributes)))
        for name in (self.user, *self.groups, *self.attributes, *self.attributes.values()):
            check_name(name)

    def __hash__(self) -> int:
        return hash((self.user, self.groups, frozenset(self.attributes.items())))


def check_name(name: object) -> str:
    """Return a user, group or attribute; raise DefinitionError if it cannot be one."""
    if not isinstance(name, str) or len(name) > _MAX_NAME or _CONTROL.search(name):
        raise DefinitionError(
            "a user, group or attribute of an identity is a text of at most "
            f"{_MAX_NAME} characters without control characters"
        )
    return name


ANONYMOUS: Final = Identity("")
"""The caller of a server without authentication."""


def identity_of(found: str | Identity) -> Identity:
    """Return the identity for what an authenticator returned; raise for an empty one."""
    try:
        identity: object = Identity(found, method="token") if isinstance(found, str) else found
    except DefinitionError:
        raise UnauthenticatedError("the bearer token is not valid") from None
    if not isinstance(identity, Identity) or not identity.user:
        raise UnauthenticatedError("the bearer token is not valid")
    return identity
