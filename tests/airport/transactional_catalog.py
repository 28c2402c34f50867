"""A catalog with transactions: what one of them writes is its own until it is committed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lakeport.catalog import (
    CatalogVersion,
    DMLOptions,
    DMLResult,
    ScanOptions,
    TransactionState,
    current_request,
    project_schema,
)
from lakeport.errors import ConstraintError, NotFoundError

__all__ = ["TransactionalCatalog"]

COLUMNS = pa.schema([("x", pa.int64())])


class TransactionalCatalog:
    """One table `s.t` of numbers. A number below zero breaks a constraint."""

    name = ""

    def __init__(self, prefix: str = "t") -> None:
        self._prefix = prefix
        self.committed: list[int] = []
        self.log: list[tuple[str, str]] = []
        self._states: dict[str, TransactionState] = {}
        self._staged: dict[str, list[int]] = {}
        self._numbers = itertools.count(1)

    def schemas(self) -> Sequence[Any]:
        return [_Schema(self)]

    def schema(self, name: str) -> Any:
        return _Schema(self) if name == "s" else None

    def catalog_version(self) -> CatalogVersion:
        return CatalogVersion(1)

    def begin_transaction(self) -> str:
        identifier = f"{self._prefix}{next(self._numbers)}"
        self.log.append(("begin", identifier))
        self._states[identifier] = TransactionState.ACTIVE
        return identifier

    def commit_transaction(self, transaction_id: str) -> None:
        self._check(transaction_id)
        self.log.append(("commit", transaction_id))
        self.committed += self._staged.pop(transaction_id, [])
        self._states[transaction_id] = TransactionState.COMMITTED

    def rollback_transaction(self, transaction_id: str) -> None:
        self._check(transaction_id)
        self.log.append(("rollback", transaction_id))
        self._staged.pop(transaction_id, None)
        self._states[transaction_id] = TransactionState.ABORTED

    def transaction_status(self, transaction_id: str) -> TransactionState | None:
        return self._states.get(transaction_id)

    def stage(self, values: list[int]) -> None:
        identifier = current_request().transaction_id
        assert identifier is not None
        self._staged.setdefault(identifier, []).extend(values)

    def visible(self) -> list[int]:
        return self.committed + self._staged.get(current_request().transaction_id or "", [])

    def _check(self, transaction_id: str) -> None:
        if transaction_id not in self._states:
            raise NotFoundError(f"there is no transaction {transaction_id!r}")


class _Schema:
    name = "s"
    comment = ""

    def __init__(self, catalog: TransactionalCatalog) -> None:
        self._catalog = catalog

    def tables(self) -> Sequence[Any]:
        return [_Table(self._catalog)]

    def table(self, name: str) -> Any:
        return _Table(self._catalog) if name == "t" else None

    def scalar_functions(self) -> Sequence[Any]:
        return ()

    def table_functions(self) -> Sequence[Any]:
        return ()

    def table_functions_in_out(self) -> Sequence[Any]:
        return ()

    def create_table(self, name: str, schema: pa.Schema, options: Any) -> Any:
        raise ConstraintError("no more tables")

    def drop_table(self, name: str, options: Any) -> None:
        self._catalog.log.append(("drop_table", current_request().transaction_id or ""))

    def rename_table(self, old_name: str, new_name: str, options: Any) -> None: ...


class _Table:
    name = "t"
    comment = ""

    def __init__(self, catalog: TransactionalCatalog) -> None:
        self._catalog = catalog

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return project_schema(COLUMNS, columns)

    def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
        return pa.table({"x": self._catalog.visible()}, schema=COLUMNS).to_reader()

    def insert(self, rows: pa.RecordBatchReader, options: DMLOptions) -> DMLResult:
        count = 0
        for batch in rows:
            values = batch.column("x").to_pylist()
            self._catalog.stage(values)
            count += len(values)
            if min(values) < 0:
                raise ConstraintError("a number must not be negative")
            options.emit(batch)
        return DMLResult(count)
