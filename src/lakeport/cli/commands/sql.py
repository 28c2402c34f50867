"""`lakeport sql`: run a query on a lake with Spark, or a statement that changes the lake."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import pyarrow as pa
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from lakeport._wording import counted, size_text
from lakeport.cli.arguments import parse_at, parse_lake
from lakeport.cli.output import (
    ROWS_SHOWN,
    check_output,
    make_console,
    printable,
    save_rows,
    show_rows,
)
from lakeport.cli.spark import spark_session
from lakeport.ducklake import Lake
from lakeport.errors import InvalidArgumentError, UnavailableError
from lakeport.spark import query_error
from lakeport.spark.frames import arrow_schema, frame_columns, select
from lakeport.spark.transport import stream_dataframe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeport.ducklake.writing import WriteProgress, WriteResult

__all__ = ["sql"]

_REFRESH: Final = 0.2


def sql(
    lake: Annotated[
        str,
        typer.Argument(help="'ducklake:…', 'postgresql://…', a database file, or '@file'."),
    ],
    query: Annotated[
        str,
        typer.Argument(
            help="Spark SQL, or INSERT, UPDATE, DELETE, MERGE, TRUNCATE, CREATE, ALTER, DROP, "
            "COMMENT ON, SHOW or DESCRIBE. A table of another schema than 'main' is named "
            "schema.table; "
            "'VERSION AS OF 3' or TIMESTAMP AS OF '…' after a table reads it as it was."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="Save the result: a .parquet, .csv or .arrow file.")
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="How many rows to print.")] = ROWS_SHOWN,
    at: Annotated[str | None, typer.Option(help="As of a snapshot: its number, or a time.")] = None,
    master: Annotated[
        str | None, typer.Option(help="The Spark master; all cores of this machine by default.")
    ] = None,
) -> None:
    """Run a Spark SQL query or a statement on a lake, and print or save its result.

    A query runs on Spark. A statement changes the lake in one transaction and prints what it has
    done; Spark is started only if it contains a query.

    For example:

      lakeport sql meta.ducklake "SELECT station, count(*) FROM trips GROUP BY station"

      lakeport sql meta.ducklake "SELECT * FROM trips" --at 3 --output trips.parquet

      lakeport sql meta.ducklake "SELECT * FROM sales.orders VERSION AS OF 3"

      lakeport sql meta.ducklake "UPDATE sales.orders SET state = 'sent' WHERE id = 7"

      lakeport sql meta.ducklake "INSERT INTO daily SELECT day, count(*) FROM trips GROUP BY day"
    """
    check_output(output)
    uri = parse_lake(lake)
    console = make_console()
    if _is_listing(query):
        rows = _listing(uri, query, master, **parse_at(at)).to_reader()
        _show_or_save(console, rows, output, limit)
        return
    if _is_statement(query):
        if output is not None or at is not None:
            raise InvalidArgumentError("--output and --at are for queries, and this is a statement")
        console.print(_outcome(_run(uri, query, master)), highlight=False, soft_wrap=True)
        return
    with Lake.open(uri) as opened, spark_session(master) as spark:
        frame = opened.sql(query, spark=spark, **parse_at(at))
        with _result(spark, frame, limit if output is None else None) as found:
            _show_or_save(console, found, output, limit)


def _show_or_save(
    console: Console, rows: pa.RecordBatchReader, output: Path | None, limit: int
) -> None:
    if output is None:
        show_rows(console, rows, max_rows=limit)
        return
    count = save_rows(rows, output)
    console.print(f"{counted(count, 'row')} in {output}", highlight=False, soft_wrap=True)


def _is_statement(text: str) -> bool:
    """Return whether a text is a statement, not a query. The parser is a part of an extra."""
    try:
        from lakeport.spark.sql import is_statement
    except ImportError:
        raise UnavailableError('Spark is not installed: pip install "lakeport[spark]"') from None
    return is_statement(text)


def _is_listing(text: str) -> bool:
    """Return whether a text is SHOW or DESCRIBE."""
    _is_statement(text)  # reports a missing extra
    from lakeport.spark.sql import is_listing

    return is_listing(text)


def _listing(uri: str, text: str, master: str | None, **at: Any) -> pa.Table:
    """Run SHOW or DESCRIBE; Spark is started for a view only."""
    from lakeport.spark.sql import run_listing

    with Lake.open(uri) as lake, ExitStack() as stack:
        version = lake.snapshot(**at).id if any(at.values()) else None
        return run_listing(
            lake, text, lambda: stack.enter_context(spark_session(master)), version=version
        )


def _run(uri: str, statement: str, master: str | None) -> WriteResult:
    """Run a statement; Spark is started when it is needed."""
    from lakeport.spark.sql import run_statement

    with Lake.open(uri) as lake, ExitStack() as stack:

        @cache
        def spark() -> SparkSession:
            started: SparkSession = stack.enter_context(spark_session(master))
            return started

        with _writes() as progress:
            return run_statement(lake, statement, spark, progress=progress)


def _outcome(result: WriteResult) -> str:
    """Describe what a statement has done, in one line."""
    if result.snapshot is None:
        return "no new snapshot"
    counts = {
        "inserted": result.rows_inserted,
        "updated": result.rows_updated,
        "deleted": result.rows_deleted,
    }
    done = [f"{counted(count, 'row')} {word}" for word, count in counts.items() if count]
    if result.files_added:
        done.append(f"{counted(result.files_added, 'file')} of {size_text(result.bytes_added)}")
    return ", ".join([*done, f"snapshot {result.snapshot}"])


@contextmanager
def _writes() -> Iterator[Callable[[WriteProgress], None] | None]:
    """Yield a function that shows a bar for each step of a write, on a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[summary]}")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        known: dict[str, TaskID] = {}

        def show(now: WriteProgress) -> None:
            if now.title not in known:
                known[now.title] = bars.add_task(escape(printable(now.title)), summary="")
            bar = known[now.title]
            bars.update(bar, total=now.tasks, completed=now.tasks_done, summary=_summary(now))

        yield show


