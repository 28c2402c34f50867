"""`Restriction`: what the policies of a caller leave of one table.

Each policy grants a filtered and masked view of a table. A caller sees the union of the views that
its policies grant: a row if one of the filters admits it, and in it each value as the most generous
of the admitting policies shows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from lakeport.auth.authorization import AccessRequest
from lakeport.auth.identity import Identity
from lakeport.auth.operations import MayDo, allow_everything
from lakeport.types import duckdb_identifier, fold_name

__all__ = [
    "NO_OTHERS",
    "Grant",
    "KnowsCallers",
    "OtherCallers",
    "RestrictingAuthorizer",
    "Restriction",
    "RestrictionOf",
    "no_restriction",
    "united",
]


@dataclass(frozen=True, slots=True)
class Grant:
    """The view of a table that one policy grants to one caller."""

    rows: str | None = None
    """The SQL of the row filter; None admits every row."""
    hidden: frozenset[str] = frozenset()
    """The names of hidden columns, in lower case."""
    masks: Mapping[str, str] = field(default_factory=dict)
    """The SQL of masks, by the names of columns in lower case."""
    columns: frozenset[str] = frozenset()
    """The names of columns that the SQL reads, in lower case."""
    policy: str = field(default="", compare=False)
    """Which policy it is, for people."""

    @property
    def is_everything(self) -> bool:
        """Whether the grant is the whole table."""
        return self.rows is None and not self.hidden and not self.masks


@dataclass(frozen=True, slots=True)
class Restriction:
    """The union of the grants of one caller for one table; never the whole table.

    Without grants there are no rows; columns are listed for those who may write.
    """

    grants: tuple[Grant, ...]

    @property
    def columns(self) -> frozenset[str]:
        """The names of columns that filters and masks read, in lower case."""
        return frozenset().union(*(grant.columns for grant in self.grants))

    @property
    def restricts_rows(self) -> bool:
        """Whether rows are left out."""
        return all(grant.rows is not None for grant in self.grants)

    @property
    def row_filter(self) -> str | None:
        """The SQL condition of the rows that the caller sees; None if all."""
        filters = [grant.rows for grant in self.grants]
        distinct = list(dict.fromkeys(text for text in filters if text is not None))
        return (" OR ".join(distinct) or "false") if self.restricts_rows else None

    def hides(self, names: Collection[str]) -> bool:
        """Return whether a column, which has or had these names, is in no grant."""
        folded = {fold_name(name) for name in names}
        return bool(self.grants) and all(grant.hidden & folded for grant in self.grants)

    def value(self, name: str, names: Collection[str]) -> str:
        """Return the SQL of a column's value; `names` are those that it has or had."""
        folded = {fold_name(each) for each in names}
        column = duckdb_identifier(name)
        shown = [(grant, _shown(grant, folded, column)) for grant in self.grants]
        plain = [grant for grant, sql in shown if sql == column]
        if len(plain) == len(shown) or any(grant.rows is None for grant in plain):
            return column
        if len({sql for _, sql in shown}) == 1 and shown[0][1] is not None:
            return shown[0][1]
        # Plain values first, then the masks in the order of the policies.
        ordered = [(grant, sql) for grant, sql in shown if sql == column]
        ordered += [(grant, sql) for grant, sql in shown if sql not in (column, None)]
        branches = " ".join(f"WHEN {grant.rows or 'true'} THEN {sql}" for grant, sql in ordered)
        return f"CASE {branches} END"

    def is_plain(self, names: Collection[str]) -> bool:
        """Return whether the caller sees the values of a column as they are."""
        folded = {fold_name(name) for name in names}
        return all(not grant.hidden & folded and not _mask(grant, folded) for grant in self.grants)


def _shown(grant: Grant, names: Collection[str], column: str) -> str | None:
    """Return the SQL of a column in one grant; None if it is hidden there."""
    if grant.hidden & set(names):
        return None
    return _mask(grant, names) or column


def _mask(grant: Grant, names: Collection[str]) -> str | None:
    return next((grant.masks[name] for name in sorted(names) if name in grant.masks), None)


class RestrictionOf(Protocol):
    """Return what the caller's policies leave of a table; None if all of it."""

    def __call__(self, schema: str, name: str, verb: str = "select", /) -> Restriction | None:
        """Return the restriction of a table of the request's catalog, by its published name.

        `verb` is what the caller does: `select`, `update` or `delete`.
        """
        ...


@runtime_checkable
class RestrictingAuthorizer(Protocol):
    """An authorizer that also decides which rows and columns of a table a caller sees."""

    def __call__(self, access: AccessRequest, /) -> bool:
        """Return whether an access is allowed."""
        ...

    def restriction(
        self, caller: Identity, catalog: str, schema: str, name: str, verb: str = "select"
    ) -> Restriction | None:
        """Return what a caller sees of a table; None if all of it."""
        ...


def no_restriction(
    schema: str,  # noqa: ARG001
    name: str,  # noqa: ARG001
    verb: str = "select",  # noqa: ARG001
    /,
) -> Restriction | None:
    """Return None. Used outside of a request, and by servers without policies."""
    return None


@runtime_checkable
class KnowsCallers(Protocol):
    """An authorizer that has a list of callers."""

    def __call__(self, access: AccessRequest, /) -> bool:
        """Return whether an access is allowed."""
        ...

    def callers(self) -> Sequence[Identity]:
        """Return the callers whose names are configured; others may have signed tokens."""
        ...


class OtherCallers(Protocol):
    """What other callers than that of a request may do with a catalog, for administrators."""

    def callers(self) -> Sequence[Identity]:
        """Return the callers that the server knows by name."""
        ...

    def permissions(self, caller: Identity) -> MayDo:
        """Return a function that returns whether a caller may do something."""
        ...

    def restrictions(self, caller: Identity) -> RestrictionOf:
        """Return a function that returns which rows and columns of a table a caller sees."""
        ...


class _NoOthers:
    """The callers outside of a server, and of a server without an authorizer."""

    def callers(self) -> Sequence[Identity]:
        return ()

    def permissions(self, caller: Identity) -> MayDo:  # noqa: ARG002
        return allow_everything

    def restrictions(self, caller: Identity) -> RestrictionOf:  # noqa: ARG002
        return no_restriction


NO_OTHERS: Final[OtherCallers] = _NoOthers()


def united(grants: Sequence[Grant]) -> Restriction | None:
    """Return the union of grants; None if it is the whole table."""
    if any(grant.is_everything for grant in grants):
        return None
    return Restriction(tuple(grants))
