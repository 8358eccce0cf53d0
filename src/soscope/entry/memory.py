# SPDX-License-Identifier: Apache-2.0
"""Write to the memory of another process.

A tracer may write to any page by /proc/PID/mem, even to read-only pages. Systems that forbid that
(proc_mem.force_override=never) still have PTRACE_POKEDATA.
"""

from __future__ import annotations

import errno
import os

from soscope.entry import ptrace
from soscope.proc.memory import ProcessMemory


class RemoteMemory(ProcessMemory):
    """The memory of the process of thread `tid`, for reading and writing."""

    __slots__ = ()

    def __init__(self, tid: int) -> None:
        """Open the memory.

        Raises OSError if that is not allowed.
        """
        super().__init__(tid, os.O_RDWR)

    def write(self, addr: int, data: bytes) -> None:
        """Write `data` at `addr`. A write of one aligned word is atomic for its readers.

        Raises OSError if the write is refused, or if the memory reads back differently.
        """
        try:
            written = os.pwrite(self._descriptor, data, addr)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EPERM, errno.EACCES):
                raise
            self._poke(addr, data)
        else:
            if written < len(data):
                raise OSError(errno.EFAULT, f"no memory at {addr + written:#x}")
        if self.read(addr, len(data)) != data:
            raise OSError(errno.EIO, f"memory at {addr:#x} does not keep what is written")

    def _poke(self, addr: int, data: bytes) -> None:
        start = addr & ~7
        end = addr + len(data) + 7 & ~7
        old = self.read(start, end - start)
        if len(old) < end - start:
            raise OSError(errno.EFAULT, f"no memory at {addr:#x}")
        new = old[: addr - start] + data + old[addr - start + len(data) :]
        for at in range(0, len(new), 8):
            ptrace.poke(self._tid, start + at, int.from_bytes(new[at : at + 8], "little"))
