"""An archive of loaded Java classes, by which the JVM of a session starts faster.

Spark loads and verifies about ten thousand classes when it starts. Java can keep them in a file
and map it into memory. The file belongs to one Java and one set of jars. It is made once, by
another process of low priority, a minute after a session has started that had none.

A JVM executes what is in the archive. So it is only used from a folder that no other user can
write. Java compares it with its own version and with the jars, verifies its checksums, and
ignores an archive that does not fit.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from stat import S_ISREG, S_ISVTX
from typing import Any, Final

__all__ = ["SWITCH", "archive_options", "make_archive", "make_later", "remove_archive"]

_log = logging.getLogger("lakeport.spark")

SWITCH: Final = "LAKEPORT_CLASS_ARCHIVE"
"""The environment variable that switches archives off: `off`."""

# The layout of the folder and of the training run; another number makes new archives.
_FORMAT: Final = 1
_DELAY_SECONDS: Final = 60.0
_MAX_SECONDS: Final = 600.0
_MAX_FILES: Final = 2
_MIN_BYTES: Final = 1 << 20
_LOWEST_PRIORITY: Final = 19


def archive_options(java_home: Path) -> list[str]:
    """Return the options by which a JVM uses the archive of its classes; none if there is none."""
    base = _base(java_home)
    archive = None if base is None else _existing(base)
    if archive is None or not _is_trusted(archive):
        return []
    return [
        f"-XX:SharedArchiveFile={archive}",
        "-Xshare:auto",
        "-XX:+VerifySharedSpaces",
        # Java 17.0.15 maps archives at a random address by default, and rewrites their pointers:
        # 150 MB become private memory of the process, instead of 45 to 60.
        "-XX:+UnlockDiagnosticVMOptions",
        "-XX:ArchiveRelocationMode=0",
        # An archive that does not fit is no reason for a warning.
        "-Xlog:cds=off",
        "-Xlog:cds+dynamic=off",
        "-Xlog:class+path=off",
    ]


def make_later(java_home: Path) -> None:
    """Make the archive in the background, unless there is one or this process ends first."""
    base = _base(java_home)
    if base is None or _existing(base) is not None or _failure(base).exists():
        return
    timer = threading.Timer(_DELAY_SECONDS, _start_process, [java_home])
    timer.daemon = True
    timer.start()


def remove_archive(java_home: Path) -> None:
    """Remove an archive with which no JVM started, and do not make it again."""
    base = _base(java_home)
    if base is not None:
        with suppress(OSError):
            for archive in base.parent.glob(f"{base.name}-*.jsa"):
                archive.unlink()
            _failure(base).touch(mode=0o600)


def make_archive(java_home: Path) -> bool:
    """Start a session that uses what lakes need, and keep its classes; return whether it worked."""
    base = _base(java_home)
    if base is None:
        return False
    with _locked(base.parent) as is_locked:
        if not is_locked or _existing(base) is not None or _failure(base).exists():
            return False
        _remove_leftovers(base.parent)
        unfinished = base.with_suffix(".unfinished")
        size = unfinished.stat().st_size if _train(unfinished) else 0
        if size > _MIN_BYTES:
            unfinished.chmod(0o600)
            unfinished.replace(_named(base, size))
        else:
            _failure(base).touch(mode=0o600)
            unfinished.unlink(missing_ok=True)
        _remove_old(base.parent)
        return size > _MIN_BYTES


def _base(java_home: Path) -> Path | None:
    """Return how the files of a Java and of Spark's jars begin; None without a private folder."""
    if os.environ.get(SWITCH, "").strip().lower() == "off":
        return None
    if not (java_home / "lib" / "modules").exists():
        # A wrapper around another Java; it exists as long as this process.
        return None
    folder = _folder()
    return None if folder is None else folder / _key(java_home)


