"""What of a lake is in a Spark session, and how to take it out again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakeport.ducklake import View
from lakeport.errors import DefinitionError, LakeportError, UnsupportedError, first_line
from lakeport.spark.compat import replaces_variables
from lakeport.spark.frames.dataframes import to_dataframe
from lakeport.spark.frames.values import not_held
from lakeport.spark.sql.views.columns import ViewSchemas
from lakeport.spark.sql.views.translation import (
    DEFAULT_SCHEMA,
    TableKey,
    referenced_tables,
    table_key,
    translate,
)
from lakeport.types import Column, fold_name, spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake import Lake

__all__ = ["Registration", "register", "register_as", "view_name", "view_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What of a lake is in a Spark session."""

    snapshot: int
    """The snapshot that everything is read at."""
    names: Mapping[tuple[str, str], str]
    """The temporary view of each table and view, by schema and name."""
    refused: Mapping[tuple[str, str], str]
    """Why a table or view is not there, by schema and name."""
    hidden: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    """Why some columns of a table are not there, by schema and name, then by column."""
    spark: SparkSession = field(repr=False, compare=False)

    def unregister(self) -> None:
        """Drop the temporary views; what they were called is free again."""
        for name in self.names.values():
            self.spark.catalog.dropTempView(name)

    def __repr__(self) -> str:
        lines = [f"Registration of snapshot {self.snapshot}"]
        lines += [f"  {s}.{n} as {name}" for (s, n), name in self.names.items()]
        lines += [
            f"  {s}.{n} without column {column}: {reason}"
            for (s, n), columns in self.hidden.items()
            for column, reason in columns.items()
        ]
        lines += [f"  {s}.{n} refused: {reason}" for (s, n), reason in self.refused.items()]
        return "\n".join(lines)


def register(
    lake: Lake,
    spark: SparkSession,
    name: str | None = None,
    *,
    version: int,
) -> Registration:
    """Make every table and view of a lake at a snapshot a temporary view of a Spark session."""
    views = [(view.schema, view.name) for view in lake.views(version=version)]
    names, clashes = view_names([*lake.tables(version=version), *views], name)
    for reason in clashes.values():
        raise DefinitionError(reason)
    return register_as(lake, spark, names, version=version)


def register_as(
    lake: Lake,
    spark: SparkSession,
    names: Mapping[TableKey, str],
    *,
    version: int,
    refused: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Registration:
    """Make some tables and views of a snapshot temporary views of a session, under given names.

    What they read must be among them, or be `refused`, for the reason that is given.
    """
    tables = [table for table in lake.tables(version=version) if table_key(*table) in names]
    views = [view for view in lake.views(version=version) if _key(view) in names]
    work = _Registrar(lake, spark, version, names, refused)
    with ViewSchemas() as shapes:
        for schema, table in tables:
            work.add_table(schema, table, shapes)
        for view in work.in_order(views):
            work.add_view(view, shapes)
    return Registration(
        snapshot=version, names=work.names, refused=work.refused, hidden=work.hidden, spark=spark
    )


def view_names(
    objects: Iterable[tuple[str, str]], prefix: str | None = None
) -> tuple[dict[TableKey, str], dict[tuple[str, str], str]]:
    """What tables and views are called in Spark, and why some are called nothing."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for schema, name in objects:
        owners.setdefault(view_name(schema, name, prefix).lower(), []).append((schema, name))
    names: dict[TableKey, str] = {}
    clashes: dict[tuple[str, str], str] = {}
    for found in owners.values():
        called = view_name(*found[0], prefix)
        if len(found) == 1:
            names[table_key(*found[0])] = called
            continue
        all_of_them = " and ".join(".".join(parts) for parts in found)
        reason = f"{all_of_them} would both be called {called} in Spark"
        clashes |= dict.fromkeys(found, reason)
    return names, clashes


def view_name(schema: str, name: str, prefix: str | None = None) -> str:
    """What a table or view is called in Spark: those of the default schema without it."""
    parts = [prefix, None if table_key(schema, "")[0] == DEFAULT_SCHEMA else schema, name]
    return "_".join(part for part in parts if part)


class _Registrar:
    """One registration while it is being made."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkSession,
        snapshot: int,
        wanted: Mapping[TableKey, str],
        refused: Mapping[tuple[str, str], str],
    ) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.refused = dict(refused)
        self.hidden: dict[tuple[str, str], dict[str, str]] = {}
        self._lake, self._spark, self._snapshot = lake, spark, snapshot
        self._replaces_variables = replaces_variables(spark)
        self._wanted = wanted
        self._reads: dict[TableKey, set[TableKey]] = {}
        self._columns: dict[TableKey, Sequence[Column]] = {}

    def add_table(self, schema: str, name: str, shapes: ViewSchemas) -> None:
        """Register a table without the columns that Spark cannot hold, or remember why not."""

        def frame() -> DataFrame:
            table = self._lake.table(name, schema, version=self._snapshot)
            hidden = {column.name: why for column in table.columns if (why := not_held(column))}
            columns = [column for column in table.columns if column.name not in hidden]
            if not columns:
                raise UnsupportedError(next(iter(hidden.values()), "it has no columns"))
            self._columns[table_key(schema, name)] = columns
            shapes.add_table(schema, name, columns)
            found = to_dataframe(self._spark, table.scan([column.name for column in columns]).plan)
            if hidden:
                self.hidden[schema, name] = hidden
            return found

        self._add(schema, name, frame)

    def in_order(self, views: Sequence[View]) -> list[View]:
        """Views after the views that they read; those that cannot be placed are refused."""
        waiting: dict[TableKey, View] = {}
        known = {*self._wanted, *(table_key(*name) for name in self.refused)}
        for view in views:
            try:
                self._reads[_key(view)] = referenced_tables(view, known)
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

    def add_view(self, view: View, shapes: ViewSchemas) -> None:
        """Register a view, or remember why not."""

        def frame() -> DataFrame:
            reads = self._reads[_key(view)]
            for schema, name in self.refused:
                if table_key(schema, name) in reads:
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

        called = self._wanted[table_key(schema, name)]
        try:
            self._refuse_variables(called, "its name")
            frame().createOrReplaceTempView(spark_identifier(called))
        except (LakeportError, PySparkException) as error:
            self.refused[schema, name] = first_line(error)
        else:
            self.names[schema, name] = called

    def _refuse_variables(self, text: str, what: str) -> None:
        """The lake's own text must not show the environment of whoever reads it."""
        if self._replaces_variables and "${" in text:
            raise UnsupportedError(f"{what} contains '${{', a part that Spark would replace")


def _as_in_duckdb(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The columns in DuckDB's order, under its names and in the Spark types of its types."""
    from lakeport.spark.frames.values import spark_data_type

    wanted = [fold_name(column.name) for column in columns]
    found = [fold_name(name) for name in frame.columns]
    if sorted(wanted) != sorted(found) or len(set(found)) != len(found):
        raise UnsupportedError(
            f"its columns are called {', '.join(found)} in Spark, {', '.join(wanted)} in DuckDB"
        )
    shaped = [
        frame[spark_identifier(column.name)].cast(spark_data_type(column)).alias(column.name)
        for column in columns
    ]
    return frame.select(*shaped)


def _key(view: View) -> TableKey:
    return table_key(view.schema, view.name)
