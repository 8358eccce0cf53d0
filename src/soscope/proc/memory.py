# SPDX-License-Identifier: Apache-2.0
"""The memory of another process, through /proc/PID/mem."""

from __future__ import annotations

import errno
import os

from soscope.binfmt.source import ByteSource

_MOST = 256 << 20  # bytes of one read: that much memory of ours is taken before anything is read


class ProcessMemory(ByteSource):
    """The memory of the process that thread `tid` belongs to, as it is now, to be read.

    An exec gives a process a new memory; this one then reads as empty.
    """

    __slots__ = ("_descriptor", "_tid")

    def __init__(self, tid: int, mode: int = os.O_RDONLY) -> None:
        """Open it.

        Raises OSError where that is not allowed.
        """
        super().__init__(f"process {tid}")
        self._tid = tid
        self._descriptor = os.open(f"/proc/{tid}/mem", mode | os.O_CLOEXEC)

    @property
    def tid(self) -> int:
        """The thread by which it was opened."""
        return self._tid

    @property
    def is_gone(self) -> bool:
        """Return whether the process ended, or runs another program."""
        try:
            return not os.pread(self._descriptor, 1, 0x10000)
        except OSError:  # no page there: somebody was asked
            return False

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer where a page is missing.

        They are 256 MiB at most, whatever a damaged size may say.
        """
        size = min(size, _MOST)
        if not 0 <= offset < 1 << 63 or size <= 0:
            return b""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EFAULT):
                raise
        # Some kernels refuse the whole where only a part is missing.
        page = 4096 - offset % 4096
        if size <= page:
            return b""
        try:
            return os.pread(self._descriptor, page, offset)
        except OSError:
            return b""

    def word(self, addr: int) -> int:
        """Return the 8-byte word at `addr`.

        Raises OSError (EFAULT) where it cannot be read.
        """
        data = self.read(addr, 8)
        if len(data) < 8:
            raise OSError(errno.EFAULT, f"no memory at {addr:#x}")
        return int.from_bytes(data, "little")
