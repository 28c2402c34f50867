"""The client's cached listing of a catalog: read once, changed only by the client's own statements.

As in DuckDB's client, objects that other clients create or drop are visible only after `refresh`.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from lakeport.airport.client.connection import USER_AGENT, Connection, Headers, pack
from lakeport.airport.client.entries import (
    FunctionOverload,
    RemoteFunction,
    RemoteSchema,
    TableEntry,
    read_entry,
)
from lakeport.airport.client.replies import (
    REPLY_LIMITS,
    ContentsRef,
    FlightDescription,
    SchemaRef,
    flight_description,
    read_bundle,
    read_catalog_root,
    read_contents,
    read_transaction,
    read_version,
)
from lakeport.airport.client.statements.statement import Statement, Transaction
from lakeport.catalog import CatalogVersion
from lakeport.errors import (
    InternalError,
    InvalidArgumentError,
    LakeportError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)
from lakeport.types import fold_name

__all__ = ["AttachedCatalog", "bundled_contents", "schema_contents"]

E = TypeVar("E", TableEntry, RemoteFunction)


@dataclass(slots=True)
class _SchemaContents:
    """The tables and functions of one schema, by folded name."""

    tables: dict[str, TableEntry] = field(default_factory=dict)
    functions: dict[str, RemoteFunction] = field(default_factory=dict)


@dataclass(slots=True)
class _Listing:
    """The reply to `list_schemas`, with the contents of the schemas that were decoded so far."""

    schemas: dict[str, SchemaRef]
    bundle: dict[str, bytes]
    contents: dict[str, _SchemaContents] = field(default_factory=dict)


class AttachedCatalog:
    """A catalog of a server, with its cached listing and the transaction of the current context."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self._lock = threading.RLock()
        self._listing: _Listing | None = None
        self._is_fixed = False

    def begin(self, *, fetch_version: bool = True) -> Statement:
        """Start a statement in the open transaction, or in a new one if none is open."""
        transaction = self._open_transaction() or self._create_transaction()
        if fetch_version:
            self.fetch_version()
        return Statement(self.name, transaction)

    def begin_schema_change(self) -> Statement:
        """Start CREATE SCHEMA or DROP SCHEMA. Both fetch the version before the transaction."""
        self.fetch_version()
        return self.begin(fetch_version=False)

    def fetch_version(self) -> None:
        """Fetch the version before binding, unless the server reported that it never changes."""
        if not self._is_fixed:
            self.version()

    def version(self) -> CatalogVersion:
        """Return the current version."""
        body = self.connection.request("catalog_version", self._catalog_fields(), self._headers())
        version = read_version(body)
        self._is_fixed = version.is_fixed
        return version

    @contextmanager
    def transaction(self, *, explicit: bool) -> Iterator[Transaction]:
        """Run all statements of this context in one transaction."""
        if self._open_transaction() is not None:
            raise InvalidArgumentError("a transaction is open already")
        transaction = self._create_transaction(explicit=explicit)
        _OPEN_TRANSACTIONS.set({**_OPEN_TRANSACTIONS.get(), self: transaction})
        try:
            yield transaction
        except BaseException as error:
            if explicit:
                self._roll_back(transaction, error)
            raise
        else:
            if explicit:
                self._commit(transaction)
        finally:
            _OPEN_TRANSACTIONS.set({c: t for c, t in _OPEN_TRANSACTIONS.get().items() if c != self})

    def refresh(self) -> None:
        """Discard the listing. The next lookup lists the catalog again."""
        with self._lock:
            self._listing = None

    def schemas(self) -> list[RemoteSchema]:
        """Return all schemas."""
        return [
            RemoteSchema(each.name, each.description, dict(each.tags))
            for each in list(self._get_listing().schemas.values())
        ]

    def schema(self, name: str) -> RemoteSchema:
        """Return a schema by name."""
        schema = self._get_listing().schemas.get(fold_name(name))
        if schema is None:
            raise NotFoundError(f"there is no schema {name!r}; refresh() looks for new ones")
        return RemoteSchema(schema.name, schema.description, dict(schema.tags))

    def tables(self, schema: str | None = None) -> list[TableEntry]:
        """Return the tables of a schema, or of all schemas."""
        return [
            entry
            for name in self._names(schema)
            for entry in list(self._contents(name).tables.values())
        ]

    def table(self, name: str, schema: str | None = None) -> TableEntry:
        """Return a table by name: `schema.table`, or `table` if only one schema has it."""
        return self._find(name, schema, "table", lambda contents: contents.tables)

    def functions(self, schema: str | None = None) -> list[RemoteFunction]:
        """Return the functions of a schema, or of all schemas."""
        return [f for name in self._names(schema) for f in self._contents(name).functions.values()]

    def function(self, name: str, schema: str | None = None) -> RemoteFunction:
        """Return a function by name: `schema.function`, or `function` if only one schema has it."""
        return self._find(name, schema, "function", lambda contents: contents.functions)

    def cache_schema(
        self, name: str, comment: str, tags: Mapping[str, str], contents: ContentsRef
    ) -> RemoteSchema:
        """Add a schema that this client created to the listing."""
        with self._lock:
            if self._listing is not None:
                ref = SchemaRef(name, comment, dict(tags), contents)
                self._listing.schemas[fold_name(name)] = ref
                self._listing.contents.pop(fold_name(name), None)
        return RemoteSchema(name, comment, dict(tags))

    def remove_schema(self, name: str) -> None:
        """Remove a schema that this client dropped from the listing."""
        with self._lock:
            if self._listing is not None:
                self._listing.schemas.pop(fold_name(name), None)
                self._listing.contents.pop(fold_name(name), None)

    def cache_table(
        self, info: FlightDescription, schema: str, *, instead_of: str | None = None
    ) -> TableEntry:
        """Add a table that this client created or altered to the listing, as now described."""
        entry = read_entry(info, catalog=self.name, schema=schema)
        if not isinstance(entry, TableEntry):
            raise InternalError("the server did not describe the table that was changed")
        with self._lock:
            tables = self._contents(schema).tables
            if instead_of is not None:
                tables.pop(fold_name(instead_of), None)
            tables[fold_name(entry.name)] = entry
        return entry

    def remove_table(self, entry: TableEntry) -> None:
        """Remove a table that this client dropped from the listing."""
        with self._lock:
            self._contents(entry.schema_name).tables.pop(fold_name(entry.name), None)

    def _find(
        self,
        name: str,
        schema: str | None,
        kind: str,
        entries: Callable[[_SchemaContents], dict[str, E]],
    ) -> E:
        if schema is None and "." in name:
            schema, _, name = name.partition(".")
        matches = [
            each
            for candidate in self._names(schema)
            if (each := entries(self._contents(candidate)).get(fold_name(name))) is not None
        ]
        if len(matches) == 1:
            return matches[0]
        if matches:
            full_names = ", ".join(str(each) for each in matches)
            raise InvalidArgumentError(f"several schemas have a {kind} {name!r}: {full_names}")
        full_name = name if schema is None else f"{schema}.{name}"
        raise NotFoundError(f"there is no {kind} {full_name!r}; refresh() looks for new ones")

    def _names(self, schema: str | None) -> list[str]:
        if schema is not None:
            return [self.schema(schema).name]
        return [each.name for each in list(self._get_listing().schemas.values())]

    def _get_listing(self) -> _Listing:
        with self._lock:
            if self._listing is None:
                self._listing = self._list_schemas()
            return self._listing

    def _list_schemas(self) -> _Listing:
        body = self.connection.request("list_schemas", self._catalog_fields(), self._headers())
        root = read_catalog_root(body)
        schemas = {fold_name(each.name): each for each in root.schemas}
        if "" in schemas or len(schemas) != len(root.schemas):
            raise InternalError("the server lists schemas with empty or repeated names")
        self._is_fixed = root.version.is_fixed
        return _Listing(schemas, bundled_contents(root.contents))

    def _contents(self, schema: str) -> _SchemaContents:
        with self._lock:
            listing = self._get_listing()
            key = fold_name(schema)
            if key not in listing.schemas:
                raise NotFoundError(f"there is no schema {schema!r}; refresh() looks for new ones")
            if key not in listing.contents:
                listing.contents[key] = self._load_contents(listing, listing.schemas[key])
            return listing.contents[key]

    def _load_contents(self, listing: _Listing, ref: SchemaRef) -> _SchemaContents:
        infos = schema_contents(
            self.connection,
            ref.contents,
            catalog=self.name,
            schema=ref.name,
            bundle=listing.bundle,
            headers=self._headers(),
        )
        contents = _SchemaContents()
        overloads: dict[str, list[FunctionOverload]] = {}
        names: dict[str, str] = {}
        for info in infos:
            entry = read_entry(info, catalog=self.name, schema=ref.name)
            if isinstance(entry, TableEntry):
                contents.tables[fold_name(entry.name)] = entry
            elif entry is not None:
                key = fold_name(entry.name)
                names.setdefault(key, entry.name)
                overloads.setdefault(key, []).append(entry.overload)
        for key, each in overloads.items():
            contents.functions[key] = RemoteFunction(ref.name, names[key], tuple(each))
        return contents

    def _open_transaction(self) -> Transaction | None:
        return _OPEN_TRANSACTIONS.get().get(self)

    def _create_transaction(self, *, explicit: bool = False) -> Transaction:
        fields: dict[str, object] = self._catalog_fields()
        if explicit:
            # Without these actions every statement would be final by itself: no rollback.
            actions = {name for name, _ in self.connection.list_actions()}
            if not {"commit_transaction", "rollback_transaction"} <= actions:
                raise UnsupportedError("this server has no transactions of several statements")
            fields["explicit"] = True
        body = self.connection.request("create_transaction", fields, self._headers())
        identifier = read_transaction(body)
        if explicit and identifier is None:
            raise UnsupportedError("this catalog has no transactions")
        return Transaction(identifier, is_explicit=explicit)

    def _commit(self, transaction: Transaction) -> None:
        try:
            self._end_transaction("commit_transaction", transaction)
        except LakeportError:
            self.refresh()
            raise

    def _roll_back(self, transaction: Transaction, cause: BaseException) -> None:
        # The listing contains objects that the transaction created and the server discards.
        self.refresh()
        try:
            self._end_transaction("rollback_transaction", transaction)
        except LakeportError as error:
            cause.add_note(f"the rollback failed: {error}")

    def _end_transaction(self, action: str, transaction: Transaction) -> None:
        fields = {**self._catalog_fields(), "transaction_id": transaction.id}
        headers = Statement(self.name, transaction).headers()
        self.connection.action(action, pack(fields), headers)

    def _catalog_fields(self) -> dict[str, object]:
        return {"catalog_name": self.name}

    def _headers(self) -> list[tuple[str, str]]:
        return list(Statement(self.name, self._open_transaction() or Transaction(None)).headers())


