"""How errors travel: the right code, one clean sentence, DuckDB's own type where it has one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import msgpack
import pyarrow as pa
import pytest
from pyarrow import flight

from lakeport import errors
from lakeport.airport.protocol.errors import as_lakeport_error, to_status
from lakeport.catalog import Action, CatalogBuilder, ScanOptions, StaticCatalog
from tests.airport.flight_client import RawFlightClient, Serving, extra_info, path

COLUMNS = pa.schema([("x", pa.int64())])
SENTENCE = "the sentence of this error"

CODES: dict[type[errors.LakeportError], type[BaseException]] = {
    errors.NotFoundError: KeyError,
    errors.SnapshotNotFoundError: KeyError,
    errors.MissingFileError: KeyError,
    errors.AlreadyExistsError: pa.ArrowInvalid,
    errors.InvalidArgumentError: pa.ArrowInvalid,
    errors.DefinitionError: pa.ArrowInvalid,
    errors.MessageTooLargeError: pa.ArrowInvalid,
    errors.InvalidInputError: pa.ArrowInvalid,
    errors.NullRowIdError: pa.ArrowInvalid,
    errors.ConstraintError: pa.ArrowInvalid,
    errors.SchemaNotEmptyError: pa.ArrowInvalid,
    errors.UnsupportedError: pa.ArrowNotImplementedError,
    errors.LakeVersionError: pa.ArrowNotImplementedError,
    errors.UnauthenticatedError: flight.FlightUnauthenticatedError,
    errors.PermissionDeniedError: flight.FlightUnauthorizedError,
    errors.ResourceExhaustedError: flight.FlightServerError,
    errors.UnavailableError: flight.FlightUnavailableError,
    errors.ConflictError: flight.FlightUnavailableError,
    errors.UnknownOutcomeError: flight.FlightUnavailableError,
    errors.CancelledError: flight.FlightCancelledError,
    errors.InternalError: flight.FlightInternalError,
    errors.CorruptLakeError: flight.FlightInternalError,
}

TYPED = {
    errors.ConstraintError: "ConstraintException",
    errors.InvalidInputError: "InvalidInputException",
    errors.NullRowIdError: "InvalidInputException",
    errors.PermissionDeniedError: "PermissionException",
}


def failing(error: Exception) -> StaticCatalog:
    """A catalog whose every part fails with the error."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    def fail_later(options: ScanOptions) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"x": [1]})
        raise error

    schema = CatalogBuilder().schema("s")
    schema.table("t", lambda options: fail(), schema=COLUMNS)
    schema.table("later", fail_later, schema=COLUMNS)
    schema.scalar_function("f", lambda x: fail(), parameters={"x": pa.int64()}, returns=pa.int64())
    schema.table_function("g", fail, parameters={}, schema=fail)
    return schema.build()


def in_action(flight_client: RawFlightClient) -> Any:
    return flight_client.action("fail")


def in_get(flight_client: RawFlightClient) -> Any:
    return flight_client.scan(path("s", "t"))


def in_stream(flight_client: RawFlightClient) -> Any:
    (endpoint,) = flight_client.endpoints(path("s", "later"))
    return list(flight_client.get(endpoint.ticket))


def in_exchange(flight_client: RawFlightClient) -> Any:
    return flight_client.scalar(path("s", "f"), [pa.record_batch({"x": [1]})])


@pytest.fixture
def failing_with(start_server: Serving) -> Callable[[Exception], RawFlightClient]:
    def start(error: Exception) -> RawFlightClient:
        def fail(body: bytes) -> bytes:
            raise error

        return start_server(failing(error), actions=[Action("fail", fail)])

    return start


def assert_clean(error: BaseException) -> None:
    assert "Traceback" not in str(error)
    assert ".py" not in str(error)
    assert str(error).count(SENTENCE) >= 1


