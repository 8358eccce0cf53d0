# SPDX-License-Identifier: Apache-2.0
"""The memory of another process, through /proc/PID/mem."""

from __future__ import annotations

import errno
import os

from soscope.binfmt.source import ByteSource

_MOST = 256 << 20  # bytes of one read, for which soscope allocates a buffer first


class ProcessMemory(ByteSource):
    """The current memory of the process that thread `tid` belongs to, for reading.

    An exec gives a process a new memory. From then on, this object reads nothing.
    """

    __slots__ = ("_descriptor", "_tid")

    def __init__(self, tid: int, mode: int = os.O_RDONLY) -> None:
        """Open the memory.

        Raises OSError if that is not allowed.
        """
        super().__init__(f"process {tid}")
        self._tid = tid
        self._descriptor = os.open(f"/proc/{tid}/mem", mode | os.O_CLOEXEC)

    @property
    def tid(self) -> int:
        """The thread whose /proc entry was opened."""
        return self._tid

    @property
    def is_gone(self) -> bool:
        """Return whether the process has ended or runs another program."""
        try:
            return not os.pread(self._descriptor, 1, 0x10000)
        except OSError:  # no page at this address, but the process still has its memory
            return False

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes at run-time address `offset`; fewer if a page is missing.

        At most 256 MiB are returned, in case a damaged file asked for more.
        """
        size = min(size, _MOST)
        if not 0 <= offset < 1 << 63 or size <= 0:
            return b""
        try:
            return os.pread(self._descriptor, size, offset)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EFAULT):
                raise
        # Some kernels refuse the whole read if only a part is missing.
        page = 4096 - offset % 4096
        if size <= page:
            return b""
        try:
            return os.pread(self._descriptor, page, offset)
        except OSError:
            return b""

    def word(self, addr: int) -> int:
        """Return the 8-byte word at `addr`.

        Raises OSError (EFAULT) if it cannot be read.
        """
        data = self.read(addr, 8)
        if len(data) < 8:
            raise OSError(errno.EFAULT, f"no memory at {addr:#x}")
        return int.from_bytes(data, "little")
