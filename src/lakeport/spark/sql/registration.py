"""Register the tables and views of a lake as temporary views of a Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakeport.ducklake import View
from lakeport.ducklake.views import (
    DEFAULT_SCHEMA,
    PlannedTable,
    TableKey,
    ViewSchemas,
    ViewTask,
    reads_of,
    referenced_tables,
    table_key,
)
from lakeport.errors import DefinitionError, LakeportError, UnsupportedError, first_line
from lakeport.spark.compat import replaces_variables
from lakeport.spark.frames.dataframes import dataframe_from_tasks
from lakeport.spark.frames.values import not_held
from lakeport.spark.sql.table_frames import table_frame
from lakeport.spark.sql.views.translation import translate
from lakeport.types import Column, fold_name, spark_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake import Lake
    from lakeport.ducklake.metadata import LakeContents

__all__ = ["Registration", "register", "register_as", "view_name", "view_names"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The tables and views of a lake that are temporary views of a Spark session."""

    snapshot: int
    """The snapshot that everything is read at."""
    names: Mapping[tuple[str, str], str]
    """The temporary view of each table and view, by schema and name."""
    skipped: Mapping[tuple[str, str], str]
    """Why a table or view is not registered, by schema and name."""
    hidden: Mapping[tuple[str, str], Mapping[str, str]] = field(default_factory=dict)
    """Why columns of a table are missing, by schema and name, then by column."""
    in_duckdb: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why Spark does not run a view itself, by schema and name: DuckDB runs it in a worker."""
    spark: SparkSession = field(repr=False, compare=False)

    def unregister(self) -> None:
        """Drop the temporary views."""
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
        lines += [f"  {s}.{n} runs in DuckDB: {why}" for (s, n), why in self.in_duckdb.items()]
        lines += [f"  {s}.{n} skipped: {reason}" for (s, n), reason in self.skipped.items()]
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
    skipped: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> Registration:
    """Make some tables and views of a snapshot temporary views of a session, under given names.

    The tables that views read must be among them, or in `skipped`, with the reason.
    """
    tables = [table for table in lake.tables(version=version) if table_key(*table) in names]
    views = [view for view in lake.views(version=version) if _key(view) in names]
    registrar = _Registrar(lake, spark, version, names, skipped)
    for schema, table in tables:
        registrar.add_table(schema, table)
    if views:
        with ViewSchemas() as schemas:
            registrar.add_views(views, schemas)
    return Registration(
        snapshot=version,
        names=registrar.names,
        skipped=registrar.skipped,
        hidden=registrar.hidden,
        in_duckdb=registrar.in_duckdb,
        spark=spark,
    )


def view_names(
    objects: Iterable[tuple[str, str]], prefix: str | None = None
) -> tuple[dict[TableKey, str], dict[tuple[str, str], str]]:
    """Return the names of tables and views in Spark, and why some have none."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for schema, name in objects:
        owners.setdefault(view_name(schema, name, prefix).lower(), []).append((schema, name))
    names: dict[TableKey, str] = {}
    clashes: dict[tuple[str, str], str] = {}
    for same_name in owners.values():
        in_spark = view_name(*same_name[0], prefix)
        if len(same_name) == 1:
            names[table_key(*same_name[0])] = in_spark
            continue
        all_of_them = " and ".join(".".join(parts) for parts in same_name)
        reason = f"{all_of_them} would both be called {in_spark} in Spark"
        clashes |= dict.fromkeys(same_name, reason)
    return names, clashes


def view_name(schema: str, name: str, prefix: str | None = None) -> str:
    """Return the name of a table or view in Spark; the default schema is left out of it."""
    parts = [prefix, None if table_key(schema, "")[0] == DEFAULT_SCHEMA else schema, name]
    return "_".join(part for part in parts if part)


