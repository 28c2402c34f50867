"""Rows of a DataFrame wait for their reader in files: bounded memory and few open files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from lakeport.errors import CancelledError
from lakeport.spark.transport import spill
from lakeport.spark.transport.spill import PartitionBuffer, attempt_id

PARTITIONS, BATCHES, ROWS = 50, 3, 1000


def batch(partition: int, number: int) -> pa.RecordBatch:
    start = (partition * BATCHES + number) * ROWS
    return pa.record_batch([pa.arange(start, start + ROWS)], names=["id"])


def open_files() -> int:
    """The open files of this process that have no name."""
    links = [link.readlink() for link in existing(Path("/proc/self/fd"))]
    return sum("(deleted)" in link.name and "memfd" not in str(link) for link in links)


def existing(folder: Path) -> Iterator[Path]:
    # The descriptor that lists the folder is gone again.
    return (link for link in folder.iterdir() if link.is_symlink())


@contextmanager
def filled(*, max_bytes: int) -> Iterator[PartitionBuffer]:
    """A spool whose partitions have all arrived, one batch of each after the other."""
    spool = PartitionBuffer(max_bytes=max_bytes, max_disk_bytes=1 << 30)
    spool.set_partition_count(PARTITIONS)
    for number in range(BATCHES):
        for partition in range(PARTITIONS):
            spool.put(attempt_id(1, partition), number, batch(partition, number), timeout=0)
    for partition in range(PARTITIONS):
        spool.finish_task(attempt_id(1, partition), BATCHES, BATCHES * ROWS)
        spool.confirm(attempt_id(1, partition), BATCHES, BATCHES * ROWS)
    yield spool
    spool.cancel()


@pytest.mark.parametrize("max_bytes", [0, 100 * ROWS, 1 << 30], ids=["disk", "both", "memory"])
def test_partitions_come_in_their_order(max_bytes: int) -> None:
    with filled(max_bytes=max_bytes) as spool:
        rows = pa.Table.from_batches(spool.batches())

    assert rows["id"].to_pylist() == list(range(PARTITIONS * BATCHES * ROWS))


def test_partitions_that_wait_share_a_file() -> None:
    before = open_files()

    with filled(max_bytes=0):
        assert open_files() == before + 1

    assert open_files() == before


def test_the_space_of_what_was_read_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    # A file for two or three batches.
    monkeypatch.setattr(spill, "FILE_BYTES", 2 * 8 * ROWS)
    before = open_files()

    with filled(max_bytes=0) as spool:
        waiting = open_files()
        reader = spool.batches()
        for _ in range(PARTITIONS * BATCHES - 3):
            next(reader)
        assert waiting > before + 10
        assert open_files() <= before + 4


def test_a_task_that_writes_after_the_end_opens_no_file() -> None:
    before = open_files()
    files = spill.SpillFiles()
    files.close()

    with pytest.raises(CancelledError):
        files.write(batch(0, 0))

    assert open_files() == before