def _summary(now: WriteProgress) -> str:
    """Describe how far a step of a write is."""
    tasks = f"{now.tasks_done} of {counted(now.tasks, 'task')}"
    if not now.files:
        return f"{tasks}, {counted(now.rows, 'row')}" if now.rows else tasks
    size = size_text(now.bytes)
    return f"{tasks}, {counted(now.rows, 'row')}, {counted(now.files, 'file')}, {size}"


@contextmanager
def _result(
    spark: SparkSession, frame: DataFrame, shown: int | None
) -> Iterator[pa.RecordBatchReader]:
    """Yield the rows of a DataFrame while Spark runs, with a progress bar."""
    from pyspark.errors import PySparkException

    try:
        columns = frame_columns(frame.schema)
        # Columns of the same name can be selected only after they are renamed.
        frame = select(frame.toDF(*(column.name for column in columns)), columns)
        if shown is not None:
            # One row more than is shown, to find out whether there are more.
            frame = frame.limit(shown + 1)
        with _progress(spark), stream_dataframe(frame, arrow_schema(columns)) as rows:
            yield rows
    except PySparkException as error:
        raise query_error(error) from None


@contextmanager
def _progress(spark: SparkSession) -> Iterator[None]:
    """Show a progress bar of Spark tasks if standard error is a terminal."""
    console = Console(stderr=True)
    context = getattr(spark, "sparkContext", None)
    if not console.is_terminal or context is None:
        yield
        return
    done = threading.Event()
    columns = TextColumn("Spark"), BarColumn(), TextColumn("{task.fields[summary]}")
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        bar = progress.add_task("", total=None, summary="")

        def watch() -> None:
            tracker = context.statusTracker()
            while not done.wait(_REFRESH):
                stages = [
                    stage
                    for number in tracker.getActiveStageIds()
                    if (stage := tracker.getStageInfo(number)) is not None
                ]
                total = sum(stage.numTasks for stage in stages)
                finished = sum(stage.numCompletedTasks for stage in stages)
                summary = f"{finished} of {counted(total, 'task')}" if total else ""
                progress.update(bar, total=total or None, completed=finished, summary=summary)

        watcher = threading.Thread(target=watch, name="lakeport-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