class _Registrar:
    """Registers tables, then views, and collects the result."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkSession,
        snapshot: int,
        view_names: Mapping[TableKey, str],
        skipped: Mapping[tuple[str, str], str],
    ) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.skipped = dict(skipped)
        self.hidden: dict[tuple[str, str], dict[str, str]] = {}
        self.in_duckdb: dict[tuple[str, str], str] = {}
        self._contents: LakeContents | None = None
        self._lake, self._spark, self._snapshot = lake, spark, snapshot
        self._replaces_variables = replaces_variables(spark)
        self._view_names = view_names
        self._reads: dict[TableKey, set[TableKey]] = {}
        self._columns: dict[TableKey, Sequence[Column]] = {}

    def add_table(self, schema: str, name: str) -> None:
        """Register a table without the columns that Spark cannot hold, or record why not."""

        def frame() -> DataFrame:
            table = self._lake.table(name, schema, version=self._snapshot)
            hidden = {column.name: why for column in table.columns if (why := not_held(column))}
            columns = [column for column in table.columns if column.name not in hidden]
            if not columns:
                raise UnsupportedError(next(iter(hidden.values()), "it has no columns"))
            self._columns[table_key(schema, name)] = columns
            names = [column.name for column in columns]
            rows = table_frame(self._spark, self._lake, table, names)
            if hidden:
                self.hidden[schema, name] = hidden
            return rows

        self._add(schema, name, frame)

    def add_views(self, views: Sequence[View], schemas: ViewSchemas) -> None:
        """Register views, after all tables."""
        for (schema, name), columns in self._columns.items():
            schemas.add_table(schema, name, columns)
        for view in self._in_order(views):
            self._add_view(view, schemas)

    def _in_order(self, views: Sequence[View]) -> list[View]:
        """Return views after the views that they read; skip views that read each other."""
        waiting: dict[TableKey, View] = {}
        known = {*self._view_names, *(table_key(*name) for name in self.skipped)}
        for view in views:
            try:
                self._reads[_key(view)] = referenced_tables(view, known)
                waiting[_key(view)] = view
            except UnsupportedError as error:
                self.skipped[view.schema, view.name] = str(error)
        ordered: list[View] = []
        while waiting:
            ready = [key for key in waiting if not self._reads[key] & waiting.keys()]
            if not ready:
                break
            ordered += [waiting.pop(key) for key in ready]
        for view in waiting.values():
            self.skipped[view.schema, view.name] = "views that read each other have no translation"
        return ordered

    def _add_view(self, view: View, schemas: ViewSchemas) -> None:
        """Register a view, or record why not."""

        def frame() -> DataFrame:
            reads = self._reads[_key(view)]
            for schema, name in self.skipped:
                if table_key(schema, name) in reads:
                    raise UnsupportedError(f"the view reads {schema}.{name}, which is skipped")
            schemas.add_view(view)
            columns = schemas.columns(view)
            for column in columns:
                if reason := not_held(column):
                    raise UnsupportedError(reason)
            self._columns[_key(view)] = columns
            try:
                return self._translated(view, reads, columns)
            except (UnsupportedError, PySparkException) as error:
                self.in_duckdb[view.schema, view.name] = first_line(error)
            task = ViewTask(reads=self._planned(view), schema=schemas.arrow_schema(view))
            return dataframe_from_tasks(self._spark, [task], columns)

        from pyspark.errors import PySparkException

        self._add(view.schema, view.name, frame)

    def _translated(self, view: View, reads: set[TableKey], columns: Sequence[Column]) -> DataFrame:
        """Return a view that Spark runs."""
        for schema, name in self.in_duckdb:
            if table_key(schema, name) in reads:
                raise UnsupportedError(f"the view reads {schema}.{name}, which DuckDB runs")
        sql = translate(
            view,
            {key: self._view_names[key] for key in reads},
            columns=[column.name for column in columns],
            inputs=[column for key in reads for column in self._columns[key]],
        )
        self._refuse_variables(sql, "its SQL")
        return _as_in_duckdb(self._spark.sql(sql), columns)

    def _planned(self, view: View) -> tuple[PlannedTable | View, ...]:
        """Return a view and everything that it reads, in order of dependency, with its tasks."""
        if self._contents is None:
            self._contents = self._lake.contents(version=self._snapshot)
        planned: list[PlannedTable | View] = []
        for read in reads_of(view, self._contents).values():
            if isinstance(read, View):
                planned.append(read)
                continue
            table = self._lake.table(read.name, read.schema, version=self._snapshot)
            plan = table.scan().plan
            planned.append(
                PlannedTable(
                    schema=read.schema, name=read.name, columns=read.columns, tasks=plan.tasks
                )
            )
        return tuple(planned)

    def _add(self, schema: str, name: str, frame: Callable[[], DataFrame]) -> None:
        from pyspark.errors import PySparkException

        in_spark = self._view_names[table_key(schema, name)]
        try:
            self._refuse_variables(in_spark, "its name")
            frame().createOrReplaceTempView(spark_identifier(in_spark))
        except (LakeportError, PySparkException) as error:
            self.skipped[schema, name] = first_line(error)
        else:
            self.names[schema, name] = in_spark

    def _refuse_variables(self, text: str, subject: str) -> None:
        """Refuse text of the lake that Spark would replace by the environment of this process."""
        if self._replaces_variables and "${" in text:
            raise UnsupportedError(f"{subject} contains '${{', a part that Spark would replace")


def _as_in_duckdb(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return the columns in DuckDB's order, under its names and in the Spark types of its types."""
    from lakeport.spark.frames.values import spark_data_type

    in_duckdb = [fold_name(column.name) for column in columns]
    in_spark = [fold_name(name) for name in frame.columns]
    if sorted(in_duckdb) != sorted(in_spark) or len(set(in_spark)) != len(in_spark):
        raise UnsupportedError(
            f"its columns are called {', '.join(in_spark)} in Spark, "
            f"{', '.join(in_duckdb)} in DuckDB"
        )
    selected = [
        frame[spark_identifier(column.name)].cast(spark_data_type(column)).alias(column.name)
        for column in columns
    ]
    return frame.select(*selected)


def _key(view: View) -> TableKey:
    return table_key(view.schema, view.name)
