"""`lakeport serve` without Spark: what it serves, whom it lets in, how it ends."""

from __future__ import annotations

import json
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeport
from lakeport.airport import Server
from lakeport.auth import TlsConfig
from lakeport.cli.arguments import listening_location
from lakeport.errors import DefinitionError, NotFoundError, UnauthenticatedError, UnavailableError
from lakeport.memory import MemoryCatalog
from tests.auth.certificates import Authority
from tests.cli.catalogs.large import BATCHES, ROWS
from tests.cli.processes import COMMAND, Serving, run, running, serving
from tests.wait import TIMEOUT_SECONDS

LARGE = "large:catalog"
Command = Callable[..., Any]


def test_serve_memory_serves_an_empty_catalog_that_can_be_filled() -> None:
    with serving("memory:") as server, lakeport.connect(server.location, catalog="lake") as client:
        client.create_schema("shop")
        client.create_table_as("shop", "orders", pa.table({"id": [1, 2, 3]}))

        assert client.table("shop.orders").scan().count() == 3
        # DuckDB has a database called memory, so that this name could not be attached.
        server.out.wait_for("ATTACH 'lake' AS lake (TYPE airport")


def test_serve_takes_several_catalogs_and_names_those_without_a_name() -> None:
    with serving("one=memory:", LARGE, "memory:") as server:
        with lakeport.connect(server.location, catalog="one") as client:
            names = [row["name"] for row in client.databases()]
        told = "\n".join(server.out.all)

    assert names == ["one", "catalog", "lake"]
    assert "ATTACH 'one' AS one (TYPE airport, LOCATION 'grpc://127.0.0.1:" in told
    assert "s  " in told


def test_serve_with_a_token_file_lets_in_only_who_has_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("# who may call\ngood-token-12345 reader\n")
    with serving(
        "--name", "m", "memory:", "--token-file", str(tokens), "--log-level", "debug"
    ) as server:
        with lakeport.connect(server.location, token="good-token-12345") as client:
            assert client.schemas() == []
        with (
            lakeport.connect(server.location, token="bad-token") as client,
            pytest.raises(UnauthenticatedError),
        ):
            client.schemas()
        server.log.wait_for("UNAUTHENTICATED")
        told = "\n".join(server.out.all + server.log.all)

    assert "CREATE SECRET" in told
    assert "good-token-12345" not in told
    assert "bad-token" not in told


