"""A whole lake in a Spark session: its tables and views as temporary views of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import TYPE_CHECKING

from lakeport.ducklake import Column, View
from lakeport.ducklake.text import ascii_lower
from lakeport.errors import DefinitionError, LakeportError, UnsupportedError
from lakeport.spark.queries import replaces_variables
from lakeport.spark.quoting import quoted
from lakeport.spark.registration import Registration
from lakeport.spark.view_columns import ViewColumns
from lakeport.spark.views import DEFAULT_SCHEMA, Key, key_of, references, translate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.spark.lake import Lake

__all__ = ["Registration", "register"]


def register(
    lake: Lake,
    spark: SparkSession,
    name: str | None = None,
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    only: AbstractSet[Key] | None = None,
) -> Registration:
    """Make every table and view of a lake, or only some, a temporary view of a Spark session."""
    snapshot = lake.snapshot(version=version, timestamp=timestamp).id
    tables = lake.tables(version=snapshot)
    views = lake.views(version=snapshot)
    if only is not None:
        tables = [table for table in tables if key_of(*table) in only]
        views = [view for view in views if _key(view) in only]
    wanted = _view_names([*tables, *((view.schema, view.name) for view in views)], name)
    work = _Work(lake, spark, snapshot, wanted)
    with ViewColumns() as shapes:
        for schema, table in tables:
            work.add_table(schema, table, shapes)
        for view in work.in_order(views):
            work.add_view(view, shapes)
    return Registration(snapshot=snapshot, names=work.names, refused=work.refused, spark=spark)


def _view_names(objects: Sequence[tuple[str, str]], prefix: str | None) -> dict[Key, str]:
    """What everything is going to be called; a name for two things is an error."""
    names: dict[Key, str] = {}
    owners: dict[str, str] = {}
    for schema, name in objects:
        parts = [prefix, None if key_of(schema, "")[0] == DEFAULT_SCHEMA else schema, name]
        called = "_".join(part for part in parts if part)
        other = owners.setdefault(called.lower(), f"{schema}.{name}")
        if other != f"{schema}.{name}":
            raise DefinitionError(
                f"{other} and {schema}.{name} would both be called {called} in Spark"
            )
        names[key_of(schema, name)] = called
    return names


class _Work:
    """One registration while it is being made."""

    def __init__(
        self, lake: Lake, spark: SparkSession, snapshot: int, wanted: Mapping[Key, str]
    ) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.refused: dict[tuple[str, str], str] = {}
        self._lake, self._spark, self._snapshot = lake, spark, snapshot
        self._replaces_variables = replaces_variables(spark)
        self._wanted = wanted
        self._reads: dict[Key, set[Key]] = {}
        self._columns: dict[Key, Sequence[Column]] = {}

    def add_table(self, schema: str, name: str, shapes: ViewColumns) -> None:
        """Register a table, or remember why not."""

        def frame() -> DataFrame:
            table = self._lake.table(name, schema, version=self._snapshot)
            self._columns[key_of(schema, name)] = table.columns
            shapes.add_table(schema, name, table.columns)
            return table.scan().to_spark(self._spark)

        self._add(schema, name, frame)

    def in_order(self, views: Sequence[View]) -> list[View]:
        """Views after the views that they read; those that cannot be placed are refused."""
        waiting: dict[Key, View] = {}
        for view in views:
            try:
                self._reads[_key(view)] = references(view, self._wanted.keys())
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
