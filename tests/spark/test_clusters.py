"""The pipeline on clusters: several executors, a standalone master, Spark Connect.

Each cluster is real and of its own: a program of the tests runs on it, in another process, and
tells what it got.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from lakeport.spark.java import java_home
from tests.wait import TIMEOUT_SECONDS

HERE = Path(__file__).parent
PROGRAM = HERE / "worker_modules" / "cluster_program.py"

ROWS = [[task, row] for task in range(4) for row in range(30)]
LAKE_ROWS = [{"id": n, "kind": f"k{n % 3}"} for n in range(90, 100) if n != 95]
# Rows, the sums of both columns, and files that are not in the catalog.
WRITTEN = [5002, 12_497_501, 5499, 0]

Answers: TypeAlias = dict[str, Any]


@pytest.fixture
def spark_home(tmp_path: Path) -> Path:
    """Spark under another roof: some of its processes write below their home."""
    import pyspark

    home = tmp_path / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return home


@pytest.fixture
def environment(spark_home: Path, tmp_path: Path) -> dict[str, str]:
    """What a process of Spark needs to find Java, Python, and the tasks of the tests."""
    settings = tmp_path / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text(
        f"spark.executor.extraJavaOptions {os.environ['SPARK_SUBMIT_OPTS']}\n"
        "spark.authenticate true\n"
        f"spark.authenticate.secret {secrets.token_hex(16)}\n"
        "spark.network.crypto.enabled true\n"
    )
    return {
        "SPARK_CONF_DIR": str(settings),
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(PROGRAM.parent), os.environ.get("PYTHONPATH", "")]),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(spark_home),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
    }


@pytest.fixture
def start(environment: dict[str, str], spark_home: Path) -> Iterator[Callable[..., str]]:
    """Starts a server of Spark and waits until it says that it is ready."""
    with ExitStack() as stack:

        def run(program: str, *arguments: str, ready: str) -> str:
            command = [str(spark_home / "bin" / program), *arguments]
            process = stack.enter_context(
                subprocess.Popen(
                    command,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            return _first_match(process, ready, stack)

        yield run


def _first_match(process: subprocess.Popen[str], pattern: str, stack: ExitStack) -> str:
    """What a pattern finds in the log of a process, which is read to its end meanwhile.

    The stack kills the process and waits for the reader, before the log is closed.
    """
    found: list[str] = []
    lines: list[str] = []
    settled = threading.Event()

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            match = re.search(pattern, line)
            if match and not found:
                found.append(match[1])
                settled.set()
        settled.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    stack.callback(reader.join, TIMEOUT_SECONDS)
    stack.callback(process.kill)
    assert settled.wait(TIMEOUT_SECONDS)
    assert found, "".join(lines[-40:])
    return found[0]


@pytest.fixture
def lake(make_lake: Callable[..., Any]) -> str:
    """The address of a lake with two tables of two files, one of them with deleted rows."""
    lake = make_lake()
    lake.execute(
        "CREATE TABLE t (id BIGINT, kind VARCHAR)",
        "INSERT INTO t SELECT i, 'k' || i % 3 FROM range(50) r(i)",
        "INSERT INTO t SELECT i, 'k' || i % 3 FROM range(50, 100) r(i)",
        "DELETE FROM t WHERE id = 95",
        "CREATE TABLE u AS SELECT i AS id, uuid() AS u FROM range(100) r(i)",
        "INSERT INTO u VALUES (5, NULL)",
        "DELETE FROM u WHERE id BETWEEN 10 AND 19",
    )
    lake.detach()
    uri: str = lake.uri
    return uri


@pytest.fixture
def run(environment: dict[str, str], lake: str, tmp_path: Path) -> Callable[..., Answers]:
    """Runs the program on a cluster; gives what it answers to each thing that it tries."""

    def program(master: str, *tries: str, **variables: str) -> Answers:
        command = [sys.executable, "-W", "ignore", str(PROGRAM), master, lake, str(tmp_path)]
        done = subprocess.run(
            [*command, *tries],
            check=False,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return dict(json.loads(line) for line in done.stdout.splitlines())

    return program


def test_two_executors_lose_and_repeat_nothing_whatever_dies(run: Callable[..., Answers]) -> None:
    answers = run(
        "local-cluster[2,1,1024]",
        "every row",
        "a failing task",
        "a dead worker",
        "a dead executor",
        "a broken task",
        "a lake",
        "a write",
        "a write and a dead executor",
        "closing",
    )

    assert answers == {
        "every row": ROWS,
        "a failing task": [ROWS, 3],
        "a dead worker": [ROWS, 3],
        "a dead executor": [ROWS, 2],
        "a broken task": [
            "InternalError",
            "the scan failed on Spark: ValueError: row 17 is not a number",
        ],
        "a lake": [LAKE_ROWS, 99],
        "a write": WRITTEN,
        "a write and a dead executor": [True, 80_000, 3_199_960_000, 79_999, 0],
        "closing": ROWS,
    }


def test_a_standalone_master_with_two_workers_reads_and_writes_lakes(
    start: Callable[..., str], run: Callable[..., Answers]
) -> None:
    at = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    master = start(
        "spark-class",
        "org.apache.spark.deploy.master.Master",
        *at,
        ready=r"Starting Spark master at (spark://\S+)",
    )
    # Spark starts the second attempt of a slow task on another host than the first.
    for host in ("127.0.0.1", "127.0.0.2"):
        start(
            "spark-class",
            "org.apache.spark.deploy.worker.Worker",
            *("--host", host, *at[2:]),
            *("--cores", "1", "--memory", "1g"),
            master,
            ready=r"(Successfully registered) with master",
        )

    answers = run(master, "every row", "a lake", "a write and a twin")

    assert answers == {
        "every row": ROWS,
        "a lake": [LAKE_ROWS, 99],
        "a write and a twin": [True, 80_000, 3_199_960_000, 79_999, 0],
    }


def test_a_connect_session_reads_a_lake_and_serves_queries(
    start: Callable[..., str], run: Callable[..., Answers]
) -> None:
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    address = start(
        "spark-submit",
        *("--master", "local[2,4]"),
        *(part for item in settings.items() for part in ("--conf", "=".join(item))),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        ready=r"Spark Connect server started at: (\S+)",
    )

    answers = run(
        "",
        "every row",
        "a failing task",
        "a broken task",
        "a lake",
        "frames",
        "the data source",
        "a served query",
        "a query of a client",
        "the first batch of many",
        "a write",
        "statements",
        "streams",
        "closing",
        "another server",
        SPARK_REMOTE=f"sc://{address}",
    )
    (refused, untrusted), (failed, by_zero) = answers.pop("a query of a client")
    other = answers.pop("another server")
    ids = [n for n in range(90) if not 10 <= n < 20]

    assert answers == {
        "every row": ROWS,
        "a failing task": [ROWS, 3],
        "a broken task": [
            "InternalError",
            "the scan failed on Spark: ValueError: row 17 is not a number",
        ],
        "a lake": [LAKE_ROWS, 99],
        "frames": {"native": [81, sum(ids) + 100], "arrow": [91, 90, ["id", "u"]]},
        "the data source": [
            {pushdown: [10, 99, 19, 10, 5, 99, 99] for pushdown in ("true", "false")},
            [90, 93, 96, 99],
        ],
        "a served query": [list(range(4999, -1, -1)), "time64[us]"],
        "the first batch of many": True,
        "a write": WRITTEN,
        "statements": [3010, 20, 5],
        "streams": [[3000, 3000], ["", ""], True, True],
        "closing": ROWS,
    }
    assert refused == "UnsupportedError"
    assert "only trusted queries" in untrusted
    assert failed == "InvalidInputError"
    assert by_zero.startswith("[DIVIDE_BY_ZERO] Division by zero")
    running = "a Spark session on the server 127.0.0.1 is running: stop it before you start one on "
    asked = ["sc://127.0.0.1:1/", f"sc://{address}/", "local[2]"]
    assert other == [
        True,
        *(["InvalidArgumentError", f"{running}{master}"] for master in asked),
    ]


def test_a_process_goes_on_after_its_session_stopped_and_after_its_java_died(
    run: Callable[..., Answers],
) -> None:
    answers = run("local[2,4]", "every row", "another session", "a lost Java")
    before, (kind, sentence), after, rows = answers.pop("a lost Java")

    assert answers == {
        "every row": ROWS,
        "another session": {
            "rows": ROWS,
            "stopped": [
                "UnavailableError",
                "the Spark session was stopped: get another one from lakeport.spark.session()",
            ],
            "segments before": True,
            # A batch that somebody keeps keeps its memory, and nothing else does.
            "held": sum(range(100_000)),
            "left": {"listens": False, "segments": 1, "segments of batches": 0},
        },
    }
    assert (before, after, rows) == (99, 99, ROWS)
    assert kind == "UnavailableError"
    assert sentence.startswith("the Java process of the Spark session has ended")


def test_missing_packages_for_connect_are_one_sentence(
    environment: dict[str, str], tmp_path: Path
) -> None:
    # A file, because PySpark takes `python -c` for a run of doctests and exits without a word.
    program = tmp_path / "program.py"
    program.write_text(
        "import sys; sys.modules['grpc'] = None\n"
        "from lakeport.spark import session\n"
        "session('sc://127.0.0.1:1')\n"
    )

    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program)],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )

    assert "UnavailableError: a package for Spark Connect is missing" in done.stderr
    assert 'pip install "lakeport[connect]"' in done.stderr
