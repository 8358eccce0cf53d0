# SPDX-License-Identifier: Apache-2.0
"""Files that verbs write: recordings that nobody keeps, and all of a file or nothing."""

from __future__ import annotations

import os
import stat

from soscope.errors import RecordingError, SoscopeError, UsageError
from soscope.recording.userfile import end_of_links, open_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


# An unlinked file for a recording that is not kept.


def nameless() -> int:
    """Return a file that is deleted when it is closed, however that happens.

    If no folder takes files (a read-only file system), the file is in memory. Raises
    RecordingError if there is no room for it.
    """
    import tempfile

    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError:
        return os.memfd_create("soscope-recording")
    try:
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError:
        pass  # the file system does not support O_TMPFILE
    try:
        descriptor, name = tempfile.mkstemp(prefix="soscope-")
        os.unlink(name)
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise RecordingError(
            f"cannot make a file in '{folder}': {reason}", errno=error.errno, hint="-o names one"
        ) from error
    return descriptor


# A file that holds either everything that was written, or its previous content.

_STDOUT = 1


class WholeFile:
    """Written to another name and renamed; `-` and irregular files are written directly.

    Raises UsageError if it would replace the file `not_over`, SoscopeError if it cannot be
    written, and BrokenPipeError if the reader is gone.
    """

    def __init__(self, path: str, *, not_over: str | None = None) -> None:
        self.path = path
        self.is_stdout = path == "-"
        self._aside = self._target = ""
        if self.is_stdout:
            self.fd = _STDOUT
            return
        if not_over is not None and os.path.exists(path) and os.path.samefile(path, not_over):
            raise UsageError("-o names the recording itself")
        try:
            if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
                self.fd, _ = open_to_write(path)
                return
            self._target = os.path.abspath(end_of_links(path))
            import tempfile  # imports re, which takes milliseconds

            folder, name = os.path.split(self._target)
            self.fd, self._aside = tempfile.mkstemp(prefix=f".{name}.", dir=folder)
        except OSError as error:
            raise self._failed(error) from error

    def write(self, data: bytes) -> None:
        """Write all of the bytes."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self.fd, rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failed(error) from error

    def __enter__(self) -> WholeFile:  # noqa: PYI034  as everywhere here
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if self.is_stdout:
            return
        os.close(self.fd)
        if not self._aside:
            return
        if kind is not None:
            os.unlink(self._aside)
            return
        try:
            os.replace(self._aside, self._target)
        except OSError as failure:
            os.unlink(self._aside)
            raise self._failed(failure) from failure

    def _failed(self, error: OSError) -> SoscopeError:
        name = "standard output" if self.is_stdout else f"'{self.path}'"
        reason = (error.strerror or "").lower()
        return SoscopeError(f"cannot write {name}: {reason}", slug="output", errno=error.errno)