def _named(base: Path, size: int) -> Path:
    """Return the name of an archive, with its size: Java crashes if the end of one is missing."""
    return base.parent / f"{base.name}-{size}.jsa"


def _existing(base: Path) -> Path | None:
    """Return the archive that was made, unless it has another size now."""
    with suppress(OSError):
        for archive in base.parent.glob(f"{base.name}-*.jsa"):
            if archive == _named(base, archive.stat().st_size):
                return archive
    return None


def _folder() -> Path | None:
    cache_home = os.environ.get("XDG_CACHE_HOME")
    try:
        root = Path(cache_home) if cache_home else Path.home() / ".cache"
        folder = (root / "lakeport" / "java").resolve()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if _is_trusted(folder) else None


@cache
def _key(java_home: Path) -> str:
    """Return a name that changes with everything that an archive depends on."""
    from pyspark.find_spark_home import _find_spark_home

    home = Path(_find_spark_home())
    jars = sorted((home / "jars").glob("*.jar"))
    parts = [
        _FORMAT,
        platform.machine(),
        _facts(java_home / "release"),
        _facts(java_home / "lib" / "server" / "libjvm.so"),
        os.environ.get("SPARK_CONF_DIR", ""),
        str(home),
        [_facts(jar) for jar in jars],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _facts(file: Path) -> list[Any]:
    try:
        status = file.stat()
    except OSError:
        return [str(file)]
    return [str(file), status.st_size, status.st_mtime_ns]


def _failure(base: Path) -> Path:
    """Return the file that exists if the archive could not be made."""
    return base.with_suffix(".failed")


def _is_trusted(path: Path) -> bool:
    """Return whether only this user, and root, can change a file or a folder."""
    try:
        own = path.lstat()
        if own.st_uid != os.geteuid() or own.st_mode & 0o077:
            return False
        if path.suffix == ".jsa" and not S_ISREG(own.st_mode):
            return False
        for folder in path.parents:
            status = folder.stat()
            # In a folder like /tmp, others can add files but not replace those of this user.
            is_shared = status.st_mode & 0o022 and not status.st_mode & S_ISVTX
            if is_shared or status.st_uid not in (0, os.geteuid()):
                return False
    except OSError:
        return False
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Lock the folder; yield whether no other process makes an archive in it."""
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _remove_leftovers(folder: Path) -> None:
    for file in folder.glob("*.unfinished"):
        file.unlink(missing_ok=True)


def _remove_old(folder: Path) -> None:
    for suffix in ("*.jsa", "*.failed"):
        newest_first = sorted(folder.glob(suffix), key=lambda file: -file.stat().st_mtime)
        for file in newest_first[_MAX_FILES:]:
            file.unlink(missing_ok=True)


def _start_process(java_home: Path) -> None:
    """Start the process that makes the archive; it goes on when this process ends."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK_", "SPARK_REMOTE", "MASTER", "_PYSPARK"))
    }
    environment["JAVA_HOME"] = str(java_home)
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with suppress(OSError):
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-m", __name__],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _train(unfinished: Path) -> bool:
    """Run a session that uses what lakes need; its JVM writes the archive when it exits."""
    from pyspark import SparkContext

    from lakeport.spark.session import session
    from lakeport.spark.warm_up import run_small_queries

    os.environ[SWITCH] = "off"
    option = f'"-XX:ArchiveClassesAtExit={unfinished}"'
    spark = session(
        "local[1]", spark_driver_memory="1g", **{"spark.driver.extraJavaOptions": option}
    )
    try:
        run_small_queries(spark)
    finally:
        process = SparkContext._gateway.proc  # noqa: SLF001
        spark.stop()
        process.stdin.close()
        code = process.wait(_MAX_SECONDS)
    return bool(code == 0 and unfinished.exists())


def _main() -> None:
    os.nice(_LOWEST_PRIORITY)
    make_archive(Path(os.environ["JAVA_HOME"]))


if __name__ == "__main__":
    _main()
