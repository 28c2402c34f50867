"""Delete files that we write: read by ours and by the real implementation."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeport.ducklake import DeleteFile
from lakeport.ducklake.reading.delete_files import deleted_positions, read_delete_file
from lakeport.ducklake.storage import Storage
from lakeport.ducklake.writing import WrittenDeleteFile
from lakeport.ducklake.writing.files import FileOptions, FileTarget, write_delete_file
from lakeport.ducklake.writing.files.delete_files import deletion_vector, deletion_vectors
from lakeport.errors import InvalidArgumentError
from tests.fixtures_lakes import LakeMaker

POSITIONS = [0, 5, 6, 99]


def target_of(path: Path, *, vectors: bool = False, encrypted: bool = False) -> FileTarget:
    return FileTarget(
        columns=(),
        directory=f"{path}/t/",
        encrypted=encrypted,
        options=FileOptions(deletion_vectors=vectors),
    )


def write(target: FileTarget, **options: Any) -> WrittenDeleteFile:
    options = {"positions": POSITIONS, "data_file_id": 3, "data_file": "/d/f.parquet", **options}
    return write_delete_file(target, **options)


def read_back(target: FileTarget, written: WrittenDeleteFile) -> tuple[list[int], list[int] | None]:
    recorded = DeleteFile(
        id=1,
        path=target.directory + written.path,
        format=written.format,
        delete_count=written.delete_count,
        file_size_bytes=written.file_size_bytes,
        footer_size=written.footer_size,
        begin_snapshot=1,
        encryption_key=written.encryption_key,
    )
    positions, snapshots = read_delete_file(Storage(), recorded)
    return positions.tolist(), None if snapshots is None else snapshots.tolist()


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("vectors", [False, True])
def test_the_first_deletes_of_a_file_have_no_snapshots(
    vectors: bool,
    encrypted: bool,
    tmp_path: Path,
) -> None:
    target = target_of(tmp_path, vectors=vectors, encrypted=encrypted)

    written = write(target)

    assert read_back(target, written) == (POSITIONS, None)
    assert (written.begin_snapshot, written.embedded_snapshot) == (None, None)
    # A vector is never encrypted, so an encrypted lake gets none.
    assert written.format == ("puffin" if vectors and not encrypted else "parquet")
    assert (written.encryption_key is not None) == encrypted


def test_later_deletes_embed_their_snapshots(tmp_path: Path) -> None:
    target = target_of(tmp_path)

    written = write(target, snapshots=[4, 6, 6, 4], commit_snapshot=6, replaces=2)

    assert read_back(target, written) == (POSITIONS, [4, 6, 6, 4])
    assert (written.begin_snapshot, written.embedded_snapshot, written.replaces) == (4, 6, 2)


def test_a_vector_with_history_needs_format_1_1(tmp_path: Path) -> None:
    target = target_of(tmp_path, vectors=True)
    history: dict[str, Any] = {"snapshots": [4, 6, 6, 4], "commit_snapshot": 6}

    old, new = write(target, **history), write(target, **history, has_containers=True)

    assert (old.format, new.format) == ("parquet", "puffin")
    assert read_back(target, old) == read_back(target, new) == (POSITIONS, [4, 6, 6, 4])


def test_the_fields_are_those_of_the_real_implementation(
    make_lake: LakeMaker, tmp_path: Path
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS FROM range(100) r(i)",
        "DELETE FROM t WHERE i IN (0, 5)",
        "DELETE FROM t WHERE i IN (6, 99)",
    )
    [(theirs,)] = lake.query("SELECT delete_file FROM ducklake_list_files('lake', 't')")
    written = write(target_of(tmp_path), snapshots=[2, 2, 3, 3], commit_snapshot=3)
    ours = f"{tmp_path}/t/{written.path}"

    def fields(path: str) -> list[tuple[Any, ...]]:
        return lake.query(
            "SELECT name, type, field_id, repetition_type, logical_type IS NULL FROM"
            f" parquet_schema('{path}') OFFSET 1"
        )

    assert [row[:4] for row in fields(ours)] == [row[:4] for row in fields(theirs)]
    columns = ["pos", "_ducklake_internal_snapshot_id"]
    assert pq.read_table(ours, columns=columns) == pq.read_table(theirs, columns=columns)


@pytest.mark.parametrize("vectors", [False, True])
def test_the_real_implementation_reads_our_delete_files(
    vectors: bool,
    make_lake: LakeMaker,
) -> None:
    """Our file takes the place of the one that the real implementation wrote."""
    lake = make_lake("sqlite", options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        f"CALL ducklake_set_option('lake', 'write_deletion_vectors', {str(vectors).lower()})",
        "CREATE TABLE t AS FROM range(200000) r(i)",
        "DELETE FROM t WHERE i IN (1, 2, 3)",
    )
    [(path,)] = lake.query("SELECT delete_file FROM ducklake_list_files('lake', 't')")
    directory = path.rpartition("/")[0]
    target = FileTarget(
        columns=(), directory=f"{directory}/", options=FileOptions(deletion_vectors=vectors)
    )
    positions = np.concatenate([np.arange(10, 9_000), [70_000, 199_999]])
    written = write(target, positions=positions)
    lake.detach()
    with closing(sqlite3.connect(lake.uri.removeprefix("ducklake:sqlite:"))) as catalog, catalog:
        catalog.execute(
            "UPDATE ducklake_delete_file"
            " SET path = ?, delete_count = ?, file_size_bytes = ?, footer_size = ?",
            (written.path, written.delete_count, written.file_size_bytes, written.footer_size),
        )

    [(count, total)] = lake.query("SELECT count(*), sum(i) FROM t WHERE i >= 0")

    assert count == 200_000 - len(positions)
    assert total == sum(range(200_000)) - int(positions.sum())


@given(
    st.lists(st.integers(0, 1 << 40), min_size=1, max_size=50, unique=True),
    st.integers(0, 10_000),
)
def test_a_vector_holds_any_positions(scattered: list[int], dense: int) -> None:
    positions = np.unique(np.concatenate([np.array(scattered), np.arange(dense)])).astype(np.int64)

    found, snapshots = deleted_positions(deletion_vector(positions))

    assert snapshots is None
    assert np.array_equal(found, positions)


@given(st.dictionaries(st.integers(0, 1 << 33), st.integers(1, 4), min_size=1, max_size=30))
def test_vectors_with_snapshots_keep_the_history(deletes: dict[int, int]) -> None:
    positions = np.array(sorted(deletes), np.int64)
    owners = np.array([deletes[p] for p in positions.tolist()], np.int64)

    data, footer = deletion_vectors(positions, owners, "/d/f.parquet")
    found, snapshots = deleted_positions(data)

    assert np.array_equal(found, positions)
    assert snapshots is not None
    assert np.array_equal(snapshots, owners)
    assert data[-footer:].startswith(b"PFA1")


@pytest.mark.parametrize("positions", [[], [2, 1], [1, 1], [-1]])
def test_positions_must_ascend(positions: list[int], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        write(target_of(tmp_path), positions=positions)