def test_a_token_that_is_too_short_is_refused_without_being_shown(
    lakeport_command: Command, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("long-enough-token reader\nfifteen-charact writer\n")

    result = lakeport_command("serve", "memory:", "--token-file", str(tokens))

    assert result.exit_code == 1
    assert "line 2 of the token file: a token needs at least 16 characters" in result.stderr
    assert "fifteen" not in result.stderr


def test_the_address_to_listen_on_may_be_written_as_a_location() -> None:
    command = [*COMMAND, "serve", "memory:", "--listen", "grpc://127.0.0.1:0"]
    with running(command) as server, lakeport.connect(server.location) as client:
        assert client.schemas() == []


def test_a_location_that_is_not_encrypted_does_not_fit_a_certificate(tmp_path: Path) -> None:
    pair = Authority("Lakeport").sign("server")
    (tmp_path / "cert.pem").write_bytes(pair.certificate)
    (tmp_path / "key.pem").write_bytes(pair.key)
    tls = TlsConfig(tmp_path / "cert.pem", tmp_path / "key.pem")

    with pytest.raises(DefinitionError, match=r"grpc\+tls://"):
        listening_location("grpc://127.0.0.1:0", tls)
    assert listening_location("grpc+tls://127.0.0.1:0", tls) == "grpc+tls://127.0.0.1:0"
    assert listening_location("127.0.0.1:0", tls) == "grpc+tls://127.0.0.1:0"


def test_serve_speaks_tls_and_may_ask_clients_for_certificates(tmp_path: Path) -> None:
    authority = Authority("Lakeport")
    server_pair, client_pair = authority.sign("server"), authority.sign("client")
    files = {
        "--tls-cert": server_pair.certificate,
        "--tls-key": server_pair.key,
        "--tls-client-ca": authority.certificate,
    }
    arguments = []
    for flag, pem in files.items():
        path = tmp_path / f"{flag.removeprefix('--')}.pem"
        path.write_bytes(pem)
        arguments += [flag, str(path)]
    with serving("--name", "m", "memory:", *arguments) as server:
        trusting: dict[str, Any] = {
            "tls_root_certs": authority.certificate,
            "timeout": TIMEOUT_SECONDS,
        }
        known: dict[str, Any] = {
            "cert_chain": client_pair.certificate,
            "private_key": client_pair.key,
        }
        with lakeport.connect(server.location, **trusting, **known) as client:
            assert client.schemas() == []
        with (
            lakeport.connect(server.location, **trusting) as stranger,
            pytest.raises(UnavailableError),
        ):
            stranger.schemas()
        assert server.location.startswith("grpc+tls://")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no lake given"),
        (["nowhere"], "cannot serve 'nowhere': expected a lake"),
        (["no.such.module:catalog"], "cannot be loaded"),
        (["os:path"], "not a catalog"),
        (["x=memory:", "x=memory:"], "two catalogs are named 'x'"),
        (["memory:", "--tls-cert", "x"], "--tls-key"),
        (["memory:", "--token-file", "/nowhere"], "token file"),
        (["memory:", "--config", "/nowhere"], "no configuration file"),
        (["memory:", "--log-format", "xml"], "log.format"),
        (["memory:", "--listen", "nonsense"], "is not a location"),
        (["memory:", "--listen", "http://127.0.0.1:0"], "is not a location"),
        (["memory:", "--listen", "grpc+tls://127.0.0.1:0"], "needs --tls-cert and --tls-key"),
        (["memory:", "--metrics-listen", "nonsense"], "is not host:port"),
        (["a=memory:", "b=memory:", "--name", "c"], "--name names one LAKE"),
        (["@/nowhere"], "cannot be read"),
        (["memory:", "--main-as", "main"], "main_as must be another name than 'main'"),
        (["memory:", "--main-as", ""], "the name of a schema"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_exit_code_one(
    lakeport_command: Command, arguments: list[str], sentence: str
) -> None:
    result = lakeport_command("serve", "--listen", "127.0.0.1:0", *arguments)

    assert result.exit_code == 1
    assert sentence in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("def catalog(): raise ValueError('no water')", "cannot be loaded: ValueError: no water"),
        ("def catalog(: pass", "cannot be loaded: SyntaxError: "),
        ("raise RuntimeError", "cannot be loaded: RuntimeError\n"),
    ],
)
def test_a_catalog_of_ones_own_that_fails_is_one_sentence(
    lakeport_command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    sentence: str,
) -> None:
    (tmp_path / "leaking.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "leaking", raising=False)

    result = lakeport_command("serve", "--listen", "127.0.0.1:0", "leaking:catalog")

    assert result.exit_code == 1
    assert sentence in result.stderr


def test_flags_of_lakes_win_over_the_configuration(
    lakeport_command: Command, tmp_path: Path
) -> None:
    config = tmp_path / "lakeport.toml"
    config.write_text('[[lake]]\nuri = "memory:"\nmain_as = "base"\n')

    result = lakeport_command("serve", "--config", str(config), "--main-as", "main")

    assert result.exit_code == 1
    assert "main_as must be another name than 'main'" in result.stderr


@pytest.mark.parametrize("arguments", [["serve", "memory:"], ["demo"]])
def test_a_port_that_is_taken_is_told(lakeport_command: Command, arguments: list[str]) -> None:
    with Server(MemoryCatalog()) as other:
        result = lakeport_command(*arguments, "--listen", f"127.0.0.1:{other.port}")

        assert result.exit_code == 1
        assert f"cannot listen on {other.location}: the port is in use" in result.stderr
        with pytest.raises(UnavailableError, match="the port is in use"):
            Server(MemoryCatalog(), location=other.location).start()


def test_a_password_on_the_command_line_is_warned_about_and_never_shown(
    lakeport_command: Command,
) -> None:
    lake = "ducklake:postgres:host=127.0.0.1 port=1 dbname=x password=hush-hush"

    result = lakeport_command("inspect", lake)

    assert result.exit_code == 1
    assert "can read a password on the command line" in result.stderr
    assert "hush" not in result.stderr


def test_a_wrong_call_of_the_real_command_has_no_traceback() -> None:
    result = run("serve", "nowhere")

    assert result.returncode == 1
    assert result.stderr.startswith("lakeport: cannot serve 'nowhere'")
    assert "Traceback" not in result.stderr


def test_an_unknown_option_is_exit_code_two(lakeport_command: Command) -> None:
    assert lakeport_command("serve", "--no-such-option").exit_code == 2
    assert lakeport_command("no-such-command").exit_code == 2


def test_the_version_is_told(lakeport_command: Command) -> None:
    assert lakeport_command("--version").stdout == f"lakeport {lakeport.__version__}\n"


def test_sigterm_lets_a_slow_reader_finish_and_refuses_others() -> None:
    with serving(
        LARGE, "--metrics-listen", "127.0.0.1:0", "--drain", str(TIMEOUT_SECONDS)
    ) as server:
        url = server.out.wait_for("/healthz").partition("/healthz")[0].strip()
        with (
            lakeport.connect(server.location) as client,
            lakeport.connect(server.location) as late,
        ):
            assert get(f"{url}/healthz") == (200, '{"state": "ready"}')
            reader = client.table("s.rows").scan().to_reader()
            rows = reader.read_next_batch().num_rows
            assert "lakeport_scans_running 1.0" in get(f"{url}/metrics")[1]

            server.send(signal.SIGTERM)
            server.log.wait_for("draining")
            while get(f"{url}/healthz") != (503, '{"state": "draining"}'):
                assert server.process.poll() is None
            with pytest.raises(UnavailableError, match="try again"):
                late.schemas()

            rows += sum(batch.num_rows for batch in reader)
        assert rows == ROWS * BATCHES
        assert server.wait() == 0


def assert_ends_with_a_cut_stream(server: Serving) -> None:
    with lakeport.connect(server.location) as client:
        reader = client.table("s.rows").scan().to_reader()
        reader.read_next_batch()

        server.send(signal.SIGTERM)

        assert server.wait() == 0
        with pytest.raises(UnavailableError):
            reader.read_all()


def test_a_stream_beyond_the_limit_of_the_drain_fails_and_is_never_short() -> None:
    with serving(LARGE, "--drain", "0.1") as server:
        assert_ends_with_a_cut_stream(server)


def test_a_script_ends_after_the_drain_although_a_client_holds_a_stream() -> None:
    script = "lakeport.serve(large.catalog, location='grpc://127.0.0.1:0', drain=0.1)"
    with running([sys.executable, "-c", f"import lakeport, large; {script}"]) as server:
        assert_ends_with_a_cut_stream(server)


def test_a_second_signal_ends_at_once() -> None:
    with serving(LARGE, "--drain", "3600") as server:
        with lakeport.connect(server.location) as client:
            reader = client.table("s.rows").scan().to_reader()
            reader.read_next_batch()

            server.send(signal.SIGTERM)
            server.log.wait_for("draining")
            server.send(signal.SIGTERM)

            assert server.wait() == -signal.SIGTERM
            with pytest.raises(UnavailableError):
                reader.read_all()


def test_metrics_count_calls_scans_rows_and_bytes() -> None:
    with serving(LARGE, "--metrics-listen", "127.0.0.1:0") as server:
        url = server.out.wait_for("/metrics").partition("/healthz")[0].strip()
        with lakeport.connect(server.location) as client:
            assert client.table("s.rows").scan().count() == ROWS * BATCHES
            with pytest.raises(NotFoundError):
                client.take_flight(["s", "nothing"]).to_arrow()
        server.log.wait_for("NOT_FOUND")
        told = get(f"{url}/metrics")[1].splitlines()

        assert get(f"{url}/elsewhere")[0] == 404
    figures = dict(line.rsplit(" ", 1) for line in told if not line.startswith("#"))
    assert float(figures["lakeport_rows_sent_total"]) == ROWS * BATCHES
    assert float(figures["lakeport_bytes_sent_total"]) > 8 * ROWS * BATCHES
    assert float(figures['lakeport_scans_total{result="complete"}']) == 1
    assert float(figures["lakeport_scans_running"]) == 0
    assert float(figures['lakeport_calls_total{status="OK",verb="DoGet"}']) == 1
    assert float(figures['lakeport_call_seconds_count{verb="DoGet"}']) == 1
    assert float(figures['lakeport_calls_total{status="NOT_FOUND",verb="GetFlightInfo"}']) == 1
    assert float(figures["lakeport_catalogs"]) == 1
    assert float(figures["lakeport_spark_jobs_active"]) == 0
    assert float(figures["lakeport_spark_queued_bytes"]) == 0


def test_sighup_reads_the_lakes_again_and_a_broken_file_changes_nothing(tmp_path: Path) -> None:
    config = tmp_path / "lakeport.toml"

    def write(*names: str, more: str = "") -> None:
        lakes = "\n".join(f'[[lake]]\nname = "{name}"\nuri = "memory:"' for name in names)
        config.write_text(f'{lakes}\n{more}\n[log]\nformat = "json"\n')

    write("kept", "gone")
    with serving("fixed=memory:", "--config", str(config)) as server:
        with lakeport.connect(server.location, catalog="kept") as client:
            client.create_schema("s")
            write("kept", "new")
            server.send(signal.SIGHUP)
            entry = json.loads(server.log.wait_for("reloaded"))
            names = [row["name"] for row in client.databases()]
            schemas = [schema.name for schema in client.schemas()]

            write("kept", more='[[lake]]\nname = "x"\nurl = "memory:"')
            server.send(signal.SIGHUP)
            broken = json.loads(server.log.wait_for("there is no such key"))

            write("kept", more='[[lake]]\nname = "x"\nuri = "broken:catalog"')
            server.send(signal.SIGHUP)
            faulty = json.loads(server.log.wait_for("the catalog is broken"))
            still = [row["name"] for row in client.databases()]

    assert (entry["added"], entry["removed"], entry["changed"]) == (["new"], ["gone"], [])
    assert names == still == ["kept", "new", "fixed"]
    assert schemas == ["s"]
    assert broken["level"] == faulty["level"] == "ERROR"
    assert "configuration not reloaded" in faulty["message"]
    assert "lake.2.url: there is no such key" in broken["message"]


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
