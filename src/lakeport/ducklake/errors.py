"""Errors of a lake, derived from the one tree of ``lakeport.errors``.

NotFoundError
├── SnapshotNotFoundError   a snapshot that never was, or that has been expired
└── MissingFileError        a data or delete file that the catalog names and storage does not have
UnsupportedError
└── LakeVersionError        a format version that cannot be read
InternalError
└── CorruptLakeError        a catalog or a file that contradicts itself
"""

from __future__ import annotations

from lakeport.errors import InternalError, NotFoundError, UnsupportedError

__all__ = ["CorruptLakeError", "LakeVersionError", "MissingFileError", "SnapshotNotFoundError"]


class SnapshotNotFoundError(NotFoundError):
    """The snapshot does not exist."""


class MissingFileError(NotFoundError):
    """A file of the lake is missing."""


class LakeVersionError(UnsupportedError):
    """The format version of the lake cannot be read."""


class CorruptLakeError(InternalError):
    """The lake contradicts itself."""
