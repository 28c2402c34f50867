"""Maintain lakes again and again, by thresholds, in a thread of a server or of a command."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from lakeport.ducklake.lake import Lake
from lakeport.ducklake.maintenance.policy import MaintenancePolicy
from lakeport.ducklake.maintenance.results import MaintenanceResult, Operation, ProgressCallback
from lakeport.errors import CancelledError, LakeportError

__all__ = ["MaintenanceSchedule", "ScheduledLake"]

_log = logging.getLogger("lakeport.ducklake.maintenance")

# Age makes work without a new snapshot: these run at least this often.
_AGE_SECONDS: Final = 3600.0
_BY_AGE: Final[tuple[Operation, ...]] = ("expire", "clean_up", "remove_orphans")


@dataclass(slots=True)
class ScheduledLake:
    """A lake that is maintained, and what is known from the last time."""

    lake: Lake
    policy: MaintenancePolicy
    snapshot: int | None = None
    """The newest snapshot after the last run: without another one there is little to do."""
    checked: float = field(default=float("-inf"))


class MaintenanceSchedule:
    """Looks at lakes every few seconds, and maintains those that have changed, one after another.

    Args:
        lakes: Returns the lakes to look at, by name; called each time.
        every: Seconds between two looks.
        on_result: Called with the name of a lake and each result.
        progress: Called with a `Progress` after each commit.
    """

    def __init__(
        self,
        lakes: Callable[[], Mapping[str, tuple[Lake, MaintenancePolicy]]],
        *,
        every: float = 60.0,
        on_result: Callable[[str, MaintenanceResult], None] = lambda _, __: None,
        progress: ProgressCallback | None = None,
    ) -> None:
        self._lakes = lakes
        self._every = every
        self._on_result = on_result
        self._progress = progress
        self._known: dict[str, ScheduledLake] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self.run, name="lakeport-maintenance", daemon=True)
        self.is_running = False
        """Whether a lake is being maintained now."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.end()
        self._thread.join()

    def end(self) -> None:
        """End after the groups of files that are being written; may be called by any thread."""
        self._ended.set()

    def run(self) -> None:
        """Look at the lakes until the schedule ends."""
        while not self._ended.is_set():
            for name, (lake, policy) in self._lakes().items():
                if self._ended.is_set():
                    return
                self.look(name, lake, policy)
            self._ended.wait(self._every)

    def look(self, name: str, lake: Lake, policy: MaintenancePolicy) -> None:
        """Maintain one lake if it has changed, or if enough time has passed."""
        known = self._known.get(name)
        if known is None or known.lake is not lake or known.policy != policy:
            known = self._known[name] = ScheduledLake(lake, policy)
        try:
            newest = lake.newest().id
            is_due = time.monotonic() - known.checked > _AGE_SECONDS
            if newest == known.snapshot and not is_due:
                return
            operations = None if newest != known.snapshot else _BY_AGE
            self.is_running = True
            results = lake.maintain(
                policy,
                operations=operations,
                progress=self._progress,
                cancel=self._ended.is_set,
            )
            for result in results:
                self._on_result(name, result)
            known.snapshot, known.checked = lake.newest().id, time.monotonic()
        except CancelledError:
            _log.info("the maintenance of %s has ended", name)
        except LakeportError as error:
            _log.warning("the maintenance of %s failed: %s", name, error)
        finally:
            self.is_running = False
