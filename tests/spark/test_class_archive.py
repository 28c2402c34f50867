"""The archive of Java's classes: who may write it, when it is used, and what happens without it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakeport.spark import class_archive
from lakeport.spark.class_archive import archive_options, make_archive, remove_archive
from lakeport.spark.java import java_home
from tests.fixtures_java import ClassArchive

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="folders of Linux")


@pytest.fixture
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A private cache folder, in which archives are switched on."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv(class_archive.SWITCH, raising=False)
    return folder


def place_archive(content: bytes = b"classes", *, recorded: int | None = None) -> Path:
    """Write a file where the archive of this Java and this Spark is expected."""
    base = class_archive._base(java_home())
    assert base is not None
    archive = class_archive._named(base, len(content) if recorded is None else recorded)
    archive.write_bytes(content)
    archive.chmod(0o600)
    return archive


def test_an_archive_in_a_private_folder_is_used(cache_home: Path) -> None:
    assert archive_options(java_home()) == []

    archive = place_archive()

    assert archive.is_relative_to(cache_home)
    assert archive.parent.stat().st_mode & 0o777 == 0o700
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(java_home())
    assert "-XX:+VerifySharedSpaces" in archive_options(java_home())


def test_java_maps_an_archive_at_the_address_that_it_was_made_for(cache_home: Path) -> None:
    """Elsewhere its pages would be rewritten, and be private memory of each JVM."""
    place_archive()
    command = [str(java_home() / "bin" / "java"), *archive_options(java_home())]

    flags = subprocess.run(
        [*command, "-XX:+UnlockDiagnosticVMOptions", "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    (flag,) = [line.split() for line in flags.splitlines() if " ArchiveRelocationMode " in line]
    assert flag[:4] == ["intx", "ArchiveRelocationMode", "=", "0"]


@pytest.mark.parametrize("place", ["file", "folder", "parent"])
def test_an_archive_that_another_user_could_write_is_ignored(cache_home: Path, place: str) -> None:
    archive = place_archive()
    changed = {"file": archive, "folder": archive.parent, "parent": cache_home}[place]
    changed.chmod(changed.stat().st_mode | 0o022)

    assert archive_options(java_home()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
def test_an_archive_of_another_user_is_ignored(cache_home: Path) -> None:
    archive = place_archive()
    os.chown(archive, 12345, 12345)

    assert archive_options(java_home()) == []


def test_a_link_to_an_archive_is_ignored(cache_home: Path) -> None:
    archive = place_archive()
    elsewhere = cache_home / "elsewhere.jsa"
    archive.rename(elsewhere)
    archive.symlink_to(elsewhere)

    assert archive_options(java_home()) == []


def test_an_archive_can_be_switched_off(cache_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place_archive()
    monkeypatch.setenv(class_archive.SWITCH, "off")

    assert archive_options(java_home()) == []


def test_the_name_of_an_archive_depends_on_the_jars_of_spark(
    tmp_path: Path, cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name() -> str:
        class_archive._key.cache_clear()
        return class_archive._key(java_home())

    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "a.jar").write_bytes(b"1")
    monkeypatch.setattr("pyspark.find_spark_home._find_spark_home", lambda: str(tmp_path / "spark"))
    before = name()
    (jars / "a.jar").write_bytes(b"12")
    changed = name()
    monkeypatch.undo()
    class_archive._key.cache_clear()

    assert before != changed


def test_an_archive_that_broke_a_start_is_removed_and_not_made_again(cache_home: Path) -> None:
    archive = place_archive()

    remove_archive(java_home())

    assert not archive.exists()
    assert not make_archive(java_home())
    assert not archive.exists()


def test_only_the_newest_archives_are_kept(cache_home: Path) -> None:
    folder = place_archive().parent
    for number in range(5):
        file = folder / f"old{number}.jsa"
        file.write_bytes(b"x")
        os.utime(file, (number, number))

    class_archive._remove_old(folder)

    assert len(list(folder.glob("*.jsa"))) == 2


START = """
from lakeport.spark import session
spark = session("local[1]")
runtime = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
arguments = str(runtime.getInputArguments())
print("archive" if "SharedArchiveFile" in arguments else "none")
print("small" if "G1PeriodicGCInterval" in arguments else "large")
print(spark._jvm.java.lang.System.getenv("MALLOC_ARENA_MAX"))
print(spark.range(5).count())
spark.stop()
"""


@pytest.mark.parametrize("damage", ["none", "garbage", "truncated", "changed"])
def test_a_session_starts_with_an_archive_and_with_a_damaged_one(
    cache_home: Path, made_archive: bytes, damage: str
) -> None:
    middle = len(made_archive) // 2
    content = {
        "none": made_archive,
        "garbage": b"no archive at all" * 100_000,
        "truncated": made_archive[:middle],
        "changed": made_archive[:middle] + b"\xff" * 65_536 + made_archive[middle + 65_536 :],
    }[damage]
    place_archive(content, recorded=len(made_archive) if damage == "truncated" else None)

    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    used = "none" if damage == "truncated" else "archive"
    assert done.stdout.split() == [used, "small", "2", "5"]


def test_a_session_starts_after_an_archive_has_crashed_java(
    cache_home: Path, made_archive: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Java writes a report of its crash into the working directory.
    monkeypatch.chdir(cache_home)
    archive = place_archive(made_archive[: len(made_archive) // 2])

    done = subprocess.run(
        [sys.executable, "-c", START], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-4:] == ["none", "small", "2", "5"]
    assert not archive.exists()


@pytest.fixture(scope="module")
def made_archive(class_archive_of_the_run: ClassArchive) -> bytes:
    """A real archive, made by another process."""
    return class_archive_of_the_run.wait().read_bytes()
