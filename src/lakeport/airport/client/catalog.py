"""The catalog as this client knows it: listed once, changed only by what the client itself does.

Like DuckDB's client, it never notices what others create or drop; `refresh` lists anew.
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
    Described,
    SchemaRef,
    described,
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
class _Items:
    """The tables and functions of one schema, by folded name."""

    tables: dict[str, TableEntry] = field(default_factory=dict)
    functions: dict[str, RemoteFunction] = field(default_factory=dict)


@dataclass(slots=True)
class _Listing:
    """The reply to `list_schemas`, with what has been unfolded of it."""

    schemas: dict[str, SchemaRef]
    bundle: dict[str, bytes]
    items: dict[str, _Items] = field(default_factory=dict)


class AttachedCatalog:
    """A catalog of a server, with its cached listing and the transaction of the present context."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.connection = connection
        self.name = name
        self._lock = threading.RLock()
        self._listing: _Listing | None = None
        self._is_fixed = False

    def begin(self, *, asks_version: bool = True) -> Statement:
        """Start a statement: in the open transaction, else in one of its own."""
        transaction = self._open_transaction() or self._create_transaction()
        if asks_version:
            self.ask_version()
        return Statement(self.name, transaction)

    def begin_schema_change(self) -> Statement:
        """Start CREATE SCHEMA or DROP SCHEMA, which ask for the version first."""
        self.ask_version()
        return self.begin(asks_version=False)

    def ask_version(self) -> None:
        """Ask for the version before binding, unless the server said that it never changes."""
        if not self._is_fixed:
            self.version()

    def version(self) -> CatalogVersion:
        """The current version."""
        body = self.connection.request("catalog_version", self._named(), self._headers())
        version = read_version(body)
        self._is_fixed = version.is_fixed
        return version

    @contextmanager
    def transaction(self, *, explicit: bool) -> Iterator[Transaction]:
        """Let all statements of this context share one transaction."""
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
        """Forget the listing, so that the next question lists anew."""
        with self._lock:
            self._listing = None

    def schemas(self) -> list[RemoteSchema]:
        """All schemas."""
        return [
            RemoteSchema(each.name, each.description, dict(each.tags))
            for each in list(self._listed().schemas.values())
        ]

    def schema(self, name: str) -> RemoteSchema:
        """A schema by name."""
        found = self._listed().schemas.get(fold_name(name))
        if found is None:
            raise NotFoundError(f"there is no schema {name!r}; refresh() looks for new ones")
        return RemoteSchema(found.name, found.description, dict(found.tags))

    def tables(self, schema: str | None = None) -> list[TableEntry]:
        """The tables of a schema, or of all."""
        return [e for name in self._names(schema) for e in list(self._items(name).tables.values())]

    def table(self, name: str, schema: str | None = None) -> TableEntry:
        """A table by name: `schema.table`, or `table` where only one schema has it."""
        return self._find(name, schema, "table", lambda items: items.tables)

    def functions(self, schema: str | None = None) -> list[RemoteFunction]:
        """The functions of a schema, or of all."""
        return [f for name in self._names(schema) for f in self._items(name).functions.values()]

    def function(self, name: str, schema: str | None = None) -> RemoteFunction:
        """A function by name, as tables are found."""
        return self._find(name, schema, "function", lambda items: items.functions)

    def put_schema(
        self, name: str, comment: str, tags: Mapping[str, str], contents: ContentsRef
    ) -> RemoteSchema:
        """Remember a schema that this client created."""
        with self._lock:
            if self._listing is not None:
                ref = SchemaRef(name, comment, dict(tags), contents)
                self._listing.schemas[fold_name(name)] = ref
                self._listing.items.pop(fold_name(name), None)
        return RemoteSchema(name, comment, dict(tags))

    def drop_schema(self, name: str) -> None:
        """Forget a schema that this client dropped."""
        with self._lock:
            if self._listing is not None:
                self._listing.schemas.pop(fold_name(name), None)
                self._listing.items.pop(fold_name(name), None)

    def put_table(
        self, info: Described, schema: str, *, instead_of: str | None = None
    ) -> TableEntry:
        """Remember a table that this client created or altered, as the server describes it now."""
        entry = read_entry(info, catalog=self.name, schema=schema)
        if not isinstance(entry, TableEntry):
            raise InternalError("the server did not describe the table that was changed")
        with self._lock:
            tables = self._items(schema).tables
            if instead_of is not None:
                tables.pop(fold_name(instead_of), None)
            tables[fold_name(entry.name)] = entry
        return entry

    def drop_table(self, entry: TableEntry) -> None:
        """Forget a table that this client dropped."""
        with self._lock:
            self._items(entry.schema_name).tables.pop(fold_name(entry.name), None)

    def _find(
        self, name: str, schema: str | None, kind: str, items: Callable[[_Items], dict[str, E]]
    ) -> E:
        if schema is None and "." in name:
            schema, _, name = name.partition(".")
        found = [
            each
            for candidate in self._names(schema)
            if (each := items(self._items(candidate)).get(fold_name(name))) is not None
        ]
        if len(found) == 1:
            return found[0]
        if found:
            where = ", ".join(str(each) for each in found)
            raise InvalidArgumentError(f"several schemas have a {kind} {name!r}: {where}")
        full_name = name if schema is None else f"{schema}.{name}"
        raise NotFoundError(f"there is no {kind} {full_name!r}; refresh() looks for new ones")

    def _names(self, schema: str | None) -> list[str]:
        if schema is not None:
            return [self.schema(schema).name]
        return [each.name for each in list(self._listed().schemas.values())]

    def _listed(self) -> _Listing:
        with self._lock:
            if self._listing is None:
                self._listing = self._list_schemas()
            return self._listing

    def _list_schemas(self) -> _Listing:
        body = self.connection.request("list_schemas", self._named(), self._headers())
        root = read_catalog_root(body)
        schemas = {fold_name(each.name): each for each in root.schemas}
        if "" in schemas or len(schemas) != len(root.schemas):
            raise InternalError("the server lists schemas with empty or repeated names")
        self._is_fixed = root.version.is_fixed
        return _Listing(schemas, bundled_contents(root.contents))

    def _items(self, schema: str) -> _Items:
        with self._lock:
            listing = self._listed()
            key = fold_name(schema)
            if key not in listing.schemas:
                raise NotFoundError(f"there is no schema {schema!r}; refresh() looks for new ones")
            if key not in listing.items:
                listing.items[key] = self._load_items(listing, listing.schemas[key])
            return listing.items[key]

    def _load_items(self, listing: _Listing, ref: SchemaRef) -> _Items:
        infos = schema_contents(
            self.connection,
            ref.contents,
            catalog=self.name,
            schema=ref.name,
            bundle=listing.bundle,
            headers=self._headers(),
        )
        items = _Items()
        overloads: dict[str, list[FunctionOverload]] = {}
        names: dict[str, str] = {}
        for info in infos:
            entry = read_entry(info, catalog=self.name, schema=ref.name)
            if isinstance(entry, TableEntry):
                items.tables[fold_name(entry.name)] = entry
            elif entry is not None:
                key = fold_name(entry.name)
                names.setdefault(key, entry.name)
                overloads.setdefault(key, []).append(entry.overload)
        for key, each in overloads.items():
            items.functions[key] = RemoteFunction(ref.name, names[key], tuple(each))
        return items

    def _open_transaction(self) -> Transaction | None:
        return _OPEN_TRANSACTIONS.get().get(self)

    def _create_transaction(self, *, explicit: bool = False) -> Transaction:
        fields: dict[str, object] = self._named()
        if explicit:
            # Without it, every statement would take effect by itself, and nothing could be undone.
            known = {name for name, _ in self.connection.list_actions()}
            if not {"commit_transaction", "rollback_transaction"} <= known:
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
        # What was created in the transaction is in the listing, and gone on the server.
        self.refresh()
        try:
            self._end_transaction("rollback_transaction", transaction)
        except LakeportError as error:
            cause.add_note(f"the rollback failed: {error}")

    def _end_transaction(self, action: str, transaction: Transaction) -> None:
        fields = {**self._named(), "transaction_id": transaction.id}
        headers = Statement(self.name, transaction).headers()
        self.connection.action(action, pack(fields), headers)

    def _named(self) -> dict[str, object]:
        return {"catalog_name": self.name}

    def _headers(self) -> list[tuple[str, str]]:
        return list(Statement(self.name, self._open_transaction() or Transaction(None)).headers())


