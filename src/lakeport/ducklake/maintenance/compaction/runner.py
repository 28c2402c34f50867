"""Run the groups of a compaction: in threads of this process, or as the tasks of another engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

from lakeport.ducklake.engine import AutoEngine, Engine, LocalEngine
from lakeport.ducklake.maintenance.compaction.task import CompactionTask
from lakeport.ducklake.maintenance.results import Cancel
from lakeport.errors import CancelledError

__all__ = ["run_groups"]


def run_groups(
    engine: Engine, tasks: Sequence[CompactionTask], *, max_bytes: int, is_cancelled: Cancel
) -> Iterator[dict[str, Any]]:
    """Yield the results of tasks, in no order; at most `max_bytes` of files are in work at once."""
    chosen = engine.choose(tasks) if isinstance(engine, AutoEngine) else engine
    if isinstance(chosen, LocalEngine):
        yield from _in_threads(tasks, chosen.parallelism, max_bytes, is_cancelled)
        return
    for wave in _waves(tasks, max_bytes):
        if is_cancelled():
            raise CancelledError("the compaction was cancelled")
        yield from chosen.run(wave)


def _in_threads(
    tasks: Sequence[CompactionTask], threads: int, max_bytes: int, is_cancelled: Cancel
) -> Iterator[dict[str, Any]]:
    """Run tasks in threads of their own: those of scans would wait for a whole group."""
    is_ended = False

    def ends() -> bool:
        return is_ended or is_cancelled()

    waiting = list(reversed(tasks))
    running: dict[Future[dict[str, Any]], int] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="lakeport-compact") as pool:
        try:
            while waiting or running:
                while waiting and len(running) < threads:
                    size = waiting[-1].estimated_bytes
                    if running and sum(running.values()) + size > max_bytes:
                        break
                    running[pool.submit(waiting.pop().run, ends)] = size
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    del running[future]
                    yield future.result()
        finally:
            is_ended = True


def _waves(tasks: Sequence[CompactionTask], max_bytes: int) -> Iterator[list[CompactionTask]]:
    wave: list[CompactionTask] = []
    size = 0
    for task in tasks:
        if wave and size + task.estimated_bytes > max_bytes:
            yield wave
            wave, size = [], 0
        wave.append(task)
        size += task.estimated_bytes
    if wave:
        yield wave