_OPEN_TRANSACTIONS: ContextVar[Mapping[AttachedCatalog, Transaction]] = ContextVar(
    "open_transactions", default=MappingProxyType({})
)

_DOWNLOAD_SECONDS = 60.0


def bundled_contents(contents: ContentsRef) -> dict[str, bytes]:
    """Return the schema contents of a whole-catalog bundle by digest; empty without a bundle."""
    if not contents.sha256 or (contents.serialized is None and contents.url is None):
        return {}
    bundle: dict[str, bytes] = {}
    for digest, content in read_bundle(_verified_content(contents)):
        if _digest(content) != digest:
            raise InternalError("the server's bundle of schemas does not match its digests")
        bundle[digest] = content
    return bundle


def schema_contents(
    connection: Connection,
    contents: ContentsRef,
    *,
    catalog: str,
    schema: str,
    bundle: Mapping[str, bytes],
    headers: Headers,
) -> list[FlightDescription]:
    """Return the descriptions of everything in a schema."""
    if contents.serialized is None and not contents.sha256 and contents.url is None:
        filters = [
            ("airport-list-flights-filter-catalog", catalog),
            ("airport-list-flights-filter-schema", schema),
        ]
        return [flight_description(info) for info in connection.list_flights([*headers, *filters])]
    if not contents.sha256:
        if contents.serialized is None:
            raise InternalError(f"schema {schema!r}: contents behind a URL need a digest")
        return read_contents(contents.serialized)
    if contents.sha256 in bundle:
        return read_contents(bundle[contents.sha256])
    return read_contents(_verified_content(contents))


def _verified_content(contents: ContentsRef) -> bytes:
    """Return the content that has the digest: inline, or downloaded."""
    if contents.serialized is not None and _digest(contents.serialized) == contents.sha256:
        return contents.serialized
    if contents.url is None:
        fault = "is missing" if contents.serialized is None else "does not match its digest"
        raise InternalError(f"the server's content {contents.sha256[:12]} {fault}")
    content = _download(contents.url)
    if _digest(content) != contents.sha256:
        raise InternalError(f"the content at {contents.url[:200]} does not match its digest")
    return content


def _download(url: str) -> bytes:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise InternalError(f"the server refers to {url[:200]!r}, which is not an HTTP URL")
    limit = REPLY_LIMITS.action_bytes
    try:
        request = Request(url, headers={"User-Agent": USER_AGENT})  # noqa: S310
        with urlopen(request, timeout=_DOWNLOAD_SECONDS) as response:  # noqa: S310
            content: bytes = response.read(limit + 1)
    except (URLError, OSError, ValueError) as error:
        raise UnavailableError(f"{url[:200]} cannot be downloaded: {error}") from None
    REPLY_LIMITS.check(len(content), limit, f"the content at {url[:200]}")
    return content


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
