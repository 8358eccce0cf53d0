# SPDX-License-Identifier: Apache-2.0
"""A file descriptor that may fail without hurting anybody.

The target must not notice that its trace cannot be written: a full disk, a closed
terminal, a reader that went away. The first error ends the output and is kept for the
notes. A reader that stands still is waited for, but not in write(2): somebody has to look after
the target, and to hear the signals.
"""

from __future__ import annotations

import errno
import os
import stat
import time

from soscope.errors import SoscopeError
from soscope.instruments.trace.listener import Destination
from soscope.recording.userfile import above_stderr, open_to_write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

STDOUT = 1
STDERR = 2


_LITTLE = 512  # bytes for which there is room where there is any
_PATIENCE = 50  # ms without a reader between looks at the rest


class Output(Destination):
    """Text on its way to a descriptor; `name` is what the user calls it.

    `error` is what ended it, None as long as it goes well; `lost` counts the lines that
    were not written since.
    """

    __slots__ = ("_is_old", "_meanwhile", "error", "fd", "lost", "name", "spent_ns")

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.error: OSError | None = None
        self.lost = 0
        self.spent_ns = 0
        self._is_old = False  # it has the content of an earlier time
        self._meanwhile: Callable[[], bool] | None = None

    @classmethod
    def open(cls, path: str | None, default: int = STDERR, *, wait: bool = True) -> Output:
        """Open what -o names: a file, `-` for stdout, None for the default descriptor.

        A new file is readable by its owner alone. What the file holds stays until `begin`, or
        until something is written. Raises SoscopeError if the file cannot be opened or is another
        user's; without `wait`, also for a pipe that nobody reads.
        """
        if path is None:
            return cls(default, "standard error" if default == STDERR else "standard output")
        if path == "-":
            return cls(STDOUT, "standard output")
        try:
            fd, is_new = open_to_write(path, 0 if wait else os.O_NONBLOCK)
            output = cls(fd, path)
            output._is_old = not is_new and output.file is not None
            return output
        except OSError as error:
            raise SoscopeError(
                f"cannot write '{path}': {(error.strerror or '').lower()}",
                slug="output",
                errno=error.errno,
            ) from error

    @property
    def is_open(self) -> bool:
        """Return whether what is written still arrives."""
        return self.error is None

    @property
    def is_terminal(self) -> bool:
        """Return whether somebody looks at it on a terminal."""
        return os.isatty(self.fd)

    @property
    def is_read(self) -> bool:
        """Return whether what is written still arrives, also where nothing is written for a while.

        A pipe whose reader has gone ends with the error that writing to it would give.
        """
        if self.error is None:
            import select

            poll = select.poll()
            poll.register(self.fd, 0)  # errors are told unasked
            if any(events & select.POLLERR for _, events in poll.poll(0)):
                self.error = BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        return self.error is None

    @property
    def file(self) -> tuple[int, int] | None:
        """Device and inode of a regular file; None for what is none."""
        try:
            status = os.fstat(self.fd)
        except OSError:
            return None  # it was closed before soscope began: writing will say so
        return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else None

    def begin(self) -> None:
        """Cut off what the file held before."""
        if self._is_old:
            self._is_old = False
            try:
                os.ftruncate(self.fd, 0)
            except OSError as error:
                self.error = error

    def attend(self, meanwhile: Callable[[], bool]) -> None:
        """Call `meanwhile` often while nobody reads; where it says False, give up writing."""
        try:
            mode = os.fstat(self.fd).st_mode
        except OSError:
            return  # as above
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(self.fd):
            self._meanwhile = meanwhile
            if (fd := _opened_again(self.fd)) >= 0:
                self.close()
                self.fd = fd

    def write(self, text: str) -> None:
        """Write all of the text, or note why not."""
        self.begin()
        if self.error is not None:
            self.lost += text.count("\n")
            return
        begun = time.monotonic_ns()
        self._write_all(text.encode("utf-8", "surrogateescape"))
        self.spent_ns += time.monotonic_ns() - begun

    def _write_all(self, data: bytes) -> None:
        written = 0
        while written < len(data):
            try:
                written += self._write(data, written)
            except BlockingIOError:
                # Ours is; or the target has made the terminal or pipe that we share so.
                if not self._wait():
                    self.error = OSError(errno.EINTR, "nobody read it until a signal came")
                    self.lost += data.count(b"\n", written)
                    return
            except OSError as error:
                self.error = error
                self.lost += data.count(b"\n", written)
                return

    @property
    def is_given_up(self) -> bool:
        """Return whether nobody read it, so that a note on the same pipe would wait, too."""
        if self.error is None or self.error.errno != errno.EINTR:
            return False
        try:
            return os.path.sameopenfile(self.fd, STDERR)
        except OSError:
            return False  # one of them is closed

    def _write(self, data: bytes, start: int) -> int:
        """Write some of the data from `start` on. Raises BlockingIOError where nobody reads."""
        if self._meanwhile is None or not os.get_blocking(self.fd):
            return os.write(self.fd, data[start:] if start else data)
        # Not ours alone (a socket): see before whether a little would be taken.
        if not self._is_ready(0):
            raise BlockingIOError
        return os.write(self.fd, data[start : start + _LITTLE])

    def _wait(self) -> bool:
        """Wait until the descriptor may take bytes again; False: give up."""
        if self._meanwhile is None:
            self._is_ready(1000)
            return True
        return self._is_ready(_PATIENCE) or self._meanwhile()

    def _is_ready(self, milliseconds: int) -> bool:
        import select

        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        return bool(poll.poll(milliseconds))

    def close(self) -> None:
        """Close the file, if it is one; a late error is kept like any other."""
        if self.fd > STDERR:
            try:
                os.close(self.fd)
            except OSError as error:
                self.error = self.error or error


def _opened_again(fd: int) -> int:
    """Open a pipe or terminal once more, not to wait in write(2); -1 where that cannot be.

    The file description that a descriptor was inherited with is others', too.
    """
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        opened = os.open(f"/proc/self/fd/{fd}", flags)
    except OSError:
        return -1  # a socket, another user's terminal, no /proc
    try:
        return opened if opened > STDERR else above_stderr(opened)
    except OSError:
        return -1  # no descriptor is left
