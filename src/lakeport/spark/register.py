"""A whole lake in a Spark session: its tables and views as temporary views of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakeport.ducklake import Column, View
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import DefinitionError, LakeportError, UnsupportedError
from lakeport.spark.queries import replaces_variables
from lakeport.spark.quoting import quoted
from lakeport.spark.registration import Registration
from lakeport.spark.values import not_held
from lakeport.spark.view_columns import ViewColumns
from lakeport.spark.views import DEFAULT_SCHEMA, Key, key_of, references, translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.spark.lake import Lake

__all__ = ["Registration", "register", "register_as", "view_name", "view_names"]


def register(
    lake: Lake,
    spark: SparkSession,
    name: str | None = None,
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
) -> Registration:
    """Make every table and view of a lake a temporary view of a Spark session."""
    snapshot = lake.snapshot(version=version, timestamp=timestamp).id
    views = [(view.schema, view.name) for view in lake.views(version=snapshot)]
    names, clashes = view_names([*lake.tables(version=snapshot), *views], name)
    for reason in clashes.values():
        raise DefinitionError(reason)
    return register_as(lake, spark, names, version=snapshot)


def register_as(
    lake: Lake,
    spark: SparkSession,
    names: Mapping[Key, str],
    *,
    version: int,
    refused: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Registration:
    """Make some tables and views of a snapshot temporary views of a session, under given names.

    What they read must be among them, or be `refused`, for the reason that is given.
    """
    tables = [table for table in lake.tables(version=version) if key_of(*table) in names]
    views = [view for view in lake.views(version=version) if _key(view) in names]
    work = _Work(lake, spark, version, names, refused)
    with ViewColumns() as shapes:
        for schema, table in tables:
            work.add_table(schema, table, shapes)
        for view in work.in_order(views):
            work.add_view(view, shapes)
    return Registration(
        snapshot=version, names=work.names, refused=work.refused, hidden=work.hidden, spark=spark
    )


def view_names(
    objects: Iterable[tuple[str, str]], prefix: str | None = None
) -> tuple[dict[Key, str], dict[tuple[str, str], str]]:
    """What tables and views are called in Spark, and why some are called nothing."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for schema, name in objects:
        owners.setdefault(view_name(schema, name, prefix).lower(), []).append((schema, name))
    names: dict[Key, str] = {}
    clashes: dict[tuple[str, str], str] = {}
    for found in owners.values():
        called = view_name(*found[0], prefix)
        if len(found) == 1:
            names[key_of(*found[0])] = called
            continue
        all_of_them = " and ".join(".".join(parts) for parts in found)
        reason = f"{all_of_them} would both be called {called} in Spark"
        clashes |= dict.fromkeys(found, reason)
    return names, clashes


def view_name(schema: str, name: str, prefix: str | None = None) -> str:
    """What a table or view is called in Spark: those of the default schema without it."""
    parts = [prefix, None if key_of(schema, "")[0] == DEFAULT_SCHEMA else schema, name]
    return "_".join(part for part in parts if part)


class _Work:
    """One registration while it is being made."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkSession,
        snapshot: int,
        wanted: Mapping[Key, str],
        refused: Mapping[tuple[str, str], str],
    ) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.refused = dict(refused)
        self.hidden: dict[tuple[str, str], dict[str, str]] = {}
        self._lake, self._spark, self._snapshot = lake, spark, snapshot
        self._replaces_variables = replaces_variables(spark)
        self._wanted = wanted
        self._reads: dict[Key, set[Key]] = {}
        self._columns: dict[Key, Sequence[Column]] = {}

    def add_table(self, schema: str, name: str, shapes: ViewColumns) -> None:
        """Register a table without the columns that Spark cannot hold, or remember why not."""

        def frame() -> DataFrame:
            table = self._lake.table(name, schema, version=self._snapshot)
            hidden = {column.name: why for column in table.columns if (why := not_held(column))}
            columns = [column for column in table.columns if column.name not in hidden]
            if not columns:
                raise UnsupportedError(next(iter(hidden.values()), "it has no columns"))
            self._columns[key_of(schema, name)] = columns
            shapes.add_table(schema, name, columns)
            found = table.scan([column.name for column in columns]).to_spark(self._spark)
            if hidden:
                self.hidden[schema, name] = hidden
            return found

        self._add(schema, name, frame)

    def in_order(self, views: Sequence[View]) -> list[View]:
        """Views after the views that they read; those that cannot be placed are refused."""
        waiting: dict[Key, View] = {}
        known = {*self._wanted, *(key_of(*name) for name in self.refused)}
        for view in views:
            try:
                self._reads[_key(view)] = references(view, known)
                waiting[_key(view)] = view
            except UnsupportedError as error:
                self.refused[view.schema, view.name] = str(error)
        ordered: list[View] = []
        while waiting:
            ready = [key for key in waiting if not self._reads[key] & waiting.keys()]
            if not ready:
                break
            ordered += [waiting.pop(key) for key in ready]
        for view in waiting.values():
            self.refused[view.schema, view.name] = "views that read each other have no translation"
        return ordered

    def add_view(self, view: View, shapes: ViewColumns) -> None:
        """Register a view, or remember why not."""

        def frame() -> DataFrame:
            reads = self._reads[_key(view)]
            for schema, name in self.refused:
                if key_of(schema, name) in reads:
                    raise UnsupportedError(f"the view reads {schema}.{name}, which is refused")
            columns = shapes.add_view(view)
            sql = translate(
                view,
                {key: self._wanted[key] for key in reads},
                columns=[column.name for column in columns],
                inputs=[column for key in reads for column in self._columns[key]],
            )
            self._refuse_variables(sql, "its SQL")
            self._columns[_key(view)] = columns
            return _as_in_duckdb(self._spark.sql(sql), columns)

        self._add(view.schema, view.name, frame)

    def _add(self, schema: str, name: str, frame: Callable[[], DataFrame]) -> None:
        from pyspark.errors import PySparkException

        called = self._wanted[key_of(schema, name)]
        try:
            self._refuse_variables(called, "its name")
            frame().createOrReplaceTempView(quoted(called))
        except (LakeportError, PySparkException) as error:
            self.refused[schema, name] = str(error).strip().partition("\n")[0]
        else:
            self.names[schema, name] = called

    def _refuse_variables(self, text: str, what: str) -> None:
        """The lake's own text must not show the environment of whoever reads it."""
        if self._replaces_variables and "${" in text:
            raise UnsupportedError(f"{what} contains '${{', a part that Spark would replace")


def _as_in_duckdb(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The columns in DuckDB's order, under its names and in the Spark types of its types."""
    from lakeport.spark.values import spark_data_type

    wanted = [ascii_lower(column.name) for column in columns]
    found = [ascii_lower(name) for name in frame.columns]
    if sorted(wanted) != sorted(found) or len(set(found)) != len(found):
        raise UnsupportedError(
            f"its columns are called {', '.join(found)} in Spark, {', '.join(wanted)} in DuckDB"
        )
    shaped = [
        frame[quoted(column.name)].cast(spark_data_type(column)).alias(column.name)
        for column in columns
    ]
    return frame.select(*shaped)


def _key(view: View) -> Key:
    return key_of(view.schema, view.name)
