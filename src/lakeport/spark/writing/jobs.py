"""One write on Spark: its job, its name in Spark's pages, its progress and its leftovers."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from lakeport.ducklake.writing.files import FileTarget
from lakeport.ducklake.writing.tasks import (
    Progress,
    TaskReport,
    WriteProgress,
    delete_leftovers,
    new_job,
    unpack_report,
)
from lakeport.errors import InternalError, LakeportError
from lakeport.spark.compat import is_connect
from lakeport.spark.errors import query_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["WriteJob"]

_DESCRIPTION: Final = "spark.job.description"
_SETTLE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


@dataclass(slots=True)
class WriteJob:
    """A write: Spark jobs whose tasks write files of one table."""

    spark: SparkSession
    target: FileTarget
    title: str
    progress: Progress | None = None
    id: str = field(default_factory=new_job)

    def run(self, reports: DataFrame) -> list[TaskReport]:
        """Run the tasks; return their reports, in the order of the tasks.

        Files of attempts that failed, and of attempts that were not needed, are deleted. If the
        write fails, all of its files are.
        """
        try:
            with self.named(), self._watched():
                packed = reports.toArrow().column(0).to_pylist()
            found = sorted((unpack_report(data) for data in packed), key=lambda r: r.attempt.task)
            _check_distinct(found)
            self._report_end(found)
        except BaseException as error:
            self._cancel()
            self.delete_leftovers(())
            if isinstance(error, LakeportError) or not isinstance(error, Exception):
                raise
            raise query_error(error, subject="write") from None
        if not self._ran_once(found):
            self.delete_leftovers(found)
        return found

    def delete_leftovers(self, reports: Sequence[TaskReport]) -> None:
        """Delete the files of this job that no report lists, once its tasks have ended."""
        self._settle()
        delete_leftovers(self.target, self.id, reports)

    def _ran_once(self, reports: Sequence[TaskReport]) -> bool:
        """Return whether no task can have run twice, so that there is no unreported file."""
        if is_connect(self.spark) or any(report.attempt.number for report in reports):
            return False
        # A version of Spark may lack these numbers.
        with contextlib.suppress(Exception):
            speculates = self.spark.sparkContext.getConf().get("spark.speculation", "false")
            return speculates != "true" and not any(
                stage.numFailedTasks or stage.currentAttemptId for stage in self._stages()
            )
        return False

    @contextlib.contextmanager
    def named(self) -> Iterator[None]:
        """Give the Spark jobs of the block the title and the id of this write."""
        if is_connect(self.spark):
            remote: Any = self.spark
            remote.addTag(self.id)
            try:
                yield
            finally:
                remote.removeTag(self.id)
            return
        context = self.spark.sparkContext
        before = context.getLocalProperty(_DESCRIPTION)
        context.setJobDescription(self.title)
        context.addJobTag(self.id)
        try:
            yield
        finally:
            # A lost JVM has no properties.
            with contextlib.suppress(Exception):
                context.setLocalProperty(_DESCRIPTION, before)
                context.removeJobTag(self.id)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Call the progress of the write while the block runs; a Connect session has no numbers."""
        if self.progress is None or is_connect(self.spark):
            yield
            return
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(ended,), name="lakeport-progress")
        watch.start()
        try:
            yield
        finally:
            ended.set()
            watch.join()

    def _watch(self, ended: threading.Event) -> None:
        seen = None
        # Spark, or the caller's function, may fail: the write does not depend on either.
        with contextlib.suppress(Exception):
            while not ended.wait(_POLL_SECONDS):
                stages = self._stages()
                tasks = sum(stage.numTasks for stage in stages)
                now = WriteProgress(
                    title=self.title,
                    tasks=tasks,
                    tasks_done=sum(stage.numCompletedTasks for stage in stages),
                )
                if tasks and now != seen and self.progress is not None:
                    self.progress(now)
                    seen = now

    def _report_end(self, reports: Sequence[TaskReport]) -> None:
        if self.progress is None:
            return
        files = [file for report in reports for file in report.files]
        few = sum(report.rows.num_rows for report in reports if report.rows is not None)
        end = WriteProgress(
            title=self.title,
            tasks=len(reports),
            tasks_done=len(reports),
            rows=sum(file.record_count for file in files) + few,
            files=len(files),
            bytes=sum(file.file_size_bytes for file in files),
        )
        with contextlib.suppress(Exception):
            self.progress(end)

    def _cancel(self) -> None:
        """Cancel the Spark jobs of the write, which may be running: the caller was interrupted."""
        # A lost JVM has no jobs.
        with contextlib.suppress(Exception):
            if is_connect(self.spark):
                remote: Any = self.spark
                remote.interruptTag(self.id)
            else:
                self.spark.sparkContext.cancelJobsWithTag(self.id)

    def _settle(self) -> None:
        """Wait until no task of the job runs, which could still write a file."""
        if is_connect(self.spark):
            return
        deadline = time.monotonic() + _SETTLE_SECONDS
        # A lost JVM has no tasks.
        with contextlib.suppress(Exception):
            while self.running_tasks() and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)

    def running_tasks(self) -> int:
        """Return how many tasks of the job run now."""
        return sum(stage.numActiveTasks for stage in self._stages())

    def _stages(self) -> list[Any]:
        context = self.spark.sparkContext
        java: Any = context._jsc.sc().statusTracker()  # noqa: SLF001
        tracker = context.statusTracker()
        found = []
        for job in java.getJobIdsForTag(self.id):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                described = tracker.getStageInfo(stage)
                if described is not None:
                    found.append(described)
        return found


def _check_distinct(reports: Sequence[TaskReport]) -> None:
    """Raise InternalError if two attempts of a task were reported: their rows would be doubled."""
    tasks = {report.attempt.task for report in reports}
    if len(tasks) != len(reports):
        raise InternalError("Spark returned the results of a task of a write twice")
