# SPDX-License-Identifier: Apache-2.0
"""Open files that other files name: only regular files, and only while they are read."""

from __future__ import annotations

import errno
import os
import stat

from soscope.binfmt.source import FileSource
from soscope.errors import FormatError

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_SHORTAGES = (errno.EMFILE, errno.ENFILE)


def open_regular(path: str) -> int:
    """Open the regular file at `path` for reading; a device or a pipe is not even opened.

    Raises OSError, FormatError.
    """
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):  # the kernel reports why it may not be opened
        _refuse_others(path, status)  # opening a device may have side effects
    descriptor = os.open(path, _FLAGS)
    try:
        _refuse_others(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: str, most: int) -> bytes | None:
    """Return the first `most` bytes of the regular file at `path`, None if it cannot be read.

    Raises OSError if too many files are open, as that tells nothing about this file.
    """
    try:
        descriptor = open_regular(path)
    except FormatError:
        return None
    except OSError as error:
        demand_files(error)
        return None
    try:
        return os.read(descriptor, min(most, os.fstat(descriptor).st_size))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def demand_files(error: OSError) -> None:
    """Raise the error again if it is a lack of descriptors, as the file may be valid."""
    if error.errno in _SHORTAGES:
        raise error


def _refuse_others(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{path}: not a regular file", field="file")


class OwnedFile(FileSource):
    """A regular file that is closed when its last user is gone.

    `name` is its path. While it rests it is closed, and a read opens it again.
    """

    __slots__ = ("_identity",)

    def __init__(self, path: str) -> None:
        """Open the file. Raises OSError, FormatError if it is not a regular file."""
        self._descriptor = -1  # for __del__
        super().__init__(open_regular(path), path)
        self._identity = _identity(self._descriptor)

    @property
    def descriptor(self) -> int:
        """The descriptor of the open file."""
        if self._descriptor < 0:
            self._open_again()
        return self._descriptor

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at `offset`.

        Raises OSError if the file cannot be read, or was replaced meanwhile.
        """
        if self._descriptor < 0:
            self._open_again()
        return super().read(offset, size)

    def rest(self) -> None:
        """Close the file until it is read again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open_again(self) -> None:
        try:
            descriptor = open_regular(self.name)
        except FormatError:
            descriptor = -1
        if descriptor < 0 or _identity(descriptor) != self._identity:
            if descriptor >= 0:
                os.close(descriptor)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), self.name)
        self._descriptor = descriptor

    def __del__(self) -> None:
        """Close the file."""
        self.rest()


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino
