# SPDX-License-Identifier: Apache-2.0
"""A file descriptor that may fail without hurting anybody.

The target must not notice that its trace cannot be written: a full disk, a closed
terminal, a reader that went away. The first error ends the output and is kept for the
notes.
"""

from __future__ import annotations

import os

from soscope.errors import SoscopeError

STDOUT = 1
STDERR = 2


class Output:
    """Text on its way to a descriptor; `name` is what the user calls it.

    `error` is what ended it, None as long as it goes well; `lost` counts the lines that
    were not written since.
    """

    __slots__ = ("error", "fd", "lost", "name")

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.error: OSError | None = None
        self.lost = 0

    @classmethod
    def open(cls, path: str | None, default: int = STDERR) -> Output:
        """Open what -o names: a file, `-` for stdout, None for the default descriptor.

        Raises SoscopeError where the file cannot be opened.
        """
        if path is None:
            return cls(default, "standard error" if default == STDERR else "standard output")
        if path == "-":
            return cls(STDOUT, "standard output")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOCTTY
        try:
            fd = os.open(path, flags, 0o666)
            if fd <= STDERR:  # it was closed, and is the target's to inherit
                fd = _above_stderr(fd)
            return cls(fd, path)
        except OSError as error:
            raise SoscopeError(
                f"cannot write '{path}': {(error.strerror or '').lower()}",
                slug="output",
                errno=error.errno,
            ) from error

    @property
    def is_open(self) -> bool:
        """Say whether what is written still arrives."""
        return self.error is None

    def write(self, text: str) -> None:
        """Write all of the text, or note why not."""
        if self.error is not None:
            self.lost += text.count("\n")
            return
        data = text.encode("utf-8", "surrogateescape")
        written = 0
        while written < len(data):
            try:
                written += os.write(self.fd, data[written:] if written else data)
            except BlockingIOError:
                # The target may have made the terminal or pipe that we share nonblocking.
                self._wait()
            except OSError as error:
                self.error = error
                self.lost += data.count(b"\n", written)
                return

    def _wait(self) -> None:
        """Wait until the descriptor takes bytes again."""
        import select

        poll = select.poll()
        poll.register(self.fd, select.POLLOUT)
        poll.poll(1000)

    def close(self) -> None:
        """Close the file, if it is one; a late error is kept like any other."""
        if self.fd > STDERR:
            try:
                os.close(self.fd)
            except OSError as error:
                self.error = self.error or error


def _above_stderr(fd: int) -> int:
    """Move a descriptor out of the way of the three standard ones."""
    import fcntl

    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, STDERR + 1)
    os.close(fd)
    return moved
