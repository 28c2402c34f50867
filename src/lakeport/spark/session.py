"""The Spark session of the process: the active one, a remote one, or an embedded one."""

from __future__ import annotations

import ipaddress
import os
import shlex
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeport.errors import InvalidArgumentError, UnavailableError
from lakeport.spark.class_archive import archive_options, make_later, remove_archive
from lakeport.spark.compat import is_connect
from lakeport.spark.java import java_home
from lakeport.spark.security import private_folder, protection, settings_file
from lakeport.spark.transport.cores import write_pools

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["check_running", "is_running", "register_data_source", "session"]

_JAVA_OPTIONS: Final = "spark.driver.defaultJavaOptions"

# A heap that has grown for a scan becomes small again when the JVM has been idle for a minute.
_MEMORY_OPTIONS: Final = (
    "-Xms64m",
    "-XX:MinHeapFreeRatio=10",
    "-XX:MaxHeapFreeRatio=30",
    "-XX:G1PeriodicGCInterval=60000",
)

# All cores, and four attempts for each task, as on a cluster.
_LOCAL: Final = "local[*,4]"

_SQL_DEFAULTS: Final[dict[str, str]] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

_DEFAULTS: Final[dict[str, str]] = {
    **_SQL_DEFAULTS,
    "spark.app.name": "lakeport",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Scans of several clients share the cores instead of queueing behind each other.
    "spark.scheduler.mode": "FAIR",
    # Two attempts of one scan task would do the same work twice.
    "spark.speculation": "false",
    "spark.python.worker.reuse": "true",
}

# Where everything runs on this machine, Spark listens on the loopback interface only.
_LOOPBACK: Final[dict[str, str]] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

_FEW_CORES: Final[dict[str, str]] = {"spark.sql.shuffle.partitions": "8"}

# A process has one session at a time: two threads must not start one each.
_lock = threading.Lock()


def session(master: str | None = None, **conf: Any) -> SparkSession:
    """Return a Spark session for lakes.

    This is the active session, if there is one; else a session on `master`, on the address in
    `SPARK_REMOTE` or `MASTER`, or on the cores of this machine. Pass further settings by keyword,
    with underscores for dots: `spark_executor_memory="4g"`. Names with dots are used as
    they are: `**{"spark.hadoop.fs.s3a.access_key": …}`.
    """
    try:
        import pyspark.sql  # noqa: F401
    except ImportError:
        raise UnavailableError('Spark is not installed: pip install "lakeport[spark]"') from None

    settings = {_setting(name): str(value) for name, value in conf.items()}
    with _lock:
        active = _active()
        if active is not None:
            return _reuse(active, master, settings)
        remote = _remote(master)
        if remote is not None:
            return _connect(remote, settings)
        return _classic(master or os.environ.get("MASTER") or _LOCAL, settings)


def is_running(spark: SparkSession) -> bool:
    """Return whether a session can still be used: neither it nor its Java process has ended."""
    if is_connect(spark):
        remote: Any = spark
        return not remote.is_stopped
    context = spark.sparkContext
    return not _is_stopped(context) and not _has_lost_java(context)


def check_running(context: SparkContext) -> None:
    """Raise UnavailableError if a context was stopped or its Java process has ended."""
    if _is_stopped(context):
        raise UnavailableError(
            "the Spark session was stopped: get another one from lakeport.spark.session()"
        )
    if _has_lost_java(context):
        raise UnavailableError(
            "the Java process of the Spark session has ended: get another session from "
            "lakeport.spark.session()"
        )


def _is_stopped(context: SparkContext) -> bool:
    return context._jsc is None  # noqa: SLF001


def _has_lost_java(context: SparkContext) -> bool:
    process = getattr(context._gateway, "proc", None)  # noqa: SLF001
    return process is not None and process.poll() is not None


def _setting(keyword: str) -> str:
    return keyword if "." in keyword else keyword.replace("_", ".")


def _active() -> SparkSession | None:
    """Return the session of this thread or, in a thread without one, of the process."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    last: SparkSession | None = SparkSession._instantiatedSession  # noqa: SLF001
    if last is not None and _has_lost_java(last.sparkContext):
        _release(last)
    try:
        found = SparkSession.active()
    except PySparkRuntimeError:
        return None
    # A session whose context was stopped on its own stays the default one.
    return found if is_running(found) else None


def _release(lost: SparkSession) -> None:
    """Make PySpark start another JVM: PySpark 4 keeps its connection to a lost one."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = lost.sparkContext
    # Without it, `stop` does not call the lost JVM.
    context._jsc = None  # noqa: SLF001
    context.stop()
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    SparkSession._activeSession = None  # noqa: SLF001


def _reuse(active: SparkSession, master: str | None, settings: dict[str, str]) -> SparkSession:
    """Return the active session with more settings; raise an error if it cannot have them."""
    from pyspark.errors import PySparkException

    if master is not None:
        _check_master(active, master)
    for name, value in settings.items():
        if active.conf.get(name, None) == value:
            continue
        try:
            active.conf.set(name, value)
        except PySparkException:
            raise InvalidArgumentError(
                f"{name} cannot be changed while a Spark session is running: stop it first"
            ) from None
    return active


