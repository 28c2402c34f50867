"""The command line, run as a user runs it: in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.wait import TIMEOUT_SECONDS

COMMAND = [sys.executable, "-m", "lakeport"]
CATALOGS = str(Path(__file__).parent / "catalogs")


def environment(**variables: str) -> dict[str, str]:
    """The environment of a command that finds the catalogs of the tests."""
    path = os.pathsep.join(filter(None, [CATALOGS, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **variables}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
        env=environment(**variables),
    )


def block(folder: Path, *packages: str) -> None:
    """Make a Python that has the folder in PYTHONPATH lack packages."""
    lines = ["import sys", *(f"sys.modules[{package!r}] = None" for package in packages)]
    (folder / "sitecustomize.py").write_text("\n".join(lines))


class Lines:
    """What a process writes, line by line, to be waited for."""

    def __init__(self, pipe: Iterator[str]) -> None:
        self.all: list[str] = []
        self._changed = threading.Condition()
        self._pipe = pipe
        self._ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._pipe:
            with self._changed:
                self.all.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for(self, wanted: Callable[[str], object] | str) -> str:
        """The first line that is like this."""
        test = (lambda line: wanted in line) if isinstance(wanted, str) else wanted

        def found() -> str | None:
            return next((line for line in self.all if test(line)), None)

        with self._changed:
            self._changed.wait_for(
                lambda: found() is not None or self._ended, timeout=TIMEOUT_SECONDS
            )
            line = found()
        assert line is not None, self.all
        return line


class Serving:
    """A `lakeport serve` in another process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.out = Lines(iter(process.stdout))
        self.log = Lines(iter(process.stderr))

    @property
    def location(self) -> str:
        """Where it listens; waits until it does."""
        match = re.search(r"grpc\S*://127\.0\.0\.1:\d+", self.out.wait_for("Lakeport serves"))
        assert match
        return match.group()

    def ready(self) -> None:
        """Wait for the end of the banner."""
        self.out.wait_for("ATTACH")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit code."""
        return self.process.wait(TIMEOUT_SECONDS)


@contextmanager
def serving(*arguments: str, **variables: str) -> Iterator[Serving]:
    """Serve on a free port; a server that still runs at the end must end well."""
    with running([*COMMAND, "serve", *arguments, "--listen", "127.0.0.1:0"], **variables) as server:
        yield server


@contextmanager
def running(command: list[str], **variables: str) -> Iterator[Serving]:
    """Run a command that serves until it is told to stop."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    ) as process:
        server = Serving(process)
        try:
            server.ready()
            yield server
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                assert server.wait() == 0, server.log.all
        finally:
            if process.poll() is None:
                process.kill()
