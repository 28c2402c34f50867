"""Use an installed Lakeport with the extras that are given as arguments; exits with 1 on a failure.

Runs in an environment that has nothing else: it imports neither pytest nor other tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa

import lakeport
from lakeport import Lake

LAKEPORT = str(Path(sys.executable).with_name("lakeport"))


def main(extras: set[str]) -> None:
    """Run the parts of the package that the extras are for."""
    package = Path(lakeport.__file__).parent
    assert "site-packages" in package.parts, package
    assert (package / "py.typed").exists()
    printed = subprocess.run([LAKEPORT, "--version"], check=True, capture_output=True, text=True)
    assert printed.stdout.split() == ["lakeport", version("lakeport")], printed.stdout
    with tempfile.TemporaryDirectory() as folder:
        uri = f"ducklake:sqlite:{folder}/lake.sqlite"
        _write_and_serve(uri, folder)
        _demo()
        for extra in sorted(extras & CHECKS.keys()):
            CHECKS[extra](uri)
    print(f"lakeport {version('lakeport')} works with {sorted(extras) or 'no extras'}")


def _write_and_serve(uri: str, folder: str) -> None:
    from lakeport.lakehouse import LakeCatalog

    with Lake.create(uri, data_path=f"{folder}/data/") as lake:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": list(range(1000))}))
    with (
        LakeCatalog(uri, engine="local") as catalog,
        lakeport.Server(catalog) as server,
        lakeport.connect(server.location) as client,
    ):
        assert client.table("public.t").scan(filter="id >= 990").to_arrow().num_rows == 10


def _demo() -> None:
    done = subprocess.run([LAKEPORT, "demo", "--once"], check=True, capture_output=True, text=True)
    assert "Lakeport serves" in done.stdout, done.stdout


def _frame(uri: str, method: str) -> None:
    with Lake.open(uri, engine="local") as lake:
        assert len(getattr(lake.table("t").scan(), method)()) == 1000


def _spark(uri: str) -> None:
    from lakeport.spark import session

    spark = session()
    with Lake.open(uri, spark=spark) as lake:
        assert lake.table("t").scan().to_spark().where("id < 10").count() == 10
        assert lake.sql("SELECT count(*) AS n FROM t").first().n == 1000
    spark.stop()


def _console(_: str) -> None:
    subprocess.run([LAKEPORT, "console", "--help"], check=True, stdout=subprocess.DEVNULL)
    import lakeport.console

    assert lakeport.console.__all__
    for name in lakeport.console.__all__:
        getattr(lakeport.console, name)


def _traces(_: str) -> None:
    import opentelemetry.sdk.trace

    opentelemetry.sdk.trace.TracerProvider().shutdown()


CHECKS: dict[str, Callable[[str], None]] = {
    "console": _console,
    "pandas": lambda uri: _frame(uri, "to_pandas"),
    "polars": lambda uri: _frame(uri, "to_polars"),
    "spark": _spark,
    "traces": _traces,
}

if __name__ == "__main__":
    main(set(sys.argv[1:]))
