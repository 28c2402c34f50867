"""Policies: which callers may do what with which tables, and which rows and columns they see.

Without policies everything is allowed. With the first policy, only what a policy allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from lakeport._cache import LruCache
from lakeport.auth.authorization import AccessRequest
from lakeport.auth.identity import Identity
from lakeport.auth.operations import Operation
from lakeport.auth.policy_sql import PolicyExpression
from lakeport.auth.restrictions import Grant, Restriction, united
from lakeport.errors import DefinitionError
from lakeport.types import fold_name

__all__ = ["PERMISSIONS", "Policies", "Policy", "Who", "grant"]

PERMISSIONS: Final = (
    *("select", "insert", "update", "delete", "alter", "create", "drop"),
    *("maintain", "admin", "spark_sql"),
)
"""What a policy can allow."""

_OF_ROWS: Final = frozenset({"insert", "update", "delete"})
_PART: Final = re.compile(r'"((?:[^"]|"")+)"|([^".\s]+)')


@dataclass(frozen=True, slots=True)
class Who:
    """Callers: everyone, or those who have one of the users, one of the groups and all attributes.

    What is left out is not compared.
    """

    everyone: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    attributes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise DefinitionError if no caller, or both all and some, are named."""
        named = bool(self.users or self.groups or self.attributes)
        if named == self.everyone:
            raise DefinitionError(
                'who of a policy is "everyone", or has users, groups or attributes'
            )

    def includes(self, caller: Identity) -> bool:
        """Return whether a caller is one of them."""
        if self.everyone:
            return True
        return (
            (not self.users or caller.user in self.users)
            and (not self.groups or bool(self.groups & caller.groups))
            and all(caller.attributes.get(k) == v for k, v in self.attributes.items())
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy: who may do what on which tables, and what they see of them."""

    who: Who
    on: str
    """`lake.schema.table`, each a name or a glob such as `*`; with quotes if it has a dot."""
    allow: frozenset[str]
    rows: PolicyExpression | None = None
    """The condition of the rows that are there for them; all rows without it."""
    hide: frozenset[str] = frozenset()
    """Columns that are not there for them."""
    mask: Mapping[str, PolicyExpression] = field(default_factory=dict)
    """What they see instead of the values of columns."""
    where: str = ""
    """Where the policy is written, for messages."""

    def __post_init__(self) -> None:
        """Raise DefinitionError for a pattern or a permission that does not exist."""
        unknown = sorted(self.allow - set(PERMISSIONS))
        if unknown or not self.allow:
            known = ", ".join(PERMISSIONS)
            raise DefinitionError(
                f"{self.where or 'a policy'}: allow has "
                + (f"{unknown[0]!r}, which is not one of {known}" if unknown else "no permission")
            )
        both = sorted(fold_name(n) for n in self.hide if fold_name(n) in map(fold_name, self.mask))
        if both:
            raise DefinitionError(
                f"{self.where or 'a policy'}: column {both[0]!r} is both hidden and masked"
            )
        _pattern(self.on, self.where)

    @property
    def parts(self) -> tuple[str, str, str]:
        """The globs of lake, schema and table, in lower case."""
        return _pattern(self.on, self.where)

    @property
    def is_restricted(self) -> bool:
        """Whether the policy leaves out rows or columns, or masks."""
        return self.rows is not None or bool(self.hide) or bool(self.mask)


class Policies:
    """The policies of a server: an authorizer, which also restricts rows and columns.

    Args:
        policies: In the order of their masks.
        names: The names of catalogs in policies, by their registered names, where they differ.
    """

    def __init__(self, policies: Sequence[Policy], names: Mapping[str, str] | None = None) -> None:
        self.policies = tuple(policies)
        self._names = dict(names or {})
        self._patterns = {id(policy): policy.parts for policy in self.policies}
        # Decisions never change: a reload makes new policies.
        self._applying = LruCache(1000)
        self._restrictions = LruCache(10_000)

    def __call__(self, access: AccessRequest) -> bool:
        """Return whether a caller may do something."""
        applying, catalog = self._of(access.caller), access.catalog
        if access.schema is None:
            wanted = None if access.operation in (Operation.LIST, Operation.READ) else "admin"
            maintains = access.verb == Operation.MAINTAIN.value
            return any(
                self._on(p, catalog)
                and (
                    _allows(p, wanted)
                    or (maintains and self._is_on_all(p) and "maintain" in p.allow)
                )
                for p in applying
            )
        if access.describes_catalog:
            wanted = access.name if access.name == "spark_sql" else None
            return any(self._on(p, catalog) and _allows(p, wanted) for p in applying)
        if access.name is None:
            wanted = None if access.operation in (Operation.LIST, Operation.READ) else _verb(access)
            return any(
                self._on(p, catalog, access.schema)
                and _allows(p, wanted)
                and (wanted is None or self._patterns[id(p)][2] == "*")
                for p in applying
            )
        return bool(
            self.granting(access.caller, _verb(access), catalog, access.schema, access.name)
        )

    def may(self, caller: Identity, permission: str, catalog: str, schema: str, name: str) -> bool:
        """Return whether a caller has a permission on a table."""
        return bool(self.granting(caller, permission, catalog, schema, name))

    def granting(
        self, caller: Identity, permission: str | None, catalog: str, schema: str, name: str
    ) -> list[Policy]:
        """Return the policies that give a caller a permission on a table; any one for None.

        `write` is any of `insert`, `update` and `delete`.
        """
        return [
            policy
            for policy in self._of(caller)
            if self._on(policy, catalog, schema, name) and _allows(policy, permission)
        ]

    def restriction(
        self, caller: Identity, catalog: str, schema: str, name: str, verb: str = "select"
    ) -> Restriction | None:
        """Return what the policies leave of a table; None if all of it.

        A caller without the permission `verb` gets a restriction without grants, which hides all.
        """

        def load() -> tuple[Restriction | None]:
            granting = self.granting(caller, verb, catalog, schema, name)
            return (united([grant(policy, caller) for policy in granting]),)

        key = (caller, catalog, fold_name(schema), fold_name(name), verb)
        found: tuple[Restriction | None] = self._restrictions.get_or_load(key, load)
        return found[0]

    def matching(self, catalog: str, schema: str, name: str) -> list[Policy]:
        """Return the policies about a table, for any caller."""
        return [policy for policy in self.policies if self._on(policy, catalog, schema, name)]

    def about(self, catalog: str) -> list[Policy]:
        """Return the policies about tables of a catalog, for any caller."""
        return [policy for policy in self.policies if self._on(policy, catalog)]

    def _of(self, caller: Identity) -> tuple[Policy, ...]:
        found: tuple[Policy, ...] = self._applying.get_or_load(
            caller, lambda: tuple(p for p in self.policies if p.who.includes(caller))
        )
        return found

    def _is_on_all(self, policy: Policy) -> bool:
        return self._patterns[id(policy)][1:] == ("*", "*")

    def _on(self, policy: Policy, catalog: str, *names: str) -> bool:
        called = self._names.get(catalog, catalog)
        # zip ends with the shorter: a catalog is compared by the first part of the pattern only.
        parts = zip(self._patterns[id(policy)], (called, *names), strict=False)
        return all(fnmatchcase(fold_name(name), pattern) for pattern, name in parts)


def grant(policy: Policy, caller: Identity) -> Grant:
    """Return the view of a table that a policy grants to a caller."""
    expressions = [*policy.mask.values(), *([policy.rows] if policy.rows else [])]
    return Grant(
        rows=None if policy.rows is None else policy.rows.sql(caller),
        hidden=frozenset(map(fold_name, policy.hide)),
        masks={fold_name(name): mask.sql(caller) for name, mask in policy.mask.items()},
        columns=frozenset().union(*(expression.columns for expression in expressions)),
        policy=policy.where,
    )


def _verb(access: AccessRequest) -> str | None:
    """Return the permission that an operation needs; None for any."""
    if access.verb:
        return access.verb
    needs: Mapping[Operation, str | None] = {
        Operation.LIST: None,
        Operation.READ: "select",
        Operation.CALL: "select",
        Operation.WRITE: "write",
    }
    return needs.get(access.operation, access.operation.value)


def _allows(policy: Policy, permission: str | None) -> bool:
    if permission is None:
        return True
    if permission == "write":
        return bool(policy.allow & _OF_ROWS)
    if permission == "maintain" and "alter" in policy.allow:
        return True
    return permission in policy.allow


def _pattern(on: str, where: str) -> tuple[str, str, str]:
    """Return the three folded globs of `lake.schema.table`."""
    parts: list[str] = []
    position = 0
    while match := _PART.match(on, position):
        quoted, plain = match.groups()
        # The characters of globs are themselves inside quotes.
        text = plain or re.sub(r"([*?\[])", r"[\1]", quoted.replace('""', '"'))
        parts.append(fold_name(text))
        position = match.end()
        if position == len(on) or on[position] != ".":
            break
        position += 1
    if len(parts) != 3 or position != len(on):
        raise DefinitionError(
            f"{where or 'a policy'}: on is {on[:80]!r}, which is not lake.schema.table"
        )
    return parts[0], parts[1], parts[2]