def test_every_error_has_a_code() -> None:
    def leaves(kind: type[errors.LakeportError]) -> Iterator[type[errors.LakeportError]]:
        for sub in kind.__subclasses__():
            yield sub
            yield from leaves(sub)

    assert {k for k in leaves(errors.LakeportError) if k.__module__ == "lakeport.errors"} == set(
        CODES
    )


@pytest.mark.parametrize(("kind", "raised"), CODES.items())
def test_an_action_fails_with_the_code_of_its_error(
    failing_with: Callable[[Exception], RawFlightClient],
    kind: type[errors.LakeportError],
    raised: type[BaseException],
) -> None:
    flight_client = failing_with(kind(SENTENCE))

    with pytest.raises(raised, match=SENTENCE) as told:
        in_action(flight_client)

    assert_clean(told.value)
    # The client would try msgpack here as JSON.
    assert extra_info(told.value) is None


@pytest.mark.parametrize("where", [in_get, in_stream, in_exchange])
@pytest.mark.parametrize(("kind", "raised"), CODES.items())
def test_a_stream_fails_with_the_code_of_its_error(
    failing_with: Callable[[Exception], RawFlightClient],
    where: Callable[[RawFlightClient], Any],
    kind: type[errors.LakeportError],
    raised: type[BaseException],
) -> None:
    # Only a Flight error can carry DuckDB's type.
    typed = kind in TYPED and kind is not errors.PermissionDeniedError
    flight_client = failing_with(kind(SENTENCE))

    with pytest.raises(flight.FlightServerError if typed else raised, match=SENTENCE) as told:
        where(flight_client)

    assert_clean(told.value)
    expected = {"exception_type": TYPED[kind], "message": SENTENCE} if kind in TYPED else None
    assert extra_info(told.value) == expected


@pytest.mark.parametrize("kind", TYPED)
def test_getflightinfo_tells_duckdb_the_type(
    start_server: Serving, kind: type[errors.LakeportError]
) -> None:
    class Failing:
        name = "t"
        comment = ""

        def arrow_schema(self, columns: Any = None) -> pa.Schema:
            return COLUMNS

        def scan(self, options: ScanOptions) -> pa.RecordBatchReader:
            raise AssertionError

        def endpoints(self, options: ScanOptions) -> Any:
            raise kind(SENTENCE)

    flight_client = start_server(CatalogBuilder().schema("s").table(Failing()).build())

    with pytest.raises(flight.FlightError, match=SENTENCE) as told:
        flight_client.info(path("s", "t"))

    assert extra_info(told.value) == {"exception_type": TYPED[kind], "message": SENTENCE}


FOREIGN: dict[str, tuple[Exception, type[BaseException], str]] = {
    "ValueError": (ValueError("bad\nsecond line"), flight.FlightInternalError, "ValueError: bad"),
    "KeyError": (KeyError("k"), flight.FlightInternalError, "KeyError: k"),
    "no message": (RuntimeError(), flight.FlightInternalError, "RuntimeError"),
    "arrow": (pa.ArrowInvalid("a bad array"), flight.FlightInternalError, "failed: a bad array"),
    "NotImplementedError": (
        NotImplementedError("not yet"),
        pa.ArrowNotImplementedError,
        "NotImplementedError: not yet",
    ),
    "PermissionError": (
        PermissionError("not for you"),
        flight.FlightUnauthorizedError,
        "PermissionError: not for you",
    ),
    "PermissionError of the system": (
        PermissionError(13, "Permission denied", "f.csv"),
        flight.FlightInternalError,
        "Permission denied",
    ),
}


