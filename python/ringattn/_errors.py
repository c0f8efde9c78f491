# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each status of the library, with the library's message."""

from __future__ import annotations


class Error(Exception):
    """What the library refused or could not do. `status` is its ra_status."""

    status = 7

    def __init__(self, message: str = "", status: int | None = None):
        super().__init__(message)
        if status is not None:
            self.status = status

    def __reduce__(self):
        return type(self), (str(self), self.status)


class ArgumentError(Error, ValueError):
    """A value that is never legal, or values that disagree."""

    status = 1


class UnsupportedError(Error, NotImplementedError):
    """Legal, but not on this processor, in this build, in this process or for this kind of array."""

    status = 2


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed, or a size does not fit the address space."""

    status = 3


class FileError(Error, OSError):
    """A file could not be opened, read or written."""

    status = 4


class FormatError(Error, ValueError):
    """A file was read, and is not what it should be."""

    status = 5


class CancelledError(Error):
    """The progress callback asked to stop."""

    status = 6


class InternalError(Error, RuntimeError):
    """The run did not do what the plan said: a defect in the library."""

    status = 7


class DeadlineError(Error, TimeoutError):
    """A rank was silent for too long."""

    status = 8


class PeerError(Error, RuntimeError):
    """Another rank failed, left, or has another problem than this one."""

    status = 9


class BudgetError(Error, MemoryError):
    """The plan needs more memory than was allowed."""

    status = 10


_classes = {
    kind.status: kind
    for kind in (
        ArgumentError,
        UnsupportedError,
        OutOfMemoryError,
        FileError,
        FormatError,
        CancelledError,
        InternalError,
        DeadlineError,
        PeerError,
        BudgetError,
    )
}


def error_of(status: int, message: str) -> Error:
    """The exception for a status, with a message."""
    return _classes.get(status, Error)(message, status)
