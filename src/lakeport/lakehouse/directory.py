"""Where everything of a lake is found, by published names: made once per schema version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from lakeport.catalog import Table
from lakeport.ducklake import Contents, Schema, Snapshot
from lakeport.ducklake.soundness import Omission
from lakeport.ducklake.text import ascii_lower
from lakeport.lakehouse.access import LakeAccess
from lakeport.lakehouse.naming import Names
from lakeport.lakehouse.table import PublishedTable
from lakeport.lakehouse.view_shapes import view_schemas
from lakeport.lakehouse.views import PublishedView

__all__ = ["Directory", "Publish"]

Publish: TypeAlias = Callable[[Snapshot], Table]
"""Makes a table or view of the lake one of the catalog, as of a snapshot."""


@dataclass(frozen=True, slots=True)
class Directory:
    """The schemas of a lake and what they hold, by names in lower case."""

    names: Names
    schemas: Mapping[str, Schema]
    """By published name."""
    members: Mapping[str, Mapping[str, Publish]]
    """Tables and views, by the published names of their schemas and their own."""
    refused: Mapping[int, str]
    """Why views are not among them, by the ids of the views."""
    omitted: Mapping[str, Mapping[str, Omission]]
    """What cannot be read, by the same names."""

    @classmethod
    def of(
        cls, access: LakeAccess, contents: Contents, *, main_as: str | None, direct_reads: bool
    ) -> Directory:
        """The directory of what a lake holds; views without known columns are not in it."""
        names = Names.choose([schema.name for schema in contents.schemas], main_as)

        def place(schema: str) -> str:
            return ascii_lower(names.published(schema))

        members: dict[str, dict[str, Publish]] = defaultdict(dict)
        for table in contents.tables:
            publish = partial(PublishedTable, access, names, table, direct=direct_reads)
            members[place(table.schema)][ascii_lower(table.name)] = publish
        columns, refused = view_schemas(contents)
        for view in contents.views:
            if view.id in columns:
                make = partial(PublishedView, access, names, view, columns[view.id])
                members[place(view.schema)][ascii_lower(view.name)] = make
        omitted: dict[str, dict[str, Omission]] = defaultdict(dict)
        for omission in contents.omitted:
            if omission.schema is not None and omission.name is not None:
                omitted[place(omission.schema)][ascii_lower(omission.name)] = omission
        schemas = {place(schema.name): schema for schema in contents.schemas}
        return cls(names, schemas, members, refused, omitted)
