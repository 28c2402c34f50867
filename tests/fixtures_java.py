"""An archive of Java's classes, made once in a run and used by the sessions that start later.

Only a run that tests the archives makes one, in the background. It takes as long as four starts of
Spark, and halves each later one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.wait import TIMEOUT_SECONDS, wait_until

__all__ = ["ClassArchive", "class_archive_of_the_run"]

SWITCH: Final = "LAKEPORT_CLASS_ARCHIVE"
_CACHE: Final = "XDG_CACHE_HOME"
_MAKE: Final = """
import sys
from pathlib import Path
from lakeport.spark.class_archive import make_archive
from lakeport.spark.java import java_home
try:
    assert make_archive(java_home())
finally:
    Path(sys.argv[1]).touch()
"""


class ClassArchive:
    """The archive that the workers of a run share, in a folder that all of them know."""

    def __init__(self, shared: Path, own: Path) -> None:
        self._folder, self._own = shared / "class_archive", own
        self._end = self._folder / "ended"
        self._is_used = False
        self._maker: subprocess.Popen[bytes] | None = None

    def start_making(self) -> None:
        """Make the archive in another process."""
        self._folder.mkdir(mode=0o700)
        environment = {**os.environ, _CACHE: str(self._folder)}
        environment.pop(SWITCH, None)
        with (self._folder / "log").open("wb") as log:
            self._maker = subprocess.Popen(
                [sys.executable, "-c", _MAKE, str(self._end)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def wait(self) -> Path:
        """Return the file when it is made."""
        wait_until(self._end.exists, seconds=2 * TIMEOUT_SECONDS)
        made = self._made()
        assert len(made) == 1, (self._folder / "log").read_text()
        return made[0]

    def use_if_made(self) -> None:
        """Let the sessions that start from now on use the archive, by a link of this worker.

        A session whose Java is killed while it starts removes the archive that it used.
        """
        if self._is_used or not self._end.exists():
            return
        self._is_used = True
        for made in self._made():
            link = self._own / made.relative_to(self._folder)
            link.parent.mkdir(mode=0o700, parents=True)
            os.link(made, link)
            os.environ[_CACHE] = str(self._own)
            os.environ.pop(SWITCH, None)

    def close(self) -> None:
        """Wait until it is made: another worker may need it."""
        if self._maker is not None:
            try:
                self._maker.wait(TIMEOUT_SECONDS)
            finally:
                self._maker.kill()

    def _made(self) -> list[Path]:
        return list((self._folder / "lakeport" / "java").glob("*.jsa"))


@pytest.fixture(scope="session", autouse=True)
def class_archive_of_the_run(
    request: pytest.FixtureRequest, run_folder: Path
) -> Iterator[ClassArchive]:
    """The archive; it is made if a test of the run needs it."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    archive = ClassArchive(run_folder if worker is None else run_folder.parent, run_folder)
    if worker in (None, "gw0") and any(map(_needs_archive, request.session.items)):
        archive.start_making()
    yield archive
    archive.close()


def _needs_archive(item: Any) -> bool:
    return "made_archive" in getattr(item, "fixturenames", ())
