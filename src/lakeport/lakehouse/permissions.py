"""What the caller of a request may see and read of a lake.

The server asks its authorizer about the table or function that a call names. Here are the other
objects that an answer is made of: the tables behind a view, the table that is an argument of a
function, the rows of the information tables. Permissions go by published names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from lakeport.auth import MayDo, Operation, allow_everything
from lakeport.catalog import current_request
from lakeport.errors import PermissionDeniedError
from lakeport.lakehouse.names import PublishedNames
from lakeport.lakehouse.resources import LakeResources

__all__ = ["LakeObject", "Permissions"]


class LakeObject(Protocol):
    """A table or view of a lake, as some snapshot knows it."""

    @property
    def id(self) -> int:
        """The id, which stays when the object is renamed."""
        ...

    @property
    def schema(self) -> str:
        """The schema, as the lake calls it."""
        ...

    @property
    def name(self) -> str:
        """The name in the schema."""
        ...


@dataclass(frozen=True, slots=True)
class Permissions:
    """The answers of the authorizer to the caller of one request.

    An object of an earlier snapshot has to be allowed by its name of then and by its name of now: a
    table that was renamed cannot be reached by the name that it had before.
    """

    names: PublishedNames
    may: MayDo
    present: Mapping[int, LakeObject]
    """The tables and views of the newest snapshot, by their ids."""

    @classmethod
    def of_request(cls, access: LakeResources, names: PublishedNames) -> Permissions:
        """Return those of the caller that is being answered; all of them outside of a request."""
        may = current_request().may
        if may is allow_everything:
            return cls(names, may, {})
        contents = access.contents(access.newest())
        objects: list[LakeObject] = [*contents.tables, *contents.views]
        return cls(names, may, {found.id: found for found in objects})

    @property
    def are_all_given(self) -> bool:
        """Whether no authorizer has to be asked."""
        return self.may is allow_everything

    def sees_schema(self, schema: str) -> bool:
        """Whether a listing shows the schema of a name."""
        return self.may(Operation.LIST, self.names.published(schema))

    def sees_name(self, schema: str, name: str) -> bool:
        """Whether a listing shows a table, view or macro of this name."""
        published = self.names.published(schema)
        return self.sees_schema(schema) and self.may(Operation.LIST, published, name)

    def reads_name(self, schema: str, name: str) -> bool:
        """Whether the rows of a table or view of this name may be read."""
        return self.may(Operation.READ, self.names.published(schema), name)

    def sees(self, found: LakeObject) -> bool:
        """Whether a listing shows a table or view."""
        return all(self.sees_name(*name) for name in self._called(found))

    def reads(self, found: LakeObject) -> bool:
        """Whether the rows of a table or view may be read."""
        return all(self.reads_name(*name) for name in self._called(found))

    def require_reading(self, objects: Iterable[LakeObject], *, denied: str) -> None:
        """Raise an error with the text `denied` unless all of these objects may be read."""
        if not self.are_all_given and not all(self.reads(found) for found in objects):
            raise PermissionDeniedError(denied)

    def _called(self, found: LakeObject) -> set[tuple[str, str]]:
        now = self.present.get(found.id, found)
        return {(found.schema, found.name), (now.schema, now.name)}
