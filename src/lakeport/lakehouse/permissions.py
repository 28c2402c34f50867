"""What the caller of a request may list and read of a lake.

The server checks the table or function that a call names. This module checks the other objects that
the answer contains: the tables behind a view, the table that is an argument of a function, the rows
of the metadata tables. Permissions are checked for published names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from lakeport.auth import (
    Identity,
    MayDo,
    Operation,
    Restriction,
    RestrictionOf,
    allow_everything,
    no_restriction,
)
from lakeport.catalog import current_request
from lakeport.ducklake import View
from lakeport.ducklake.metadata import LakeContents
from lakeport.errors import PermissionDeniedError
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.resources import PRESENT_NAME_SECONDS, LakeResources

__all__ = ["LakeObject", "Permissions"]

ColumnNames: TypeAlias = Mapping[int, frozenset[str]]
"""All names that columns of a table ever had, by the ids of the columns."""


class LakeObject(Protocol):
    """A table or view of a lake at some snapshot."""

    @property
    def id(self) -> int:
        """The id, which renaming does not change."""
        ...

    @property
    def schema(self) -> str:
        """The name of the schema in the lake."""
        ...

    @property
    def name(self) -> str:
        """The name in the schema."""
        ...


@dataclass(frozen=True, slots=True)
class Permissions:
    """The permissions of the caller of one request.

    An object of an earlier snapshot must be allowed by its old and by its present name. Otherwise a
    renamed table could be read by the name that it had before.
    """

    names: PublishedNames
    may: MayDo
    present: Mapping[int, LakeObject]
    """The tables and views of the newest snapshot, by their ids."""
    restriction_of: RestrictionOf = no_restriction
    column_names: Callable[[int], ColumnNames] = lambda _: {}
    """Returns the names of the columns of a table, by its id."""

    @classmethod
    def of_request(cls, access: LakeResources, names: PublishedNames) -> Permissions:
        """Return the permissions of the current caller; all permissions outside of a request."""
        request = current_request()
        return cls._of(access, names, request.may, request.restriction)

    @classmethod
    def of_caller(
        cls, access: LakeResources, names: PublishedNames, caller: Identity
    ) -> Permissions:
        """Return the permissions of another caller, for those who administer the lake."""
        others = current_request().others
        return cls._of(access, names, others.permissions(caller), others.restrictions(caller))

    @classmethod
    def _of(
        cls,
        access: LakeResources,
        names: PublishedNames,
        may: MayDo,
        restriction: RestrictionOf,
    ) -> Permissions:
        if may is allow_everything:
            return cls(names, may, {})
        recent = access.recent_snapshot(PRESENT_NAME_SECONDS)
        key = ("present objects", recent.schema_version)
        present = access.facts.get_or_load(key, lambda: _objects(access.contents(recent)))

        def column_names(table_id: int) -> ColumnNames:
            found: ColumnNames = access.facts.get_or_load(
                ("column names", table_id, recent.schema_version),
                lambda: access.lake.catalog.database.read(
                    lambda connection: access.lake.catalog.column_names(connection, table_id)
                ),
            )
            return found

        return cls(names, may, present, restriction, column_names)

    @property
    def are_all_given(self) -> bool:
        """Whether everything is allowed, without an authorizer."""
        return self.may is allow_everything

    def sees_schema(self, schema: str) -> bool:
        """Return whether a listing shows the schema."""
        return self.may(Operation.LIST, self.names.published(schema))

    def sees_name(self, schema: str, name: str) -> bool:
        """Return whether a listing shows a table, view or macro of this name."""
        published = self.names.published(schema)
        return self.sees_schema(schema) and self.may(Operation.LIST, published, name)

    def reads_name(self, schema: str, name: str) -> bool:
        """Return whether the caller may read a table or view of this name."""
        return self.may(Operation.READ, self.names.published(schema), name)

    def sees(self, found: LakeObject) -> bool:
        """Return whether a listing shows a table or view."""
        return all(self.sees_name(*name) for name in self._names_of(found))

    def reads(self, found: LakeObject) -> bool:
        """Return whether the caller may read a table or view."""
        return all(self.reads_name(*name) for name in self._names_of(found))

    def require_reading(self, objects: Iterable[LakeObject], *, denied: str) -> None:
        """Raise PermissionDeniedError with the text `denied` unless all objects may be read."""
        if not self.are_all_given and not all(self.reads(found) for found in objects):
            raise PermissionDeniedError(denied)

    @property
    def have_policies(self) -> bool:
        """Whether rows and columns of tables may be restricted."""
        return self.restriction_of is not no_restriction

    def restriction(self, found: LakeObject, verb: str = "select") -> Restriction | None:
        """Return what the caller sees of a table; None if all of it.

        A view has no restriction of its own: its tables have theirs.

        Raises:
            PermissionDeniedError: Its name now and its name then have different restrictions.
        """
        if not self.have_policies or isinstance(found, View):
            return None
        first, *others = (
            self.restriction_of(self.names.published(schema), name, verb)
            for schema, name in sorted(self._names_of(found))
        )
        if any(other != first for other in others):
            shown = f"{self.names.published(found.schema)}.{found.name}"
            raise PermissionDeniedError(
                f"you may not read {shown} of this snapshot: it has another name now, with other "
                "policies"
            )
        return first

    def may_write(self, found: LakeObject, verb: Operation) -> bool:
        """Return whether the caller may INSERT into, UPDATE or DELETE rows of a table."""
        return all(
            self.may(verb, self.names.published(schema), name)
            for schema, name in self._names_of(found)
        )

    def _names_of(self, found: LakeObject) -> set[tuple[str, str]]:
        now = self.present.get(found.id, found)
        return {(found.schema, found.name), (now.schema, now.name)}


def _objects(contents: LakeContents) -> Mapping[int, LakeObject]:
    objects: list[LakeObject] = [*contents.tables, *contents.views]
    return {found.id: found for found in objects}
