"""Who can reach a Spark session: its own processes, and no other user of the machine."""

from __future__ import annotations

import os
import socket
import stat
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from lakeport.errors import InvalidArgumentError
from lakeport.spark.security import check_protected, protection
from tests.wait import TIMEOUT_SECONDS

MASTER = "spark://10.0.0.1:7077"
ALLOW = {"spark.lakeport.allowUnauthenticated": "true"}
OPEN = {"spark.authenticate": "false"}


@pytest.fixture
def defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of Spark's own defaults; there is none at first."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    return tmp_path / "spark-defaults.conf"


def opened_blocks(port: int, *blocks: str) -> bytes:
    """Ask a port of Spark for blocks without any secret; gives the answer, empty if it hangs up.

    The frames are those of Spark's own block transfer: an RpcRequest with an OpenBlocks message.
    """

    def text(value: str) -> bytes:
        return struct.pack(">i", len(value)) + value.encode()

    wanted = b"".join(map(text, blocks))
    body = b"\0" + text("app") + text("driver") + struct.pack(">i", len(blocks)) + wanted
    header = b"\3" + struct.pack(">qi", 1, len(body))
    frame = struct.pack(">q", 8 + len(header) + len(body)) + header + body
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(frame)
        try:
            answer = connection.recv(4096)
        except (ConnectionError, TimeoutError):
            return b""
    return answer


IS_OPENED = b"\4"
"""The type of an answer with a handle of the blocks, behind the length of its frame."""


def test_no_port_of_spark_gives_blocks_to_a_stranger(spark: Any) -> None:
    broadcast = spark.sparkContext.broadcast(list(range(100)))
    block = f"broadcast_{broadcast._jbroadcast.id()}_piece0"
    java = psutil.Process(spark.sparkContext._gateway.proc.pid)
    listening = [each for each in java.net_connections("tcp") if each.status == psutil.CONN_LISTEN]

    ports = sorted({connection.laddr.port for connection in listening})
    # All at once: a port that never answers takes the whole time limit.
    with ThreadPoolExecutor(len(ports)) as pool:
        answers = pool.map(lambda port: opened_blocks(port, block), ports)

    assert len(listening) >= 2
    assert [
        port for port, answer in zip(ports, answers, strict=True) if answer[8:9] == IS_OPENED
    ] == []


def test_sessions_authenticate_and_encrypt_and_show_their_secret_nowhere(spark: Any) -> None:
    conf = spark.sparkContext.getConf()

    assert conf.get("spark.authenticate") == "true"
    assert conf.get("spark.network.crypto.enabled") == "true"
    assert conf.get("spark.authenticate.secret") is None


def test_the_command_line_of_java_holds_no_settings(spark: Any) -> None:
    process = spark.sparkContext._gateway.proc.pid

    command = Path(f"/proc/{process}/cmdline").read_text().split("\0")

    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert not [part for part in command if "spark.sql" in part or part == "--conf"]


def test_the_folders_of_spark_are_closed_to_other_users(spark: Any) -> None:
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"])
    blocks = Path(found.collect()[0])
    temporary = spark.sparkContext._jvm.System.getProperty("java.io.tmpdir")
    files = Path(spark.sparkContext._temp_dir)

    assert is_closed(blocks)
    assert is_closed(Path(temporary))
    assert is_closed(files)


def is_closed(folder: Path) -> bool:
    """Whether other users cannot reach a folder: it, or one above it, is its owner's alone."""
    assert folder.is_dir()
    return any(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in (folder, *folder.parents))


@pytest.mark.parametrize("master", ["local", "local[*,4]", "yarn", "k8s://https://host:443"])
def test_spark_makes_the_secret_of_a_session_itself_where_it_can(
    defaults: Path, master: str
) -> None:
    chosen = protection(master, {})

    assert chosen["spark.authenticate"] == chosen["spark.network.crypto.enabled"] == "true"
    assert "spark.authenticate.secret" not in chosen


def test_traffic_that_is_encrypted_by_other_means_needs_no_cipher_of_spark(defaults: Path) -> None:
    chosen = protection("yarn", {"spark.network.crypto.enabled": "false"})

    assert chosen["spark.network.crypto.enabled"] == "false"
    assert chosen["spark.authenticate"] == "true"


def test_executors_on_this_machine_get_a_secret_of_their_session(defaults: Path) -> None:
    one, other = (
        protection("local-cluster[2,1,1024]", {})["spark.authenticate.secret"] for _ in range(2)
    )

    assert len(one) == 64
    assert one != other


def test_a_cluster_without_a_secret_is_refused(defaults: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"needs spark\.authenticate\.secret.*allowUnau"):
        protection(MASTER, {})

    assert "spark.authenticate" not in protection(MASTER, ALLOW)


@pytest.mark.parametrize("separator", [" ", "=", "\t", " = ", ": "])
def test_the_secret_of_a_cluster_may_stand_in_the_defaults_of_spark(
    defaults: Path, separator: str
) -> None:
    defaults.write_text(f"# secrets\n\nspark.authenticate.secret{separator}hush\n")

    assert protection(MASTER, {})["spark.authenticate"] == "true"


@pytest.mark.parametrize("master", ["local[2]", MASTER])
def test_a_session_that_is_open_to_others_is_refused_unless_it_is_asked_for_by_name(
    defaults: Path, master: str
) -> None:
    with pytest.raises(InvalidArgumentError, match="opens the ports of Spark to every user"):
        protection(master, OPEN)

    assert "spark.authenticate" not in protection(master, {**OPEN, **ALLOW})


def test_folders_that_the_caller_names_get_a_closed_one_inside(
    defaults: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)

    inside, same = protection("local", {"spark.local.dir": f"{shared},{closed}"})[
        "spark.local.dir"
    ].split(",")

    assert same == str(closed)
    assert Path(inside).parent == shared
    assert is_closed(Path(inside))


class OwnSession:
    """A Spark context that was started by other means."""

    def __init__(self, master: str, **conf: str) -> None:
        self.master = master
        settings = {name.replace("_", "."): value for name, value in conf.items()}
        self.getConf = lambda: {"spark.driver.host": "10.0.0.7", **settings}


@pytest.mark.parametrize("master", [MASTER, "yarn", "k8s://host", "local-cluster[1,1,1024]"])
def test_a_cluster_of_the_callers_own_without_authentication_is_refused(master: str) -> None:
    refused: Any = OwnSession(master)
    protected: Any = OwnSession(master, spark_authenticate="true")
    allowed: Any = OwnSession(master, spark_lakeport_allowUnauthenticated="true")

    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"has no spark\.authenticate"):
            check_protected(refused)
    check_protected(protected)
    check_protected(allowed)


PROGRAM = """
import logging, sys
logging.basicConfig(format="%(name)s %(levelname)s %(message)s")
from pyspark.sql import SparkSession
from scan_tasks import SCHEMA, Rows
from lakeport.spark import stream
builder = SparkSession.builder.master("local[1]")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
for _ in range(2):
    print(stream(spark, [Rows(0)], SCHEMA).read_all().num_rows)
"""


@pytest.mark.process
@pytest.mark.spark
def test_a_local_session_of_the_callers_own_is_used_with_one_warning(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    here = Path(__file__).parent / "worker_modules"
    paths = os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])

    done = subprocess.run(
        [sys.executable, str(program)],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        env={**os.environ, "PYTHONPATH": paths},
    )

    assert done.stdout.split() == ["30", "30"], done.stderr[-2000:]
    assert done.stderr.count("lakeport.spark WARNING the Spark session was started without") == 1
