"""`data:` endpoints, which the client reads by itself."""

from __future__ import annotations

import base64
import builtins
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import flight

from lakeport.airport.client import Client, RemoteTable
from lakeport.catalog import CatalogBuilder, Endpoint, FileFormat, FileReference, FunctionReference
from lakeport.errors import InternalError, UnavailableError, UnsupportedError
from lakeport.filters import col
from tests.client.conftest import Attach
from tests.client.handwritten_server import HandwrittenServer, endpoints, packed

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
MORE = pa.table({"id": [4], "name": ["d"]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    pq.write_table(MORE, tmp_path / "b.parquet")
    (tmp_path / "a.csv").write_text("id|name\n1|a\n2|b\n3|\n")
    with (
        pa.OSFile(str(tmp_path / "a.arrows"), "wb") as sink,
        pa.ipc.new_stream(sink, ROWS.schema) as stream,
    ):
        stream.write_table(ROWS)
    with (
        pa.OSFile(str(tmp_path / "a.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, ROWS.schema) as file,
    ):
        file.write_table(ROWS)
    return tmp_path


def _table(
    attach_client: Attach, *references: Endpoint, schema: pa.Schema | None = None
) -> RemoteTable:
    builder = CatalogBuilder().schema("s")
    builder.reference_table("t", references, schema=schema or ROWS.schema)
    return attach_client(builder.build()).table("s.t")


def test_parquet_by_function_call(attach_client: Attach, folder: Path) -> None:
    files = [str(folder / "a.parquet"), str(folder / "b.parquet")]
    table = _table(attach_client, FunctionReference("read_parquet", (files,)))
    assert table.scan().to_arrow().sort_by("id").to_pydict() == {
        "id": [1, 2, 3, 4],
        "name": ["a", "b", None, "d"],
    }
    assert table.scan(["name"], filter=col("id") == 4).to_arrow().to_pydict() == {"name": ["d"]}
    assert table.scan(["name"]).to_arrow().num_rows == table.scan().count() == 4


def test_csv_with_named_arguments(attach_client: Attach, folder: Path) -> None:
    reference = FunctionReference(
        "read_csv", (str(folder / "a.csv"),), {"delim": "|", "header": True}
    )
    assert _table(attach_client, reference).scan().to_arrow().to_pydict() == ROWS.to_pydict()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.parquet", FileFormat.PARQUET),
        ("a.arrows", FileFormat.IPC_STREAM),
        ("a.arrow", FileFormat.IPC_FILE),
    ],
)
def test_files_by_format(attach_client: Attach, folder: Path, name: str, kind: FileFormat) -> None:
    table = _table(attach_client, FileReference(str(folder / name), kind))
    assert table.scan().to_arrow().equals(ROWS)
    assert table.scan(["id"], filter=col("name") == "b").to_arrow().to_pydict() == {"id": [2]}


def test_a_file_uri_works_as_well(attach_client: Attach, folder: Path) -> None:
    table = _table(
        attach_client, FileReference((folder / "a.arrows").as_uri(), FileFormat.IPC_STREAM)
    )
    assert table.scan().to_arrow().equals(ROWS)


def test_references_of_several_kinds_in_one_table(attach_client: Attach, folder: Path) -> None:
    table = _table(
        attach_client,
        FileReference(str(folder / "b.parquet")),
        FileReference(str(folder / "a.arrow"), FileFormat.IPC_FILE),
    )
    assert sorted(table.scan().to_arrow().column("id").to_pylist()) == [1, 2, 3, 4]


def test_types_must_be_those_of_the_table(attach_client: Attach, folder: Path) -> None:
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    for reference in (
        FileReference(str(folder / "a.parquet")),
        FileReference(str(folder / "a.arrow"), FileFormat.IPC_FILE),
    ):
        with pytest.raises(InternalError, match="column"):
            _table(attach_client, reference, schema=schema).scan().to_arrow()


def test_layouts_of_one_type_are_converted(attach_client: Attach, folder: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.large_string())])
    table = _table(attach_client, FileReference(str(folder / "a.parquet")), schema=schema)
    assert table.scan().to_arrow().schema.field("name").type == pa.large_string()


def test_every_column_must_be_there(attach_client: Attach, folder: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("zip", pa.string())])
    table = _table(attach_client, FileReference(str(folder / "a.parquet")), schema=schema)
    with pytest.raises(InternalError, match="no column 'zip'"):
        table.scan().to_arrow()
    assert table.scan(["id"]).count() == 3


@pytest.mark.parametrize(
    "reference",
    [
        FileReference("/nowhere/a.parquet"),
        FileReference("/nowhere/a.arrow", FileFormat.IPC_FILE),
        FunctionReference("read_csv", ("/nowhere/a.csv",)),
    ],
)
def test_a_missing_file_says_so(attach_client: Attach, reference: Endpoint) -> None:
    with pytest.raises(UnavailableError, match="nowhere"):
        _table(attach_client, reference).scan().to_arrow()


def test_without_duckdb_the_error_names_it(
    attach_client: Attach, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _table(attach_client, FileReference(str(folder / "a.parquet")))
    real_import = builtins.__import__

    def no_duckdb(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_duckdb)
    with pytest.raises(UnsupportedError, match="install the duckdb package"):
        table.scan().to_arrow()


# What a hostile server may send


def _data_uri(media_type: str, content: Any) -> str:
    return f"data:{media_type};base64,{base64.b64encode(packed(content)).decode()}"


CALL = "application/x-msgpack-duckdb-function-call"
FILE = "application/msgpack"


def _arguments(**values: Any) -> bytes:
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_pylist([values])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("data:", UnsupportedError),
        ("data:text/plain,hello", InternalError),
        (f"data:{CALL};base64,!!!", InternalError),
        (_data_uri("text/plain", {}), UnsupportedError),
        (_data_uri(CALL, []), InternalError),
        (_data_uri(CALL, {}), InternalError),
        (_data_uri(CALL, {"function_name": "read_csv", "data": b"junk"}), InternalError),
        (
            _data_uri(CALL, {"function_name": "query", "data": _arguments(arg_0="SELECT 1")}),
            UnsupportedError,
        ),
        (
            _data_uri(CALL, {"function_name": "x); DROP TABLE y; --", "data": _arguments(arg_0=1)}),
            UnsupportedError,
        ),
        (
            _data_uri(CALL, {"function_name": "range", "data": _arguments(arg_0=1, arg_5=1)}),
            InternalError,
        ),
        (_data_uri(FILE, {"format": "exe", "uri": "/bin/sh"}), UnsupportedError),
        (_data_uri(FILE, {"format": "parquet"}), InternalError),
    ],
)
def test_garbage_is_refused(
    handwritten_server: HandwrittenServer,
    client_of_handwritten_server: Client,
    uri: str,
    error: type[Exception],
) -> None:
    handwritten_server.replies["endpoints"] = endpoints(flight.FlightEndpoint(b"", [uri]))
    with pytest.raises((error, InternalError, UnsupportedError)):
        client_of_handwritten_server.table("w.t").scan().to_arrow()


def test_named_arguments_cannot_leave_their_place(
    handwritten_server: HandwrittenServer, client_of_handwritten_server: Client
) -> None:
    call = {
        "function_name": "read_csv",
        "data": _arguments(arg_0="/nowhere/x", **{'a" := 1); SELECT ("b': "x"}),
    }
    handwritten_server.replies["endpoints"] = endpoints(
        flight.FlightEndpoint(b"", [_data_uri(CALL, call)])
    )
    with pytest.raises(UnavailableError, match="Invalid named parameter"):
        client_of_handwritten_server.table("w.t").scan().to_arrow()
