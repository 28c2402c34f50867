"""Delete the files of a job that are not part of its result."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lakeport.ducklake.writing.files import FileTarget
from lakeport.ducklake.writing.tasks.messages import TaskReport
from lakeport.errors import LakeportError

__all__ = ["delete_leftovers"]

_log = logging.getLogger("lakeport.ducklake.writing")


def delete_leftovers(target: FileTarget, job: str, reports: Sequence[TaskReport]) -> None:
    """Delete the files of a job that no report lists; without reports, all files of the job.

    A file that cannot be deleted is no error: it is not part of the lake, and the clean-up of
    orphaned files finds it.
    """
    # Names are compared, not paths: a file system may spell the folders in another way.
    reported = {file.path.rpartition("/")[2] for report in reports for file in report.files}
    storage, directory = target.storage, target.directory
    try:
        found = {*storage.glob(f"{directory}ducklake-{job}-*")}
        if target.is_partitioned:
            found |= {*storage.glob(f"{directory}**/ducklake-{job}-*")}
        for path in found:
            if path.rpartition("/")[2] not in reported:
                storage.delete(path)
    except (OSError, LakeportError) as error:
        _log.warning("files of a write to %s remain: %s", directory, error)
