"""Names of the files of a job: made of the job, the task and its attempt, so none is unknown.

A task may run several times: after a failure, as the twin of a slow task, or on an executor that
was lost. Every attempt has names of its own. Files of a job that no task reported are leftovers,
and the job's id in their names is all that is needed to find them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lakeport.ducklake.writing.files.names import uuid7

__all__ = ["Attempt", "AttemptNames", "new_job"]


def new_job() -> str:
    """Return a new id of a job, which the names of its files contain."""
    return uuid7().hex


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to run one task of a job."""

    task: int
    number: int = 0
    """How many attempts of the task came before."""
    id: int = 0
    """Differs between all attempts of all tasks."""


@dataclass(slots=True)
class AttemptNames:
    """Returns the path of each data file of an attempt before it is opened."""

    job: str
    attempt: Attempt
    _count: int = field(default=0, init=False)

    def __call__(self, folder: str) -> str:
        """Return the path of the next file in a folder."""
        self._count += 1
        at = f"{self.attempt.task:05d}-{self.attempt.id}"
        return f"{folder}ducklake-{self.job}-{at}-{self._count:04d}.parquet"
