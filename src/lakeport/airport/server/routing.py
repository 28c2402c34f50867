"""The catalogs of a server, and how a call finds its catalog, schema, table and function.

The set of catalogs may change while the server runs. It is an immutable mapping that is replaced
under a lock, so readers never wait.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar
from urllib.parse import unquote

from lakeport.airport.protocol.addresses import Address
from lakeport.airport.protocol.signatures import tag_of
from lakeport.auth import (
    AccessRequest,
    Authorizer,
    Identity,
    KnowsCallers,
    MayDo,
    Operation,
    RestrictingAuthorizer,
    Restriction,
    RestrictionOf,
    allow_everything,
    no_restriction,
)
from lakeport.catalog import (
    Catalog,
    HistoricSchema,
    PolicyCatalog,
    ScalarFunction,
    Schema,
    Table,
    TableFunction,
    TableFunctionInOut,
    current_request,
)
from lakeport.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
)
from lakeport.types import fold_name

__all__ = ["NO_CATALOG", "AnyFunction", "CatalogRegistry", "CatalogRoute", "CatalogSource"]

AnyFunction: TypeAlias = ScalarFunction | TableFunction | TableFunctionInOut
F = TypeVar("F", bound=AnyFunction)

CatalogSource: TypeAlias = Catalog | Mapping[str, Catalog] | Iterable[Catalog]
"""One catalog, several by name, or several that have a `name`."""


@dataclass(frozen=True, slots=True)
class CatalogRoute:
    """A catalog, and the name by which the client addresses it."""

    name: str
    catalog: Catalog
    authorizer: Authorizer | None = None
    registered_name: str = ""
    """The name under which the server has registered it; permissions use this name."""

    def allows(
        self, operation: Operation, schema: str | None = None, name: str | None = None, /
    ) -> bool:
        """Return whether the caller may do this."""
        return self.permissions(current_request().caller)(operation, schema, name)

    def permissions(self, caller: Identity) -> MayDo:
        """Return a function that decides whether a caller may do something, in any thread."""
        return _permissions(self.authorizer, caller, self.registered_name, self.catalog)

    def callers(self) -> Sequence[Identity]:
        """Return the callers that the authorizer knows by name."""
        return self.authorizer.callers() if isinstance(self.authorizer, KnowsCallers) else ()

    def restrictions(self, caller: Identity) -> RestrictionOf:
        """Return a function that returns which rows and columns of a table a caller sees."""
        authorizer, catalog = self.authorizer, self.registered_name
        # Without an authorizer, the search for the protocol's methods would take longest.
        if authorizer is None or not isinstance(authorizer, RestrictingAuthorizer):
            return no_restriction

        def restriction(schema: str, name: str, verb: str = "select", /) -> Restriction | None:
            return authorizer.restriction(caller, catalog, schema, name, verb)

        return restriction

    def require(self, operation: Operation) -> None:
        """Raise `PermissionDeniedError` if the caller may not do this with the catalog."""
        if not self.allows(operation):
            raise self.denied(operation)

    def require_schema(self, operation: Operation, name: str) -> Schema | None:
        """Return a schema or None; raise `PermissionDeniedError` if the caller may not do this."""
        current_request().notes.table = name
        schema = self.catalog.schema(name)
        # A catalog finds names in any case; permissions use the object's own name.
        if not self.allows(operation, name if schema is None else schema.name):
            raise self.denied(operation, name)
        return schema

    def require_table(self, operation: Operation, address: Address) -> Table | None:
        """Return a table or None; raise `PermissionDeniedError` if the caller may not do this."""
        current_request().notes.table = str(address)
        schema = self.catalog.schema(address.schema)
        table = None if schema is None else schema.table(address.name)
        if not self.allows(
            operation,
            address.schema if schema is None else schema.name,
            address.name if table is None else table.name,
        ):
            # The name as in the request: the object's own spelling would reveal that it exists.
            raise self.denied(operation, address.schema, address.name)
        return table

    def schemas(self) -> Sequence[Schema]:
        """Return the schemas that the caller may list."""
        return [s for s in self.catalog.schemas() if self.allows(Operation.LIST, s.name)]

    def schema(self, name: str) -> Schema:
        """Return a schema by name; raise `NotFoundError` if it is missing."""
        return _existing_schema(self.catalog.schema(name), name)

    def visible_schema(self, name: str) -> Schema:
        """Return a schema by name, if the caller may list it."""
        return _existing_schema(self.require_schema(Operation.LIST, name), name)

    def table(self, address: Address, operation: Operation) -> Table:
        """Return a table by address, if the caller may do this with it."""
        table = self.require_table(operation, address)
        if table is None:
            schema = self.schema(address.schema)
            reason = (
                schema.why_missing(address.name) if isinstance(schema, HistoricSchema) else None
            )
            raise NotFoundError(reason or f"there is no table {address}")
        return table

    def scalar_function(self, address: Address) -> ScalarFunction:
        """Return a scalar function by address."""
        schema = self.catalog.schema(address.schema)
        return self._choose(schema, schema.scalar_functions() if schema else (), address)

    def table_function(self, address: Address) -> TableFunction | TableFunctionInOut:
        """Return a table function, in-out or not, by address."""
        schema = self.catalog.schema(address.schema)
        functions: list[TableFunction | TableFunctionInOut] = (
            [*schema.table_functions(), *schema.table_functions_in_out()] if schema else []
        )
        return self._choose(schema, functions, address)

    def require_calls(self, schema: Schema | None, address: Address, names: Iterable[str]) -> None:
        """Raise `PermissionDeniedError` if the caller may not call one of these functions."""
        current_request().notes.table = str(address)
        schema_name = address.schema if schema is None else schema.name
        for name in set(names) or {address.name}:
            if not self.allows(Operation.CALL, schema_name, name):
                raise self.denied(Operation.CALL, address.schema, address.name)

    def _choose(self, schema: Schema | None, functions: Iterable[F], address: Address) -> F:
        name = fold_name(address.name)
        named = [function for function in functions if fold_name(function.name) == name]
        if address.tag:
            named = [function for function in named if tag_of(function) == address.tag]
        self.require_calls(schema, address, (function.name for function in named))
        if not named:
            _existing_schema(schema, address.schema)
            raise NotFoundError(f"there is no function {address}")
        if len(named) > 1:
            raise InvalidArgumentError(
                f"there are several functions {address}; use the descriptor in the listing"
            )
        return named[0]

    def denied(self, operation: Operation, *names: str) -> PermissionDeniedError:
        """Return the error for an operation that the caller may not do here.

        A caller who may not list the catalog always receives the error for a missing catalog, so
        that it does not reveal whether the catalog exists.
        """
        if not self.allows(Operation.LIST):
            operation, names = Operation.LIST, ()
        parts = [part for part in (self.registered_name, *names) if part]
        subject = ".".join(parts) or "this catalog"
        return PermissionDeniedError(f"you may not {operation.kind.value} {subject}")


class _NoCatalog:
    """The empty catalog of a name that is not registered."""

    def schemas(self) -> Sequence[Schema]:
        return ()

    def schema(self, name: str) -> None:  # noqa: ARG002
        return None


NO_CATALOG: Final = _NoCatalog()


class CatalogRegistry:
    """The catalogs of a server by name."""

    def __init__(self, source: CatalogSource, *, authorizer: Authorizer | None = None) -> None:
        self._authorizer = authorizer
        self._lock = threading.Lock()
        self._catalogs: Mapping[str, Catalog] = MappingProxyType(_named(source))

    def names(self) -> list[str]:
        """Return the names of all catalogs."""
        return list(self._catalogs)

    def items(self) -> list[CatalogRoute]:
        """Return routes to all catalogs that the caller may list."""
        routes = [self._new_route(n, c, registered_name=n) for n, c in self._catalogs.items()]
        return [route for route in routes if route.allows(Operation.LIST)]

    def allows_action(self, name: str) -> bool:
        """Return whether the caller may call an action of the server, which has no catalog."""
        return self.permissions(current_request().caller)(Operation.CALL, None, name)

    def permissions(self, caller: Identity) -> MayDo:
        """Return a function that decides what a caller may do outside of any catalog."""
        return _permissions(self._authorizer, caller, "", NO_CATALOG)

    def add(self, name: str, catalog: Catalog) -> None:
        """Add a catalog."""
        with self._lock:
            if name in self._catalogs:
                raise AlreadyExistsError(f"there is a catalog {name!r} already")
            self._catalogs = MappingProxyType({**self._catalogs, name: catalog})

    def remove(self, name: str) -> Catalog:
        """Remove a catalog and return it. Running scans continue."""
        with self._lock:
            if name not in self._catalogs:
                raise NotFoundError(f"there is no catalog {name!r}")
            removed = self._catalogs[name]
            rest = {n: c for n, c in self._catalogs.items() if n != name}
            self._catalogs = MappingProxyType(rest)
            return removed

    def replace(self, catalogs: Mapping[str, Catalog]) -> list[Catalog]:
        """Replace all catalogs at once; return those that are no longer served."""
        with self._lock:
            previous = self._catalogs
            self._catalogs = MappingProxyType(dict(catalogs))
            served = {id(catalog) for catalog in catalogs.values()}
            return [catalog for catalog in previous.values() if id(catalog) not in served]

    def route(self, *names: str) -> CatalogRoute:
        """Return the route to the catalog that a request names in a field, a header or a path.

        All names of a request must be equal. If the server has only one catalog, a request needs no
        name; if that catalog has no name, every name leads to it.
        """
        distinct = {name for name in names if name}
        if len(distinct) > 1:
            raise InvalidArgumentError(f"the request names several catalogs: {sorted(distinct)}")
        name = next(iter(distinct), "")
        catalogs = self._catalogs
        registered_name = _registered_name(catalogs, name)
        if registered_name in catalogs:
            return self._new_route(name, catalogs[registered_name], registered_name=registered_name)
        missing = self._new_route(name, NO_CATALOG, registered_name=name)
        if name and not missing.allows(Operation.LIST):
            raise missing.denied(Operation.LIST)
        listed = sorted(repr(route.registered_name) for route in self.items())
        available = ", ".join(listed) or "none"
        if not name:
            raise NotFoundError(f"name the catalog to use; this server has: {available}")
        raise NotFoundError(f"there is no catalog {name!r}; this server has: {available}")

    def registered_name(self, name: str) -> str:
        """Return the registered name for a client's name of a catalog; an unknown one unchanged."""
        return _registered_name(self._catalogs, name)

    def _new_route(self, name: str, catalog: Catalog, *, registered_name: str) -> CatalogRoute:
        return CatalogRoute(name, catalog, self._authorizer, registered_name)