@pytest.mark.parametrize("where", [in_action, in_get, in_stream, in_exchange])
@pytest.mark.parametrize(("error", "raised", "text"), FOREIGN.values(), ids=FOREIGN)
def test_an_unforeseen_exception_is_told_in_its_first_line(
    failing_with: Callable[[Exception], RawFlightClient],
    where: Callable[[RawFlightClient], Any],
    error: Exception,
    raised: type[BaseException],
    text: str,
) -> None:
    flight_client = failing_with(error)

    with pytest.raises(raised) as told:
        where(flight_client)

    assert text in str(told.value)
    assert "Traceback" not in str(told.value)
    assert "second line" not in str(told.value)
    assert ".py" not in str(told.value)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("division by zero"), PermissionError(13, "Permission denied")]
)
def test_an_unforeseen_exception_is_logged_with_its_traceback(
    failing_with: Callable[[Exception], RawFlightClient],
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    flight_client = failing_with(error)

    with caplog.at_level(logging.ERROR, "lakeport"), pytest.raises(flight.FlightInternalError):
        in_get(flight_client)

    (record,) = caplog.records
    assert record.name == "lakeport.airport"
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.parametrize("kind", CODES)
def test_an_error_raised_on_purpose_is_not_logged(
    failing_with: Callable[[Exception], RawFlightClient],
    caplog: pytest.LogCaptureFixture,
    kind: type[errors.LakeportError],
) -> None:
    flight_client = failing_with(kind(SENTENCE))

    with caplog.at_level(logging.INFO, "lakeport"), pytest.raises(Exception, match=SENTENCE):
        in_action(flight_client)

    assert caplog.records == []


def test_a_long_message_is_cut(failing_with: Callable[[Exception], RawFlightClient]) -> None:
    flight_client = failing_with(errors.NotFoundError("x" * 100_000))

    with pytest.raises(KeyError) as told:
        in_action(flight_client)

    assert len(str(told.value)) < 5000


@pytest.mark.parametrize("letter", ["x", "ж", "😀"])
@pytest.mark.parametrize("where", [in_get, in_stream, in_exchange])
def test_a_long_message_arrives_whatever_it_is_written_in(
    failing_with: Callable[[Exception], RawFlightClient],
    where: Callable[[RawFlightClient], Any],
    letter: str,
) -> None:
    flight_client = failing_with(errors.ConstraintError(letter * 3000))

    with pytest.raises(flight.FlightServerError) as told:
        where(flight_client)

    detail = extra_info(told.value)
    assert detail["exception_type"] == "ConstraintException"
    assert detail["message"] == letter * (1000 // len(letter.encode()))


def test_the_rows_before_an_error_arrive(
    failing_with: Callable[[Exception], RawFlightClient],
) -> None:
    flight_client = failing_with(errors.UnavailableError("later"))
    (endpoint,) = flight_client.endpoints(path("s", "later"))
    reader = flight_client.get(endpoint.ticket)

    assert reader.read_chunk().data.to_pydict() == {"x": [1]}
    with pytest.raises(flight.FlightUnavailableError, match="later"):
        reader.read_chunk()


def test_a_flight_error_of_a_catalog_passes_as_it_is(
    failing_with: Callable[[Exception], RawFlightClient],
) -> None:
    detail = msgpack.packb({"exception_type": "ConstraintException", "message": "m"})
    flight_client = failing_with(flight.FlightServerError(SENTENCE, extra_info=detail))

    for where in (in_get, in_stream):
        with pytest.raises(flight.FlightServerError, match=SENTENCE) as told:
            where(flight_client)
        assert extra_info(told.value) == {"exception_type": "ConstraintException", "message": "m"}


def test_an_error_without_words_says_what_it_is() -> None:
    for kind in CODES:
        message = str(kind())
        assert message
        assert not message.endswith(".")


def test_errors_of_our_own_pass_unchanged() -> None:
    error = errors.ConstraintError("c")

    assert as_lakeport_error(error, "x") is error
    assert isinstance(to_status(error, typed=True), flight.FlightServerError)
    assert isinstance(to_status(error, typed=False), ValueError)


def test_doput_is_refused(start_server: Serving) -> None:
    flight_client = start_server(failing(RuntimeError()))
    writer, _ = flight_client.client.do_put(path("s", "t"), COLUMNS, flight_client.options())

    with pytest.raises(pa.ArrowNotImplementedError, match="written by DoExchange, not by DoPut"):
        writer.close()
