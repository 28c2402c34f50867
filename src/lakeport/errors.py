"""Every error that Lakeport raises on purpose.

    LakeportError
    ├── NotFoundError               a catalog, schema, table, function or column that is not there
    │   ├── SnapshotNotFoundError   a snapshot that never was, or that has been expired
    │   └── MissingFileError        a file that a lake names and its storage does not have
    ├── AlreadyExistsError          a name that is taken
    ├── InvalidArgumentError        a request that cannot be understood
    │   ├── DefinitionError         a wrong declaration, found by ``CatalogBuilder.build()``
    │   └── MessageTooLargeError    a message beyond a configured bound
    ├── InvalidInputError           a request that is well formed, with a value that cannot be used
    │   └── NullRowIdError          a null row identifier in UPDATE or DELETE
    ├── ConstraintError             a value that breaks a constraint of its table
    ├── SchemaNotEmptyError         a schema that still holds tables
    ├── UnsupportedError            something that this catalog or server does not do
    │   └── LakeVersionError        a lake of a format version that cannot be read
    ├── UnauthenticatedError        no credentials, or wrong ones
    ├── PermissionDeniedError       known, but not allowed
    ├── UnavailableError            try again later
    ├── CancelledError              the caller went away
    └── InternalError               a fault of the server itself
        └── CorruptLakeError        a lake that contradicts itself

Each message is one clear sentence for the person who reads it in DuckDB. How an error travels is
decided in one place, ``lakeport.airport.status``; this module knows nothing of Flight.
"""

from __future__ import annotations

__all__ = [
    "AlreadyExistsError",
    "CancelledError",
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
    "SchemaNotEmptyError",
    "SnapshotNotFoundError",
    "UnauthenticatedError",
    "UnavailableError",
    "UnsupportedError",
]


class LakeportError(Exception):
    """The root of the tree: catch this to catch everything Lakeport raises on purpose."""

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
    """An object of that name exists already."""


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
    """A value breaks a constraint of the table."""


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


class UnavailableError(LakeportError):
    """The server cannot answer now; try again."""


class CancelledError(LakeportError):
    """The caller cancelled the operation."""


class InternalError(LakeportError):
    """The server failed."""


class CorruptLakeError(InternalError):
    """The lake contradicts itself."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class without a message."""
    return str(error).strip().partition("\n")[0].rstrip() or type(error).__name__
