"""The bound on Arrow's memory: what a client sends cannot make `lakeport serve` take more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

import lakeport
from tests.airport.flight_client import RawFlightClient, path
from tests.cli.processes import environment, run, serving

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="set on Linux only")

ZEROS = 1 << 31


def test_a_compressed_batch_of_a_caller_who_may_write_fails_within_the_bound() -> None:
    # 64 kB on the wire.
    column = pa.Array.from_buffers(pa.int64(), ZEROS // 8, [None, pa.py_buffer(bytes(ZEROS))])
    batch = pa.record_batch({"id": column})

    with serving("memory:", LAKEPORT_ARROW_MEMORY="512MiB") as server:
        with lakeport.connect(server.location, catalog="lake") as client:
            client.create_schema("s")
            client.create_table_as("s", "t", pa.table({"id": [1]}))
        with flight.FlightClient(server.location) as raw:
            wire = RawFlightClient(server, raw, {"airport-catalog": "lake"})
            with (
                pytest.raises(flight.FlightError, match="malloc of size"),
                wire.open_exchange(path("s", "t"), "insert", return_chunks="0") as (writer, reader),
            ):
                writer.begin(batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))
                writer.write_batch(batch)
                writer.done_writing()
                reader.read_all()
            assert _peak(server.process.pid) < ZEROS // 2

            assert wire.change("insert", path("s", "t"), pa.table({"id": [2]})).total_changed == 1


def _peak(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def test_processes_that_a_server_starts_do_not_inherit_the_bound() -> None:
    program = (
        "import os\n"
        "from lakeport.cli.arrow_memory import bounded_arrow_memory\n"
        "with bounded_arrow_memory():\n"
        "    print(os.environ['MIMALLOC_RESERVE_OS_MEMORY'])\n"
        "    import pyarrow\n"
        "print([name for name in os.environ if name.startswith('MIMALLOC')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=environment(LAKEPORT_ARROW_MEMORY="3GiB"),
    )

    assert done.stdout.split("\n")[:2] == [f"{3 * 1024 * 1024}KiB", "[]"]


def test_a_size_that_is_none_is_one_sentence() -> None:
    done = run("serve", "memory:", LAKEPORT_ARROW_MEMORY="much")

    assert done.returncode == 1
    assert (
        done.stderr
        == "lakeport: LAKEPORT_ARROW_MEMORY must be a size such as 8GiB, or 0, not 'much'\n"
    )
