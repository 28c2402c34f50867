"""Nothing that a lake depends on can keep a caller waiting without end."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lakeport.ducklake import Lake, Storage
from lakeport.errors import CorruptLakeError, LakeportError, UnavailableError
from tests.fixtures_lakes import LakeMaker


class FreezingProxy:
    """A TCP proxy before a database; while it is frozen, it takes bytes and sends none."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._thawed = threading.Event()
        self._thawed.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def freeze(self) -> None:
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def close(self) -> None:
        self._thawed.set()
        for opened in self._sockets:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for opened in self._sockets:
            opened.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += client, server
                for pair in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._copy, args=pair))
                    self._threads[-1].start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._thawed.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.fixture(params=["postgresql", "mysql"])
def frozen(
    request: pytest.FixtureRequest, make_lake: LakeMaker
) -> Iterator[tuple[str, FreezingProxy]]:
    """The URI of a lake on a database server whose answers can be stopped."""
    lake = make_lake(request.param)
    lake.execute("CREATE TABLE t AS SELECT 1 AS x")
    lake.detach()
    found = re.search(r"port=(\d+)", lake.uri)
    assert found
    proxy = FreezingProxy(int(found[1]))
    yield lake.uri.replace(found[0], f"port={proxy.port}"), proxy
    proxy.close()


def test_a_database_server_that_stops_answering_is_given_up_and_found_again(
    frozen: tuple[str, FreezingProxy],
) -> None:
    uri, proxy = frozen
    with Lake.open(uri, database_timeout=1.0) as lake:
        before = lake.snapshot().id
        proxy.freeze()

        for _ in range(2):
            with pytest.raises(UnavailableError, match=r"cannot be reached: .*(no answer|timeout)"):
                lake.snapshot()

        proxy.thaw()
        assert lake.snapshot().id == before


def test_a_database_server_that_does_not_answer_the_first_call_is_given_up(
    frozen: tuple[str, FreezingProxy],
) -> None:
    uri, proxy = frozen
    proxy.freeze()

    with pytest.raises(UnavailableError, match="cannot be reached"):
        Lake.open(f"{uri} connect_timeout=2", database_timeout=1.0)


@pytest.fixture
def irregular(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Paths that are not regular files."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        names = {"a named pipe": "pipe", "a directory": "folder", "a socket": "socket"}
        yield {kind: str(tmp_path / name) for kind, name in names.items()} | {
            "a device": "/dev/zero"
        }


def test_what_is_not_a_regular_file_is_not_opened(irregular: dict[str, str]) -> None:
    for kind, path in irregular.items():
        for spelling in (path, f"file://{path}"):
            with pytest.raises(CorruptLakeError, match=f"not a regular file but {kind}"):
                Storage().open(spelling)


def test_a_catalog_database_that_is_a_pipe_is_refused(irregular: dict[str, str]) -> None:
    path = irregular["a named pipe"]
    for uri in (path, f"sqlite:{path}", f"duckdb:{path}"):
        with pytest.raises(LakeportError, match="is not a regular file but a named pipe"):
            Lake.open(uri)


@pytest.mark.parametrize("name", ["data", "delete"])
def test_a_pipe_in_the_place_of_a_file_of_a_table_ends_the_scan(
    make_lake: LakeMaker, name: str
) -> None:
    lake = make_lake(options="DATA_INLINING_ROW_LIMIT 0")
    lake.execute(
        "CREATE TABLE t AS SELECT i FROM range(100) r(i)",
        "DELETE FROM t WHERE i < 10",
    )
    lake.detach()
    is_delete = name == "delete"
    files = [f for f in Path(f"{lake.data_path}").rglob("*") if f.suffix in {".parquet", ".puffin"}]
    (chosen,) = [f for f in files if ("delete" in f.name) is is_delete]
    chosen.unlink()
    os.mkfifo(chosen)

    with lake.open() as opened:
        with pytest.raises(CorruptLakeError, match="not a regular file but a named pipe"):
            opened.table("t").scan().to_table()