_OPEN_TRANSACTIONS: ContextVar[Mapping[AttachedCatalog, Transaction]] = ContextVar(
    "open_transactions", default=MappingProxyType({})
)

_DOWNLOAD_SECONDS = 60.0


def bundled_contents(contents: ContentsRef) -> dict[str, bytes]:
    """The schema contents of a whole-catalog bundle by digest; empty when there is none."""
    if not contents.sha256 or (contents.serialized is None and contents.url is None):
        return {}
    bundle: dict[str, bytes] = {}
    for digest, content in read_bundle(_verified(contents)):
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
) -> list[Described]:
    """Everything in a schema."""
    if contents.serialized is None and not contents.sha256 and contents.url is None:
        filters = [
            ("airport-list-flights-filter-catalog", catalog),
            ("airport-list-flights-filter-schema", schema),
        ]
        return [described(info) for info in connection.list_flights([*headers, *filters])]
    if not contents.sha256:
        if contents.serialized is None:
            raise InternalError(f"schema {schema!r}: contents behind a URL need a digest")
        return read_contents(contents.serialized)
    if contents.sha256 in bundle:
        return read_contents(bundle[contents.sha256])
    return read_contents(_verified(contents))


def _verified(contents: ContentsRef) -> bytes:
    """The content that has the digest: inline, else downloaded."""
    if contents.serialized is not None and _digest(contents.serialized) == contents.sha256:
        return contents.serialized
    if contents.url is None:
        found = "is missing" if contents.serialized is None else "does not match its digest"
        raise InternalError(f"the server's content {contents.sha256[:12]} {found}")
    content = _download(contents.url)
    if _digest(content) != contents.sha256:
        raise InternalError(f"the content at {contents.url[:200]} does not match its digest")
    return content


def _download(url: str) -> bytes:
    if urlsplit(url).scheme not in {"http", "https"}:
        raise InternalError(f"the server sends this client to {url[:200]!r}, which is not HTTP")
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
