"""Protection of a Spark session from other users and other machines.

Spark listens on ports through which blocks of data and code are fetched and tasks are started. By
default it requires no secret. The sessions that are started here require one.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import secrets
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from lakeport.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = [
    "ALLOW_UNAUTHENTICATED",
    "check_protected",
    "is_local",
    "private_folder",
    "protection",
    "settings_file",
]

_log = logging.getLogger("lakeport.spark")

ALLOW_UNAUTHENTICATED: Final = "spark.lakeport.allowUnauthenticated"
"""The setting that allows scans on a Spark whose ports require no secret."""

_AUTHENTICATE: Final = "spark.authenticate"
_SECRET: Final = "spark.authenticate.secret"  # noqa: S105
_CIPHER: Final = "spark.network.crypto.enabled"
_LOCAL_FOLDERS: Final = "spark.local.dir"
_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"

# On these masters Spark creates a secret for each application and passes it to the executors.
_MAKES_SECRETS: Final = re.compile(r"local(\[.*\])?|yarn|k8s://.*")


def protection(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that protect a new session, beside those of the caller.

    Raises:
        InvalidArgumentError: The session would be open to other users without a setting for that.
    """
    effective = {**_defaults_file(), **settings}
    is_allowed = _is_true(effective.get(ALLOW_UNAUTHENTICATED))
    has_secret = _SECRET in effective or "_SPARK_AUTH_SECRET" in os.environ
    private = _private_folders(master, effective)
    if settings.get(_AUTHENTICATE, "true").lower() == "false":
        if not is_allowed:
            raise InvalidArgumentError(
                f"{_AUTHENTICATE}=false opens the ports of Spark to every user of this machine: "
                f"set {ALLOW_UNAUTHENTICATED}=true as well if that is wanted"
            )
        return private
    protected = {**private, _AUTHENTICATE: "true", _CIPHER: settings.get(_CIPHER, "true")}
    if has_secret or _MAKES_SECRETS.fullmatch(master):
        return protected
    if master.startswith("local-cluster"):
        return {**protected, _SECRET: secrets.token_hex(32)}
    if is_allowed:
        return private
    raise InvalidArgumentError(
        f"the cluster at {master} needs {_SECRET}, the secret that its master and workers were "
        "started with: put it into spark-defaults.conf or pass it as a setting "
        f"({ALLOW_UNAUTHENTICATED}=true runs on a cluster that has none)"
    )


def check_protected(context: SparkContext) -> None:
    """Refuse a cluster that requires no secret; warn once of such a local session.

    A local session of the caller is open to other users of this machine whether or not Lakeport
    uses it, so it is only warned of.

    Raises:
        InvalidArgumentError: The session runs on a cluster without authentication.
    """
    if context in _checked:
        return
    conf = context.getConf()
    is_open = not _is_true(conf.get(_AUTHENTICATE)) and not _is_true(
        conf.get(ALLOW_UNAUTHENTICATED)
    )
    if is_open and not is_local(context.master):
        raise InvalidArgumentError(
            f"the Spark session on {context.master} has no {_AUTHENTICATE}: every machine that "
            "reaches its ports can read and change what it computes. Start it with "
            f"lakeport.spark.session(), or with {ALLOW_UNAUTHENTICATED}=true if that is wanted"
        )
    if is_open:
        _log.warning(
            "the Spark session was started without %s: other users of this machine, and machines "
            "that reach %s, can read and change what it computes; lakeport.spark.session() starts "
            "sessions that they cannot reach",
            _AUTHENTICATE,
            conf.get("spark.driver.host"),
        )
    _checked.add(context)


# Contexts that may be used; each is checked, and warned of, once.
_checked: Final[WeakSet[SparkContext]] = WeakSet()


@cache
def private_folder() -> Path:
    """Return a folder of this process that no other user can enter; it is removed at the end."""
    return _removed_at_exit(tempfile.mkdtemp(prefix="lakeport-spark-"))


@contextmanager
def settings_file(settings: Mapping[str, str]) -> Iterator[None]:
    """Make a JVM that is started inside the block read its settings from a private file.

    PySpark passes them on the command line, which every user of the machine can read.
    """
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    descriptor, name = tempfile.mkstemp(dir=private_folder(), suffix=".conf")
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.writelines(f"{_escaped(key)}={_escaped(settings[key])}\n" for key in settings)
    arguments = before or "pyspark-shell"
    if "--properties-file" not in arguments:
        options = ["--properties-file", name, "--load-spark-defaults"]
        arguments = f"{shlex.join(options)} {arguments}"
    os.environ["PYSPARK_SUBMIT_ARGS"] = arguments
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before
        Path(name).unlink()


def _private_folders(master: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings by which the files of Spark's driver are below folders of this user alone."""
    if master == "yarn" or master.startswith("k8s://"):
        # The cluster manager chooses the folders of its containers.
        return {}
    named = os.environ.get("SPARK_LOCAL_DIRS") or settings.get(_LOCAL_FOLDERS)
    roots = named.split(",") if named else [str(private_folder())]
    inside = ",".join(root if _is_private(root) else str(_inside(root)) for root in roots)
    if "SPARK_LOCAL_DIRS" in os.environ:
        # It takes precedence over the setting.
        os.environ["SPARK_LOCAL_DIRS"] = inside
    options = f"-Djava.io.tmpdir={private_folder()} {settings.get(_JAVA_OPTIONS, '')}".strip()
    return {_LOCAL_FOLDERS: inside, _JAVA_OPTIONS: options}


@cache
def _inside(root: str) -> Path:
    Path(root).mkdir(parents=True, exist_ok=True)
    return _removed_at_exit(tempfile.mkdtemp(prefix="lakeport-spark-", dir=root))


def _is_private(folder: str) -> bool:
    with suppress(OSError):
        status = Path(folder).stat()
        return status.st_uid == os.geteuid() and not status.st_mode & 0o077
    return False


def _removed_at_exit(folder: str) -> Path:
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def is_local(master: str) -> bool:
    """Return whether driver and executors are one process of this machine."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _is_true(setting: str | None) -> bool:
    return setting is not None and setting.strip().lower() == "true"


def _defaults_file() -> dict[str, str]:
    """Return the settings of spark-defaults.conf, which Spark reads itself."""
    from pyspark.find_spark_home import _find_spark_home

    folder = os.environ.get("SPARK_CONF_DIR") or Path(_find_spark_home(), "conf")
    try:
        text = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = [line.strip() for line in text.splitlines()]
    pairs = [re.split(r"[\s=:]+", line, maxsplit=1) for line in lines if line[:1] not in ("", "#")]
    return {pair[0]: pair[1] for pair in pairs if len(pair) > 1}


def _escaped(text: str) -> str:
    """Return text as it is written in a file of Java properties."""
    return "".join(_escaped_unit(unit) for unit in _utf16(text))


def _utf16(text: str) -> Iterator[int]:
    data = text.encode("utf-16-be", errors="surrogatepass")
    return (int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))


def _escaped_unit(unit: int) -> str:
    character = chr(unit)
    if character.isascii() and (character.isalnum() or character in "._-/"):
        return character
    return f"\\u{unit:04x}"
