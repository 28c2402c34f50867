"""The errors of Lakeport.

    LakeportError
    ├── NotFoundError               a catalog, schema, table, function or column that does not exist
    │   ├── SnapshotNotFoundError   a snapshot that does not exist or has expired
    │   └── MissingFileError        a file of the lake that is not in its storage
    ├── AlreadyExistsError          a name that is in use
    ├── InvalidArgumentError        a request that cannot be understood
    │   ├── DefinitionError         a wrong declaration, raised by ``CatalogBuilder.build()``
    │   └── MessageTooLargeError    a message larger than a configured limit
    ├── InvalidInputError           a well-formed request with a value that cannot be used
    │   └── NullRowIdError          a null row identifier in UPDATE or DELETE
    ├── ConstraintError             a value that violates a constraint of its table
    ├── SchemaNotEmptyError         a schema that still contains tables
    ├── UnsupportedError            a feature that this catalog or server does not have
    │   └── LakeVersionError        a lake of a format version that cannot be read
    ├── UnauthenticatedError        missing or wrong credentials
    ├── PermissionDeniedError       an authenticated caller without the permission
    ├── ResourceExhaustedError      a limit of the caller or of the server is reached
    ├── UnavailableError            a temporary failure: try again
    │   ├── ConflictError           a commit that other commits make impossible: start again
    │   └── UnknownOutcomeError     a commit of which it is not known whether it happened
    ├── CancelledError              the client disconnected or cancelled
    └── InternalError               an error of the server
        └── CorruptLakeError        a lake with contradictory metadata

Each message is one sentence that DuckDB shows to its user. ``lakeport.airport.protocol.errors``
maps these classes to gRPC status codes; this module does not import Flight.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
    "ConflictError",
    "ConstraintError",
    "CorruptLakeError",
    "DefinitionError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidInputError",
    "LakeVersionError",
    "LakeportError",
    "MessageTooLargeError",
    "MissingFileError",
    "NotFoundError",
    "NullRowIdError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "SchemaNotEmptyError",
    "SnapshotNotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnknownOutcomeError",
    "UnsupportedError",
]


class LakeportError(Exception):
    """The base class of all errors that Lakeport raises."""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self._default_message())

    @classmethod
    def _default_message(cls) -> str:
        return (cls.__doc__ or cls.__name__).splitlines()[0].rstrip(".")


class NotFoundError(LakeportError):
    """The object does not exist."""


class SnapshotNotFoundError(NotFoundError):
    """The snapshot does not exist."""


class MissingFileError(NotFoundError):
    """A file of the lake is missing."""


class AlreadyExistsError(LakeportError):
    """An object of that name already exists."""


class InvalidArgumentError(LakeportError):
    """The request cannot be understood."""


class DefinitionError(InvalidArgumentError):
    """A table, function or schema is declared wrongly."""


class MessageTooLargeError(InvalidArgumentError):
    """The message is larger than the server accepts."""


class InvalidInputError(LakeportError):
    """A value cannot be used here."""


class NullRowIdError(InvalidInputError):
    """A null row identifier is not allowed."""


class ConstraintError(LakeportError):
    """A value violates a constraint of the table."""


class SchemaNotEmptyError(LakeportError):
    """The schema still contains tables."""


class UnsupportedError(LakeportError):
    """Not supported."""


class LakeVersionError(UnsupportedError):
    """The format version of the lake cannot be read."""


class UnauthenticatedError(LakeportError):
    """Missing or wrong credentials."""


class PermissionDeniedError(LakeportError):
    """Permission denied."""


class ResourceExhaustedError(LakeportError):
    """A limit of the caller or of the server is reached."""


class UnavailableError(LakeportError):
    """The server cannot answer now; try again."""


class ConflictError(UnavailableError):
    """Another transaction has changed the same objects; start again from the newest snapshot."""


class UnknownOutcomeError(UnavailableError):
    """The connection was lost during the commit, and it is not known whether it happened."""


class CancelledError(LakeportError):
    """The caller cancelled the operation."""


class InternalError(LakeportError):
    """The server failed."""


class CorruptLakeError(InternalError):
    """The metadata of the lake is contradictory."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class without a message."""
    return str(error).strip().partition("\n")[0].rstrip() or type(error).__name__