def _permissions(
    authorizer: Authorizer | None, caller: Identity, name_of_catalog: str, catalog: Catalog
) -> MayDo:
    if authorizer is None:
        return allow_everything
    policies = catalog if isinstance(catalog, PolicyCatalog) else None
    restricting = authorizer if isinstance(authorizer, RestrictingAuthorizer) else None

    def may(operation: Operation, schema: str | None = None, name: str | None = None, /) -> bool:
        kind = operation.kind
        verb = "" if kind is operation else operation.value
        describes = (
            policies is not None and schema is not None and policies.describes_itself(schema)
        )
        access = AccessRequest(
            caller.user, kind, name_of_catalog, schema, name, caller, verb, describes
        )
        if not authorizer(access):
            return False
        if restricting is None or schema is None or name is None:
            return True
        # ALTER could give a restricted table a name that has no restriction.
        if policies is not None and operation is not Operation.ALTER:
            return True
        # A catalog that does not know policies would return all rows and columns.
        return restricting.restriction(caller, name_of_catalog, schema, name) is None

    return may


def _existing_schema(schema: Schema | None, name: str) -> Schema:
    if schema is None:
        raise NotFoundError(f"there is no schema {name!r}")
    return schema


def _registered_name(catalogs: Mapping[str, Catalog], name: str) -> str:
    if name not in catalogs and len(catalogs) == 1:
        (only,) = catalogs
        if not only or not name:
            return only
    # DuckDB can attach only names in ASCII, because it sends them in a header.
    if name not in catalogs and unquote(name) in catalogs:
        return unquote(name)
    return name


def _named(source: CatalogSource) -> dict[str, Catalog]:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, Catalog):
        return {str(getattr(source, "name", "")): source}
    named: dict[str, Catalog] = {}
    for catalog in source:
        name = str(getattr(catalog, "name", ""))
        if name in named:
            raise AlreadyExistsError(f"two catalogs are named {name!r}")
        named[name] = catalog
    return named
