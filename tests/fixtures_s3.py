"""An S3 server of our own, for lakes whose files are on an object store."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
from pyarrow import fs

from lakeport.ducklake import S3Secret


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Secret]:
    """What opens the store; it has a bucket called `lake`."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    maker = fs.S3FileSystem(
        access_key="key",
        secret_key="secret",
        region="us-east-1",
        scheme="http",
        endpoint_override=f"{host}:{port}",
        allow_bucket_creation=True,
    )
    maker.create_dir("lake")
    yield S3Secret(
        key_id="key",
        secret="secret",
        region="us-east-1",
        endpoint=f"{host}:{port}",
        url_style="path",
        use_ssl=False,
    )
    server.stop()


@pytest.fixture
def s3_reference(s3: S3Secret, reference: duckdb.DuckDBPyConnection) -> Iterator[S3Secret]:
    """The same, where the real implementation knows the secret too."""
    reference.execute(
        "CREATE OR REPLACE SECRET s3test (TYPE s3, KEY_ID 'key', SECRET 'secret', "
        f"REGION 'us-east-1', ENDPOINT '{s3.endpoint}', URL_STYLE 'path', USE_SSL false)"
    )
    yield s3
    reference.execute("DROP SECRET s3test")