def _check_master(active: SparkSession, master: str) -> None:
    """Raise an error if the active session has another master."""
    if is_connect(active):
        is_same = _is_remote_of(active, master)
        remote: Any = active
        # The rest of an address may contain a token.
        running, requested = f"the server {remote.client.host}", master.partition(";")[0]
    else:
        running, requested = active.sparkContext.master, master
        is_same = running == requested
    if not is_same:
        raise InvalidArgumentError(
            f"a Spark session on {running} is running: stop it before you start one on {requested}"
        )


def _is_remote_of(active: SparkSession, master: str) -> bool:
    """Return whether an address is that of a Connect session, with the same parameters."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client import DefaultChannelBuilder

    opened: Any = active
    channel = opened.client._builder  # noqa: SLF001
    try:
        requested: Any = DefaultChannelBuilder(master)
    except PySparkException:
        return False
    return (
        isinstance(channel, DefaultChannelBuilder)
        and requested.endpoint == channel.endpoint
        and requested._params.items() <= channel._params.items()  # noqa: SLF001
    )


def _remote(master: str | None) -> str | None:
    if master is not None:
        return master if master.startswith("sc://") else None
    return os.environ.get("SPARK_REMOTE")


def _connect(remote: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote)
    for name, value in {**_SQL_DEFAULTS, **settings}.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except ImportError as error:
        raise UnavailableError(
            f'a package for Spark Connect is missing ({error}): pip install "lakeport[connect]"'
        ) from None


def _classic(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    protecting = protection(master, settings)
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    # Executors on this machine must run the interpreter that has the driver's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local-cluster"):
        # Its executors are processes of this machine, which would listen on all interfaces.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    defaults = {
        **_DEFAULTS,
        **(_LOOPBACK if _is_here(master) else {}),
        **(_FEW_CORES if master.startswith("local") else {}),
    }
    pools = {"spark.scheduler.allocation.file": write_pools(private_folder())}
    chosen = {"spark.master": master, **pools, **defaults, **settings, **protecting}
    _start_java(home, chosen)
    builder = SparkSession.builder
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    _quieten(spark)
    _silence_accumulator_server(spark.sparkContext)
    return spark


def _start_java(home: Path, settings: dict[str, str]) -> None:
    """Start the JVM of a session, with the archive of its classes if there is one."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError

    # The caller's options come last, so that they prevail.
    memory = f"{' '.join(_MEMORY_OPTIONS)} {settings.get(_JAVA_OPTIONS, '')}".strip()
    archive = [] if _chooses_archive(settings) else archive_options(home)
    if archive:
        try:
            with (
                settings_file({**settings, _JAVA_OPTIONS: f"{shlex.join(archive)} {memory}"}),
                _few_arenas(),
            ):
                SparkContext._ensure_initialized()  # noqa: SLF001
        except PySparkRuntimeError:
            remove_archive(home)
        else:
            return
    with settings_file({**settings, _JAVA_OPTIONS: memory}), _few_arenas():
        # Started by the builder, the JVM would have all settings on its command line.
        SparkContext._ensure_initialized()  # noqa: SLF001
    if not _chooses_archive(settings):
        make_later(home)


@contextmanager
def _few_arenas() -> Iterator[None]:
    """Make glibc keep less memory in a JVM that is started in the block, and in its workers."""
    name = "MALLOC_ARENA_MAX"
    if name in os.environ:
        yield
        return
    os.environ[name] = "2"
    try:
        yield
    finally:
        del os.environ[name]


def _chooses_archive(settings: dict[str, str]) -> bool:
    """Return whether the caller's options already name an archive, or none."""
    names = (_JAVA_OPTIONS, "spark.driver.extraJavaOptions")
    return any(
        option in settings.get(name, "")
        for name in names
        for option in ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit")
    )


def _quieten(spark: SparkSession) -> None:
    """Silence the warning of Spark 4, at every scan, that its scheduler pool is in no file."""
    log4j = spark._jvm.org.apache.logging.log4j  # noqa: SLF001
    log4j.core.config.Configurator.setLevel(
        "org.apache.spark.scheduler.FairSchedulableBuilder", log4j.Level.ERROR
    )


def _silence_accumulator_server(context: Any) -> None:
    """Keep PySpark from printing a traceback when the JVM ends.

    PySpark 4.0 to 4.3: the handler of `pyspark.accumulators` raises when its connection to the JVM
    is lost, and `socketserver` prints what handlers raise.
    """
    server = context._accumulatorServer  # noqa: SLF001
    print_error = server.handle_error

    def handle_error(request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            print_error(request, client_address)

    server.handle_error = handle_error


def _is_here(master: str) -> bool:
    """Return whether driver, master and executors are all on this machine."""
    if master.startswith("local"):
        return True
    hosts = [part.rpartition(":")[0] for part in master.removeprefix("spark://").split(",")]
    return master.startswith("spark://") and all(_is_loopback(host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def register_data_source(spark: SparkSession) -> None:
    """Make `ducklake` a format of a session, and let the conditions of queries leave out files.

    Spark finds the format by itself where Lakeport is installed.
    """
    from lakeport.spark.frames.optimizer_rule import install_rule
    from lakeport.spark.source.data_source import DuckLakeSource

    spark.dataSource.register(DuckLakeSource)
    install_rule(spark)
